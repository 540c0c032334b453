// SPDX-License-Identifier: GPL-2.0-only
//! The time, and times of day in the machine's time zone.

use std::{
    mem,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};

const SECOND_NS: u64 = 1_000_000_000;

/// A time as users write it: `03:12`, `03:12:30`, or with a date before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    date: Option<[i32; 3]>,
    hour: i32,
    minute: i32,
    second: i32,
}

impl FromStr for TimeOfDay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a time such as 03:12, 03:12:30 or 2026-11-22T03:12".to_owned();
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (Some(numbers(date, '-').ok_or_else(wrong)?), time),
            None => (None, text),
        };
        let time = numbers(time, ':').ok_or_else(wrong)?;
        let (hour, minute, second) = match time[..] {
            [hour, minute] => (hour, minute, 0),
            [hour, minute, second] => (hour, minute, second),
            _ => return Err(wrong()),
        };
        let date = match date.as_deref() {
            None => None,
            Some(&[year, month, day]) => Some([year, month, day]),
            Some(_) => return Err(wrong()),
        };
        let right =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        let right = right
            && date.is_none_or(|[year, month, day]| {
                (1970..=9999).contains(&year)
                    && (1..=12).contains(&month)
                    && (1..=31).contains(&day)
            });
        let time = Self {
            date,
            hour,
            minute,
            second,
        };
        right.then_some(time).ok_or_else(wrong)
    }
}

fn numbers(text: &str, separator: char) -> Option<Vec<i32>> {
    let parts = text.split(separator);
    let number = |part: &str| {
        let digits = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        part.parse().ok().filter(|_| digits)
    };
    parts.map(number).collect()
}

impl TimeOfDay {
    /// The time (ns since 1970) within a span: without a date, its last occurrence there.
    ///
    /// # Errors
    /// It is not within the span.
    pub fn within(&self, span: (u64, u64)) -> Result<u64> {
        let end_s = (span.1 / SECOND_NS) as i64;
        let mut at = fields(end_s);
        if let Some([year, month, day]) = self.date {
            (at.tm_year, at.tm_mon, at.tm_mday) = (year - 1900, month - 1, day);
        }
        (at.tm_hour, at.tm_min, at.tm_sec) = (self.hour, self.minute, self.second);
        at.tm_isdst = -1;
        // SAFETY: the structure is valid.
        let mut at_s = unsafe { libc::mktime(&mut at) };
        if let Some([_, _, day]) = self.date
            && at.tm_mday != day
        {
            bail!("there is no such day; choose one of the recording");
        }
        if self.date.is_none() && at_s > end_s {
            // The day before may have another offset.
            at.tm_mday -= 1;
            (at.tm_hour, at.tm_min, at.tm_sec) = (self.hour, self.minute, self.second);
            at.tm_isdst = -1;
            // SAFETY: the structure is valid.
            at_s = unsafe { libc::mktime(&mut at) };
        }
        // 03:12 is in a recording that begins at 03:12:20.
        let begin_s = (span.0 / SECOND_NS) as i64;
        if at_s < begin_s && begin_s - at_s < 60 && self.second == 0 {
            at_s = begin_s;
        }
        if !(begin_s..=end_s).contains(&at_s) {
            bail!(
                "the recording covers {} to {}; choose a time within it",
                text(span.0),
                text(span.1)
            );
        }
        Ok(at_s as u64 * SECOND_NS)
    }
}

/// A time (ns since 1970) as `2026-11-22 03:12:05`.
pub fn text(at_unix_ns: u64) -> String {
    let at = fields((at_unix_ns / SECOND_NS) as i64);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        i64::from(at.tm_year) + 1900,
        at.tm_mon + 1,
        at.tm_mday,
        at.tm_hour,
        at.tm_min,
        at.tm_sec
    )
}

/// The present time (ns since 1970).
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// The present date, such as `2026-11-22`.
pub fn today() -> String {
    text(now_ns()).split(' ').next().unwrap_or_default().into()
}

fn fields(unix_s: i64) -> libc::tm {
    // SAFETY: all zeros are a valid value; both structures are valid.
    unsafe {
        let mut at: libc::tm = mem::zeroed();
        libc::localtime_r(&unix_s, &mut at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> u64 {
        // 1970 to 2100, in the machine's zone.
        let span = (0, 4_102_444_800 * SECOND_NS);
        text.parse::<TimeOfDay>().unwrap().within(span).unwrap()
    }

    #[test]
    fn a_time_without_a_date_is_its_last_occurrence_in_the_span() {
        let span = (ns("2026-11-21T22:00"), ns("2026-11-22T04:00"));
        let at = |time: &str| text(time.parse::<TimeOfDay>().unwrap().within(span).unwrap());
        assert_eq!(at("03:12"), "2026-11-22 03:12:00");
        assert_eq!(at("23:59:58"), "2026-11-21 23:59:58");
        assert_eq!(at("2026-11-21 22:30"), "2026-11-21 22:30:00");
    }

    #[test]
    fn a_minute_that_the_recording_began_in_is_within_it() {
        let span = (ns("2026-11-22T03:12:20"), ns("2026-11-22T04:00"));
        let at = "03:12".parse::<TimeOfDay>().unwrap().within(span).unwrap();
        assert_eq!(text(at), "2026-11-22 03:12:20");
    }

    #[test]
    fn a_time_outside_the_span_is_refused_with_the_span() {
        let span = (ns("2026-11-22T03:00"), ns("2026-11-22T04:00"));
        let error = "05:00"
            .parse::<TimeOfDay>()
            .unwrap()
            .within(span)
            .unwrap_err();
        assert!(error.to_string().contains("2026-11-22 03:00:00"), "{error}");
    }

    #[test]
    fn a_day_that_no_month_has_is_refused() {
        let span = (ns("2026-02-22T03:00"), ns("2026-03-22T04:00"));
        for date in ["2026-02-29", "2026-02-31"] {
            let time = format!("{date}T12:00").parse::<TimeOfDay>().unwrap();
            let error = time.within(span).unwrap_err().to_string();
            assert!(error.contains("no such day"), "{error}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "3",
            "24:00",
            "03:60",
            "03:12:60",
            "-1:00",
            "03:12:",
            "2026-13-01T00:00",
            "2026-11T03:12",
            "x",
            "03:12:00:00",
            "+3:12",
        ] {
            assert!(text.parse::<TimeOfDay>().is_err(), "{text}");
        }
    }
}

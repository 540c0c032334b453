// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as text.

/// A rate of traffic, such as `2.5G`; `-` for none.
pub fn rate(bytes_per_s: f64) -> String {
    let (scale, unit) = match bytes_per_s {
        rate if rate >= 1e9 => (1e9, "G"),
        rate if rate >= 1e6 => (1e6, "M"),
        rate if rate >= 1e3 => (1e3, "k"),
        rate if rate > 0.0 => (1.0, ""),
        _ => return "-".into(),
    };
    match bytes_per_s / scale {
        number if number < 9.995 => format!("{number:.2}{unit}"),
        number if number < 99.95 => format!("{number:.1}{unit}"),
        number => format!("{number:.0}{unit}"),
    }
}

/// A rate in a sentence, such as `2.5 GB/s`.
pub fn rate_in_words(bytes_per_s: f64) -> String {
    let text = rate(bytes_per_s);
    match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => format!("{} {}B/s", &text[..at], &text[at..]),
        None if text == "-" => "0 B/s".into(),
        None => format!("{text} B/s"),
    }
}

/// A percentage; `-` for nothing.
pub fn percent(value: f64) -> String {
    if value < 0.05 {
        "-".into()
    } else {
        format!("{value:.1}")
    }
}

/// A time of day (UTC) of nanoseconds since 1970.
pub fn time_of_day(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_width() {
        assert_eq!(rate(0.0), "-");
        assert_eq!(rate(12.0), "12.0");
        assert_eq!(rate(2_500_000_000.0), "2.50G");
        assert_eq!(rate(99_960_000.0), "100M");
        assert_eq!(rate_in_words(2_500_000.0), "2.50 MB/s");
        assert_eq!(
            (rate_in_words(0.0), rate_in_words(5.0)),
            ("0 B/s".into(), "5.00 B/s".into())
        );
        assert_eq!((percent(0.01), percent(7.25)), ("-".into(), "7.2".into()));
        assert_eq!(time_of_day(86_399_000_000_000), "23:59:59");
    }
}

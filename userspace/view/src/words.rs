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
        number if number < 9.995 => decimals(number, 2) + unit,
        number if number < 99.95 => decimals(number, 1) + unit,
        number => decimals(number, 0) + unit,
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
        decimals(value, 1)
    }
}

/// A number with `digits` behind the point. A large screen has over a thousand of them, and
/// the formatter of the standard library costs four times as much.
pub fn decimals(value: f64, digits: u8) -> String {
    let scaled = (value * 10_f64.powi(digits.into())).round_ties_even();
    // Whole numbers are exact up to some 1e15.
    if !(1.0..1e15).contains(&scaled.abs()) {
        return format!("{value:.0$}", usize::from(digits));
    }
    let mut rest = scaled.abs() as u64;
    let mut text = [0; 20];
    let mut at = text.len();
    let mut put = |byte| {
        at -= 1;
        text[at] = byte;
    };
    for _ in 0..digits {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    if digits > 0 {
        put(b'.');
    }
    loop {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0.0 {
        put(b'-');
    }
    text[at..].iter().map(|&byte| char::from(byte)).collect()
}

/// A number that is too wide for `width` characters: with fewer decimals, or else a bound that
/// it is beyond, such as `>99999`.
pub fn shortened(text: &str, width: usize) -> String {
    let other = |c: char| !c.is_ascii_digit() && c != '.';
    let from = text.find(|c| !other(c)).unwrap_or(text.len());
    let (sign, rest) = text.split_at(from);
    let (number, unit) = rest.split_at(rest.find(other).unwrap_or(rest.len()));
    let room = width.saturating_sub(sign.chars().count() + unit.chars().count());
    let fraction = number.split_once('.').map_or("", |(_, fraction)| fraction);
    let value: f64 = number.parse().unwrap_or(0.0);
    let shorter = (0..fraction.len() as u8)
        .rev()
        .map(|digits| decimals(value, digits))
        .find(|number| number.len() <= room);
    if let Some(number) = shorter {
        return format!("{sign}{number}{unit}");
    }
    let beyond = if sign.contains('-') { '<' } else { '>' };
    let bound = "9".repeat(room.saturating_sub(1));
    format!("{beyond}{sign}{bound}{unit}")
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
        for value in [
            0.0, -0.0, -0.01, 0.05, 0.25, -0.75, 9.96, -12.34, 1e14, 1e300,
        ] {
            assert_eq!(decimals(value, 0), format!("{value:.0}"));
            assert_eq!(decimals(value, 1), format!("{value:.1}"));
            assert_eq!(decimals(value, 3), format!("{value:.3}"));
        }
        assert_eq!(decimals(f64::NAN, 1), "NaN");
        assert_eq!(time_of_day(86_399_000_000_000), "23:59:59");
    }
    #[test]
    fn a_wide_number_loses_decimals_before_it_becomes_a_bound() {
        for (text, width, expected) in [
            ("1234.567", 7, "1234.57"),
            ("1234.567", 5, "1235"),
            ("-123456.7", 8, "-123457"),
            ("123450.0", 6, "123450"),
            ("999999.9", 6, ">99999"),
            ("1234500.0", 6, ">99999"),
            ("-12345678.9", 8, "<-999999"),
            ("12345678G", 8, ">999999G"),
            ("▲+1234567", 7, ">▲+9999"),
        ] {
            assert_eq!(shortened(text, width), expected, "{text}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Memory bandwidth as users write and read it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Memory bandwidth of a machine: bytes per second, decimal prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// 1 MB/s. Below it the charge of one byte would exceed its fixed point.
    pub const MIN: Self = Self(1_000_000);
    /// 100 TB/s. Above it the charge of one byte would lose its precision.
    pub const MAX: Self = Self(100_000_000_000_000);

    /// A bandwidth within the bounds (bytes per second).
    pub fn new(bytes_per_s: u64) -> Option<Self> {
        let bandwidth = Self(bytes_per_s);
        (Self::MIN..=Self::MAX)
            .contains(&bandwidth)
            .then_some(bandwidth)
    }

    /// Bytes per second.
    pub fn bytes_per_s(self) -> u64 {
        self.0
    }

    /// 1/m: the nanoseconds that one byte takes at this bandwidth, in 32.32 fixed
    /// point (`struct drfq_conf` of bpf/drfq.h).
    pub fn ns_per_byte_q32(self) -> u64 {
        // At most 1000 << 32, so it fits.
        ((1_000_000_000u128 << 32) / u128::from(self.0)) as u64
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    /// A number of bytes per second with an optional decimal prefix k, M, G or
    /// T: `40G`, `12.5G`, `267000000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, factor) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 1e3),
            Some((at, 'M')) => (&text[..at], 1e6),
            Some((at, 'G')) => (&text[..at], 1e9),
            Some((at, 'T')) => (&text[..at], 1e12),
            _ => (text, 1.0),
        };
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let bytes = digits.parse::<f64>().ok().filter(|_| plain).ok_or(
            "expected a number of bytes per second with an optional k, M, G or T, such as 40G",
        )? * factor;
        if !(Self::MIN.0 as f64..=Self::MAX.0 as f64).contains(&bytes) {
            return Err(format!(
                "expected a bandwidth between {} and {}",
                Self::MIN,
                Self::MAX
            ));
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_bytes_per_s(self.0 as f64))
    }
}

/// Formats bytes per second as `1.2 GB/s`, `340 MB/s`, `12 kB/s` or `8 B/s`.
pub fn format_bytes_per_s(bytes_per_s: f64) -> String {
    let (value, unit) = match bytes_per_s {
        b if b >= 1e12 => (b / 1e12, "TB/s"),
        b if b >= 1e9 => (b / 1e9, "GB/s"),
        b if b >= 1e6 => (b / 1e6, "MB/s"),
        b if b >= 1e3 => (b / 1e3, "kB/s"),
        b => (b, "B/s"),
    };
    if value >= 100.0 || value == value.trunc() {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_prefix_multiplies() {
        for (text, bytes) in [
            ("1000000", 1_000_000),
            ("1M", 1_000_000),
            ("2000k", 2_000_000),
            ("12.5G", 12_500_000_000),
            ("0.267G", 267_000_000),
            ("100T", 100_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bandwidth(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "G", "0", "-1G", "1e9", "nan", "inf", "NaNG", "999k", "101T", "1GB", "1.2.3G",
            "G1", "1G ", "½G", "+5G",
        ] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_byte_at_1_gb_per_s_takes_1_ns() {
        assert_eq!(Bandwidth(1_000_000_000).ns_per_byte_q32(), 1 << 32);
        assert_eq!(Bandwidth::MIN.ns_per_byte_q32(), 1000 << 32);
        // At the other end the precision is still better than 0.01 %.
        assert_eq!(Bandwidth::MAX.ns_per_byte_q32(), 42949);
    }

    #[test]
    fn a_bandwidth_is_written_with_up_to_three_digits() {
        for (bytes, text) in [
            (0.0, "0 B/s"),
            (999.0, "999 B/s"),
            (1234.0, "1.2 kB/s"),
            (85_300_000.0, "85.3 MB/s"),
            (340e6, "340 MB/s"),
            (40e9, "40 GB/s"),
        ] {
            assert_eq!(format_bytes_per_s(bytes), text);
        }
    }
}

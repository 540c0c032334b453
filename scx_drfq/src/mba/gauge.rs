// SPDX-License-Identifier: GPL-2.0-only
//! The rate of one counter of traffic. Each reading has its own time, because the loop
//! may lose its CPU between two counters.

use std::time::{Duration, Instant};

use drfq_resctrl::reading::{Meter, Reading};

/// No memory of one domain moves more (bytes per second).
pub const MEMORY_MAX_BYTES_PER_S: u64 = 10_000_000_000_000;

/// No rate is computed over less time.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// For so many periods without a difference the last rate stands. A gap has two, since the count
/// after it is a first one. Else a gap would look like the end of the traffic, and release throttles.
pub const GAP_PERIODS: u32 = 3;

/// A counter, and when it was last read.
pub struct Gauge {
    meter: Meter,
    read: Instant,
    /// What it read; none: no count.
    count: Option<u64>,
    readable: bool,
    rate: f64,
    /// How many periods the rate is old.
    unknown: u32,
}

/// What a counter counted between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl Gauge {
    /// A counter that has not been read. `now`: no earlier than its last reset.
    pub const fn new(now: Instant) -> Self {
        Self {
            meter: Meter::new(MEMORY_MAX_BYTES_PER_S),
            read: now,
            count: None,
            readable: true,
            rate: 0.0,
            unknown: 0,
        }
    }

    /// Whether the last reading had a count. True before the first one.
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// The last rate that is known (bytes per second); 0 when it is too old.
    pub const fn rate(&self) -> f64 {
        if self.unknown > GAP_PERIODS {
            0.0
        } else {
            self.rate
        }
    }

    /// What it would read at `now`, a little after its last reading (bytes); none: that had no
    /// count.
    pub fn count_at(&self, now: Instant) -> Option<f64> {
        let since = now.saturating_duration_since(self.read);
        let count = self.count? as f64;
        Some(count + self.rate() * since.as_secs_f64())
    }

    /// The counter has gone for good. What it counted counts elsewhere now.
    pub const fn end(&mut self) {
        self.rate = 0.0;
        self.count = None;
        self.readable = false;
    }

    /// What was counted until `now`, when `reading` was taken; none if it is not known.
    pub fn take(&mut self, reading: Reading, now: Instant) -> Option<Moved> {
        let since = now.saturating_duration_since(self.read).max(INTERVAL_MIN);
        self.read = now;
        self.count = reading.bytes();
        self.readable = self.count.is_some();
        self.unknown = self.unknown.saturating_add(1);
        let bytes = self.meter.take(reading, since).bytes()?;
        self.unknown = 0;
        self.rate = bytes as f64 / since.as_secs_f64();
        Some(Moved {
            bytes,
            bytes_per_s: self.rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_keeps_the_last_rate_for_a_while() {
        let start = Instant::now();
        let mut gauge = Gauge::new(start);
        let mut rate = |reading, period: u64| {
            gauge.take(reading, start + Duration::from_millis(100 * period));
            gauge.rate()
        };
        assert_eq!(rate(Reading::Bytes(0), 0), 0.0);
        let known = rate(Reading::Bytes(1000), 1);
        assert!((known - 1e4).abs() < 1e-6, "{known}");
        assert_eq!(rate(Reading::Unavailable, 2), known);
        assert_eq!(rate(Reading::Bytes(9000), 3), known);
        let next = rate(Reading::Bytes(11_000), 4);
        assert!((next - 2e4).abs() < 1e-6, "{next}");
        for period in 5..8 {
            assert_eq!(rate(Reading::Error, period), next);
        }
        assert_eq!(rate(Reading::Error, 8), 0.0);
    }

    #[test]
    fn a_late_reading_does_not_change_the_rate() {
        let start = Instant::now();
        let mut gauge = Gauge::new(start);
        let mut take = |bytes, ms| {
            let now = start + Duration::from_millis(ms);
            gauge.take(Reading::Bytes(bytes), now)
        };
        assert_eq!(take(0, 0), None);
        for (bytes, ms) in [(1000, 100), (2300, 230), (3000, 300)] {
            let moved = take(bytes, ms).unwrap();
            assert!((moved.bytes_per_s - 1e4).abs() < 1e-6, "{moved:?}");
        }
        assert_eq!(take(u64::MAX, 300), None, "faster than any memory");
    }
}

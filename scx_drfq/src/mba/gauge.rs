// SPDX-License-Identifier: GPL-2.0-only
//! The rate of one counter of traffic. Each reading has its own time, because the loop
//! may lose its CPU between two counters.

use std::time::{Duration, Instant};

use drfq_resctrl::reading::{Meter, Reading};

/// No memory of one domain moves more (bytes per second).
const MEMORY_MAX_BYTES_PER_S: u64 = 10_000_000_000_000;

/// No rate is computed over less time.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// A counter, and when it was last read.
pub struct Gauge {
    meter: Meter,
    read: Instant,
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
        }
    }

    /// What was counted until `now`, when `reading` was taken; none if it is not known.
    pub fn take(&mut self, reading: Reading, now: Instant) -> Option<Moved> {
        let since = now.saturating_duration_since(self.read).max(INTERVAL_MIN);
        self.read = now;
        let bytes = self.meter.take(reading, since).bytes()?;
        Some(Moved {
            bytes,
            bytes_per_s: bytes as f64 / since.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

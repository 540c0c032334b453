// SPDX-License-Identifier: GPL-2.0-only
//! The traffic of all tasks that are in none of our groups, in one domain.
//!
//! The kernel's count of the default group is a sum over the MON groups that are in it at the moment
//! (`mon_event_count()` of fs/resctrl/monitor.c). It jumps by all that a group has ever counted
//! when the group comes or leaves. So the groups' counts are taken off before two counts are
//! compared, rather than the groups' rates afterwards.

use std::time::Instant;

use drfq_resctrl::reading::Reading;

use super::gauge::{GAP_PERIODS, INTERVAL_MIN, MEMORY_MAX_BYTES_PER_S};

/// So many periods with a [`Rest::restart`] do not age the rate. Hardware with few counters gives
/// them to one group after the other, and a restart for each must not look like the end of the
/// traffic. Without any two periods to compare for so long, nothing is known of it.
const RESTARTS_MAX: u32 = 20;

/// The rest of a domain.
#[derive(Default)]
pub struct Rest {
    /// The default group's own count (bytes), and when it was read.
    last: Option<(f64, Instant)>,
    bytes_per_s: f64,
    /// What two measured rates agree on, the newest one among them (bytes per second).
    confirmed_bytes_per_s: Option<f64>,
    /// How many periods the rate is old.
    unknown: u32,
    /// The next period follows a restart.
    restarted: bool,
    /// Periods that followed one since a rate was measured.
    restarts: u32,
}

/// Our groups in a domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ours {
    /// The counts of those that are in the default group (bytes).
    pub in_default: f64,
    /// What all of them move (bytes per second).
    pub bytes_per_s: f64,
}

impl Rest {
    /// The last rate that is known (bytes per second); 0 when it is too old. An old one stands only as
    /// far as the one before it confirms it: saturation takes what two periods agree on for what the
    /// memory can move, and a wrong rate must not agree with itself.
    pub fn rate(&self) -> f64 {
        match self.unknown {
            0 if self.restarts == 0 => self.bytes_per_s,
            0..=GAP_PERIODS => self.confirmed_bytes_per_s.unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The next count cannot be compared with the last one.
    pub const fn restart(&mut self) {
        self.last = None;
        self.restarted = true;
    }

    /// Takes the kernel's count of the default group. `now`: when it was read, and the moment of the
    /// counts in `ours`.
    pub fn take(&mut self, reading: Reading, ours: Ours, now: Instant) {
        if std::mem::take(&mut self.restarted) && self.restarts < RESTARTS_MAX {
            self.restarts += 1;
        } else {
            self.unknown = self.unknown.saturating_add(1);
        }
        let own = reading.bytes().map(|all| all as f64 - ours.in_default);
        let before = std::mem::replace(&mut self.last, own.map(|own| (own, now)));
        let (Some(own), Some((own_before, then))) = (own, before) else {
            return;
        };
        let since = now.saturating_duration_since(then).max(INTERVAL_MIN);
        let bytes_per_s = (own - own_before) / since.as_secs_f64();
        // The groups were read at other moments, which explains a fall by what they move. A larger
        // one is that of a counter that was cleared.
        let possible = -ours.bytes_per_s..=MEMORY_MAX_BYTES_PER_S as f64;
        if possible.contains(&bytes_per_s) {
            let bytes_per_s = bytes_per_s.max(0.0);
            let before = self.confirmed_bytes_per_s.map(|_| self.bytes_per_s);
            self.confirmed_bytes_per_s = Some(bytes_per_s.min(before.unwrap_or(bytes_per_s)));
            self.bytes_per_s = bytes_per_s;
            (self.unknown, self.restarts) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The rate after readings of (the kernel's count, our groups' in it), 100 ms apart.
    fn rates(readings: &[(Reading, f64)], ours_bytes_per_s: f64) -> Vec<f64> {
        let start = Instant::now();
        let mut rest = Rest::default();
        (0..)
            .zip(readings)
            .map(|(period, &(reading, in_default))| {
                let ours = Ours {
                    in_default,
                    bytes_per_s: ours_bytes_per_s,
                };
                rest.take(reading, ours, start + Duration::from_millis(100 * period));
                rest.rate().round()
            })
            .collect()
    }

    #[test]
    fn a_group_that_comes_or_leaves_does_not_change_the_rest() {
        let readings = [
            (Reading::Bytes(1000), 0.0),
            (Reading::Bytes(1100 + 5000), 5000.0),
            (Reading::Bytes(1200 + 5300), 5300.0),
            (Reading::Bytes(1300), 0.0),
        ];
        assert_eq!(rates(&readings, 3000.0), [0.0, 1000.0, 1000.0, 1000.0]);
    }

    #[test]
    fn a_gap_and_a_cleared_counter_keep_the_last_rate() {
        let readings = [
            (Reading::Bytes(1000), 0.0),
            (Reading::Bytes(1100), 0.0),
            (Reading::Unavailable, 0.0),
            (Reading::Bytes(9000), 0.0),
            (Reading::Bytes(10), 0.0),
            (Reading::Bytes(30), 0.0),
            (Reading::Bytes(u64::MAX), 0.0),
        ];
        let expected = [0.0, 1000.0, 1000.0, 1000.0, 1000.0, 200.0, 200.0];
        assert_eq!(rates(&readings, 3000.0), expected);
    }

    #[test]
    fn the_rate_of_a_counter_that_stays_away_ends() {
        let gone = (Reading::Error, 0.0);
        let known = [(Reading::Bytes(0), 0.0), (Reading::Bytes(100), 0.0)];
        let readings = [&known[..], &[gone; 4]].concat();
        let expected = [0.0, 1000.0, 1000.0, 1000.0, 1000.0, 0.0];
        assert_eq!(rates(&readings, 0.0), expected);
    }

    #[test]
    fn a_wrong_rate_is_not_repeated_in_a_gap() {
        let readings = [
            (Reading::Bytes(0), 0.0),
            (Reading::Bytes(100), 0.0),
            (Reading::Bytes(500_100), 0.0),
            (Reading::Unavailable, 0.0),
            (Reading::Unavailable, 0.0),
        ];
        let expected = [0.0, 1000.0, 5e6, 1000.0, 1000.0];
        assert_eq!(rates(&readings, 0.0), expected);
    }

    #[test]
    fn restarts_keep_the_last_rate_for_a_while() {
        let mut rest = Rest::default();
        let start = Instant::now();
        let mut take = |period: u64, restart: bool| {
            if restart {
                rest.restart();
            }
            let now = start + Duration::from_millis(100 * period);
            rest.take(Reading::Bytes(100 * period), Ours::default(), now);
            rest.rate().round()
        };
        take(0, false);
        assert_eq!(take(1, false), 1000.0);
        for period in 2..2 + u64::from(RESTARTS_MAX + GAP_PERIODS) {
            assert_eq!(take(period, true), 1000.0, "{period}");
        }
        assert_eq!(take(30, true), 0.0);
        assert_eq!(take(31, false), 1000.0);
        assert_eq!(take(32, true), 1000.0);
    }

    #[test]
    fn a_rest_that_moves_nothing_has_no_rate_whatever_the_noise_of_the_groups() {
        let readings = [
            (Reading::Bytes(5000), 5000.0),
            (Reading::Bytes(5300), 5310.0),
            (Reading::Bytes(5600), 5590.0),
            (Reading::Bytes(5900), 5910.0),
        ];
        assert_eq!(rates(&readings, 3000.0), [0.0, 0.0, 200.0, 0.0]);
    }
}

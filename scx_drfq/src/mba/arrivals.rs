// SPDX-License-Identifier: GPL-2.0-only
//! When the tasks are looked at: regularly, and at once when load comes that no group has yet. Such
//! load has its share a third of a second earlier in the mean.

/// The tasks are looked at once in this many periods.
pub const LOOK_PERIODS: u64 = 5;

/// So many after the first look, and after one that was early and found new groups: what starts a load
/// often moves it to its cgroup a moment later. The kernel counts the CPU time of all tasks in ticks,
/// which are too coarse for less.
const SOON_PERIODS: u64 = 2;

/// A rise of the traffic without a group by this part of what memory can move is new load.
const NEW: f64 = 0.1;

/// After an early look that found nothing new, only a rise of more than twice as much makes one for so
/// many periods. The traffic of entities that are never monitored may come and go at each period.
const QUIET_PERIODS: u64 = 4 * LOOK_PERIODS;

/// The moments of the looks, in periods.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// The traffic without a group in the last period, by domain (bytes per second).
    rest: Vec<f64>,
    /// The next regular look.
    due: u64,
    /// The largest rise in this period (bytes per second), and the one that was looked at in vain.
    rise: f64,
    futile: f64,
    quiet_until: u64,
    /// The tasks were looked at. A look tells nothing without one before.
    compares: bool,
}

impl Arrivals {
    /// Whether to look at the tasks in this period. `rest`: the traffic without a group, by domain
    /// (bytes per second). `capacity`: what each memory can move (bytes per second); 0: not known.
    pub fn is_due(&mut self, period: u64, rest: &[f64], capacity: &[f64]) -> bool {
        let rise = |(index, rest): (usize, &f64)| {
            let rise = rest - self.rest.get(index).copied().unwrap_or(*rest);
            let full = capacity.get(index).copied().unwrap_or(0.0);
            if full > 0.0 && rise >= NEW * full {
                rise
            } else {
                0.0
            }
        };
        self.rise = rest.iter().enumerate().map(rise).fold(0.0, f64::max);
        self.rest.clear();
        self.rest.extend_from_slice(rest);
        let least = match period < self.quiet_until {
            true => 2.0 * self.futile,
            false => 0.0,
        };
        period >= self.due || self.rise > least
    }

    /// Notes that the tasks were looked at. `found`: there are new groups.
    pub fn looked(&mut self, period: u64, found: bool) {
        let early = period < self.due;
        if early && !found {
            (self.futile, self.quiet_until) = (self.rise, period + QUIET_PERIODS);
        }
        let first = !std::mem::replace(&mut self.compares, true);
        let soon = first || (early && found);
        self.due = period + if soon { SOON_PERIODS } else { LOOK_PERIODS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The periods of the looks, with a memory that can move 100. `finds`: whether looks find new
    /// groups.
    fn looks(rest: impl Fn(u64) -> f64, periods: u64, finds: bool) -> Vec<u64> {
        let mut arrivals = Arrivals::default();
        let mut looks = Vec::new();
        for period in 0..periods {
            if arrivals.is_due(period, &[rest(period)], &[100.0]) {
                looks.push(period);
                arrivals.looked(period, finds);
            }
        }
        looks
    }

    #[test]
    fn the_second_look_follows_the_first_one_soon() {
        assert_eq!(looks(|_| 0.0, 17, false), [0, 2, 7, 12]);
    }

    #[test]
    fn new_load_is_looked_at_at_once() {
        let came = |at| move |period| if period >= at { 50.0 } else { 0.0 };
        assert_eq!(looks(came(9), 17, true), [0, 2, 7, 9, 11, 16]);
        // What grows little by little waits for a regular look.
        assert_eq!(looks(|period| 9.0 * period as f64, 13, true), [0, 2, 7, 12]);
    }

    #[test]
    fn traffic_that_never_gets_a_group_makes_few_looks() {
        let flickers = |period| if period % 2 == 0 { 50.0 } else { 0.0 };
        let many = looks(flickers, 1000, false).len() as u64;
        assert!((200..=250).contains(&many), "{many} looks");
    }

    #[test]
    fn a_rise_that_was_looked_at_in_vain_hides_no_larger_one() {
        let mut arrivals = Arrivals::default();
        for (period, rest, due, found) in [
            (0, 0.0, true, false),
            (1, 0.0, false, false),
            (2, 0.0, true, false),
            (3, 15.0, true, false),
            (4, 0.0, false, false),
            (5, 25.0, false, false),
            (6, 95.0, true, true),
        ] {
            assert_eq!(arrivals.is_due(period, &[rest], &[100.0]), due, "{period}");
            if due {
                arrivals.looked(period, found);
            }
        }
    }

    #[test]
    fn an_unknown_memory_has_no_new_load() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.is_due(0, &[0.0], &[0.0]));
        arrivals.looked(0, false);
        arrivals.looked(1, false);
        assert!(!arrivals.is_due(2, &[1e9], &[0.0]));
        assert!(!arrivals.is_due(3, &[2e9], &[]));
    }
}

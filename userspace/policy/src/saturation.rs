// SPDX-License-Identifier: GPL-2.0-only
//! Whether memory is saturated, from its total traffic alone.
//!
//! Traffic is compared with a capacity. Where the capacity is not known, it is the
//! best traffic measured. That best sinks slowly towards the traffic of a busy
//! memory, because the traffic that memory can reach depends on the mix of reads,
//! writes and random accesses. What throttles withhold counts as traffic there.

use crate::drf::Domain;

/// Traffic of at least this part of the capacity begins saturation.
const ENTER: f64 = 0.85;

/// Traffic below this part of the capacity ends it.
const LEAVE: f64 = 0.70;

/// Periods below `LEAVE` that end saturation. A single one may be an accident of
/// the moment at which counters were read.
const LEAVE_PERIODS: u32 = 2;

/// The best traffic sinks only while traffic exceeds this part of it. An idle
/// memory says nothing about its capacity.
const BUSY: f64 = 0.5;

/// Time constant with which the best traffic sinks (s).
const SINK_S: f64 = 60.0;

/// The detector's memory. It starts unsaturated, without a known capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saturation {
    saturated: bool,
    best_bytes_per_s: f64,
    last_bytes_per_s: f64,
    low_periods: u32,
}

impl Saturation {
    /// Whether memory was saturated in the last period.
    pub fn is_saturated(&self) -> bool {
        self.saturated
    }

    /// The best traffic that counts as capacity where none is known (bytes per
    /// second); 0 before the second period.
    pub fn best_bytes_per_s(&self) -> f64 {
        self.best_bytes_per_s
    }

    /// The state after a period of `period_s` seconds. A value that is not a positive number
    /// counts as 0, or as unknown.
    #[must_use]
    pub fn observe(&self, domain: &Domain, period_s: f64) -> Self {
        let bytes_per_s = positive(domain.bytes_per_s);
        // Throttling must not end what it is there for.
        let wanted = bytes_per_s + positive(domain.withheld);
        let best_bytes_per_s = self.next_best(bytes_per_s, wanted, positive(period_s));
        let capacity = domain.capacity.map(positive).filter(|&known| known > 0.0);
        let full = capacity.unwrap_or(best_bytes_per_s);
        let low_periods = if wanted < LEAVE * full {
            self.low_periods.saturating_add(1)
        } else {
            0
        };
        let stays = self.saturated && low_periods < LEAVE_PERIODS;
        let enters = full > 0.0 && bytes_per_s >= ENTER * full;
        Self {
            saturated: full > 0.0 && (enters || stays),
            best_bytes_per_s,
            last_bytes_per_s: bytes_per_s,
            low_periods,
        }
    }

    /// `wanted`: the traffic and what throttles withhold. The best sinks no farther.
    fn next_best(&self, bytes_per_s: f64, wanted: f64, period_s: f64) -> f64 {
        // Two periods must agree, so that one wrong reading does not count.
        let confirmed = bytes_per_s.min(self.last_bytes_per_s);
        if confirmed >= self.best_bytes_per_s {
            return confirmed;
        }
        if bytes_per_s < BUSY * self.best_bytes_per_s {
            return self.best_bytes_per_s;
        }
        let kept = (-period_s / SINK_S).exp();
        let lowest = wanted.min(self.best_bytes_per_s);
        let sunk = lowest + (self.best_bytes_per_s - lowest) * kept;
        sunk.max(confirmed)
    }
}

fn positive(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One period of 0.1 s.
    fn next(state: Saturation, bytes_per_s: f64, withheld: f64, m: Option<f64>) -> Saturation {
        let domain = Domain {
            bytes_per_s,
            withheld,
            capacity: m,
        };
        state.observe(&domain, 0.1)
    }

    fn after(totals: &[f64], capacity: Option<f64>) -> Saturation {
        let start = Saturation::default();
        totals
            .iter()
            .fold(start, |state, &total| next(state, total, 0.0, capacity))
    }

    #[test]
    fn traffic_near_a_known_capacity_is_saturation() {
        for (totals, saturated) in [
            (&[0.5][..], false),
            (&[0.84], false),
            (&[0.86], true),
            (&[0.86, 0.75], true),
            (&[0.86, 0.6], true),
            (&[0.86, 0.6, 0.6], false),
            (&[0.86, 0.6, 0.9, 0.6], true),
            (&[0.75], false),
        ] {
            let state = after(totals, Some(1.0));
            assert_eq!(state.is_saturated(), saturated, "{totals:?}");
        }
    }

    #[test]
    fn an_unknown_capacity_is_the_best_of_two_periods() {
        let state = after(&[1.0, 9.0, 1.0, 1.0], None);
        assert!((state.best_bytes_per_s() - 1.0).abs() < 1e-9);
        assert!(state.is_saturated());
        assert!(!after(&[1.0, 1.0, 0.5, 0.5, 0.5], None).is_saturated());
    }

    #[test]
    fn the_best_traffic_sinks_under_a_steady_load_and_stays_when_idle() {
        let mut state = after(&[1.0, 1.0], None);
        for _ in 0..1800 {
            state = next(state, 0.7, 0.0, None);
        }
        assert!(state.is_saturated() && state.best_bytes_per_s() < 0.75);
        for _ in 0..36_000 {
            state = next(state, 0.0, 0.0, None);
        }
        assert!(!state.is_saturated() && state.best_bytes_per_s() > 0.69);
    }

    #[test]
    fn the_best_traffic_sinks_no_farther_than_to_what_throttled_groups_want() {
        for (withheld, best) in [(0.0, 0.715), (0.1, 0.81), (0.3, 1.0), (0.9, 1.0)] {
            let mut state = after(&[1.0, 1.0], None);
            for _ in 0..1800 {
                state = next(state, 0.7, withheld, None);
            }
            let error = state.best_bytes_per_s() - best;
            assert!(error.abs() < 0.005, "{withheld}: {state:?}");
        }
    }

    #[test]
    fn throttling_begins_no_saturation_and_ends_none() {
        let idle = next(after(&[0.6], Some(1.0)), 0.6, 0.5, Some(1.0));
        assert!(!idle.is_saturated());
        let mut state = after(&[0.9], Some(1.0));
        for _ in 0..10 {
            state = next(state, 0.6, 0.2, Some(1.0));
        }
        assert!(state.is_saturated());
        for _ in 0..LEAVE_PERIODS {
            state = next(state, 0.6, 0.0, Some(1.0));
        }
        assert!(!state.is_saturated());
    }

    #[test]
    fn no_traffic_is_no_saturation() {
        assert!(!after(&[0.0, 0.0, 0.0], None).is_saturated());
        assert!(!after(&[0.0], Some(0.0)).is_saturated());
    }

    proptest! {
        #[test]
        fn any_reading_leaves_a_finite_state(
            readings in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..50),
            capacity in prop::option::of(any::<f64>()),
        ) {
            let mut state = Saturation::default();
            for (total, withheld, period) in readings {
                let domain = Domain {
                    bytes_per_s: total,
                    withheld,
                    capacity,
                };
                state = state.observe(&domain, period);
                prop_assert!(state.best_bytes_per_s().is_finite());
                prop_assert!(state.best_bytes_per_s() >= 0.0);
            }
        }
    }
}

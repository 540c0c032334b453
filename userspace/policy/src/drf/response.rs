// SPDX-License-Identifier: GPL-2.0-only
//! How strongly traffic follows the throttles of a domain, learnt from the law's own moves.
//!
//! Beside full memory a group often loses much less traffic than its throttle takes,
//! because contention is the closer bound. A correction must be larger then, or a
//! disturbance outlives many periods.

/// Periods over which a move and its effect are compared: an effect may come late.
const LAG: usize = 3;

/// Moves below this root of the sum of their squares teach nothing: they follow noise, so
/// that noise would look like their effect.
const MOVED: f64 = 0.2;

/// Traffic that changes by more than this multiple of its throttles has another cause.
const CAUSED: f64 = 2.0;

/// What is kept of older moves.
const KEPT: f64 = 0.8;

/// Weight of the assumption that traffic follows throttles in proportion.
const PRIOR: f64 = 0.1;

/// The least part of a move that traffic is taken to follow. With less, a late throttle whose
/// response changes suddenly would swing.
const LEAST: f64 = 0.4;

/// The response of a domain: sums over moves of throttles, in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    moves: f64,
    effects: f64,
}

impl Default for Response {
    fn default() -> Self {
        Self {
            moves: PRIOR,
            effects: PRIOR,
        }
    }
}

impl Response {
    /// The part of a move (in logarithms) that traffic follows, `LEAST` to 1.
    pub fn part(&self) -> f64 {
        (self.effects / self.moves).clamp(LEAST, 1.0)
    }

    /// Learns from what the groups' throttles and traffic did in the last periods. All
    /// groups share memory, so only differences between groups count.
    pub fn learn(&mut self, changes: &[Change]) {
        let count = changes.len() as f64;
        let mean = |of: fn(&Change) -> f64| changes.iter().map(of).sum::<f64>() / count;
        let (moved, followed) = (mean(|c| c.fraction), mean(|c| c.traffic));
        let sum = |of: &dyn Fn(&Change) -> f64| changes.iter().map(of).sum::<f64>();
        let moves = sum(&|c| (c.fraction - moved).powi(2));
        let changed = sum(&|c| (c.traffic - followed).powi(2));
        if moves >= (MOVED * MOVED).max(changed / (CAUSED * CAUSED)) {
            let effects = sum(&|c| (c.fraction - moved) * (c.traffic - followed));
            self.moves = KEPT * self.moves + moves;
            self.effects = KEPT * self.effects + effects;
        }
    }
}

/// What one group did in the last periods, in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    fraction: f64,
    traffic: f64,
}

/// The last periods of a group: its fraction and its traffic, the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past([Option<(f64, f64)>; LAG]);

impl Past {
    /// Adds a period, and tells what has changed since the oldest one.
    pub fn add(&mut self, fraction: f64, traffic: f64) -> Option<Change> {
        let now = (fraction > 0.0 && traffic > 0.0).then(|| (fraction.ln(), traffic.ln()));
        let then = std::mem::replace(&mut self.0[0], now);
        self.0.rotate_left(1);
        let ((fraction, traffic), (fraction_then, traffic_then)) = (now?, then?);
        Some(Change {
            fraction: fraction - fraction_then,
            traffic: traffic - traffic_then,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(fraction: f64, traffic: f64) -> Change {
        Change { fraction, traffic }
    }

    #[test]
    fn the_response_is_what_differs_between_groups() {
        for part in [0.45, 0.6, 0.9] {
            let mut response = Response::default();
            for _ in 0..20 {
                // All gain what the throttled one loses.
                response.learn(&[change(-1.0, 0.2 - part), change(0.0, 0.2), change(0.0, 0.2)]);
            }
            assert!((response.part() - part).abs() < 0.02, "{part} {response:?}");
        }
    }

    #[test]
    fn small_moves_and_a_single_group_teach_nothing() {
        let mut response = Response::default();
        for _ in 0..100 {
            response.learn(&[]);
            response.learn(&[change(-2.0, -0.1)]);
            response.learn(&[change(-0.1, 0.1), change(0.1, -0.1)]);
        }
        assert_eq!(response, Response::default());
    }

    #[test]
    fn traffic_that_changes_more_than_its_throttle_teaches_nothing() {
        let mut response = Response::default();
        response.learn(&[change(-1.0, 3.0), change(0.0, 0.0)]);
        assert_eq!(response, Response::default());
    }

    #[test]
    fn a_response_stays_within_its_bounds() {
        for traffic in [-2.0, -1.5, -0.1, 0.0, 1.0, 2.0] {
            let mut response = Response::default();
            response.learn(&[change(-1.0, traffic), change(0.0, 0.0)]);
            assert!((LEAST..=1.0).contains(&response.part()), "{response:?}");
        }
    }

    #[test]
    fn a_change_spans_the_lag() {
        let mut past = Past::default();
        assert_eq!(past.add(1.0, 8.0), None);
        assert_eq!(past.add(1.0, 0.0), None);
        assert_eq!(past.add(0.5, 5.0), None);
        let change = past.add(0.25, 4.0).unwrap();
        assert!((change.fraction - 0.25f64.ln()).abs() < 1e-9);
        assert!((change.traffic - 0.5f64.ln()).abs() < 1e-9);
        assert_eq!(past.add(0.25, 4.0), None);
    }
}

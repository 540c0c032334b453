// SPDX-License-Identifier: GPL-2.0-only
//! The noise of a domain: by how much its traffic changes from one period to the next while
//! nobody wants more or less. All traffic tells it better than that of a few groups, which
//! changes with what the others take.

/// Weight of the newest change.
const NEWEST: f64 = 0.2;

/// A change counts as at most this multiple of the mean square. A load that begins, ends or bursts
/// changes traffic by far more than noise, and would hide what is small for seconds.
const MOST: f64 = 2.0;

/// The noise before anything is known of it, as a part of the traffic.
const FIRST: f64 = 0.01;

/// The noise from which it can grow where there was none, as a part of the traffic.
const LEAST: f64 = 0.001;

/// What is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Mean traffic of the last period (bytes per second).
    last: Option<f64>,
    /// The mean square of its changes.
    square: f64,
}

impl Noise {
    /// Takes in the mean traffic of all groups. Returns the noise (bytes per second), which is some
    /// three quarters of the root of the mean square, as large changes count less.
    pub fn observe(&mut self, mean: f64) -> f64 {
        if let Some(before) = self.last.replace(mean) {
            let most = MOST * self.square.max((LEAST * mean).powi(2));
            let change = (mean - before).powi(2).min(most);
            self.square += NEWEST * (change - self.square);
        } else {
            self.square = (FIRST * mean).powi(2);
        }
        self.square.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The noise after traffic that alternates between 1 - `part` and 1 + `part`.
    fn alternate(noise: &mut Noise, part: f64, periods: u32) -> f64 {
        let mut size = 0.0;
        for period in 0..periods {
            let sign = if period % 2 == 0 { -1.0 } else { 1.0 };
            size = noise.observe(1.0 + sign * part);
        }
        size
    }

    #[test]
    fn noise_is_learnt_within_3_s() {
        for part in [0.0005, 0.005, 0.05] {
            let size = alternate(&mut Noise::default(), part, 30);
            assert!((size / (2.0 * part) - 1.0).abs() < 0.1, "{part}: {size}");
        }
    }

    #[test]
    fn a_load_that_ends_is_hardly_noise() {
        let mut noise = Noise::default();
        let before = alternate(&mut noise, 0.005, 30);
        let after = noise.observe(0.4);
        assert!(after < 1.15 * before, "{before} {after}");
    }

    #[test]
    fn steady_traffic_may_become_noisy() {
        let mut noise = Noise::default();
        assert!(alternate(&mut noise, 0.0, 100) < 1e-4);
        let size = alternate(&mut noise, 0.01, 50);
        assert!(size > 0.018, "{size}");
    }
}

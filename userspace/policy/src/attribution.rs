// SPDX-License-Identifier: GPL-2.0-only
//! How many bytes a counted read and a counted write stand for, fitted to what MBM
//! measures of a whole class.
//!
//! A counter of a CPU sees reads and writes of each task, but not all of them: prefetches
//! or write-backs are missing, differently on each CPU model. MBM sees all bytes of a
//! class, but not whose. With bytes = 64 (a reads + b writes), the fit gives each task of
//! the class its bytes. One factor for both would not do: a reader and a writer of equal
//! misses would be charged up to 50 % too much and 25 % too little.

/// Bytes of a counted line.
const LINE_BYTES: f64 = 64.0;

/// Standard deviation of a and b before anything is known, about 1.
const PRIOR_STD: f64 = 1.0;

/// What an observation keeps of earlier ones. At 10 observations a second, changed factors
/// are followed within some 10 s.
const MEMORY: f64 = 0.95;

/// Smallest relative standard deviation of an observation. The kernel's own test allows
/// 15 % between MBM and the memory controller; within one machine the noise is that of
/// two readings at different times.
const NOISE_STD_MIN: f64 = 0.002;

/// Lines that counters saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
}

/// Bytes with their uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The most probable number of bytes, not negative.
    pub bytes: f64,
    /// Its standard deviation (bytes).
    pub std_dev: f64,
}

/// The fit of a class: recursive least squares with fading memory, in the form of a Kalman
/// filter whose state wanders. What is not observed any more becomes as uncertain as at
/// the start, and no more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// a and b.
    factors: [f64; 2],
    /// Their covariance, symmetric: aa, ab, bb.
    covariance: [f64; 3],
    /// Variance of an observation, relative to its bytes.
    noise: f64,
}

impl Default for Fit {
    fn default() -> Self {
        Self {
            factors: [1.0; 2],
            covariance: [PRIOR_STD * PRIOR_STD, 0.0, PRIOR_STD * PRIOR_STD],
            noise: 0.01,
        }
    }
}

impl Fit {
    /// The factors a and b.
    pub const fn factors(&self) -> [f64; 2] {
        self.factors
    }

    /// The fit after an observation: what the counters and MBM (bytes) saw of a class in
    /// the same interval. Intervals without traffic, and values that are no numbers,
    /// change nothing.
    pub fn observe(&self, counts: Counts, bytes: f64) -> Self {
        // Relative to the expected bytes, so that a busy interval is not worth more.
        let scale = LINE_BYTES * (counts.reads + counts.writes);
        let valid = counts.reads >= 0.0 && counts.writes >= 0.0 && bytes >= 0.0;
        if !valid || !scale.is_finite() || !bytes.is_finite() || scale < LINE_BYTES {
            return *self;
        }
        let x = [
            LINE_BYTES * counts.reads / scale,
            LINE_BYTES * counts.writes / scale,
        ];
        let [aa, ab, bb] = self.faded();
        let px = [aa * x[0] + ab * x[1], ab * x[0] + bb * x[1]];
        let spread = x[0] * px[0] + x[1] * px[1];
        let error = bytes / scale - (self.factors[0] * x[0] + self.factors[1] * x[1]);
        let total = spread + self.noise;
        let gain = [px[0] / total, px[1] / total];
        // An error is noise as far as the factors' own uncertainty does not explain it.
        let noise = self.noise + (1.0 - MEMORY) * (error * error - total);
        Self {
            factors: [
                (self.factors[0] + gain[0] * error).clamp(0.0, 1e3),
                (self.factors[1] + gain[1] * error).clamp(0.0, 1e3),
            ],
            covariance: [
                (aa - gain[0] * px[0]).max(0.0),
                ab - gain[0] * px[1],
                (bb - gain[1] * px[1]).max(0.0),
            ],
            noise: noise.clamp(NOISE_STD_MIN * NOISE_STD_MIN, 1.0),
        }
    }

    /// The covariance with the uncertainty that has come since the last observation.
    fn faded(&self) -> [f64; 3] {
        let new = (1.0 - MEMORY) * (1.0 - MEMORY) * self.noise;
        let limit = PRIOR_STD * PRIOR_STD;
        let [aa, ab, bb] = self.covariance;
        [(aa + new).min(limit), ab, (bb + new).min(limit)]
    }

    /// The bytes of a task of the class.
    pub fn bytes(&self, counts: Counts) -> Estimate {
        let x = [LINE_BYTES * counts.reads, LINE_BYTES * counts.writes];
        let [aa, ab, bb] = self.covariance;
        let variance = aa * x[0] * x[0] + 2.0 * ab * x[0] * x[1] + bb * x[1] * x[1];
        Estimate {
            bytes: (self.factors[0] * x[0] + self.factors[1] * x[1]).max(0.0),
            std_dev: variance.max(0.0).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn counts(reads: f64, writes: f64) -> Counts {
        Counts { reads, writes }
    }

    /// Uniform in 0..1, from a fixed sequence.
    fn random(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (*state >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Fits n observations of random mixes by a machine of these factors, with relative
    /// noise.
    fn fitted(factors: [f64; 2], noise: f64, n: u32) -> Fit {
        let mut state = 1;
        (0..n).fold(Fit::default(), |fit, _| {
            let seen = counts(1e6 * random(&mut state), 1e6 * random(&mut state));
            let bytes = LINE_BYTES * (factors[0] * seen.reads + factors[1] * seen.writes);
            fit.observe(
                seen,
                bytes * (1.0 + noise * (2.0 * random(&mut state) - 1.0)),
            )
        })
    }

    #[test]
    fn factors_of_a_machine_are_found_from_changing_mixes() {
        for factors in [[1.0, 1.0], [1.5, 0.7], [0.9, 2.0], [2.5, 0.0]] {
            let found = fitted(factors, 0.03, 200).factors();
            for (found, true_factor) in found.iter().zip(factors) {
                assert!(
                    (found - true_factor).abs() < 0.02,
                    "{found} for {true_factor}"
                );
            }
        }
    }

    #[test]
    fn a_reader_and_a_writer_of_one_class_get_their_own_bytes() {
        // A copy misses on reads only where the counter sees no write: its writes are
        // half of its traffic.
        let fit = fitted([1.0, 2.0], 0.03, 200);
        for (seen, bytes) in [(counts(1e6, 0.0), 64e6), (counts(0.0, 1e6), 128e6)] {
            let found = fit.bytes(seen);
            assert!((found.bytes / bytes - 1.0).abs() < 0.02, "{found:?}");
            assert!(found.std_dev < 0.02 * bytes, "{found:?}");
        }
    }

    #[test]
    fn a_mix_that_never_changes_leaves_its_parts_uncertain() {
        let mixed = counts(1e6, 1e6);
        let fit = (0..200).fold(Fit::default(), |fit, _| fit.observe(mixed, 3.0 * 64e6));
        let all = fit.bytes(mixed);
        assert!((all.bytes / (3.0 * 64e6) - 1.0).abs() < 0.01, "{all:?}");
        assert!(all.std_dev < 0.02 * all.bytes, "{all:?}");
        let part = fit.bytes(counts(1e6, 0.0));
        assert!(part.std_dev > 0.3 * 64e6, "{part:?}");
    }

    #[test]
    fn a_changed_machine_is_followed_within_some_hundred_observations() {
        let mut fit = fitted([1.0, 1.0], 0.01, 500);
        let mut state = 9;
        for _ in 0..300 {
            let seen = counts(1e6 * random(&mut state), 1e6 * random(&mut state));
            fit = fit.observe(seen, LINE_BYTES * (1.3 * seen.reads + 0.5 * seen.writes));
        }
        let [a, b] = fit.factors();
        assert!((a - 1.3).abs() < 0.03 && (b - 0.5).abs() < 0.03, "{a} {b}");
    }

    #[test]
    fn intervals_without_traffic_and_no_numbers_change_nothing() {
        let fit = fitted([1.2, 0.8], 0.01, 50);
        for (reads, writes, bytes) in [
            (0.0, 0.0, 1e9),
            (0.3, 0.3, 64.0),
            (f64::NAN, 1.0, 64.0),
            (1e6, f64::INFINITY, 64.0),
            (1e6, 1e6, f64::NAN),
            (-1e6, 2e6, 64.0),
            (1e6, 1e6, -1.0),
        ] {
            assert_eq!(fit.observe(counts(reads, writes), bytes), fit);
        }
    }

    proptest! {
        #[test]
        fn no_observations_make_nonsense(
            rows in prop::collection::vec((0.0..1e12f64, 0.0..1e12f64, 0.0..1e15f64), 0..200),
            task in (0.0..1e12f64, 0.0..1e12f64),
        ) {
            let mut fit = Fit::default();
            for (reads, writes, bytes) in rows {
                fit = fit.observe(counts(reads, writes), bytes);
                let found = fit.bytes(counts(task.0, task.1));
                prop_assert!(found.bytes.is_finite() && found.bytes >= 0.0);
                prop_assert!(found.std_dev.is_finite());
                let limit = PRIOR_STD * LINE_BYTES * (task.0 + task.1);
                prop_assert!(found.std_dev <= limit * 1.000001, "{} above {limit}", found.std_dev);
            }
        }
    }
}

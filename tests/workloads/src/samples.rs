// SPDX-License-Identifier: GPL-2.0-only
//! A set of latencies, kept whole so that every percentile is exact.

use serde::Serialize;

/// More samples than this are counted but not kept (64 MiB).
const CAPACITY: usize = 8 << 20;

/// Samples in nanoseconds.
#[derive(Default)]
pub struct Samples {
    values_ns: Vec<u64>,
    dropped: u64,
}

/// Percentiles of a set of samples.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Summary {
    /// Samples recorded.
    pub count: u64,
    /// Samples beyond the capacity, which no percentile includes.
    pub dropped: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
}

impl Samples {
    /// Adds one sample.
    pub fn add(&mut self, value_ns: u64) {
        if self.values_ns.len() < CAPACITY {
            self.values_ns.push(value_ns);
        } else {
            self.dropped += 1;
        }
    }

    /// Forgets all samples; keeps the memory.
    pub fn clear(&mut self) {
        self.values_ns.clear();
        self.dropped = 0;
    }

    /// Percentiles by the nearest-rank method; zeroes when there are none.
    pub fn summary(mut self) -> Summary {
        self.values_ns.sort_unstable();
        let rank = |per_cent: usize| {
            let n = self.values_ns.len();
            let index = (n * per_cent).div_ceil(100).max(1) - 1;
            self.values_ns.get(index).copied().unwrap_or(0)
        };
        Summary {
            count: self.values_ns.len() as u64 + self.dropped,
            dropped: self.dropped,
            p50_ns: rank(50),
            p99_ns: rank(99),
            max_ns: rank(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_two_hundred_samples_are_by_nearest_rank() {
        let mut samples = Samples::default();
        (1..=200).rev().for_each(|v| samples.add(v));
        let got = samples.summary();
        assert_eq!(
            (got.count, got.p50_ns, got.p99_ns, got.max_ns),
            (200, 100, 198, 200)
        );
    }

    #[test]
    fn one_sample_is_every_percentile() {
        let mut samples = Samples::default();
        samples.add(7);
        let got = samples.summary();
        assert_eq!((got.p50_ns, got.p99_ns, got.max_ns), (7, 7, 7));
    }

    #[test]
    fn a_summary_without_samples_is_zero() {
        assert_eq!(Samples::default().summary().max_ns, 0);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs.

/// A set of CPUs, bit i is CPU i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet(pub u128);

impl CpuSet {
    /// All CPUs.
    pub const ALL: Self = Self(u128::MAX);

    /// Exactly one CPU.
    pub fn one(cpu: usize) -> Self {
        Self(1 << cpu)
    }

    /// Whether `cpu` is in the set.
    pub fn has(self, cpu: usize) -> bool {
        self.0 >> cpu & 1 != 0
    }

    /// How many of the first `nr_cpus` CPUs are in the set.
    pub fn count(self, nr_cpus: usize) -> usize {
        (0..nr_cpus).filter(|cpu| self.has(*cpu)).count()
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs.

use serde::{Deserialize, Serialize};

const WORDS: usize = 4;

/// A set of CPUs, of at most [`CpuSet::CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u64", from = "u64")]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// How many CPUs a machine has at most.
    pub const CPUS: usize = 64 * WORDS;

    /// All CPUs.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// The CPUs from 0 to 127 whose bits are set.
    pub fn of(bits: u128) -> Self {
        let mut words = [0; WORDS];
        (words[0], words[1]) = (bits as u64, (bits >> 64) as u64);
        Self(words)
    }

    /// Exactly one CPU.
    pub fn one(cpu: usize) -> Self {
        Self::ALL.filter(|c| c == cpu)
    }

    /// The CPUs of this set that `keep` accepts.
    #[must_use]
    pub fn filter(self, keep: impl Fn(usize) -> bool) -> Self {
        let mut words = [0; WORDS];
        for cpu in (0..Self::CPUS).filter(|cpu| self.has(*cpu) && keep(*cpu)) {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        Self(words)
    }

    /// Whether `cpu` is in the set.
    pub fn has(self, cpu: usize) -> bool {
        cpu < Self::CPUS && self.0[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    /// How many of the first `nr_cpus` CPUs are in the set.
    pub fn count(self, nr_cpus: usize) -> usize {
        (0..nr_cpus).filter(|cpu| self.has(*cpu)).count()
    }
}

/// The first 64 CPUs, as cases of the fuzzer write them.
impl From<CpuSet> for u64 {
    fn from(set: CpuSet) -> Self {
        set.0[0]
    }
}

impl From<u64> for CpuSet {
    fn from(bits: u64) -> Self {
        Self::of(bits.into())
    }
}

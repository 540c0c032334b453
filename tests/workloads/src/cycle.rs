// SPDX-License-Identifier: GPL-2.0-only
//! A table whose entries name one another in one random cycle, so that each look-up needs the one
//! before.

use std::hint::black_box;

/// Words of an entry, a line of the cache.
const ENTRY: usize = 8;

/// Knuth's generator MMIX.
pub struct Random(pub u64);

impl Random {
    /// The next number, of 31 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// The table, and the entry that is looked up next.
pub struct Cycle {
    entries: Vec<[usize; ENTRY]>,
    at: usize,
}

impl Cycle {
    /// Fills a table of `kib` KiB, of two entries at least.
    pub fn new(kib: usize, random: &mut Random) -> Self {
        let count = (kib * 1024 / size_of::<[usize; ENTRY]>()).max(2);
        let mut entries: Vec<_> = (0..count).map(|at| [at; ENTRY]).collect();
        for at in (1..count).rev() {
            // Sattolo's shuffle.
            entries.swap(at, random.next() as usize % at);
        }
        Self { entries, at: 0 }
    }

    /// Follows the cycle for so many entries, and calls `between` after each.
    #[inline]
    pub fn look_up(&mut self, lookups: u32, between: impl Fn()) {
        for _ in 0..lookups {
            self.at = black_box(self.entries[self.at][0]);
            between();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_one_cycle_through_all_entries() {
        let mut cycle = Cycle::new(6, &mut Random(7));
        let count = cycle.entries.len();
        assert_eq!(count, 96);
        for step in 1..=count {
            cycle.look_up(1, || ());
            assert_eq!(cycle.at == 0, step == count, "after {step} steps");
        }
    }
}

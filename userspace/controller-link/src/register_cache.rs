// SPDX-License-Identifier: GPL-2.0-only
//! The last known content of the registers, so that only changes are written.

use std::collections::HashMap;

use crate::registers::{Access, Op};

/// Known values by register offset.
#[derive(Debug, Default)]
pub struct RegisterCache(HashMap<u64, u64>);

impl RegisterCache {
    /// The writes that bring the registers to these (offset, value) pairs, in
    /// order. If a register occurs twice, its last value counts.
    pub fn changes(&self, wanted: &[(u64, u64)]) -> Vec<Access> {
        let mut last: HashMap<u64, usize> = HashMap::new();
        for (at, (offset, _)) in wanted.iter().enumerate() {
            last.insert(*offset, at);
        }
        wanted
            .iter()
            .enumerate()
            .filter(|(at, (offset, value))| {
                last[offset] == *at && self.0.get(offset) != Some(value)
            })
            .map(|(_, &(offset, value))| Access::write(offset, value))
            .collect()
    }

    /// Remembers the writes that were done. A write that was not confirmed may have
    /// happened, so its register becomes unknown.
    pub fn learn(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.op == Op::Write) {
            if access.done {
                self.0.insert(access.offset, access.value);
            } else {
                self.0.remove(&access.offset);
            }
        }
    }

    /// Forgets everything, because the controller may be another one.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(mut accesses: Vec<Access>) -> Vec<Access> {
        accesses.iter_mut().for_each(|access| access.done = true);
        accesses
    }

    #[test]
    fn only_changed_registers_are_written() {
        let mut cache = RegisterCache::default();
        let first = cache.changes(&[(8, 1), (16, 2)]);
        assert_eq!(first, [Access::write(8, 1), Access::write(16, 2)]);
        cache.learn(&done(first));
        assert_eq!(
            cache.changes(&[(8, 1), (16, 3), (24, 0)]),
            [Access::write(16, 3), Access::write(24, 0)]
        );
        assert_eq!(cache.changes(&[(8, 5), (8, 1)]), []);
        assert_eq!(cache.changes(&[(8, 1), (8, 5)]), [Access::write(8, 5)]);
        assert_eq!(cache.changes(&[]), []);
    }

    #[test]
    fn an_unconfirmed_write_is_repeated() {
        let mut cache = RegisterCache::default();
        cache.learn(&done(vec![Access::write(8, 1), Access::write(16, 2)]));
        cache.learn(&[Access::write(8, 9)]);
        assert_eq!(
            cache.changes(&[(8, 1), (16, 2)]),
            [Access::write(8, 1)],
            "the unanswered write may have been done"
        );
        cache.forget();
        assert_eq!(cache.changes(&[(8, 1), (16, 2)]).len(), 2);
    }
}

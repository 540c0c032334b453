// SPDX-License-Identifier: GPL-2.0-only
//! Whose the bytes are that the controller counted. Every byte that is read is
//! booked exactly once.

use std::collections::{HashMap, HashSet};

use super::{
    ids::{COMMON, IdTable, Owner},
    registers::{Access, HwId, Op, PIDS_MAX, TRAFFIC},
};

/// Bytes read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Of tasks with an id of their own, that live as far as we know.
    pub by_pid: HashMap<u32, u64>,
    /// Of tasks that have ended.
    pub ended: u64,
    /// Of the tasks that share an id.
    pub shared: u64,
    /// Of nobody: hardware id 0.
    pub unattributed: u64,
    /// Of ids that were nobody's here: counted before this agent came, or for
    /// an earlier one.
    pub inherited: u64,
}

impl Ledger {
    /// Books the traffic that was read; returns what each task has to pay.
    pub fn book(&mut self, accesses: &[Access], ids: &IdTable) -> Vec<(u32, u64)> {
        let mut charges = Vec::new();
        for (id, bytes) in traffic_read(accesses) {
            match (id, ids.owner(id)) {
                _ if bytes == 0 => {}
                (0, _) => self.unattributed += bytes,
                (COMMON, _) => self.shared += bytes,
                (_, Owner::Task(pid) | Owner::Leaving(pid, _)) => {
                    *self.by_pid.entry(pid).or_default() += bytes;
                    charges.push((pid, bytes));
                }
                (_, Owner::Nobody) => self.inherited += bytes,
            }
        }
        charges
    }

    /// Books traffic from before this agent, whosever it was.
    pub fn inherit(&mut self, accesses: &[Access]) {
        self.inherited += traffic_read(accesses).map(|(_, bytes)| bytes).sum::<u64>();
    }

    /// Forgets tasks that have ended, but not their bytes.
    pub fn bury(&mut self, alive: &HashSet<u32>) {
        let ended = &mut self.ended;
        self.by_pid.retain(|pid, bytes| {
            if !alive.contains(pid) {
                *ended += *bytes;
            }
            alive.contains(pid)
        });
    }

    /// Every byte that was read.
    pub fn total(&self) -> u64 {
        let tasks: u64 = self.by_pid.values().sum();
        tasks + self.ended + self.shared + self.unattributed + self.inherited
    }
}

/// (id, bytes) of every traffic register that was read.
pub fn traffic_read(accesses: &[Access]) -> impl Iterator<Item = (HwId, u64)> {
    let registers = TRAFFIC..TRAFFIC + 8 * u64::from(PIDS_MAX);
    let read = accesses.iter().filter(move |access| {
        access.done && access.op == Op::Read && registers.contains(&access.offset)
    });
    read.map(|access| (((access.offset - TRAFFIC) / 8) as HwId, access.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::registers::traffic;

    fn read(id: HwId, bytes: u64) -> Access {
        Access {
            value: bytes,
            done: true,
            ..Access::read(traffic(id))
        }
    }

    #[test]
    fn every_byte_is_booked_once() {
        let mut ids = IdTable::new(8);
        assert_eq!([70, 71].map(|pid| ids.claim(pid)), [2, 3]);
        ids.release(71, Some(72));
        let mut ledger = Ledger::default();
        let lost = Access {
            done: false,
            ..read(2, 1 << 40)
        };
        let accesses = [
            read(0, 1),
            read(COMMON, 2),
            read(2, 4),
            read(3, 8),
            read(7, 16),
            read(5, 0),
            lost,
            Access::peek(traffic(2)),
        ];
        let charges = ledger.book(&accesses, &ids);
        assert_eq!(
            charges,
            [(70, 4), (71, 8)],
            "a leaving task pays what is left"
        );
        assert_eq!(
            (ledger.unattributed, ledger.shared, ledger.inherited),
            (1, 2, 16)
        );
        assert_eq!(ledger.total(), 31);

        ledger.inherit(&[read(0, 32), read(2, 64)]);
        assert_eq!((ledger.inherited, ledger.total()), (112, 127));

        ledger.bury(&[70].into());
        assert_eq!(
            (ledger.by_pid.get(&71), ledger.ended, ledger.total()),
            (None, 8, 127)
        );
    }
}

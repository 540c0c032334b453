// SPDX-License-Identifier: GPL-2.0-only
//! Which task caused the bytes that the controller counted. Every byte that is
//! read is booked exactly once.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    id_table::{Assignment, IdTable, SHARED_ID},
    interface::offset::TRAFFIC,
    registers::{Access, HwId, Op, PIDS_MAX},
};

/// Bytes read since the agent started, by their cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficAccounting {
    /// Tasks that hold or held an id and have not ended, by thread id.
    pub by_pid: HashMap<u32, u64>,
    /// Tasks that have ended.
    pub ended: u64,
    /// Tasks that share an id.
    pub shared: u64,
    /// Traffic that the controller attributed to no task (hardware id 0).
    pub unattributed: u64,
    /// Traffic of ids that this agent had not assigned: counted before it
    /// started, or for an earlier agent.
    pub inherited: u64,
}

impl TrafficAccounting {
    /// Books the traffic that was read. Returns the (thread id, bytes) to charge.
    pub fn book(&mut self, accesses: &[Access], ids: &IdTable) -> Vec<(u32, u64)> {
        let mut charges = Vec::new();
        for (id, bytes) in traffic_read(accesses) {
            match (id, ids.assignment(id)) {
                _ if bytes == 0 => {}
                (0, _) => add(&mut self.unattributed, bytes),
                (SHARED_ID, _) => add(&mut self.shared, bytes),
                (_, Assignment::Task(pid) | Assignment::Draining(pid, _)) => {
                    add(self.by_pid.entry(pid).or_default(), bytes);
                    charges.push((pid, bytes));
                }
                (_, Assignment::Free) => add(&mut self.inherited, bytes),
            }
        }
        charges
    }

    /// Books traffic that was counted before this agent wrote any id.
    pub fn inherit(&mut self, accesses: &[Access]) {
        for (_, bytes) in traffic_read(accesses) {
            add(&mut self.inherited, bytes);
        }
    }

    /// Moves the bytes of tasks that are not `alive` to `ended`.
    pub fn prune(&mut self, alive: &HashSet<u32>) {
        let ended = &mut self.ended;
        self.by_pid.retain(|pid, bytes| {
            if !alive.contains(pid) {
                add(ended, *bytes);
            }
            alive.contains(pid)
        });
    }

    /// All bytes that were read.
    pub fn total(&self) -> u64 {
        let others = [self.ended, self.shared, self.unattributed, self.inherited];
        let all = self.by_pid.values().chain(&others);
        all.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Adds to a sum, which a controller that counts wrong cannot overflow.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

/// No memory moves more between two reads: at 1 TB/s it takes 13 days.
const READ_MAX: u64 = 1 << 60;

/// Takes counts that no memory can have moved out of `accesses`. Returns what is wrong with them.
pub fn take_absurd(accesses: &mut [Access]) -> Option<String> {
    let (id, bytes) = traffic_read(accesses).find(|(_, bytes)| *bytes > READ_MAX)?;
    for access in accesses {
        access.done &= access.value <= READ_MAX || !reads_traffic(access);
    }
    Some(format!("{bytes} bytes of id {id} since the last read"))
}

fn reads_traffic(access: &Access) -> bool {
    let registers = TRAFFIC..TRAFFIC + 8 * u64::from(PIDS_MAX);
    access.op == Op::Read && registers.contains(&access.offset)
}

/// The (id, bytes) of every traffic register that was read.
pub fn traffic_read(accesses: &[Access]) -> impl Iterator<Item = (HwId, u64)> {
    let read = accesses
        .iter()
        .filter(|access| access.done && reads_traffic(access));
    read.map(|access| (((access.offset - TRAFFIC) / 8) as HwId, access.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::traffic;

    fn read(id: HwId, bytes: u64) -> Access {
        Access {
            value: bytes,
            done: true,
            ..Access::read(traffic(id))
        }
    }

    #[test]
    fn a_count_that_no_memory_moves_is_not_booked() {
        let mut ids = IdTable::new(8);
        ids.claim(70);
        let mut accesses = [read(2, 1 << 63), read(3, 5)];
        let what = take_absurd(&mut accesses).unwrap();
        assert!(what.contains("9223372036854775808 bytes of id 2"), "{what}");
        assert_eq!(take_absurd(&mut accesses), None);
        let mut accounting = TrafficAccounting::default();
        assert_eq!(accounting.book(&accesses, &ids), []);
        assert_eq!((accounting.total(), accounting.inherited), (5, 5));
    }

    #[test]
    fn every_byte_read_is_booked_once() {
        let mut ids = IdTable::new(8);
        assert_eq!([70, 71].map(|pid| ids.claim(pid)), [2, 3]);
        ids.release(71, Some(72));
        let mut accounting = TrafficAccounting::default();
        let lost = Access {
            done: false,
            ..read(2, 1 << 40)
        };
        let accesses = [
            read(0, 1),
            read(SHARED_ID, 2),
            read(2, 4),
            read(3, 8),
            read(7, 16),
            read(5, 0),
            lost,
            Access::peek(traffic(2)),
        ];
        let charges = accounting.book(&accesses, &ids);
        assert_eq!(
            charges,
            [(70, 4), (71, 8)],
            "a draining task pays what is left"
        );
        assert_eq!(
            (
                accounting.unattributed,
                accounting.shared,
                accounting.inherited
            ),
            (1, 2, 16)
        );
        assert_eq!(accounting.total(), 31);

        accounting.inherit(&[read(0, 32), read(2, 64)]);
        assert_eq!((accounting.inherited, accounting.total()), (112, 127));

        accounting.prune(&[70].into());
        assert_eq!(
            (
                accounting.by_pid.get(&71),
                accounting.ended,
                accounting.total()
            ),
            (None, 8, 127)
        );
    }
}

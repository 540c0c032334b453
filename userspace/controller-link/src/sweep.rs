// SPDX-License-Identifier: GPL-2.0-only
//! When the driver of `--controller` reads traffic, and of which hardware ids. Each id
//! that tasks have is read again and again, wherever its task runs.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    id_table::{Assignment, IdTable, SHARED_ID},
    registers::HwId,
};

/// Ids that each poll reads although no core carries them, because devices move
/// memory for tasks that do not run.
pub const SWEPT_IDS: usize = 16;

/// Ids for which each poll checks whether a task has them, to read those that tasks
/// have, if there is a mailbox: several tasks may run on a core between two polls. Without
/// one, labels wait for the reads, so polls read few.
const CHECKED_IDS: u32 = 1024;

/// Time between two reads while no task runs, or while cores label their traffic
/// themselves and tasks are not charged what is read.
pub const SELDOM: Duration = Duration::from_millis(100);

/// What a poll finds.
pub struct State<'a> {
    /// The ids of the connected controller.
    pub table: &'a IdTable,
    /// The ids that cores carried before this poll, and those that they carry now.
    pub carried: &'a [HwId],
    /// Cores label their traffic themselves.
    pub labelled: bool,
    /// Tasks are charged what is read.
    pub charges: bool,
    /// What was counted until now is needed: no poll of this connection has read yet, or it is to
    /// be compared with what tasks were charged until now.
    pub asked: bool,
    /// How many registers this poll writes.
    pub writes: u64,
}

/// Goes round the ids.
pub struct Sweep {
    /// The last id that was read without a core that carries it.
    cursor: u32,
    /// The last id that was checked for a task that has it.
    checked: u32,
    last: Instant,
}

impl Sweep {
    /// As if all was read just now.
    pub fn begin() -> Self {
        Self {
            cursor: 0,
            checked: 0,
            last: Instant::now(),
        }
    }

    /// Traffic was read.
    pub fn read(&mut self) {
        self.last = Instant::now();
    }

    /// The ids whose traffic this poll reads; none if it reads nothing.
    pub fn due(&mut self, state: &State) -> Option<BTreeSet<HwId>> {
        let silent = state.carried.iter().all(|&id| id == 0);
        let unasked = state.labelled && !state.charges;
        let now = if unasked {
            state.asked
        } else {
            !silent || state.writes > 0 || !state.table.draining().is_empty()
        };
        (now || self.last.elapsed() >= SELDOM).then(|| self.ids(state, silent || unasked))
    }

    /// `seldom`: few polls read, so each reads all ids that tasks have.
    fn ids(&mut self, state: &State, seldom: bool) -> BTreeSet<HwId> {
        let pids = state.table.size();
        let mut ids: BTreeSet<HwId> = [0, SHARED_ID].into();
        ids.extend(state.carried);
        ids.extend(state.table.draining());
        for _ in 0..SWEPT_IDS {
            self.cursor = (self.cursor + 1) % pids;
            ids.insert(self.cursor as HwId);
        }
        let checked = match (seldom, state.labelled) {
            (true, _) => pids,
            (false, true) => CHECKED_IDS,
            (false, false) => 0,
        };
        for _ in 0..checked.min(pids) {
            self.checked = (self.checked + 1) % pids;
            if state.table.assignment(self.checked as HwId) != Assignment::Free {
                ids.insert(self.checked as HwId);
            }
        }
        ids
    }

    /// Lets time pass.
    #[cfg(test)]
    pub fn wait(&mut self, time: Duration) {
        self.last -= time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_cores_label_and_a_pmu_charges_all_ids_are_read_ten_times_a_second() {
        let mut table = IdTable::new(8192);
        assert_eq!([10, 11].map(|pid| table.claim(pid)), [2, 3]);
        let mut state = State {
            table: &table,
            carried: &[2],
            labelled: true,
            charges: false,
            asked: true,
            writes: 0,
        };
        let mut sweep = Sweep::begin();
        assert!(sweep.due(&state).is_some(), "what was counted before");
        state.asked = false;
        state.writes = 1;
        assert_eq!(sweep.due(&state), None);
        sweep.wait(SELDOM);
        let ids = sweep.due(&state).unwrap();
        assert!([0, SHARED_ID, 2, 3].iter().all(|id| ids.contains(id)));
        sweep.read();
        assert_eq!(sweep.due(&state), None);
        state.charges = true;
        assert!(sweep.due(&state).is_some());
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Which task has which hardware id. Linux has up to 4 million thread ids, but a
//! controller has at most 8191 registers. The heaviest tasks each hold an id; the
//! others share [`SHARED_ID`].
//!
//! An id is handed over in three steps, so that no byte goes to the wrong task.
//! First it is taken from its task, and the scheduler is told. Then neither a core nor
//! a request to a device carries it any more. Then its traffic is read, and another
//! task gets it.

use std::collections::{HashMap, VecDeque};

use crate::registers::HwId;

/// The id of all tasks that hold none. It is not 0, because a controller serves
/// traffic of id 0 before all other.
pub const SHARED_ID: HwId = 1;

/// A task takes an id from another if its load is this many times as large. Loads
/// are measured over a second and vary by chance.
pub const HYSTERESIS: f64 = 2.0;

/// A task whose load is below this share of the machine takes no id.
const LOAD_MIN: f64 = 1e-4;

/// What an id is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// No task.
    Free,
    /// The traffic of this task (thread id).
    Task(u32),
    /// Traffic that this task left and that was not read yet. The other task gets
    /// the id next, if there is one.
    Draining(u32, Option<u32>),
}

/// The hardware ids of one controller.
#[derive(Debug)]
pub struct IdTable {
    /// By id. Ids 0 and `SHARED_ID` are never assigned.
    assignments: Vec<Assignment>,
    by_pid: HashMap<u32, HwId>,
    /// Free ids, longest free first.
    free: VecDeque<HwId>,
    draining: Vec<HwId>,
    /// Tasks whose id changed since `take_changed`.
    changed: Vec<u32>,
}

impl IdTable {
    /// `pids`: number of ids, 0 and 1 included; at least 3.
    pub fn new(pids: u32) -> Self {
        Self {
            assignments: vec![Assignment::Free; pids as usize],
            by_pid: HashMap::new(),
            free: (SHARED_ID + 1..pids as HwId).collect(),
            draining: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Number of ids, 0 and `SHARED_ID` included.
    pub fn size(&self) -> u32 {
        self.assignments.len() as u32
    }

    /// The id of a task; `SHARED_ID` if it holds none.
    pub fn get(&self, pid: u32) -> HwId {
        self.by_pid.get(&pid).copied().unwrap_or(SHARED_ID)
    }

    /// The id of a task that runs. The task gets a free one if there is one.
    pub fn claim(&mut self, pid: u32) -> HwId {
        if let Some(&id) = self.by_pid.get(&pid) {
            return id;
        }
        let Some(id) = self.free.pop_front() else {
            return SHARED_ID;
        };
        self.give(id, pid);
        id
    }

    /// Takes the id from a task that has ended, or that makes room for `for_pid`.
    pub fn release(&mut self, pid: u32, for_pid: Option<u32>) {
        if let Some(id) = self.by_pid.remove(&pid) {
            self.assignments[usize::from(id)] = Assignment::Draining(pid, for_pid);
            self.draining.push(id);
            self.changed.push(pid);
        }
    }

    /// Hands a draining id over: no core carries it, and its traffic was read.
    pub fn finish_drain(&mut self, id: HwId) {
        let Assignment::Draining(_, next) = self.assignment(id) else {
            return;
        };
        self.draining.retain(|&other| other != id);
        match next {
            Some(pid) if !self.by_pid.contains_key(&pid) => self.give(id, pid),
            _ => {
                self.assignments[usize::from(id)] = Assignment::Free;
                self.free.push_back(id);
            }
        }
    }

    fn give(&mut self, id: HwId, pid: u32) {
        self.assignments[usize::from(id)] = Assignment::Task(pid);
        self.by_pid.insert(pid, id);
        self.changed.push(pid);
    }

    /// Reports the id of a task as changed, if it holds one.
    pub fn report(&mut self, pid: u32) {
        if self.by_pid.contains_key(&pid) {
            self.changed.push(pid);
        }
    }

    /// Reports all ids as changed.
    pub fn report_all(&mut self) {
        self.changed.extend(self.by_pid.keys());
    }

    /// The tasks whose id changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    /// What an id is used for.
    pub fn assignment(&self, id: HwId) -> Assignment {
        let assignment = self.assignments.get(usize::from(id));
        assignment.copied().unwrap_or(Assignment::Free)
    }

    /// Ids that were taken from their tasks and not read since.
    pub fn draining(&self) -> &[HwId] {
        &self.draining
    }

    /// The (thread id, id) of the tasks that hold an id.
    pub fn holders(&self) -> impl Iterator<Item = (u32, HwId)> {
        self.by_pid.iter().map(|(&pid, &id)| (pid, id))
    }

    /// Number of tasks that hold an id.
    pub fn len(&self) -> usize {
        self.by_pid.len()
    }

    /// Whether no task holds an id.
    pub fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    /// Moves ids to the heaviest tasks. `load`: the share of the machine of every
    /// task that is alive. Other tasks lose their ids.
    pub fn rebalance(&mut self, load: &HashMap<u32, f64>) {
        let ended: Vec<u32> = self
            .by_pid
            .keys()
            .filter(|pid| !load.contains_key(pid))
            .copied()
            .collect();
        for pid in ended {
            self.release(pid, None);
        }
        let heirs = self.draining.iter().map(|&id| match self.assignment(id) {
            Assignment::Draining(_, heir) => heir,
            _ => None,
        });
        let heirs: Vec<Option<u32>> = heirs.collect();
        let room = self.free.len() + heirs.iter().filter(|heir| heir.is_none()).count();
        let (holders, others): (Vec<_>, Vec<_>) = load
            .iter()
            .map(|(&pid, &load)| (pid, load))
            .filter(|(pid, _)| !heirs.contains(&Some(*pid)))
            .partition(|(pid, _)| self.by_pid.contains_key(pid));
        for (from, to) in handovers(holders, others, room) {
            self.release(from, Some(to));
        }
    }
}

/// Which tasks give their id to which others. The lightest holder gives its id to
/// the heaviest of the others, as long as that is `HYSTERESIS` times as heavy. Free
/// ids serve the first `room` of the others.
pub fn handovers(
    mut holders: Vec<(u32, f64)>,
    mut others: Vec<(u32, f64)>,
    room: usize,
) -> Vec<(u32, u32)> {
    holders.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let pairs = holders.into_iter().zip(others.into_iter().skip(room));
    pairs
        .take_while(|(holder, other)| other.1 >= LOAD_MIN && other.1 > HYSTERESIS * holder.1)
        .map(|(holder, other)| (holder.0, other.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loads(list: &[(u32, f64)]) -> HashMap<u32, f64> {
        list.iter().copied().collect()
    }

    #[test]
    fn a_task_that_finds_no_free_id_shares_one() {
        let mut ids = IdTable::new(4);
        assert_eq!([7, 8, 9].map(|pid| ids.claim(pid)), [2, 3, SHARED_ID]);
        assert_eq!([7, 8, 9].map(|pid| ids.get(pid)), [2, 3, SHARED_ID]);
        assert_eq!((ids.len(), ids.assignment(2)), (2, Assignment::Task(7)));
    }

    #[test]
    fn an_id_is_not_reused_before_it_is_read() {
        let mut ids = IdTable::new(3);
        assert_eq!(ids.claim(7), 2);
        ids.release(7, None);
        assert_eq!(ids.assignment(2), Assignment::Draining(7, None));
        assert_eq!(ids.claim(8), SHARED_ID);
        ids.finish_drain(2);
        assert_eq!((ids.claim(8), ids.assignment(2)), (2, Assignment::Task(8)));
        // An id in use is not draining.
        ids.finish_drain(2);
        assert_eq!(ids.assignment(2), Assignment::Task(8));
    }

    #[test]
    fn each_change_of_a_task_s_id_is_reported_once() {
        let mut ids = IdTable::new(3);
        ids.claim(7);
        ids.claim(7);
        assert_eq!(ids.take_changed(), [7]);
        ids.claim(8);
        assert!(ids.take_changed().is_empty(), "8 shares an id as before");
        ids.release(7, Some(8));
        assert_eq!(ids.take_changed(), [7]);
        ids.finish_drain(2);
        assert_eq!((ids.take_changed(), ids.get(8)), (vec![8], 2));
    }

    #[test]
    fn an_id_moves_to_a_task_that_is_twice_as_heavy() {
        let mut ids = IdTable::new(4);
        assert_eq!([1, 2].map(|pid| ids.claim(pid)), [2, 3]);
        ids.rebalance(&loads(&[(1, 0.3), (2, 0.1), (3, 0.19)]));
        assert!(ids.draining().is_empty(), "less than twice as heavy");
        ids.rebalance(&loads(&[(1, 0.3), (2, 0.1), (3, 0.21)]));
        assert_eq!(ids.assignment(3), Assignment::Draining(2, Some(3)));
        assert_eq!(ids.claim(4), SHARED_ID, "it is promised to 3");
        ids.finish_drain(3);
        assert_eq!((ids.get(1), ids.get(2), ids.get(3)), (2, SHARED_ID, 3));
    }

    #[test]
    fn an_ended_task_gives_its_id_up_first() {
        let mut ids = IdTable::new(4);
        assert_eq!([1, 2].map(|pid| ids.claim(pid)), [2, 3]);
        ids.rebalance(&loads(&[(2, 0.0), (3, 0.9)]));
        assert_eq!(ids.assignment(2), Assignment::Draining(1, None));
        assert_eq!(
            ids.assignment(3),
            Assignment::Task(2),
            "3 gets the id of the ended task"
        );
    }

    #[test]
    fn an_id_becomes_free_if_its_next_task_got_another() {
        let mut ids = IdTable::new(4);
        assert_eq!([1, 2].map(|pid| ids.claim(pid)), [2, 3]);
        ids.release(1, Some(3));
        ids.release(2, None);
        ids.finish_drain(3);
        assert_eq!(ids.claim(3), 3);
        ids.finish_drain(2);
        assert_eq!((ids.claim(4), ids.get(3)), (2, 3));
    }

    #[test]
    fn with_more_tasks_than_ids_the_heaviest_hold_them() {
        let mut ids = IdTable::new(8192);
        ids.rebalance(&HashMap::new());
        assert!(ids.is_empty());
        let all: HashMap<u32, f64> = (1..=20_000).map(|pid| (pid, f64::from(pid))).collect();
        for pid in 1..=20_000 {
            ids.claim(pid);
        }
        assert_eq!(ids.len(), 8190);
        // Each time the lightest holders make room for the heaviest others.
        for _ in 0..3 {
            ids.rebalance(&all);
            for id in ids.draining().to_vec() {
                ids.finish_drain(id);
            }
        }
        assert_eq!(ids.len(), 8190);
        assert!((19_000..=20_000).all(|pid| ids.get(pid) != SHARED_ID));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Claim(u32),
        Release(u32, Option<u32>),
        FinishDrain,
        Rebalance(Vec<(u32, f64)>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let pid = || 1u32..12;
        prop_oneof![
            4 => pid().prop_map(Step::Claim),
            2 => (pid(), prop::option::of(pid())).prop_map(|(a, b)| Step::Release(a, b)),
            2 => Just(Step::FinishDrain),
            1 => prop::collection::vec((pid(), 0.0f64..1.0), 0..12).prop_map(Step::Rebalance),
        ]
    }

    proptest! {
        #[test]
        fn every_id_has_exactly_one_use(steps in prop::collection::vec(step(), 0..80)) {
            let mut ids = IdTable::new(6);
            for step in steps {
                let before = ids.draining().to_vec();
                match step {
                    Step::Claim(pid) => {
                        let id = ids.claim(pid);
                        prop_assert!(id != 0 && !before.contains(&id));
                    }
                    Step::Release(pid, next) => ids.release(pid, next),
                    Step::FinishDrain => {
                        before.first().into_iter().for_each(|&id| ids.finish_drain(id));
                    }
                    Step::Rebalance(list) => ids.rebalance(&loads(&list)),
                }
                let mut used: Vec<HwId> = ids.holders().map(|(_, id)| id).collect();
                used.extend(ids.draining());
                used.extend(&ids.free);
                used.sort_unstable();
                prop_assert_eq!(used, vec![2, 3, 4, 5]);
                for (pid, id) in ids.holders() {
                    prop_assert_eq!(ids.assignment(id), Assignment::Task(pid));
                }
            }
        }
    }
}

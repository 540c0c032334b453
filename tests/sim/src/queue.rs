// SPDX-License-Identifier: GPL-2.0-only
//! Queues in order of virtual time, and which one a CPU takes from
//! (`queue.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::ffi;
use crate::task::TaskState;

/// A DSQ in vtime order; equal keys leave in the order they came.
#[derive(Clone, Debug, Default)]
pub struct VtimeQueue {
    entries: Vec<(u64, TaskId)>,
}

impl VtimeQueue {
    /// Inserts `task` at virtual time `key_ns`.
    pub fn insert(&mut self, key_ns: u64, task: TaskId) {
        let at = self
            .entries
            .partition_point(|(key, _)| !ffi::before(key_ns, *key));
        self.entries.insert(at, (key_ns, task));
    }

    /// Removes `task`; whether it was there.
    pub fn remove(&mut self, task: TaskId) -> bool {
        let at = self.entries.iter().position(|(_, t)| *t == task);
        at.map(|at| self.entries.remove(at)).is_some()
    }

    /// Keys and tasks, the earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, TaskId)> + '_ {
        self.entries.iter().copied()
    }

    /// The earliest key.
    pub fn head(&self) -> Option<u64> {
        self.entries.first().map(|(key, _)| *key)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Sim {
    /// `queue_insert`: into the queue of the task's CPU.
    pub(crate) fn queue_insert(&mut self, task: TaskId, key_ns: u64) {
        let llc = self.cpus[self.tasks[task].cpu].llc;
        self.tasks[task].key_ns = key_ns;
        self.tasks[task].state = TaskState::Queued(llc);
        self.queues[llc].insert(key_ns, task);
        self.counters.queued += 1;
    }

    /// The first task of `llc` that may run on `cpu`.
    pub(crate) fn queue_first(&self, cpu: usize, llc: usize) -> Option<(u64, TaskId)> {
        self.queues[llc]
            .iter()
            .find(|(_, task)| self.tasks[*task].allowed.has(cpu))
    }

    /// `queue_choose`: the queue to take from, and the key of its first task that
    /// may run here. That is the own queue, unless another one, chosen at random
    /// (in turn, CPUs can fall into step and never see what waits elsewhere), has
    /// a clearly earlier task, or the own has none: then the first that has.
    pub(crate) fn queue_choose(&mut self, cpu: usize) -> Option<(usize, u64)> {
        let own = self.cpus[cpu].llc;
        let mine = self.queue_first(cpu, own).map(|(key, _)| (own, key));
        let others = self.queues.len() - 1;
        if others == 0 {
            return mine;
        }
        let first = self.random.below(others as u64) as usize;
        let looks = if mine.is_some() { 1 } else { others };
        let found = (0..looks).find_map(|i| {
            let other = (own + 1 + (first + i) % others) % self.queues.len();
            self.queue_first(cpu, other).map(|(key, _)| (other, key))
        });
        let margin = self.config.steal_margin_ns;
        match (mine, found) {
            (Some((_, mine)), Some((_, theirs)))
                if ffi::before(theirs.wrapping_add(margin), mine) =>
            {
                found
            }
            (Some(_), _) => mine,
            (None, _) => found,
        }
    }

    /// `queue_take`: moves the first task of `llc` that may run on `cpu` there.
    fn queue_take(&mut self, cpu: usize, llc: usize) -> bool {
        let Some((_, task)) = self.queue_first(cpu, llc) else {
            return false;
        };
        self.queues[llc].remove(task);
        self.local_insert(task, cpu);
        if llc != self.cpus[cpu].llc {
            self.counters.steals += 1;
        }
        true
    }

    /// `queue_take_any`: from `first`, then the own queue, then the others in turn.
    pub(crate) fn queue_take_any(&mut self, cpu: usize, first: usize) -> bool {
        let own = self.cpus[cpu].llc;
        let nr_llcs = self.queues.len();
        if self.queue_take(cpu, first) || (first != own && self.queue_take(cpu, own)) {
            return true;
        }
        (1..nr_llcs).any(|i| self.queue_take(cpu, (own + i) % nr_llcs))
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Delayed wake-up, 4.10 (`hold.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::task::TaskState;

/// Why a held task may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// V caught up.
    Vtime,
    /// It was held for as long as a hold may last.
    Bound,
    /// Nothing else runs.
    Idle,
}

impl Sim {
    /// `cpus_busy`: whether any CPU but `except` runs a packet.
    pub(crate) fn cpus_busy(&mut self, except: Option<usize>) -> bool {
        self.vtime_scan(except) != 0
    }

    /// `hold_needed`: whether the task must wait although it is runnable.
    pub(crate) fn hold_needed(&mut self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        if !t.indebted || t.kthread || !t.flow.held(&self.config.conf, self.v_ns) {
            return false;
        }
        self.cpus_busy(None)
    }

    fn hold_release_cause(&self, task: TaskId, all_idle: bool) -> Option<Release> {
        let t = &self.tasks[task];
        let held_ns = t.held_since_ns.map_or(0, |since| self.now_ns - since);
        if !t.flow.held(&self.config.conf, self.v_ns) {
            Some(Release::Vtime)
        } else if held_ns >= self.config.hold_max_ns {
            Some(Release::Bound)
        } else if all_idle {
            Some(Release::Idle)
        } else {
            None
        }
    }

    /// `hold`: the task waits in the queue of held tasks.
    pub(crate) fn hold_insert(&mut self, task: TaskId) {
        let now = self.now_ns;
        let t = &mut self.tasks[task];
        if t.held_since_ns.is_none() {
            t.held_since_ns = Some(now);
            self.counters.held += 1;
        }
        t.waits_since_ns = None;
        t.state = TaskState::Held;
        t.key_ns = t.flow.start();
        self.held.insert(t.key_ns, task);
        if !self.cpus_busy(None) {
            self.kick_idle_for(task);
        }
    }

    /// `hold_end`: the hold is over; its length is reported.
    pub(crate) fn hold_end(&mut self, task: TaskId) {
        let now = self.now_ns;
        let t = &mut self.tasks[task];
        if let Some(since) = t.held_since_ns.take() {
            t.report.holds_ns.push(now - since);
        }
    }

    /// `hold_kick_idle`: wakes idle CPUs for the held tasks that may go.
    pub(crate) fn hold_kick_idle(&mut self, all_idle: bool) {
        let held: Vec<TaskId> = self.held.iter().map(|(_, task)| task).collect();
        for task in held {
            if self.hold_release_cause(task, all_idle).is_some() && !self.kick_idle_for(task) {
                break;
            }
        }
    }

    /// `hold_release`: moves the held tasks that may go to the queue of `llc`.
    pub(crate) fn hold_release(&mut self, llc: usize, mut all_idle: bool) -> bool {
        let held: Vec<(u64, TaskId)> = self.held.iter().collect();
        let mut moved = false;
        for (key_ns, task) in held {
            let Some(cause) = self.hold_release_cause(task, all_idle) else {
                continue;
            };
            self.held.remove(task);
            self.queues[llc].insert(key_ns, task);
            self.tasks[task].state = TaskState::Queued(llc);
            self.tasks[task].waits_since_ns = Some(self.now_ns);
            self.tasks[task].waits_woken = true;
            self.hold_end(task);
            match cause {
                Release::Vtime => self.counters.released_vtime += 1,
                Release::Bound => self.counters.released_bound += 1,
                Release::Idle => self.counters.released_idle += 1,
            }
            self.kick_idle_for(task);
            moved = true;
            all_idle = false;
        }
        moved
    }
}

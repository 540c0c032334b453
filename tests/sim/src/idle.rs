// SPDX-License-Identifier: GPL-2.0-only
//! Idle CPUs (`idle.bpf.h`, and the part of the kernel's default idle selection
//! that matters here).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::queue::VtimeQueue;

impl Sim {
    /// `scx_bpf_select_cpu_dfl`: claims an idle CPU for the task: the previous
    /// one, one of its LLC, any.
    pub(crate) fn select_idle(&mut self, task: TaskId) -> Option<usize> {
        let t = &self.tasks[task];
        let llc = self.cpus[t.cpu].llc;
        let usable = |cpu: &usize| self.cpus[*cpu].idle && t.allowed.has(*cpu);
        let found = Some(t.cpu)
            .filter(usable)
            .or_else(|| (0..self.cpus.len()).find(|c| usable(c) && self.cpus[*c].llc == llc))
            .or_else(|| (0..self.cpus.len()).find(usable));
        if let Some(cpu) = found {
            self.cpus[cpu].idle = false;
        }
        found
    }

    /// `kick_idle_for`: wakes an idle CPU that may run the task.
    pub(crate) fn kick_idle_for(&mut self, task: TaskId) -> bool {
        let allowed = self.tasks[task].allowed;
        let idle = (0..self.cpus.len()).find(|c| self.cpus[*c].idle && allowed.has(*c));
        if let Some(cpu) = idle {
            self.cpus[cpu].idle = false;
            self.resched(cpu);
        }
        idle.is_some()
    }

    /// A CPU has left idleness, or was woken in vain: it may have been woken for a
    /// task other than the one it took, which then needs yet another CPU.
    pub(crate) fn kick_idle_for_queued(&mut self) {
        let waiting: Vec<TaskId> = self
            .queues
            .iter()
            .flat_map(VtimeQueue::iter)
            .map(|(_, task)| task)
            .collect();
        for task in waiting {
            if self.kick_idle_for(task) {
                break;
            }
        }
    }
}

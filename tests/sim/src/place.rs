// SPDX-License-Identifier: GPL-2.0-only
//! Where a woken task goes: idle CPUs and preemption (`place.bpf.h`, and the
//! part of the kernel's default idle selection that matters here).

use crate::engine::Sim;
use crate::ffi;
use crate::machine::TaskId;

/// CPUs that a wake-up looks at besides the previous one.
const PREEMPT_PROBES: usize = 4;

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

    /// `preempt_cpu`: preempts the packet of `cpu` if it is clearly later.
    pub(crate) fn preempt_cpu(&mut self, cpu: usize, start_ns: u64) -> bool {
        let margin = self.config.preempt_margin_ns;
        let slot = &mut self.cpus[cpu].slot;
        let later = ffi::before(start_ns.wrapping_add(margin), slot.vtime_ns);
        if !slot.busy || slot.claimed || !later {
            return false;
        }
        slot.claimed = true;
        self.cpus[cpu].slice_ns = 0;
        self.resched(cpu);
        self.counters.preempts += 1;
        true
    }

    /// `preempt_for`: the previous CPU, then a few others of its LLC.
    pub(crate) fn preempt_for(&mut self, task: TaskId, start_ns: u64) {
        let (home, allowed) = (self.tasks[task].cpu, self.tasks[task].allowed);
        let nr_cpus = self.cpus.len();
        if self.preempt_cpu(home, start_ns) || allowed.count(nr_cpus) == 1 {
            return;
        }
        for probe in 1..=PREEMPT_PROBES {
            let cpu = (home + probe) % nr_cpus;
            if self.cpus[cpu].llc == self.cpus[home].llc
                && allowed.has(cpu)
                && self.preempt_cpu(cpu, start_ns)
            {
                return;
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Preemption by a wake-up (`preempt.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::ffi;

/// CPUs that a wake-up looks at besides the previous one.
const PREEMPT_PROBES: usize = 4;

impl Sim {
    /// `preempt_cpu`: preempts the packet of `cpu` if it is clearly later.
    pub(crate) fn preempt_cpu(&mut self, cpu: usize, start_ns: u64) -> bool {
        let margin = self.config.preempt_margin_ns;
        let slot = &mut self.cpus[cpu].slot;
        let later = ffi::before(start_ns.wrapping_add(margin), slot.vtime_ns);
        if !slot.busy || slot.preempt_pending || !later {
            return false;
        }
        slot.preempt_pending = true;
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

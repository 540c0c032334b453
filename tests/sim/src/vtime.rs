// SPDX-License-Identifier: GPL-2.0-only
//! The system virtual time V (`cpu.bpf.h`).

use crate::engine::Sim;
use crate::ffi;

impl Sim {
    /// `vtime_of_cpu`: how far the tasks of `cpu` have got.
    pub(crate) fn vtime_of_cpu(&self, cpu: usize) -> u64 {
        let slot = &self.cpus[cpu].slot;
        if slot.busy { slot.vtime_ns } else { self.v_ns }
    }

    /// `vtime_local`: V as it is for the tasks of `cpu`.
    pub(crate) fn vtime_local(&self, cpu: usize) -> u64 {
        ffi::earlier(self.v_ns, self.vtime_of_cpu(cpu))
    }

    /// `vtime_scan`: V follows the smallest S of the running packets (4.6).
    /// Returns the number of busy CPUs, `except` not counted.
    pub(crate) fn vtime_scan(&mut self, except: Option<usize>) -> u32 {
        let earlier = |a: u64, b: u64| if ffi::before(a, b) { a } else { b };
        let mut min_start: Option<u64> = None;
        let mut busy = 0;
        for (id, cpu) in self.cpus.iter().enumerate() {
            if Some(id) == except || !cpu.slot.busy {
                continue;
            }
            let start = cpu.slot.vtime_ns;
            min_start = Some(min_start.map_or(start, |min| earlier(min, start)));
            busy += 1;
        }
        if let Some(min) = min_start {
            let next = ffi::advance(self.v_ns, min);
            if ffi::before(next, self.v_ns) {
                self.violation(format!("V went back from {} to {next}", self.v_ns));
            }
            self.v_ns = next;
        }
        busy
    }

    /// `vtime_refresh`: a slot left virtual time `old_ns`; V may have moved.
    pub(crate) fn vtime_refresh(&mut self, old_ns: u64) {
        if ffi::before(self.v_ns, old_ns) && !self.v_stale {
            return;
        }
        let due = self
            .v_scanned_at_ns
            .is_none_or(|at| self.now_ns - at >= self.config.v_lag_ns);
        self.v_stale = !due;
        if due {
            self.v_scanned_at_ns = Some(self.now_ns);
            self.vtime_scan(None);
        }
    }
}

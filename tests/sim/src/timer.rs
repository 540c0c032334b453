// SPDX-License-Identifier: GPL-2.0-only
//! The watch timer (`timer.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::ffi;

/// Period of the watch timer, ns.
pub const TIMER_PERIOD_NS: u64 = 100_000_000;

/// Periods between two looks for starved tasks.
const RESCUE_PERIODS: u64 = 10;

impl Sim {
    fn rescue_queue(&mut self, llc: usize) {
        let queued: Vec<(u64, TaskId)> = self.queues[llc].iter().collect();
        let first = queued.first().map_or(self.v_ns, |(key, _)| *key);
        let front =
            ffi::earlier(self.v_ns, first).wrapping_sub(2 * self.config.conf.wake_credit_ns);
        for (key, task) in queued {
            let waited = self.tasks[task]
                .waits_since_ns
                .map_or(0, |since| self.now_ns - since);
            if waited < self.config.rescue_ns || !ffi::before(front, key) {
                continue;
            }
            self.queues[llc].remove(task);
            self.queues[llc].insert(front, task);
            self.tasks[task].key_ns = front;
            self.counters.rescued += 1;
        }
    }

    /// `timer_fire`.
    pub(crate) fn timer_fire(&mut self) {
        if !self.held.is_empty() {
            let all_idle = !self.cpus_busy(None);
            self.hold_kick_idle(all_idle);
        }
        self.timer_periods += 1;
        if self.timer_periods.is_multiple_of(RESCUE_PERIODS) {
            for llc in 0..self.queues.len() {
                self.rescue_queue(llc);
            }
        }
    }
}

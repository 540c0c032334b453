// SPDX-License-Identifier: GPL-2.0-only
//! The callbacks of the scheduler (`main.bpf.c` and `task.bpf.h`).

use crate::cpu::TaskId;
use crate::engine::Sim;
use crate::ffi;
use crate::task::TaskState;

impl Sim {
    /// Into the local queue of `cpu`.
    pub(crate) fn local_insert(&mut self, task: TaskId, cpu: usize) {
        self.tasks[task].cpu = cpu;
        self.tasks[task].state = TaskState::Local(cpu);
        self.cpus[cpu].local.push_back(task);
    }

    /// `dispatch_local`: ahead of all queues, with S as it is.
    fn dispatch_local(&mut self, task: TaskId, cpu: usize) {
        self.tasks[task].key_ns = self.tasks[task].flow.start();
        self.local_insert(task, cpu);
        self.resched(cpu);
    }

    fn pinned(&self, task: TaskId) -> bool {
        self.tasks[task].allowed.count(self.cpus.len()) == 1
    }

    /// `ops.select_cpu`: whether the task was sent to an idle CPU. The kernel
    /// does not call it for a task that has no choice.
    pub(crate) fn select_cpu(&mut self, task: TaskId, wakeup: bool) -> bool {
        if self.pinned(task) {
            return false;
        }
        if wakeup {
            self.task_wake(task);
            if self.hold_needed(task) {
                return false;
            }
        }
        let Some(cpu) = self.select_idle(task) else {
            return false;
        };
        self.dispatch_local(task, cpu);
        self.counters.direct += 1;
        true
    }

    fn goes_to_local_dsq(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.kthread
            && self.pinned(task)
            && t.woken
            && !ffi::before(
                self.v_ns.wrapping_add(self.config.conf.hold_ns),
                t.flow.start(),
            )
    }

    fn queue_key(&mut self, task: TaskId) -> u64 {
        let t = &self.tasks[task];
        let mut after = t.flow;
        let slot = &mut self.cpus[t.cpu].slot;
        if slot.yielded != Some(task) {
            return after.start();
        }
        slot.yielded = None;
        after.charge(&self.config.conf, self.config.slice_ns, 0, self.busy_cpus);
        after.start()
    }

    /// `ops.enqueue`. `cpu_selected`: `select_cpu` was called and found none.
    pub(crate) fn enqueue(&mut self, task: TaskId, wakeup: bool, cpu_selected: bool) {
        if wakeup && !self.tasks[task].woken {
            self.task_wake(task);
        }
        let start = self.tasks[task].flow.start();
        if self.goes_to_local_dsq(task) {
            let cpu = self.tasks[task].cpu;
            self.cpus[cpu].idle = false;
            self.dispatch_local(task, cpu);
            self.preempt_cpu(cpu, start);
            self.counters.local_kthreads += 1;
            return;
        }
        if self.hold_needed(task) {
            self.hold_insert(task);
            return;
        }
        let key = self.queue_key(task);
        self.queue_insert(task, key);
        // A debtor's select_cpu looked for no idle CPU.
        let looked = cpu_selected && !self.tasks[task].indebted;
        if !looked && self.kick_idle_for(task) {
            return;
        }
        if wakeup {
            self.preempt_for(task, start);
        }
    }

    /// The task on the CPU goes on with a new packet. `head_ns`: S of the first
    /// task that waits for this CPU.
    fn continue_running(&mut self, cpu: usize, prev: TaskId, head_ns: Option<u64>) {
        self.cpus[cpu].slot.yielded = None;
        let start = self.cpus[cpu].slot.charged_vtime_ns;
        let reference = head_ns.map_or(self.v_ns, |head| ffi::earlier(self.v_ns, head));
        let start = self.task_start_packet(prev, start, head_ns.is_some(), reference);
        self.start_packet(cpu, start);
        self.cpus[cpu].slice_ns = self.config.slice_ns;
        self.counters.continued += 1;
    }

    /// `ops.dispatch`: fills the local queue of `cpu`, or lets `prev`, still
    /// runnable on it, go on with a new packet.
    pub(crate) fn dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let llc = self.cpus[cpu].llc;
        let held = !self.held.is_empty();
        if held {
            self.hold_release(llc, false);
        }
        let found = self.queue_choose(cpu);
        if let (Some(prev), Some((_, start))) = (prev, found) {
            let slot = &self.cpus[cpu].slot;
            if slot.yielded != Some(prev) && !ffi::before(start, slot.charged_vtime_ns) {
                self.continue_running(cpu, prev, Some(start));
                return;
            }
        }
        if self.queue_take_any(cpu, found.map_or(llc, |(queue, _)| queue)) {
            return;
        }
        if let Some(prev) = prev {
            self.continue_running(cpu, prev, None);
            return;
        }
        if held && !self.cpus_busy(Some(cpu)) && self.hold_release(llc, true) {
            self.queue_take_any(cpu, llc);
        }
        self.kick_idle_for_queued();
    }

    /// `ops.running`: the packet starts.
    pub(crate) fn running(&mut self, cpu: usize, task: TaskId) {
        let mut start = self.tasks[task].key_ns;
        let cap_ns = self.config.conf.cap_ns;
        if ffi::before(self.v_ns.wrapping_add(cap_ns), start) {
            start = self.start_beyond_cap(cpu, task, start);
        }
        self.start_packet(cpu, start);
        self.counters.switches += 1;
    }

    /// `start_beyond_cap`: S of a packet that starts further beyond V than the cap. If
    /// one that may run here waits with an earlier S, this one was taken out of
    /// order.
    fn start_beyond_cap(&mut self, cpu: usize, task: TaskId, start: u64) -> u64 {
        let llc = self.cpus[cpu].llc;
        match self.queue_first(cpu, llc) {
            Some((head, _)) if ffi::before(head, start) => start,
            _ => {
                let contended = !self.queues[llc].is_empty();
                self.task_start_packet(task, start, contended, start)
            }
        }
    }

    /// `ops.tick`.
    pub(crate) fn tick(&mut self, cpu: usize, task: TaskId) {
        self.task_charge(cpu, task, false);
        self.cpus[cpu].slot.charged_vtime_ns = self.tasks[task].flow.start();
        // What is left may be the few us from the last tick to the switch: to
        // wait for the next tick would double the slice.
        if self.cpus[cpu].slice_ns < self.config.slice_ns / 8 {
            self.cpus[cpu].slice_ns = 0;
        }
        if !self.held.is_empty() {
            self.hold_kick_idle(false);
        }
    }

    /// `ops.stopping`: the packet ends.
    pub(crate) fn stopping(&mut self, cpu: usize, task: TaskId, runnable: bool) {
        self.task_charge(cpu, task, !runnable);
        self.tasks[task].woken = false;
        self.tasks[task].indebted = false;
        self.hold_end(task);
        self.cpus[cpu].slot.busy = false;
    }

    /// `ops.update_idle`: `cpu` has become idle, or is not any more.
    pub(crate) fn update_idle(&mut self, cpu: usize, idle: bool) {
        if !idle {
            self.busy_cpus += 1;
            self.kick_idle_for_queued();
            return;
        }
        self.busy_cpus -= 1;
        let old = self.cpus[cpu].slot.vtime_ns;
        self.vtime_refresh(old);
        if !self.held.is_empty() {
            let all_idle = !self.cpus_busy(None);
            self.hold_kick_idle(all_idle);
        }
    }

    /// `ops.yield`.
    pub(crate) fn yield_task(&mut self, cpu: usize, task: TaskId) {
        self.cpus[cpu].slot.yielded = Some(task);
        self.cpus[cpu].slice_ns = 0;
        self.counters.yields += 1;
    }

    /// `task_charge`: charges the running packet up to now.
    fn task_charge(&mut self, cpu: usize, task: TaskId, blocks: bool) {
        let given = self.memory.take(self.now_ns, cpu);
        let t = &mut self.tasks[task];
        let run_ns = t.report.cpu_ns - t.charged_ns;
        t.charged_ns = t.report.cpu_ns;
        t.report.bytes += given;
        let mut bytes = given;
        if !blocks {
            bytes += t.pending_dma_bytes;
            t.report.dma_bytes += std::mem::take(&mut t.pending_dma_bytes);
        }
        t.flow
            .charge(&self.config.conf, run_ns, bytes, self.busy_cpus);
    }

    /// `task_wake`: a blocked packet ends (4.5, 4.7).
    fn task_wake(&mut self, task: TaskId) {
        let v = self.vtime_local(self.tasks[task].cpu);
        let t = &mut self.tasks[task];
        let bytes = std::mem::take(&mut t.pending_dma_bytes);
        t.report.dma_bytes += bytes;
        t.woken = true;
        // 4.10 is about what devices moved, not about CPU time at a low weight.
        t.indebted |= bytes > 0;
        t.flow.wake(&self.config.conf, v, bytes);
        self.counters.wakeups += 1;
    }

    /// `start_packet`: a packet starts at `start` on `cpu`.
    fn start_packet(&mut self, cpu: usize, start: u64) {
        let old = self.cpus[cpu].slot.vtime_ns;
        let slot = &mut self.cpus[cpu].slot;
        slot.preempt_pending = false;
        slot.charged_vtime_ns = start;
        slot.vtime_ns = start;
        slot.busy = true;
        self.vtime_refresh(old);
    }

    /// `task_start_packet`: S, corrected if it is far from V. What a flow used
    /// while nobody else wanted it is forgiven beyond the cap (Algorithm 2); if
    /// others wait, V is raised instead, or their order would be wrong. And it is
    /// no further than C behind `reference_ns`.
    fn task_start_packet(
        &mut self,
        task: TaskId,
        start_ns: u64,
        contended: bool,
        reference_ns: u64,
    ) -> u64 {
        let conf = &self.config.conf;
        let flow = &mut self.tasks[task].flow;
        if ffi::before(self.v_ns.wrapping_add(conf.cap_ns), start_ns) {
            if contended {
                self.v_ns = ffi::advance(self.v_ns, conf.contended_v(start_ns));
                self.counters.v_pulled += 1;
                return start_ns;
            }
            flow.cap(conf, self.v_ns);
            self.counters.capped += 1;
        } else if ffi::before(start_ns, reference_ns.wrapping_sub(conf.wake_credit_ns)) {
            flow.lift(conf, reference_ns);
            self.counters.lifted += 1;
        } else {
            return start_ns;
        }
        flow.start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, MS, TaskSpec, Trace};

    /// Three hogs on two CPUs; CPU 0 takes the third far beyond V, while the one
    /// that it ran waits, `waits_at` ns after the third.
    fn take_far_beyond_v(waits_at: i64) -> Sim {
        let hogs = (0..3).map(|i| TaskSpec::new(format!("hog{i}"), Trace::hog()));
        let mut sim = Sim::new(Config::new(2), hogs.collect());
        sim.run_until(30 * MS);
        let queued = (0..3).find(|t| matches!(sim.tasks[*t].state, TaskState::Queued(_)));
        let (taken, waits) = (queued.unwrap(), sim.cpus[0].current.unwrap());
        let start = sim.v_ns.wrapping_add(sim.config.conf.cap_ns + 100 * MS);
        sim.queues[0].remove(taken);
        sim.tasks[taken].key_ns = start;
        sim.queues[0].insert(start.wrapping_add_signed(waits_at), waits);
        sim.running(0, taken);
        assert_eq!(sim.counters.capped, 0);
        sim
    }

    #[test]
    fn a_packet_taken_out_of_order_does_not_pull_v() {
        let sim = take_far_beyond_v(-(MS as i64));
        assert_eq!(sim.v_ns, sim.cpus[1].slot.vtime_ns);
    }

    #[test]
    fn a_packet_that_is_the_earliest_pulls_v() {
        let sim = take_far_beyond_v(MS as i64);
        let start = sim.cpus[0].slot.vtime_ns;
        assert_eq!(sim.v_ns, start - sim.config.conf.cap_ns);
    }
}

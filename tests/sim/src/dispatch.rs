// SPDX-License-Identifier: GPL-2.0-only
//! The callbacks of the scheduler (`main.bpf.c` and `task.bpf.h`).

use crate::engine::Sim;
use crate::ffi::{self, Flow};
use crate::machine::TaskId;
use crate::task::State;

impl Sim {
    /// Into the local queue of `cpu`.
    pub(crate) fn local_insert(&mut self, task: TaskId, cpu: usize) {
        self.tasks[task].cpu = cpu;
        self.tasks[task].state = State::Local(cpu);
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
            if self.hold_wanted(task) {
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

    fn goes_local(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.kthread
            && self.pinned(task)
            && t.woken
            && !self.config.conf.held(t.hold_ns, self.v_ns)
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
        if self.goes_local(task) {
            let cpu = self.tasks[task].cpu;
            self.cpus[cpu].idle = false;
            self.dispatch_local(task, cpu);
            self.preempt_cpu(cpu, start);
            self.counters.local_kthreads += 1;
            return;
        }
        if self.hold_wanted(task) {
            self.hold(task);
            return;
        }
        let key = self.queue_key(task);
        self.queue_insert(task, key);
        if !cpu_selected && self.kick_idle_for(task) {
            return;
        }
        if wakeup {
            self.preempt_for(task, start);
        }
    }

    /// The task on the CPU goes on with a new packet. `contended`: although
    /// another one waits.
    fn keep(&mut self, cpu: usize, prev: TaskId, contended: bool) {
        self.cpus[cpu].slot.yielded = None;
        self.start_packet(cpu, prev, contended);
        self.cpus[cpu].slice_ns = self.config.slice_ns;
        self.counters.kept += 1;
    }

    /// `ops.dispatch`: fills the local queue of `cpu`, or lets `prev`, still
    /// runnable on it, go on with a new packet.
    pub(crate) fn dispatch(&mut self, cpu: usize, prev: Option<TaskId>) {
        let llc = self.cpus[cpu].llc;
        let held = !self.held.is_empty();
        if held {
            self.hold_release(llc, false);
        }
        let (queue, head) = self.queue_choose(cpu);
        if let (Some(prev), Some(start)) = (prev, head) {
            let slot = &self.cpus[cpu].slot;
            if slot.yielded != Some(prev) && !ffi::before(start, slot.vtime_ns) {
                self.keep(cpu, prev, true);
                return;
            }
        }
        if self.queue_take_any(cpu, queue) {
            return;
        }
        if let Some(prev) = prev {
            self.keep(cpu, prev, false);
        } else if held && !self.cpus_busy(Some(cpu)) && self.hold_release(llc, true) {
            self.queue_take_any(cpu, llc);
        }
    }

    /// `ops.running`: the packet starts.
    pub(crate) fn running(&mut self, cpu: usize, task: TaskId) {
        let old = self.cpus[cpu].slot.vtime_ns;
        let contended = std::mem::take(&mut self.cpus[cpu].slot.from_queue);
        self.start_packet(cpu, task, contended);
        self.cpus[cpu].slot.busy = true;
        self.counters.switches += 1;
        self.vtime_refresh(old);
    }

    /// `ops.tick`.
    pub(crate) fn tick(&mut self, cpu: usize, task: TaskId) {
        let old = self.cpus[cpu].slot.vtime_ns;
        self.task_charge(cpu, task, false);
        self.cpus[cpu].slot.vtime_ns = self.tasks[task].flow.start();
        self.vtime_refresh(old);
        if !self.held.is_empty() {
            self.hold_poll(false);
        }
    }

    /// `ops.stopping`: the packet ends.
    pub(crate) fn stopping(&mut self, cpu: usize, task: TaskId, runnable: bool) {
        self.task_charge(cpu, task, !runnable);
        self.tasks[task].woken = false;
        self.hold_end(task);
        self.cpus[cpu].slot.busy = false;
    }

    /// `ops.update_idle`.
    pub(crate) fn update_idle(&mut self, cpu: usize) {
        let old = self.cpus[cpu].slot.vtime_ns;
        self.vtime_refresh(old);
        if !self.held.is_empty() {
            let alone = !self.cpus_busy(None);
            self.hold_poll(alone);
        }
    }

    /// `ops.init_task` of a fork: the child starts at V (4.8), but not before its
    /// parent, or a chain of short-lived tasks would never age.
    pub(crate) fn init_task(&mut self, task: TaskId, parent: Option<(usize, TaskId)>) {
        let mut start = self.v_ns;
        if let Some((cpu, parent)) = parent {
            self.task_charge(cpu, parent, false);
            start = ffi::later(start, self.tasks[parent].flow.start());
        }
        let t = &mut self.tasks[task];
        t.flow = Flow::new(start, t.report.weight);
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
        t.flow.charge(&self.config.conf, run_ns, bytes, self.busy_cpus);
    }

    /// `task_wake`: a blocked packet ends (4.5, 4.7).
    fn task_wake(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        let bytes = std::mem::take(&mut t.pending_dma_bytes);
        t.report.dma_bytes += bytes;
        t.woken = true;
        // 4.5.1 is about what devices moved. CPU debt that a low weight makes of
        // one slice orders the queue, but must not idle a CPU.
        let mut seen = t.flow;
        seen.cap(&self.config.conf, self.v_ns);
        seen.wake(&self.config.conf, self.v_ns, bytes);
        t.hold_ns = seen.start();
        t.flow.wake(&self.config.conf, self.v_ns, bytes);
        self.counters.wakeups += 1;
    }

    /// A packet starts: S is published. What a flow used while nobody else
    /// wanted it is forgiven beyond the cap (Algorithm 2). If others want it, S
    /// must stay as it is, or the order among those that wait would be wrong: V
    /// is then raised instead. The floor keeps a flow that has a whole CPU, and
    /// is due more, from saving up credit.
    fn start_packet(&mut self, cpu: usize, task: TaskId, contended: bool) {
        let conf = &self.config.conf;
        let flow = &mut self.tasks[task].flow;
        if ffi::before(self.v_ns.wrapping_add(conf.cap_ns), flow.start()) {
            if contended {
                self.v_ns = ffi::advance(self.v_ns, flow.start().wrapping_sub(conf.cap_ns));
            } else {
                flow.cap(conf, self.v_ns);
                self.counters.capped += 1;
            }
        }
        flow.wake(conf, self.v_ns, 0);
        self.cpus[cpu].slot.vtime_ns = flow.start();
        self.cpus[cpu].slot.claim_ns = None;
    }
}

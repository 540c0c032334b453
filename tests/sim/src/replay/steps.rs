// SPDX-License-Identifier: GPL-2.0-only
//! The steps of `native/replay.h` as safe Rust.

use crate::cpuset::CpuSet;
use crate::kernel::{Kernel, Machine, Task, TaskId, mask};

#[repr(C)]
struct RawIdentity {
    static_prio: i32,
    policy: u32,
    flags: u32,
    start_ns: u64,
    leader: *mut Task,
}

unsafe extern "C" {
    fn replay_set_stolen(m: *mut Machine, cpu: i32, ns: u64);
    fn replay_set_draw(m: *mut Machine, draw: i64);
    fn replay_set_idle_hint(m: *mut Machine, cpu: i32);
    fn replay_set_identity(m: *mut Machine, p: *mut Task, id: *const RawIdentity);
    fn replay_select(m: *mut Machine, now_ns: u64, p: *mut Task, cpu: i32, flags: u64) -> i32;
    fn replay_enqueue(m: *mut Machine, now_ns: u64, p: *mut Task, cpu: i32, flags: u64);
    fn replay_dequeue(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn replay_force(m: *mut Machine, now_ns: u64, cpu: i32, p: *mut Task);
    fn replay_change_cpus(m: *mut Machine, now_ns: u64, p: *mut Task, allowed: *const u64);
    fn replay_exit(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn replay_nr_queued(m: *const Machine) -> u32;
}

/// What a trace tells of a task beside its cgroup and its CPUs.
#[derive(Clone, Copy, Debug)]
pub struct TaskIdentity {
    /// The kernel's `static_prio`.
    pub prio: i32,
    /// Scheduling policy.
    pub policy: u32,
    /// `PF_*`.
    pub flags: u32,
    /// S to start from, if known, virtual ns.
    pub start_ns: Option<u64>,
    /// The leader of its thread group, if that is another task.
    pub leader: Option<TaskId>,
}

impl Kernel {
    /// Time that interrupts have taken from `cpu`, ns.
    pub fn replay_set_stolen(&mut self, cpu: usize, ns: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_set_stolen(m, cpu as i32, ns) });
    }

    /// What the next random draws are; `None`: random.
    pub fn replay_set_draw(&mut self, draw: Option<u32>) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_set_draw(m, draw.map_or(-1, i64::from)) });
    }

    /// Which of several idle CPUs is chosen from now on; `None`: the first.
    pub fn replay_set_idle_hint(&mut self, cpu: Option<usize>) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_set_idle_hint(m, cpu.map_or(-1, |cpu| cpu as i32)) });
    }

    /// The task is what the trace says.
    pub fn replay_set_identity(&mut self, task: TaskId, identity: &TaskIdentity) {
        let raw = RawIdentity {
            static_prio: identity.prio,
            policy: identity.policy,
            flags: identity.flags,
            start_ns: identity.start_ns.unwrap_or(0),
            leader: identity
                .leader
                .map_or(std::ptr::null_mut(), |leader| self.task_pointer(leader)),
        };
        let p = self.task_pointer(task);
        // SAFETY: machine and tasks live.
        self.with(|m| unsafe { replay_set_identity(m, p, &raw const raw) });
    }

    /// `ops.select_cpu`, called on `cpu`; the CPU that it chose.
    pub fn replay_select(&mut self, now_ns: u64, task: TaskId, cpu: usize, flags: u64) -> usize {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_select(m, now_ns, p, cpu as i32, flags) }) as usize
    }

    /// `enqueue_task_scx()` on the run queue of `cpu`.
    pub fn replay_enqueue(&mut self, now_ns: u64, task: TaskId, cpu: usize, flags: u64) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_enqueue(m, now_ns, p, cpu as i32, flags) });
    }

    /// `dequeue_task_scx()`.
    pub fn replay_dequeue(&mut self, now_ns: u64, task: TaskId) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_dequeue(m, now_ns, p) });
    }

    /// `cpu` runs `task`, or idles, whatever the scheduler decided.
    pub fn replay_force(&mut self, now_ns: u64, cpu: usize, task: Option<TaskId>) {
        let p = task.map_or(std::ptr::null_mut(), |task| self.task_pointer(task));
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_force(m, now_ns, cpu as i32, p) });
    }

    /// The task's affinity changes, where it is.
    pub fn replay_change_cpus(&mut self, now_ns: u64, task: TaskId, allowed: CpuSet) {
        let words = mask(allowed, CpuSet::CPUS);
        let p = self.task_pointer(task);
        // SAFETY: machine and task live; the mask has the length of a cpumask.
        self.with(|m| unsafe { replay_change_cpus(m, now_ns, p, words.as_ptr()) });
    }

    /// The task is gone.
    pub fn replay_exit(&mut self, now_ns: u64, task: TaskId) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_exit(m, now_ns, p) });
    }

    /// Tasks that wait on any queue of the scheduler.
    pub fn replay_nr_queued(&self) -> usize {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_nr_queued(m) }) as usize
    }
}

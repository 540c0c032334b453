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
    fn replay_begin(m: *mut Machine);
    fn replay_kicks(m: *mut Machine, cpu: i32);
    fn replay_set_identity(m: *mut Machine, p: *mut Task, id: *const RawIdentity);
    fn replay_adopt(m: *mut Machine, p: *mut Task, cpu: i32);
    fn replay_dequeue(m: *mut Machine, now_ns: u64, p: *mut Task, sleeps: bool);
    fn replay_force(m: *mut Machine, now_ns: u64, cpu: i32, p: *mut Task);
    fn replay_change_cpus(m: *mut Machine, now_ns: u64, p: *mut Task, allowed: *const u64);
    fn replay_requeue(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn replay_exit(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn replay_set_stays(p: *mut Task, stays: bool);
    fn replay_key(p: *const Task) -> u64;
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

    /// A recording begins, long after the scheduler was loaded. From now on, kicks wait for
    /// [`Self::replay_kicks`].
    pub fn replay_begin(&mut self) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_begin(m) });
    }

    /// `kick_cpus_irq_workfn()` on `cpu`.
    pub fn replay_kicks(&mut self, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_kicks(m, cpu as i32) });
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

    /// The task runs on `cpu` when the recording begins.
    pub fn replay_adopt(&mut self, task: TaskId, cpu: usize) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_adopt(m, p, cpu as i32) });
    }

    /// `dequeue_task_scx()`. `sleeps`: the task blocks, and does not migrate.
    pub fn replay_dequeue(&mut self, now_ns: u64, task: TaskId, sleeps: bool) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_dequeue(m, now_ns, p, sleeps) });
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

    /// The task is taken from its run queue and put back, as it is.
    pub fn replay_requeue(&mut self, now_ns: u64, task: TaskId) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_requeue(m, now_ns, p) });
    }

    /// The task is gone.
    pub fn replay_exit(&mut self, now_ns: u64, task: TaskId) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { replay_exit(m, now_ns, p) });
    }

    /// Whether the task must not migrate for now.
    pub fn replay_set_stays(&mut self, task: TaskId, stays: bool) {
        let p = self.task_pointer(task);
        // SAFETY: the task lives as long as the machine.
        self.with(|_| unsafe { replay_set_stays(p, stays) });
    }

    /// The task's `dsq_vtime`, virtual ns.
    pub fn replay_key(&self, task: TaskId) -> u64 {
        let p = self.task_pointer(task);
        // SAFETY: the task lives as long as the machine.
        self.with(|_| unsafe { replay_key(p) })
    }

    /// Tasks that wait on any queue of the scheduler.
    pub fn replay_nr_queued(&self) -> usize {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { replay_nr_queued(m) }) as usize
    }
}

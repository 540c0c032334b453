// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that are about to end or to sleep, or leave for another scheduling class.

use crate::kernel::{Kernel, Machine, Task, TaskId};

unsafe extern "C" {
    fn machine_join_class(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn machine_kill(p: *mut Task);
    fn machine_leave_class(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn machine_reap(p: *mut Task);
    fn machine_set_about_to_sleep(p: *mut Task, sleeps: bool);
}

impl Kernel {
    /// Sends SIGKILL to the task's process. The task goes on until its trace ends.
    pub fn kill(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_kill(p) });
    }

    /// The sleeping task changes to another scheduling class, and runs there.
    pub fn leave_class(&mut self, now_ns: u64, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_leave_class(m, now_ns, p) });
    }

    /// It sleeps there, and comes back.
    pub fn join_class(&mut self, now_ns: u64, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_join_class(m, now_ns, p) });
    }

    /// The running task has ended but for its last switch, and its parent has reaped it. No
    /// thread id finds it from now on.
    pub fn reap(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_reap(p) });
    }

    /// The running task has set its state, so that its next call of `schedule()` blocks it; or it
    /// has set its state back.
    pub fn set_about_to_sleep(&mut self, task: TaskId, sleeps: bool) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_set_about_to_sleep(p, sleeps) });
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that are about to end.

use crate::kernel::{Kernel, Task, TaskId};

unsafe extern "C" {
    fn machine_kill(p: *mut Task);
    fn machine_reap(p: *mut Task);
}

impl Kernel {
    /// Sends SIGKILL to the task's process. The task goes on until its trace ends.
    pub fn kill(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_kill(p) });
    }

    /// The running task has ended but for its last switch, and its parent has reaped it. No
    /// thread id finds it from now on.
    pub fn reap(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_reap(p) });
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What tests of one rule or callback do to the kernel.

use crate::kernel::{Kernel, Machine, Task, TaskId};

/// The queue of the first LLC (enum drfq_dsq).
const DRFQ_DSQ_LLC: u64 = 0x100;

unsafe extern "C" {
    fn machine_test_place(m: *mut Machine, p: *mut Task, dsq_id: u64, vtime: u64);
    fn machine_test_run(m: *mut Machine, p: *mut Task, cpu: i32, vtime: u64);
    fn machine_test_choice(m: *mut Machine, cpu: i32) -> u64;
}

impl Kernel {
    /// For a test of one rule: the number of the queue from which `cpu` would take a task now.
    pub fn test_choice(&mut self, cpu: usize) -> Option<usize> {
        // SAFETY: the machine lives.
        let dsq = self.with(|m| unsafe { machine_test_choice(m, cpu as i32) });
        (dsq != 0).then(|| (dsq - DRFQ_DSQ_LLC) as usize)
    }

    /// For a test of one callback: puts a task on the queue of that number at a virtual time.
    pub fn test_queue(&mut self, task: TaskId, queue: usize, vtime_ns: u64) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_test_place(m, p, DRFQ_DSQ_LLC + queue as u64, vtime_ns) });
    }

    /// For a test of one callback: a packet of the task starts at a virtual time on `cpu`.
    pub fn test_run(&mut self, task: TaskId, cpu: usize, vtime_ns: u64) {
        let p = self.task_pointer(task);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_test_run(m, p, cpu as i32, vtime_ns) });
    }
}

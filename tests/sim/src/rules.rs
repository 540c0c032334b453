// SPDX-License-Identifier: GPL-2.0-only
//! What the agent does: weights by rules, and paces.

use crate::kernel::{Cgroup, CgroupId, Kernel, Machine, Task, TaskId};

unsafe extern "C" {
    fn machine_rule_cgroup(m: *mut Machine, cgroup: *mut Cgroup, weight: u32);
    fn machine_rule_task(m: *mut Machine, p: *mut Task, weight: u32);
    fn machine_pace(m: *mut Machine, index: u32, ns_per_byte_q32: u64);
    fn machine_pace_group(m: *mut Machine, p: *mut Task, index: u32);
    fn machine_pace_paid(m: *mut Machine, index: u32) -> u64;
}

impl Kernel {
    /// A rule of the agent gives a group this weight, in units of 1 / `DRFQ_WEIGHT_ONE`.
    pub fn rule_cgroup(&mut self, group: CgroupId, weight: u32) {
        let group = self.groups[group];
        // SAFETY: machine and group live.
        self.with(|m| unsafe { machine_rule_cgroup(m, group, weight) });
    }

    /// A rule of the agent gives a task this weight, in units of 1 / `DRFQ_WEIGHT_ONE`; 0: that
    /// of its nice value again.
    pub fn rule_task(&mut self, task: TaskId, weight: u32) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_rule_task(m, p, weight) });
    }

    /// The agent lets the group `index` (at least 1) move `bytes_per_s`; none: any amount.
    pub fn pace(&mut self, index: u32, bytes_per_s: Option<u64>) {
        let rate = bytes_per_s.map_or(0, |rate| (crate::SEC << 32) / rate);
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_pace(m, index, rate) });
    }

    /// The agent puts a task into the group `index`; 0: into none.
    pub fn pace_group(&mut self, task: TaskId, index: u32) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_pace_group(m, p, index) });
    }

    /// What the tasks of the group `index` moved, without what was ahead of its pace (bytes).
    pub fn pace_paid(&mut self, index: u32) -> u64 {
        let mut paid = 0;
        // SAFETY: the machine lives.
        self.with(|m| paid = unsafe { machine_pace_paid(m, index) });
        paid
    }
}

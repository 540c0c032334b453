// SPDX-License-Identifier: GPL-2.0-only
//! What the agent's rules do.

use crate::kernel::{Cgroup, CgroupId, Kernel, Machine, Task, TaskId};

unsafe extern "C" {
    fn machine_rule_cgroup(m: *mut Machine, cgroup: *mut Cgroup, weight: u32);
    fn machine_rule_task(m: *mut Machine, p: *mut Task, weight: u32);
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
}

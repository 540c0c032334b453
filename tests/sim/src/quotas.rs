// SPDX-License-Identifier: GPL-2.0-only
//! Writes to `cpu.max` and `cpu.idle`.

use crate::kernel::{Cgroup, CgroupId, Kernel, Machine};

unsafe extern "C" {
    fn machine_cgroup_set_quota(m: *mut Machine, group: *mut Cgroup, period_us: u64, quota_us: u64);
    fn machine_cgroup_set_idle(m: *mut Machine, group: *mut Cgroup, idle: bool);
}

impl Kernel {
    /// Writes `cpu.max`; a quota of 0 stands for `max`.
    pub fn cgroup_set_quota(&mut self, group: CgroupId, quota_us: u64, period_us: u64) {
        let group = self.groups[group];
        // SAFETY: machine and group live.
        self.with(|m| unsafe { machine_cgroup_set_quota(m, group, period_us, quota_us) });
    }

    /// Writes `cpu.idle`.
    pub fn cgroup_set_idle(&mut self, group: CgroupId, idle: bool) {
        let group = self.groups[group];
        // SAFETY: machine and group live.
        self.with(|m| unsafe { machine_cgroup_set_idle(m, group, idle) });
    }
}

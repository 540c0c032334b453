// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler is loaded again, as after hotplug or an upgrade.

use crate::config::Config;
use crate::engine::Sim;
use crate::kernel::{Kernel, Machine, Task, TaskId};
use crate::options::{Options, with_options};

unsafe extern "C" {
    fn machine_curr(m: *const Machine, cpu: i32) -> *mut Task;
    fn machine_restart(m: *mut Machine, now_ns: u64, options: *const Options);
    fn machine_bypass(m: *mut Machine, now_ns: u64, bypassed: bool);
    fn machine_busy_cpus(m: *mut Machine) -> u32;
    fn machine_idle_at_load(m: *mut Machine, loads: u32);
}

impl Kernel {
    /// The kernel bypasses the scheduler from now on, as in suspend, or no longer.
    pub fn bypass(&mut self, now_ns: u64, bypassed: bool) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_bypass(m, now_ns, bypassed) });
    }

    /// How many CPUs count as busy for the scheduler.
    pub fn busy_cpus(&self) -> u32 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_busy_cpus(m) })
    }

    /// Just before the scheduler loads that number so many times from now, it is one less: another CPU
    /// becomes idle. 0: it does not.
    pub fn idle_at_load(&mut self, loads: u32) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_idle_at_load(m, loads) });
    }

    /// Ends the scheduler and loads it again with the accounts of the tasks.
    fn restart(&mut self, now_ns: u64, config: &Config) {
        with_options(config, |options| {
            // SAFETY: machine and options live.
            self.with(|m| unsafe { machine_restart(m, now_ns, options) });
        });
    }

    fn current(&self, cpu: usize) -> Option<TaskId> {
        // SAFETY: the machine lives.
        let task = self.with(|m| unsafe { machine_curr(m, cpu as i32) });
        (!task.is_null()).then(|| self.number_of(task))
    }
}

impl Sim {
    /// The agent loads the scheduler again, now. No time passes.
    pub(crate) fn restart(&mut self) {
        self.kernel.restart(self.now_ns, &self.config);
        for cpu in 0..self.cpus.len() {
            self.switch_to(cpu, self.kernel.current(cpu));
        }
    }
}

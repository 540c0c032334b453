// SPDX-License-Identifier: GPL-2.0-only
//! A FAKE controller and a FAKE scheduler in memory, for tests of the drivers.

use std::collections::HashMap;

use crate::{
    interface::{identity, offset},
    registers::{Access, Demand, Fault, HwId, Op, Registers, pid_core, traffic, vtime_core},
    scheduler_view::{Charging, RunningTask, SchedulerView, TaskUsage},
};

/// Registers without a memory behind them.
pub struct FakeController {
    registers: HashMap<u64, u64>,
    pub writes: u64,
    pub batches: u64,
    /// Number of accesses that a batch carries out before it fails.
    pub fails_after: Option<usize>,
    pub demands: HashMap<HwId, Demand>,
    pub time_ps: u64,
}

impl FakeController {
    pub fn new(pids: u64, cores: u64) -> Self {
        let registers = [
            (offset::ID, identity::ID),
            (offset::VERSION, identity::VERSION),
            (offset::PIDS, pids),
            (offset::CORES, cores),
        ];
        Self {
            registers: registers.into(),
            writes: 0,
            batches: 0,
            fails_after: None,
            demands: HashMap::new(),
            time_ps: 0,
        }
    }

    /// (pid_coreId, virtualTime_coreId) of a core.
    pub fn label(&self, core: u32) -> (u64, u64) {
        let value = |offset| self.registers.get(&offset).copied().unwrap_or(0);
        (value(pid_core(core)), value(vtime_core(core)))
    }

    /// Counts traffic for the id that the core carries.
    pub fn move_bytes(&mut self, core: u32, bytes: u64) {
        self.count(self.label(core).0 as HwId, bytes);
    }

    /// Counts traffic of an id.
    pub fn count(&mut self, id: HwId, bytes: u64) {
        *self.registers.entry(traffic(id)).or_default() += bytes;
    }
}

impl Registers for FakeController {
    fn batch(&mut self, accesses: &mut [Access]) -> Result<u64, Fault> {
        self.batches += 1;
        self.time_ps += 1000;
        for (at, access) in accesses.iter_mut().enumerate() {
            if self.fails_after.is_some_and(|answered| at >= answered) {
                return Err(Fault::Gone("the fake failed".into()));
            }
            let register = self.registers.entry(access.offset).or_default();
            match access.op {
                Op::Write => {
                    *register = access.value;
                    self.writes += 1;
                }
                Op::Read | Op::Peek => access.value = *register,
            }
            if access.op == Op::Read && access.offset >= offset::TRAFFIC {
                *register = 0;
            }
            access.done = true;
        }
        Ok(self.time_ps)
    }

    fn demand(&mut self, demands: &[Demand]) -> Result<(), Fault> {
        self.demands.extend(demands.iter().map(|d| (d.id, *d)));
        Ok(())
    }
}

/// Tasks and CPUs that a test sets as it likes.
#[derive(Default)]
pub struct FakeScheduler {
    pub running: Vec<RunningTask>,
    pub tasks: Vec<TaskUsage>,
    pub charged: HashMap<u32, u64>,
    pub assigned: Vec<(u32, HwId)>,
    pub device_vtimes: HashMap<HwId, u64>,
    /// Another source charges the tasks.
    pub has_pmu: bool,
}

impl FakeScheduler {
    /// Adds tasks that have used nothing yet.
    pub fn add_tasks(&mut self, pids: &[u32]) {
        self.tasks.extend(pids.iter().map(|&pid| TaskUsage {
            pid,
            ..TaskUsage::default()
        }));
    }

    /// Adds traffic to a task.
    pub fn use_bytes(&mut self, pid: u32, bytes: u64) {
        for task in self.tasks.iter_mut().filter(|task| task.pid == pid) {
            task.bytes += bytes;
        }
    }
}

impl SchedulerView for FakeScheduler {
    fn running(&mut self) -> &[RunningTask] {
        &self.running
    }

    fn device_vtime(&self, id: HwId) -> u64 {
        self.device_vtimes[&id]
    }

    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String> {
        Ok(self.tasks.clone())
    }

    fn assign(&mut self, pid: u32, id: HwId) {
        self.assigned.push((pid, id));
    }

    fn charging(&self) -> Charging {
        if self.has_pmu {
            Charging::Missed
        } else {
            Charging::All
        }
    }

    fn charge(&mut self, pid: u32, bytes: u64) {
        *self.charged.entry(pid).or_default() += bytes;
    }

    fn machine_share(&self, cpu_ns: u64, _: u64, interval_ns: u64) -> f64 {
        cpu_ns as f64 / interval_ns.max(1) as f64
    }
}

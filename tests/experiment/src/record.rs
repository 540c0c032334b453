// SPDX-License-Identifier: GPL-2.0-only
//! What one run measured; one line of results.jsonl.

use crate::hold::Debt;
use crate::process::Usage;
use serde::Serialize;
use serde_json::Value;

/// One case under one scheduler, once.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the case.
    pub case: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Release of the kernel.
    pub kernel: String,
    /// Its processes.
    pub tasks: Vec<TaskRecord>,
    /// CPUs that idled, on average; where the kernel says so.
    pub idle_cpus: f64,
    /// CPUs that the scheduler's agent used, on average.
    pub agent_cpus: f64,
    /// Injected debts.
    pub debts: Vec<Debt>,
    /// What scx_drfq counted in all, by event; `null` for other schedulers.
    pub events: Value,
    /// What went wrong: of the scheduler or in the kernel's log.
    pub trouble: Vec<String>,
}

/// One process over the measured time.
#[derive(Debug, Clone, Serialize)]
pub struct TaskRecord {
    /// Which of the case's tasks it is a copy of.
    pub task: usize,
    /// Name of the process.
    pub name: String,
    /// What it used over the measured time, `at_ns` being its length.
    pub used: Usage,
    /// What it says it did.
    pub report: Value,
}

impl TaskRecord {
    /// CPU time per time, CPUs.
    pub fn cpus(&self) -> f64 {
        self.used.cpu_ns as f64 / self.used.at_ns as f64
    }

    /// Page faults per ns.
    pub fn faults_per_ns(&self) -> f64 {
        self.used.faults as f64 / self.used.at_ns as f64
    }

    /// Bytes asked of block devices per ns.
    pub fn read_bytes_per_ns(&self) -> f64 {
        self.used.read_bytes as f64 / self.used.at_ns as f64
    }
}

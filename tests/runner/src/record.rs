// SPDX-License-Identifier: GPL-2.0-only
//! What one run measured; one line of results.jsonl.

use crate::debt::Debt;
use crate::process::Usage;
use crate::rows::Provenance;
use crate::scenario::{Case, Scheduler};
use crate::subject::Subject;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// One case under one scheduler, once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Record {
    /// What it measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Date of the run, if the caller told it.
    #[serde(default)]
    pub date: String,
    /// Its processes.
    pub tasks: Vec<TaskRecord>,
    /// CPUs that idled, on average; as the kernel counts them.
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Which of the case's tasks it is a copy of.
    pub task: usize,
    /// Name of the process.
    pub name: String,
    /// What it used over the measured time, `at_ns` being its length.
    pub used: Usage,
    /// Its report.
    pub report: Value,
}

impl Record {
    /// Whether it measured `case` under `scheduler`, by their names.
    pub fn is_of(&self, case: &Case, scheduler: &Scheduler) -> bool {
        self.subject.case == case.name && self.subject.scheduler == scheduler.name
    }

    /// What was measured, and when.
    pub fn provenance(&self) -> Provenance {
        Provenance {
            commit: self.subject.commit.clone(),
            date: self.date.clone(),
        }
    }

    /// The records of a results.jsonl; none if there is no such file.
    pub fn read_all(path: &Path) -> Result<Vec<Self>> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let parse = |(i, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}, line {}: no record", path.display(), i + 1))
        };
        text.lines().enumerate().map(parse).collect()
    }

    /// Makes `path` a results.jsonl of these records alone. Should that be interrupted, the file
    /// stays as it was.
    pub fn write_all(path: &Path, records: &[Self]) -> Result<()> {
        let mut text = String::new();
        for record in records {
            text += &serde_json::to_string(record)?;
            text.push('\n');
        }
        let new = path.with_extension("jsonl.new");
        std::fs::write(&new, text).with_context(|| format!("cannot write {}", new.display()))?;
        std::fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
    }
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

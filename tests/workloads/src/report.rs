// SPDX-License-Identifier: GPL-2.0-only
//! The report of a load, as JSON.

use crate::samples::Summary;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// What one load did. Counts run from the start of the load;
/// latencies from the last SIGUSR1, if there was one.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Which load this was.
    pub load: String,
    /// Process id.
    pub pid: u32,
    /// `CLOCK_MONOTONIC` at the start, ns.
    pub start_ns: u64,
    /// `CLOCK_MONOTONIC` at the end, ns.
    pub end_ns: u64,
    /// CPU time used in between, ns.
    pub cpu_ns: u64,
    /// Rounds of the load's own loop: spins, wake-ups, bursts, reads, forks or steps.
    pub rounds: u64,
    /// From the end of the warm-up to the end of the last whole step, ns. `rounds` are the steps
    /// in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_ns: Option<u64>,
    /// Fresh pages touched, each one page fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_touched: Option<u64>,
    /// Page faults that the kernel counted for this process in the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_counted: Option<u64>,
    /// Bytes moved by direct I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dma_bytes: Option<u64>,
    /// Bytes copied in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// From the requested wake-up time to the first instruction after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_latency: Option<Summary>,
    /// Every wake-up, if asked for: the requested time and that of the first
    /// instruction after it, `CLOCK_MONOTONIC`, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<(u64, u64)>,
    /// From the submission of a read to the first instruction after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_latency: Option<Summary>,
    /// From the arrival of a request to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_latency: Option<Summary>,
}

impl Report {
    /// Writes the report to `path`, or to standard output for `-`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self)?;
        if path == Path::new("-") {
            println!("{text}");
            return Ok(());
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

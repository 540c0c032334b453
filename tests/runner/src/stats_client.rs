// SPDX-License-Identifier: GPL-2.0-only
//! Client of the stats socket of a loaded scx_drfq.

use crate::process::now_ns;
use anyhow::{Context, Result};
use scx_stats::StatsClient;
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Longer than any task list.
const NO_LIMIT: &str = "1000000";

/// One answer of the socket.
#[derive(Debug, Deserialize)]
pub struct Stats {
    /// The system.
    pub system: System,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// `CLOCK_MONOTONIC` of the question and of the answer, ns. Under load
    /// they are far apart; `System::uptime_ns` says when it was counted.
    #[serde(skip)]
    pub asked_ns: (u64, u64),
}

/// The system's part.
#[derive(Debug, Deserialize)]
pub struct System {
    /// V, ns of virtual time.
    pub vtime_ns: u64,
    /// Time since the scheduler was loaded, ns.
    pub uptime_ns: u64,
    /// Everything else; the event counters are among it.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

/// A task's part.
#[derive(Debug, Deserialize)]
pub struct Task {
    /// Thread id.
    pub pid: u32,
    /// Virtual time on the CPU, ns.
    pub cpu_vt_ns: u64,
    /// Virtual time on the memory, ns.
    pub mem_vt_ns: u64,
    /// Part of the charged traffic that devices moved, bytes.
    pub dma_bytes: u64,
    /// Time held by delayed wake-up, ns; of a connection's first answer, which
    /// every answer is here: since the scheduler was loaded.
    pub held_ns: u64,
}

impl Stats {
    /// Asks the scheduler that is loaded for everything.
    pub fn ask() -> Result<Self> {
        let (mut stats, asked_ns): (Self, _) =
            request(&[("target", "tasks"), ("limit", NO_LIMIT)])?;
        stats.asked_ns = asked_ns;
        Ok(stats)
    }

    /// Asks for the system alone, which costs the agent little. Frequent readers
    /// must not keep the agent busy, because V does not advance while it runs. The
    /// agent sleeps and so starts behind V (4.7), and V is the smallest start.
    pub fn ask_system() -> Result<Self> {
        let (system, asked_ns) = request(&[("target", "top")])?;
        Ok(Self {
            system,
            tasks: Vec::new(),
            asked_ns,
        })
    }

    /// Count of an event, by its name in lower case.
    pub fn event(&self, name: &str) -> Result<u64> {
        self.system
            .rest
            .get(name)
            .and_then(serde_json::Value::as_u64)
            .with_context(|| format!("the stats of scx_drfq have no counter {name:?}"))
    }

    /// The task with thread id `pid`.
    pub fn into_task(self, pid: u32) -> Result<Task> {
        self.tasks
            .into_iter()
            .find(|task| task.pid == pid)
            .with_context(|| format!("scx_drfq has no account of thread {pid}"))
    }

    /// Contradictions among the counters; empty when they agree.
    pub fn contradictions(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for name in ["no_account", "pmu_read_errors"] {
            let count = self.event(name)?;
            if count > 0 {
                found.push(format!("{name} is {count}, not 0"));
            }
        }
        let held = self.event("held")?;
        let mut released = 0;
        for name in ["released_vtime", "released_idle", "released_bound"] {
            released += self.event(name)?;
        }
        if released > held {
            found.push(format!("{released} releases for {held} holds"));
        }
        Ok(found)
    }
}

/// An answer, and when it was asked for and given (ns).
fn request<T: DeserializeOwned>(args: &[(&str, &str)]) -> Result<(T, (u64, u64))> {
    let mut client = StatsClient::new()
        .connect(Some(10_000))
        .context("cannot connect to the stats socket of scx_drfq")?;
    let args = args.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    let before_ns = now_ns();
    let answer = client
        .request("stats", args.collect())
        .context("the stats socket of scx_drfq fails")?;
    Ok((answer, (before_ns, now_ns())))
}

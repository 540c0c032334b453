// SPDX-License-Identifier: GPL-2.0-only
//! Everything that a view shows of one interval. A recording is a series of them.

use std::{collections::BTreeMap, sync::Arc};

use drfq_stats::report::Tasks;
use serde::{Deserialize, Serialize};

/// The machine over an interval, and what its tasks belong to. Readers accept fields
/// that are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// When the interval ended (ns since 1970, CLOCK_REALTIME).
    pub at_unix_ns: u64,
    /// The system and its tasks, as the stats socket serves them.
    pub report: Tasks,
    /// What is known of processes, by process id. A process that ended before the
    /// client looked is missing.
    #[serde(with = "shared")]
    pub processes: BTreeMap<u32, Arc<Process>>,
    /// What is known of the cgroups of these processes, by path.
    pub cgroups: BTreeMap<String, Cgroup>,
    /// How busy each CPU was, whatever ran there.
    pub cpus: Vec<CpuTime>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// The name of its first thread.
    pub name: String,
    /// The name of its user, or the number.
    pub user: String,
    /// Its path in the cgroup hierarchy, which begins with `/`; empty if unknown.
    pub cgroup: String,
}

/// A cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// cpu.weight; none if the cgroup has no such file.
    pub cpu_weight: Option<u32>,
}

/// The time of a CPU over the interval, as the kernel counts it for /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTime {
    /// The CPU's number.
    pub cpu: u32,
    /// Time that it was not idle (percent).
    pub busy_pct: f64,
    /// Part of it in interrupts (percent).
    pub irq_pct: f64,
}

/// Processes in text as if they were not shared between snapshots.
mod shared {
    use super::{Arc, BTreeMap, Deserialize, Process};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        processes: &BTreeMap<u32, Arc<Process>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(processes.iter().map(|(pid, process)| (pid, &**process)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u32, Arc<Process>>, D::Error> {
        let processes = BTreeMap::<u32, Process>::deserialize(deserializer)?;
        let shared = processes.into_iter();
        Ok(shared
            .map(|(pid, process)| (pid, Arc::new(process)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_survives_json_and_missing_fields_are_default() {
        let mut snapshot = Snapshot {
            at_unix_ns: 7,
            ..Default::default()
        };
        let process = Process {
            name: "postgres".into(),
            ..Default::default()
        };
        snapshot.processes.insert(3, Arc::new(process));
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
        let old = r#"{"at_unix_ns": 7, "report": {"tasks": [{"pid": 4}]}}"#;
        let old: Snapshot = serde_json::from_str(old).unwrap();
        assert_eq!((old.at_unix_ns, old.report.tasks[0].pid), (7, 4));
    }
}

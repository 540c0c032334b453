// SPDX-License-Identifier: GPL-2.0-only
//! What the stats socket serves. The descriptions of the fields are their
//! documentation; `scx_drfq --help-stats` prints them.

use std::collections::BTreeMap;

use scx_stats::{Meta, StatsData, StatsField, StatsFieldAttrs, StatsKind, StatsMeta};
use scx_stats_derive::Stats;
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use crate::{controller_report::Controller, events::EVENTS, mba_report::Mba};

/// State of the system.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: the system", top, _om_prefix = "drfq_")]
pub struct System {
    #[stat(desc = "length of the interval that rates and shares cover (ns)")]
    pub interval_ns: u64,
    #[stat(desc = "when that interval ended (ns of CLOCK_MONOTONIC)")]
    pub at_ns: u64,
    #[stat(desc = "c: CPUs that the scheduler manages")]
    pub nr_cpus: u32,
    #[stat(desc = "CPUs that run a packet now")]
    pub busy_cpus: u32,
    #[stat(desc = "time since the scheduler was loaded (ns)")]
    pub uptime_ns: u64,
    #[stat(desc = "what --run-id gave; 0: nothing")]
    pub run_id: u64,
    #[stat(desc = "V: system virtual time (ns)")]
    pub vtime_ns: u64,
    #[stat(desc = "advance of V over the interval (ns)")]
    pub vtime_advance_ns: u64,
    #[stat(
        desc = "m: memory bandwidth (bytes per second); 0 if unknown, so traffic is not charged"
    )]
    pub mem_bytes_per_s: u64,
    #[stat(desc = "what counts memory traffic, or why nothing does", _om_skip)]
    pub mem_source: String,
    #[stat(desc = "1 if a software event stands in for memory traffic")]
    pub mem_stand_in: u32,
    #[stat(
        desc = "1 if counters of memory traffic were opened, or the controller counts it; \
                a counter that counts nothing is reported in a line"
    )]
    pub mem_measured: u32,
    #[stat(desc = "1 if a higher nice value is a larger weight (--weights thesis)")]
    pub thesis_weights: u32,
    #[stat(desc = "rules of the configuration that give weights")]
    pub weight_rules: u32,
    #[stat(
        desc = "the memory controller that scx_drfq drives (--controller)",
        _om_skip
    )]
    pub controller: Controller,
    #[stat(desc = "the model that replays the traffic (--shadow)", _om_skip)]
    pub shadow: Controller,
    #[stat(desc = "sharing of memory bandwidth by throttling (--mba)", _om_skip)]
    pub mba: Mba,
    /// Counts of `EVENTS` by name, since the scheduler was loaded.
    #[serde(flatten, deserialize_with = "counts")]
    pub events: BTreeMap<String, u64>,
}

/// The counts among members without a field. Those of later versions may be anything.
fn counts<'de, D: Deserializer<'de>>(members: D) -> Result<BTreeMap<String, u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Member {
        Count(u64),
        Other(IgnoredAny),
    }
    let members = BTreeMap::<String, Member>::deserialize(members)?.into_iter();
    let count = |(name, member)| match member {
        Member::Count(count) => Some((name, count)),
        Member::Other(_) => None,
    };
    Ok(members.filter_map(count).collect())
}

impl System {
    /// Whether the scheduler was loaded between `before`, earlier statistics, and these. The time of
    /// the load tells it, which does not change. Statistics of old recordings lack the time, and there
    /// only an uptime that fell does.
    pub fn is_of_new_load(&self, before: &Self) -> bool {
        let loaded_at = |of: &Self| (of.at_ns > 0).then(|| of.at_ns.wrapping_sub(of.uptime_ns));
        match (loaded_at(before), loaded_at(self)) {
            (Some(then), Some(now)) => then != now,
            _ => self.uptime_ns < before.uptime_ns,
        }
    }
}

impl System {
    /// The description of the fields, with one for each event.
    pub fn described() -> StatsMeta {
        let mut meta = Self::meta();
        meta.fields.remove("events");
        for event in EVENTS {
            let attrs = StatsFieldAttrs {
                desc: Some(event.text.into()),
                ..Default::default()
            };
            let field = StatsField {
                data: StatsData::Datum(StatsKind::U64),
                attrs,
            };
            meta.fields.insert(event.name.into(), field);
        }
        meta
    }
}

/// One task over an interval.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: a task")]
pub struct Task {
    #[stat(desc = "thread id")]
    pub pid: u32,
    #[stat(desc = "process id")]
    pub tgid: u32,
    #[stat(desc = "name")]
    pub comm: String,
    #[stat(desc = "w: weight, 1 is nice 0")]
    pub weight: f64,
    #[stat(desc = "nice value")]
    pub nice: i32,
    #[stat(desc = "running, queued, throttled, held or blocked")]
    pub state: String,
    #[stat(desc = "1 for a kernel thread")]
    pub kthread: u32,
    #[stat(desc = "CPU time over the interval (percent of one CPU)")]
    pub cpu_pct: f64,
    #[stat(desc = "CPU time in the ideal fair allocation (percent of one CPU)")]
    pub fair_pct: f64,
    #[stat(
        desc = "1 if it wanted a CPU all the time, so that fair_pct is an entitlement; \
                   0 if it blocked, so that fair_pct is at most what it used"
    )]
    pub backlogged: u32,
    #[stat(desc = "memory traffic over the interval, DMA included (bytes per second)")]
    pub mem_bytes_per_s: f64,
    #[stat(desc = "part of that traffic that DMA moved (bytes per second)")]
    pub dma_bytes_per_s: f64,
    #[stat(
        desc = "traffic that the memory controller counted for it (bytes per second of the \
                controller's time)"
    )]
    pub controller_bytes_per_s: f64,
    #[stat(
        desc = "shadow mode: traffic that the model gave it, to compare with mem_bytes_per_s \
                (bytes per second of the model's time)"
    )]
    pub shadow_bytes_per_s: f64,
    #[stat(desc = "shadow mode: traffic that the model was asked to replay (bytes per second)")]
    pub shadow_demand_bytes_per_s: f64,
    #[stat(desc = "dominant share over the interval (percent of the machine)")]
    pub dominant_pct: f64,
    #[stat(desc = "S - V (ns of virtual time); a negative value runs before others")]
    pub lag_ns: i64,
    #[stat(desc = "bits of enum drfq_task_flags of bpf/intf.h")]
    pub flags: u32,
    #[stat(desc = "CPU time since the task was created (ns)")]
    pub cpu_ns: u64,
    #[stat(desc = "CPU time charged since the first load whose accounts go on (ns)")]
    pub charged_ns: u64,
    #[stat(
        desc = "time runnable without a CPU since it was created, with holds and waits for a \
                quota or a pace (ns); 0 if unknown"
    )]
    pub wait_ns: u64,
    #[stat(desc = "memory traffic charged since then, DMA included (bytes)")]
    pub bytes: u64,
    #[stat(desc = "part of that traffic that DMA moved (bytes)")]
    pub dma_bytes: u64,
    #[stat(
        desc = "traffic that the memory controller counted for it since the agent started (bytes)"
    )]
    pub controller_bytes: u64,
    #[stat(desc = "virtual time of its CPU time (ns)")]
    pub cpu_vt_ns: u64,
    #[stat(desc = "virtual time of its memory traffic (ns)")]
    pub mem_vt_ns: u64,
    #[stat(desc = "time held by delayed wake-up since then (ns)")]
    pub held_ns: u64,
    #[stat(desc = "longest hold (ns)")]
    pub max_held_ns: u64,
    #[stat(desc = "time that it waited for a CPU (percent of the interval)")]
    pub wait_pct: f64,
    #[stat(desc = "time that delayed wake-up held it (percent of the interval)")]
    pub held_pct: f64,
    #[stat(desc = "times that it got a CPU since it was created; 0 if unknown")]
    pub runs: u64,
    #[stat(desc = "mean time that it waited for a CPU before it ran, over the interval (ns)")]
    pub wait_per_run_ns: f64,
}

/// A CPU over an interval.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: a CPU that the scheduler manages")]
pub struct Cpu {
    #[stat(desc = "its number")]
    pub cpu: u32,
    #[stat(desc = "its last-level cache, counted from 0")]
    pub llc: u32,
    #[stat(desc = "thread id of the task that runs there now; 0: none of this scheduler")]
    pub pid: u32,
    #[stat(desc = "S - V of that task's packet (ns of virtual time); 0 without one")]
    pub lag_ns: i64,
    #[stat(desc = "packets started since the scheduler was loaded")]
    pub switches: u64,
    #[stat(desc = "packets started over the interval (per second)")]
    pub switches_per_s: f64,
    #[stat(desc = "tasks that were taken from the queue of another LLC, since it was loaded")]
    pub steals: u64,
}

/// The system and its tasks, largest dominant share first.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: the system and its tasks (target \"tasks\"; argument \"limit\")")]
pub struct Tasks {
    #[stat(desc = "the system")]
    pub system: System,
    #[stat(desc = "CPUs that the scheduler manages")]
    pub cpus: Vec<Cpu>,
    #[stat(desc = "number of tasks, which is larger than the list if a limit was given")]
    pub nr_tasks: u64,
    #[stat(desc = "tasks, largest dominant share first")]
    pub tasks: Vec<Task>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_later_versions_are_accepted_whatever_they_are() {
        let text = r#"{"nr_cpus": 4, "switches": 7, "name": "x", "part": 0.5, "step": -1,
            "none": null, "list": [1, "x"], "object": {"a": 1.5}}"#;
        let system: System = serde_json::from_str(text).unwrap();
        assert_eq!(system.nr_cpus, 4);
        assert_eq!(system.events, [("switches".to_owned(), 7)].into());
    }
}

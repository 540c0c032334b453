// SPDX-License-Identifier: GPL-2.0-only
//! The figures that are served over the stats socket, and how they follow from
//! two samples of what the scheduler counted. Pure, but for the clock of the
//! one who samples.

pub mod controller;

use std::collections::{BTreeMap, HashMap, HashSet};

use scx_stats::{Meta, StatsData, StatsField, StatsFieldAttrs, StatsKind, StatsMeta};
use scx_stats_derive::Stats;
use serde::{Deserialize, Serialize};

use crate::{
    config::WEIGHT_ONE,
    controller::figures::Figures,
    fair_share::{Capacity, Demand, fair_cpus},
};

use self::controller::{Controller, rate};

/// A task that ran or waited for this part of an interval wanted a CPU all the
/// time; one that blocked for longer wanted what it got.
const BACKLOGGED_MIN: f64 = 0.95;

/// An event that the scheduler counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name in the figures.
    pub name: &'static str,
    /// What it counts.
    pub text: &'static str,
}

/// Every event, in the order of `enum drfq_event` of bpf/intf.h.
pub const EVENTS: &[Event] = include!(concat!(env!("OUT_DIR"), "/events.rs"));

/// One task as the scheduler knows it: `struct drfq_task_stat` of bpf/intf.h,
/// which gives the meaning of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TaskSample {
    pub pid: u32,
    pub tgid: u32,
    pub comm: String,
    pub weight: u32,
    pub nice: i32,
    pub state: State,
    pub flags: u32,
    pub kthread: bool,
    pub cpu_ns: u64,
    pub charged_ns: u64,
    pub wait_ns: u64,
    pub bytes: u64,
    pub dma_bytes: u64,
    pub cpu_vt_ns: u64,
    pub mem_vt_ns: u64,
    pub held_ns: u64,
    pub max_held_ns: u64,
}

impl TaskSample {
    /// S: the later of its virtual times, across a wrap (drfq_start).
    pub fn start_ns(&self) -> u64 {
        let memory_is_later = (self.cpu_vt_ns.wrapping_sub(self.mem_vt_ns) as i64) < 0;
        if memory_is_later {
            self.mem_vt_ns
        } else {
            self.cpu_vt_ns
        }
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It waits for something else than a CPU.
    #[default]
    Blocked,
    /// It waits for a CPU.
    Queued,
    /// Its debt holds it (delayed wake-up).
    Held,
    /// It runs.
    Running,
}

impl State {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Running => "running",
        }
    }
}

/// Everything that the scheduler counted up to one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// CLOCK_MONOTONIC (ns).
    pub at_ns: u64,
    /// V (ns of virtual time).
    pub vtime_ns: u64,
    /// CPUs that run a packet.
    pub busy_cpus: u32,
    /// Counts of `EVENTS` since the scheduler was loaded.
    pub events: Vec<u64>,
    /// All tasks; empty if only the system was sampled.
    pub tasks: Vec<TaskSample>,
    /// The link of `--controller`.
    pub controller: Figures,
    /// The link of `--shadow`.
    pub shadow: Figures,
}

/// What does not change while the scheduler is loaded.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the scheduler was loaded, CLOCK_MONOTONIC (ns).
    pub loaded_at_ns: u64,
    /// c.
    pub nr_cpus: u32,
    /// m (bytes per second); none: unknown, memory traffic is not charged.
    pub mem_bytes_per_s: Option<u64>,
    /// What counts memory traffic, or why nothing does.
    pub mem_source: String,
    /// A software event stands in for memory traffic.
    pub mem_stand_in: bool,
    /// Memory traffic is measured at all.
    pub mem_measured: bool,
}

/// State of the system. The descriptions of the fields are their documentation.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[stat(desc = "scx_drfq: the system", top, _om_prefix = "drfq_")]
pub struct System {
    #[stat(desc = "length of the interval that rates and shares are of (ns)")]
    pub interval_ns: u64,
    #[stat(desc = "c: CPUs that are managed")]
    pub nr_cpus: u32,
    #[stat(desc = "CPUs that run a packet now")]
    pub busy_cpus: u32,
    #[stat(desc = "time since the scheduler was loaded (ns)")]
    pub uptime_ns: u64,
    #[stat(desc = "V: system virtual time (ns)")]
    pub vtime_ns: u64,
    #[stat(desc = "advance of V over the interval (ns)")]
    pub vtime_advance_ns: u64,
    #[stat(desc = "m: memory bandwidth (bytes per second); 0: unknown, traffic is not charged")]
    pub mem_bytes_per_s: u64,
    #[stat(desc = "what counts memory traffic, or why nothing does", _om_skip)]
    pub mem_source: String,
    #[stat(desc = "1: a software event stands in for memory traffic")]
    pub mem_stand_in: u32,
    #[stat(desc = "1: memory traffic of tasks is measured")]
    pub mem_measured: u32,
    #[stat(desc = "the memory controller that is driven (--controller)", _om_skip)]
    pub controller: Controller,
    #[stat(desc = "the model that is asked (--shadow)", _om_skip)]
    pub shadow: Controller,
    /// Counts of `EVENTS` by name, since the scheduler was loaded.
    #[serde(flatten)]
    pub events: BTreeMap<String, u64>,
}

impl System {
    /// What the links to memory controllers do, in a few words each.
    pub fn links(&self) -> impl Iterator<Item = String> {
        let links = [("controller", &self.controller), ("shadow", &self.shadow)];
        links
            .into_iter()
            .filter_map(|(name, link)| link.summary(name))
    }

    /// Its description, with one field for each event.
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
    #[stat(desc = "running, queued, held or blocked")]
    pub state: String,
    #[stat(desc = "1: a kernel thread")]
    pub kthread: u32,
    #[stat(desc = "CPU time over the interval (percent of one CPU)")]
    pub cpu_pct: f64,
    #[stat(desc = "CPU time that the ideal fair allocation gives (percent of one CPU)")]
    pub fair_pct: f64,
    #[stat(
        desc = "1: it wanted a CPU all the time, so that fair_pct is an entitlement; \
                   0: it blocked, and fair_pct is at most what it used"
    )]
    pub backlogged: u32,
    #[stat(desc = "memory traffic over the interval, DMA included (bytes per second)")]
    pub mem_bytes_per_s: f64,
    #[stat(desc = "part of it that DMA moved (bytes per second)")]
    pub dma_bytes_per_s: f64,
    #[stat(
        desc = "traffic that the memory controller counted for it (bytes per second of the \
                controller's time)"
    )]
    pub controller_bytes_per_s: f64,
    #[stat(
        desc = "shadow mode: traffic that the model gave it, beside mem_bytes_per_s that it got \
                here (bytes per second of the model's time)"
    )]
    pub shadow_bytes_per_s: f64,
    #[stat(desc = "shadow mode: what the model was asked for (bytes per second)")]
    pub shadow_demand_bytes_per_s: f64,
    #[stat(desc = "dominant share over the interval (percent of the machine)")]
    pub dominant_pct: f64,
    #[stat(desc = "S - V (ns of virtual time); negative: behind, runs before others")]
    pub lag_ns: i64,
    #[stat(desc = "bits of enum drfq_task_flags of bpf/intf.h")]
    pub flags: u32,
    #[stat(desc = "CPU time since the task was born (ns)")]
    pub cpu_ns: u64,
    #[stat(desc = "CPU time charged since the scheduler was loaded (ns)")]
    pub charged_ns: u64,
    #[stat(desc = "time that it waited for a CPU since it was born (ns); 0: unknown")]
    pub wait_ns: u64,
    #[stat(desc = "memory traffic charged since the scheduler was loaded, DMA included (bytes)")]
    pub bytes: u64,
    #[stat(desc = "part of it that DMA moved (bytes)")]
    pub dma_bytes: u64,
    #[stat(
        desc = "traffic that the memory controller counted for it since the agent started (bytes)"
    )]
    pub controller_bytes: u64,
    #[stat(desc = "virtual time of its CPU time (ns)")]
    pub cpu_vt_ns: u64,
    #[stat(desc = "virtual time of its memory traffic (ns)")]
    pub mem_vt_ns: u64,
    #[stat(desc = "time held by delayed wake-up since the scheduler was loaded (ns)")]
    pub held_ns: u64,
    #[stat(desc = "longest hold (ns)")]
    pub max_held_ns: u64,
}

/// The system and its tasks, those of the largest dominant share first.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[stat(desc = "scx_drfq: the system and its tasks (target \"tasks\"; argument \"limit\")")]
pub struct Tasks {
    #[stat(desc = "the system")]
    pub system: System,
    #[stat(desc = "tasks that there are; more than are listed if a limit was given")]
    pub nr_tasks: u64,
    #[stat(desc = "tasks, largest dominant share first")]
    pub tasks: Vec<Task>,
}

/// The system between two samples.
pub fn system(facts: &Facts, prev: &Sample, cur: &Sample) -> System {
    let names = EVENTS.iter().map(|event| event.name.to_owned());
    System {
        interval_ns: interval_ns(prev, cur),
        nr_cpus: facts.nr_cpus,
        busy_cpus: cur.busy_cpus,
        uptime_ns: cur.at_ns.saturating_sub(facts.loaded_at_ns),
        vtime_ns: cur.vtime_ns,
        vtime_advance_ns: cur.vtime_ns.wrapping_sub(prev.vtime_ns),
        mem_bytes_per_s: facts.mem_bytes_per_s.unwrap_or(0),
        mem_source: facts.mem_source.clone(),
        mem_stand_in: facts.mem_stand_in.into(),
        mem_measured: facts.mem_measured.into(),
        controller: Controller::over(&prev.controller, &cur.controller),
        shadow: Controller::over(&prev.shadow, &cur.shadow),
        events: names.zip(cur.events.iter().copied()).collect(),
    }
}

/// The tasks between two samples; `limit` of them are listed.
pub fn tasks(facts: &Facts, prev: &Sample, cur: &Sample, limit: usize) -> Tasks {
    let interval_ns = interval_ns(prev, cur) as f64;
    let before: HashMap<u32, &TaskSample> = prev.tasks.iter().map(|t| (t.pid, t)).collect();
    // Not every kernel tells how long a task waited.
    let waits_known = cur.tasks.iter().any(|task| task.wait_ns > 0);
    let uses: Vec<Use> = cur
        .tasks
        .iter()
        .map(|task| {
            let before = before.get(&task.pid).copied();
            let mut used = Use::over(before, task, interval_ns);
            let wanted_all = used.backlogged || !waits_known;
            used.backlogged = wanted_all && before.is_some() && task.state != State::Blocked;
            used
        })
        .collect();
    let capacity = Capacity {
        cpus: facts.nr_cpus.into(),
        bytes_per_s: facts.mem_bytes_per_s.map(|bytes| bytes as f64),
    };
    let demands: Vec<Demand> = uses.iter().map(Use::demand).collect();
    let mut list: Vec<Task> = uses
        .iter()
        .zip(fair_cpus(&demands, capacity))
        .map(|(used, fair)| used.report(fair, capacity, prev, cur))
        .collect();
    let nr_tasks = list.len() as u64;
    list.sort_by(|a, b| {
        b.dominant_pct
            .total_cmp(&a.dominant_pct)
            .then(a.lag_ns.cmp(&b.lag_ns))
            .then(a.pid.cmp(&b.pid))
    });
    list.truncate(limit);
    Tasks {
        system: system(facts, prev, cur),
        nr_tasks,
        tasks: list,
    }
}

/// At least 1, so that rates are finite.
fn interval_ns(prev: &Sample, cur: &Sample) -> u64 {
    cur.at_ns.saturating_sub(prev.at_ns).max(1)
}

/// What one task used over an interval.
struct Use<'a> {
    now: &'a TaskSample,
    cpus: f64,
    /// It wanted a CPU all the time.
    backlogged: bool,
    bytes_per_s: f64,
    dma_bytes_per_s: f64,
}

impl<'a> Use<'a> {
    fn over(before: Option<&TaskSample>, now: &'a TaskSample, interval_ns: f64) -> Self {
        let zero = TaskSample::default();
        let before = before.unwrap_or(&zero);
        // A count that went back is that of another task with the same id.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64;
        let per_s = |bytes: f64| bytes * 1e9 / interval_ns;
        let wanted = since(now.cpu_ns, before.cpu_ns) + since(now.wait_ns, before.wait_ns);
        Self {
            now,
            cpus: since(now.charged_ns, before.charged_ns) / interval_ns,
            backlogged: wanted >= BACKLOGGED_MIN * interval_ns,
            bytes_per_s: per_s(since(now.bytes, before.bytes)),
            dma_bytes_per_s: per_s(since(now.dma_bytes, before.dma_bytes)),
        }
    }

    fn demand(&self) -> Demand {
        let traffic = if self.cpus > 0.0 {
            self.bytes_per_s / self.cpus
        } else {
            0.0
        };
        Demand {
            weight: weight(self.now.weight),
            cpus: if self.backlogged {
                1.0
            } else {
                self.cpus.min(1.0)
            },
            bytes_per_s: traffic,
        }
    }

    fn report(&self, fair_cpus: f64, capacity: Capacity, prev: &Sample, cur: &Sample) -> Task {
        let now = self.now;
        let demand = cur.shadow.demand_bytes_per_s.get(&now.pid);
        let counted = cur.controller.ledger.by_pid.get(&now.pid);
        Task {
            pid: now.pid,
            tgid: now.tgid,
            comm: now.comm.clone(),
            weight: weight(now.weight),
            nice: now.nice,
            state: now.state.word().into(),
            kthread: now.kthread.into(),
            cpu_pct: self.cpus * 100.0,
            fair_pct: fair_cpus * 100.0,
            backlogged: self.backlogged.into(),
            mem_bytes_per_s: self.bytes_per_s,
            dma_bytes_per_s: self.dma_bytes_per_s,
            controller_bytes_per_s: rate(&prev.controller, &cur.controller, now.pid),
            shadow_bytes_per_s: rate(&prev.shadow, &cur.shadow, now.pid),
            shadow_demand_bytes_per_s: demand.copied().unwrap_or(0) as f64,
            dominant_pct: capacity.dominant_share(self.cpus, self.bytes_per_s) * 100.0,
            lag_ns: now.start_ns().wrapping_sub(cur.vtime_ns) as i64,
            flags: now.flags,
            cpu_ns: now.cpu_ns,
            charged_ns: now.charged_ns,
            wait_ns: now.wait_ns,
            bytes: now.bytes,
            dma_bytes: now.dma_bytes,
            controller_bytes: counted.copied().unwrap_or(0),
            cpu_vt_ns: now.cpu_vt_ns,
            mem_vt_ns: now.mem_vt_ns,
            held_ns: now.held_ns,
            max_held_ns: now.max_held_ns,
        }
    }
}

fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(WEIGHT_ONE)
}

/// Marks the tasks that run now.
pub fn mark_running(tasks: &mut [TaskSample], running: &HashSet<u32>) {
    for task in tasks.iter_mut().filter(|task| running.contains(&task.pid)) {
        task.state = State::Running;
    }
}

#[cfg(test)]
mod tests;

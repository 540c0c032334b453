// SPDX-License-Identifier: GPL-2.0-only
//! A case as data. Its text is TOML.

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::cpuset::CpuSet;
use crate::engine::Sim;
use crate::ffi;
use crate::fuzz::Traffic;
use crate::fuzz::traffic::SOCKETS;
use crate::outside::{Outside, PACES};
use crate::task::TaskSpec;
use crate::trace::{Step, Trace};
use crate::{SEC, US};

/// How long a limit lets a task wait (`RESCUE_LATE_NS` of rescue.bpf.h), ns.
const LIMITED_NS: u64 = 10 * SEC;

/// A machine of at most 64 CPUs, what runs on it, and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// CPUs.
    pub cpus: usize,
    /// LLCs.
    pub llcs: usize,
    /// Whether CPUs 2n and 2n + 1 are threads of one core.
    pub smt: bool,
    /// Whether the CPUs tick at different times.
    pub skewed_ticks: bool,
    /// Whether slices end between ticks.
    pub exact_slices: bool,
    /// Time from a request for a switch to the switch, ns.
    pub resched_ns: u64,
    /// Bandwidth of the memory, bytes/s; 0: no traffic is charged.
    pub memory_bytes_per_s: u64,
    /// What is simulated, ns.
    pub duration_ns: u64,
    /// Whether the tasks that [`TaskCase::shares`] marks must share their CPU by weight.
    pub fair: bool,
    /// The cgroups, parents before their children.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// What is done from outside, and when (ns).
    pub events: Vec<(u64, Outside)>,
    /// What devices do, and when (ns), in this order.
    #[serde(default)]
    pub traffic: Vec<(u64, Traffic)>,
    /// The tasks, in the order of their specs.
    pub tasks: Vec<TaskCase>,
}

/// A cgroup of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// The group above it; `None`: the root group.
    pub parent: Option<usize>,
}

/// A task of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCase {
    /// w in units of 1 / `DRFQ_WEIGHT_ONE`.
    pub weight: u32,
    /// Where it may run.
    pub allowed: CpuSet,
    /// Time of its creation, ns; `None`: another task forks it.
    pub arrival_ns: Option<u64>,
    /// Whether it is a kernel thread.
    pub kthread: bool,
    /// It joins this group soon after its creation, if no other task forks it.
    pub group: Option<usize>,
    /// Whether it always wants to run, is pinned, and is judged by its share.
    pub shares: bool,
    /// Whether its steps repeat.
    pub repeat: bool,
    /// Its steps.
    pub steps: Vec<Step>,
}

impl Case {
    /// Reads the text of a case.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The text of the case.
    ///
    /// # Panics
    /// If a number does not fit into TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("a case has no number above i64::MAX")
    }

    /// The case's machine.
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.cpus).llcs(self.llcs);
        if self.memory_bytes_per_s > 0 {
            config = config.memory(self.memory_bytes_per_s);
        }
        config.smt = self.smt;
        config.skewed_ticks = self.skewed_ticks;
        config.exact_slices = self.exact_slices;
        config.resched_ns = self.resched_ns;
        config.wait_bound_ns = self.wait_bound_ns(&config);
        // Tasks that are forked in a crowd may wait for the rescues of each other.
        config.wait_per_fork_ns = ffi::budget_part() * packet_ns(&config);
        if self.fair {
            // A rescue is out of order.
            config.rescue_ns = 1000 * SEC;
            config.wait_bound_ns = u64::MAX;
        }
        config
    }

    /// The longest wait of a task, ns: until the timer rescues it; then all other tasks may be
    /// rescued before it and use a slice and a tick; and a higher class may take its CPU. A limit
    /// lets it wait for [`LIMITED_NS`] before.
    fn wait_bound_ns(&self, config: &Config) -> u64 {
        let rescue_ns = config.rescue_ns + 2 * SEC;
        let taken = self.events.iter().map(|(_, outside)| match outside {
            Outside::Take { ns, .. } => *ns,
            _ => 0,
        });
        let limits = self.events.iter().any(|(_, outside)| outside.limits());
        let limited_ns = if limits { LIMITED_NS } else { 0 };
        limited_ns
            + rescue_ns
            + 2 * packet_ns(config) * (self.tasks.len() as u64 + 1)
            + taken.sum::<u64>()
    }

    fn specs(&self) -> Vec<TaskSpec> {
        let spec = |(i, task): (usize, &TaskCase)| TaskSpec {
            name: format!("task{i}"),
            weight: task.weight,
            allowed: task.allowed,
            arrival_ns: task.arrival_ns.unwrap_or(u64::MAX),
            trace: Trace {
                steps: task.steps.clone(),
                repeat: task.repeat,
            },
            kthread: task.kthread,
        };
        self.tasks.iter().enumerate().map(spec).collect()
    }

    /// A simulation of the case, at time 0.
    pub fn start(&self) -> Sim {
        let mut sim = Sim::new(self.config(), self.specs());
        for group in &self.groups {
            sim.kernel().cgroup_new(group.parent, group.weight);
        }
        for (spec, task) in self.tasks.iter().enumerate() {
            if let Some(group) = task.group {
                sim.plan_joins(spec, group);
            }
        }
        for (at_ns, outside) in &self.events {
            sim.plan(*at_ns, *outside);
        }
        sim
    }

    /// Whether a repeated trace takes time, and every index exists.
    pub fn is_valid(&self) -> bool {
        let groups = self.groups.len();
        let takes_time = |step: &Step| match step {
            Step::Run { ns, .. } | Step::Sleep { ns, .. } | Step::Wait { ns } => *ns >= 10 * US,
            _ => false,
        };
        let task = |task: &TaskCase| {
            let specs = self.tasks.len();
            let indices = task.steps.iter().all(|step| match step {
                Step::Spawn(spec) | Step::Wake { spec, .. } => *spec < specs,
                Step::Affinity(allowed) => allowed.count(self.cpus) > 0,
                _ => true,
            });
            indices
                && task.allowed.count(self.cpus) > 0
                && (!task.repeat || task.steps.iter().any(takes_time))
                && task.group.is_none_or(|group| group < groups)
        };
        let event = |(_, outside): &(u64, Outside)| {
            outside.group().is_none_or(|group| group < groups)
                && match outside {
                    Outside::Affinity { allowed, .. } => allowed.count(self.cpus) > 0,
                    Outside::Take { cpu, .. } => *cpu < self.cpus,
                    Outside::Quota { period_us, .. } => *period_us >= 1000,
                    Outside::RuleGroup { weight, .. } => *weight > 0,
                    Outside::Pace { index, bytes_per_s } => {
                        (1..=PACES).contains(index) && *bytes_per_s != Some(0)
                    }
                    Outside::PaceGroup { index, .. } => *index <= PACES,
                    _ => true,
                }
        };
        let traffic = |(_, event): &(u64, Traffic)| match event {
            Traffic::PassOn { cpu, thread, .. } => *cpu.max(thread) < self.cpus,
            Traffic::Leave { cpu, .. } | Traffic::Arrive { cpu, .. } => *cpu < self.cpus,
            Traffic::Split { bytes, parts, .. } => (1..=*bytes).contains(parts),
            Traffic::Use { socket, .. } | Traffic::KernelSocket { socket } => {
                u64::from(*socket) < SOCKETS
            }
            _ => true,
        };
        let parent = |(i, group): (usize, &Group)| group.parent.is_none_or(|p| p < i);
        self.cpus > 0
            && (1..=self.cpus).contains(&self.llcs)
            && self.tasks.iter().all(task)
            && self.events.iter().all(event)
            && self.traffic.iter().all(traffic)
            && self.traffic.is_sorted_by_key(|(at_ns, _)| *at_ns)
            && self.groups.iter().enumerate().all(parent)
    }
}

/// The longest packet, ns.
fn packet_ns(config: &Config) -> u64 {
    config.slice_ns + config.tick_ns + config.resched_ns
}

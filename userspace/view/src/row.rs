// SPDX-License-Identifier: GPL-2.0-only
//! A row of a table: what a task, a process or a cgroup got over an interval.

use std::sync::Arc;

use drfq_stats::{mba_report::MbaGroup, report::Task};

use crate::{
    entity::{Entity, clean, unit_name},
    snapshot::{Process, Snapshot},
};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is about.
    pub entity: Entity,
    /// The name of the task, process or unit.
    pub name: String,
    /// The process of a task; none if it is unknown, and for the kernel's.
    process: Option<Arc<Process>>,
    /// The path of a cgroup; empty for others.
    path: String,
    kernel: bool,
    /// Levels above it in a tree.
    pub depth: usize,
    /// Whether it has rows below it in a tree.
    pub parent: bool,
    /// Whether these rows are hidden.
    pub folded: bool,
    /// Its tasks.
    pub tasks: u32,
    /// w of its heaviest task, or cpu.weight of the cgroup; 0 if it has none.
    pub weight: f64,
    /// CPU time (percent of one CPU).
    pub cpu_pct: f64,
    /// CPU time in the ideal fair allocation (percent of one CPU).
    pub fair_pct: f64,
    /// Whether a task of it wanted a CPU all the time, so that the fair share is an
    /// entitlement.
    pub entitled: bool,
    /// Memory traffic, DMA included (bytes per second).
    pub mem_bytes_per_s: f64,
    /// Part of it that DMA moved.
    pub dma_bytes_per_s: f64,
    /// Traffic that the memory controller counted (bytes per second of its time).
    pub controller_bytes_per_s: f64,
    /// Share of the machine's CPUs, and of its memory bandwidth if that is known (percent).
    pub cpu_share_pct: f64,
    /// See `cpu_share_pct`.
    pub mem_share_pct: f64,
    /// Time that its tasks waited for a CPU, and were held (percent of one task's interval).
    pub wait_pct: f64,
    /// See `wait_pct`.
    pub held_pct: f64,
    /// Mean wait for a CPU before a run (ns).
    pub wait_per_run_ns: f64,
    /// S - V of the task that is served first (ns of virtual time).
    pub lag_ns: i64,
    /// Part of its bandwidth that the throttle leaves (percent); none without a group.
    pub level_pct: Option<f64>,
    /// The state of its most active task.
    pub state: State,
    runs: f64,
}

/// The state of a task, the most active first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum State {
    Running,
    Queued,
    /// It waits for a quota or a pace of its group.
    Throttled,
    Held,
    Blocked,
}

impl State {
    /// The state by its word in the statistics.
    pub fn of(task: &Task) -> Self {
        match task.state.as_str() {
            "running" => Self::Running,
            "queued" => Self::Queued,
            "throttled" => Self::Throttled,
            "held" => Self::Held,
            _ => Self::Blocked,
        }
    }

    /// The word that users see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Throttled => "throttled",
            Self::Held => "held",
            Self::Blocked => "blocked",
        }
    }
}

impl Row {
    /// An entity that has used nothing so far.
    pub fn new(entity: Entity, name: String) -> Self {
        Self {
            entity,
            name,
            process: None,
            path: String::new(),
            kernel: false,
            depth: 0,
            parent: false,
            folded: false,
            tasks: 0,
            weight: 0.0,
            cpu_pct: 0.0,
            fair_pct: 0.0,
            entitled: false,
            mem_bytes_per_s: 0.0,
            dma_bytes_per_s: 0.0,
            controller_bytes_per_s: 0.0,
            cpu_share_pct: 0.0,
            mem_share_pct: 0.0,
            wait_pct: 0.0,
            held_pct: 0.0,
            wait_per_run_ns: 0.0,
            lag_ns: i64::MAX,
            level_pct: None,
            state: State::Blocked,
            runs: 0.0,
        }
    }

    /// Adds what a task got. The weight becomes the largest.
    pub fn add(&mut self, task: &Task) {
        self.tasks += 1;
        self.weight = self.weight.max(task.weight);
        self.cpu_pct += task.cpu_pct;
        self.fair_pct += task.fair_pct;
        self.entitled |= task.backlogged != 0;
        self.mem_bytes_per_s += task.mem_bytes_per_s;
        self.dma_bytes_per_s += task.dma_bytes_per_s;
        self.controller_bytes_per_s += task.controller_bytes_per_s;
        self.wait_pct += task.wait_pct;
        self.held_pct += task.held_pct;
        // A part of the interval that was rounded to 0 tells no runs.
        if task.wait_per_run_ns > 0.0 && task.wait_pct > 0.0 {
            // Waits are weighted by the runs that they belong to.
            let runs = task.wait_pct / task.wait_per_run_ns;
            self.wait_per_run_ns =
                (self.wait_per_run_ns * self.runs + task.wait_pct) / (self.runs + runs);
            self.runs += runs;
        }
        let state = State::of(task);
        if state != State::Blocked {
            self.lag_ns = self.lag_ns.min(task.lag_ns);
        }
        self.state = self.state.min(state);
    }

    /// Computes what follows from the sums.
    pub fn finish(&mut self, snapshot: &Snapshot, group: Option<&MbaGroup>) {
        let system = &snapshot.report.system;
        self.cpu_share_pct = self.cpu_pct / f64::from(system.nr_cpus.max(1));
        if system.mem_bytes_per_s > 0 {
            self.mem_share_pct = 100.0 * self.mem_bytes_per_s / system.mem_bytes_per_s as f64;
        }
        self.level_pct = group.map(|group| group.level_pct);
        if self.lag_ns == i64::MAX {
            self.lag_ns = 0;
        }
    }

    /// The dominant share (percent of the machine).
    pub fn dominant_pct(&self) -> f64 {
        self.cpu_share_pct.max(self.mem_share_pct)
    }

    /// The resource that the dominant share is of; empty if it used nothing.
    pub fn dominant(&self) -> &'static str {
        if self.dominant_pct() < 0.05 {
            ""
        } else if self.mem_share_pct > self.cpu_share_pct {
            "memory"
        } else {
            "cpu"
        }
    }

    /// The distance of the CPU time from the fair share (percent of the fair share); none
    /// where the fair share is no entitlement.
    pub fn distance_pct(&self) -> Option<f64> {
        let known = self.entitled && self.fair_pct > 0.0;
        known.then(|| (self.cpu_pct / self.fair_pct - 1.0) * 100.0)
    }

    /// The row of a task.
    pub fn task(task: &Task, snapshot: &Snapshot) -> Self {
        let mut row = Self::new(Entity::Task(task.pid), clean(&task.comm));
        row.place(task, snapshot);
        row.add(task);
        // A blocked task, too, shows where it would start.
        row.lag_ns = task.lag_ns;
        row
    }

    /// The user and the cgroup of a task.
    pub fn place(&mut self, task: &Task, snapshot: &Snapshot) {
        if let Some(process) = snapshot.processes.get(&task.tgid) {
            self.process = Some(Arc::clone(process));
        } else {
            self.kernel = task.kthread != 0;
        }
    }

    /// The user; empty if unknown.
    pub fn user(&self) -> &str {
        match &self.process {
            Some(process) => &process.user,
            None if self.kernel => "kernel",
            None => "",
        }
    }

    /// The cgroup; empty if unknown.
    pub fn cgroup(&self) -> &str {
        match &self.process {
            Some(process) => &process.cgroup,
            None if self.kernel => "/",
            None => &self.path,
        }
    }

    /// The row of a cgroup without its tasks.
    pub fn of_cgroup(path: &str, depth: usize, snapshot: &Snapshot) -> Self {
        let mut row = Self::new(Entity::Cgroup(path.to_owned()), unit_name(path));
        row.depth = depth;
        row.path = path.to_owned();
        let cgroup = snapshot.cgroups.get(path).copied().unwrap_or_default();
        row.weight = cgroup.cpu_weight.map_or(0.0, f64::from);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_was_rounded_to_nothing_is_a_number() {
        let mut row = Row::new(Entity::Task(1), "a".into());
        row.add(&Task {
            wait_per_run_ns: 3000.0,
            ..Task::default()
        });
        assert_eq!(row.wait_per_run_ns, 0.0);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Tasks: their specifications, and what the simulator keeps for each.

use crate::cpuset::CpuSet;
use crate::ffi;
use crate::report::TaskReport;
use crate::trace::Trace;

/// A task to simulate.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// The name in reports.
    pub name: String,
    /// w in units of 1 / [`ffi::weight_one`].
    pub weight: u32,
    /// The CPUs that it may run on at first.
    pub allowed: CpuSet,
    /// Time of its creation, ns.
    pub arrival_ns: u64,
    /// Its steps.
    pub trace: Trace,
    /// A kernel thread is never held.
    pub kthread: bool,
}

impl TaskSpec {
    /// A task of weight 1 that may run anywhere and is created at time 0.
    pub fn new(name: impl Into<String>, trace: Trace) -> Self {
        Self {
            name: name.into(),
            weight: ffi::weight_one(),
            allowed: CpuSet::ALL,
            arrival_ns: 0,
            trace,
            kthread: false,
        }
    }

    /// Sets the weight, in units of 1 / [`ffi::weight_one`].
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the CPUs that it may run on.
    #[must_use]
    pub fn allowed(mut self, allowed: CpuSet) -> Self {
        self.allowed = allowed;
        self
    }

    /// Sets the time of its creation, ns.
    #[must_use]
    pub fn arrival(mut self, arrival_ns: u64) -> Self {
        self.arrival_ns = arrival_ns;
        self
    }

    /// Makes it a kernel thread.
    #[must_use]
    pub fn kthread(mut self) -> Self {
        self.kthread = true;
        self
    }
}

/// What the simulator keeps of a task beside the kernel's and the scheduler's accounts.
#[derive(Clone, Debug)]
pub struct Task {
    /// What it does, and how far it is.
    pub trace: Trace,
    /// Index of the present step.
    pub step: usize,
    /// What is left of the present step on a CPU, ns.
    pub left_ns: u64,
    /// The part of `report.cpu_ns` that `left_ns` accounts for, ns.
    pub seen_cpu_ns: u64,
    /// The spec that it was made from.
    pub spec: usize,
    /// How often it slept.
    pub sleeps: u64,
    /// Whether another task may end the present sleep.
    pub waits_for_wakeup: bool,
    /// CPU time by the simulator's own clock, ns.
    pub ran_ns: u64,
    /// DMA traffic that devices moved for it, bytes.
    pub dma_added_bytes: u64,
    /// The part of it in the last sleep, bytes.
    pub last_dma_bytes: u64,
    /// Where it may run.
    pub allowed: CpuSet,
    /// Since when it is held, ns.
    pub held_since_ns: Option<u64>,
    /// When the hold began after which it has not run, ns.
    pub hold_began_ns: Option<u64>,
    /// Since when it waits for a CPU, ns; the end of a hold restarts it.
    pub waits_since_ns: Option<u64>,
    /// Whether the present wait began with a wake-up.
    pub waits_woken: bool,
    /// What is reported of it.
    pub report: TaskReport,
}

impl Task {
    /// The task that `spec` asks for, not awake yet.
    pub fn new(spec: &TaskSpec, number: usize) -> Self {
        Self {
            trace: spec.trace.clone(),
            step: 0,
            left_ns: 0,
            seen_cpu_ns: 0,
            spec: number,
            sleeps: 0,
            waits_for_wakeup: false,
            ran_ns: 0,
            dma_added_bytes: 0,
            last_dma_bytes: 0,
            allowed: spec.allowed,
            held_since_ns: None,
            hold_began_ns: None,
            waits_since_ns: None,
            waits_woken: false,
            report: TaskReport {
                name: spec.name.clone(),
                weight: spec.weight,
                ..TaskReport::default()
            },
        }
    }
    /// What is reported of it at `now_ns`.
    pub fn report_at(&self, now_ns: u64) -> TaskReport {
        let until_now = |since: Option<u64>| since.map_or(0, |since| now_ns - since);
        let report = &self.report;
        TaskReport {
            max_wait_ns: report.max_wait_ns.max(until_now(self.waits_since_ns)),
            max_hold_to_run_ns: report.max_hold_to_run_ns.max(until_now(self.hold_began_ns)),
            ..self.report.clone()
        }
    }
}

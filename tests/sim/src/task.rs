// SPDX-License-Identifier: GPL-2.0-only
//! Tasks: what a user asks for, and what the kernel and the scheduler keep.

use crate::cpu::CpuSet;
use crate::ffi::{self, Flow};
use crate::report::TaskReport;
use crate::trace::Trace;

/// A task to simulate.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// For reports.
    pub name: String,
    /// w in units of 1 / [`ffi::weight_one`].
    pub weight: u32,
    /// Where it may run at first.
    pub allowed: CpuSet,
    /// When it is created, ns.
    pub arrival_ns: u64,
    /// What it does.
    pub trace: Trace,
    /// A kernel thread is never held.
    pub kthread: bool,
}

impl TaskSpec {
    /// A task of weight 1 that may run anywhere and exists from the start.
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

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not created yet, or asleep.
    Blocked,
    /// In the queue of an LLC.
    Queued(usize),
    /// In the queue of held tasks.
    Held,
    /// In the local queue of a CPU.
    Local(usize),
    /// On a CPU.
    Running(usize),
    /// Gone.
    Exited,
}

/// A task in the simulation.
#[derive(Clone, Debug)]
pub struct Task {
    /// Whether it is a kernel thread.
    pub kthread: bool,
    /// Where it may run.
    pub allowed: CpuSet,
    /// `task_cpu()`: the CPU it runs on, ran on last, or was sent to.
    pub cpu: usize,
    /// What it does, and how far it is.
    pub trace: Trace,
    /// Index of the present step.
    pub step: usize,
    /// What is left of the present step on a CPU, ns.
    pub left_ns: u64,
    /// The task that forked it.
    pub parent: Option<usize>,
    /// Where it is.
    pub state: TaskState,

    /// The scheduler's account.
    pub flow: Flow,
    /// Woken and not run since (`DRFQ_TASK_WOKEN`).
    pub woken: bool,
    /// Devices moved data while it was blocked last (`DRFQ_TASK_INDEBTED`).
    pub indebted: bool,
    /// Place in its queue (`scx.dsq_vtime`), virtual ns.
    pub key_ns: u64,
    /// The part of its running time that was charged, ns.
    pub charged_ns: u64,
    /// DMA traffic that was not charged yet, bytes.
    pub pending_dma_bytes: u64,
    /// Since when it is held, ns.
    pub held_since_ns: Option<u64>,
    /// Since when it waits for a CPU, ns; a hold restarts it.
    pub waits_since_ns: Option<u64>,
    /// Whether the present wait began with a wake-up.
    pub waits_woken: bool,
    /// What is reported of it.
    pub report: TaskReport,
}

impl Task {
    /// The task that `spec` asks for, not created yet; on `cpu` at first.
    pub fn new(spec: &TaskSpec, cpu: usize, v_ns: u64) -> Self {
        let flow = Flow::new(v_ns, spec.weight);
        Self {
            kthread: spec.kthread,
            allowed: spec.allowed,
            cpu,
            trace: spec.trace.clone(),
            step: 0,
            left_ns: 0,
            parent: None,
            state: TaskState::Blocked,
            flow,
            woken: false,
            indebted: false,
            key_ns: v_ns,
            charged_ns: 0,
            pending_dma_bytes: 0,
            held_since_ns: None,
            waits_since_ns: None,
            waits_woken: false,
            report: TaskReport {
                name: spec.name.clone(),
                weight: flow.weight,
                ..TaskReport::default()
            },
        }
    }
}

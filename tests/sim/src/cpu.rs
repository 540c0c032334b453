// SPDX-License-Identifier: GPL-2.0-only
//! CPUs: what the kernel and the scheduler keep of each.

use std::collections::VecDeque;

/// Index of a task in the simulation.
pub type TaskId = usize;

/// A set of CPUs, bit i is CPU i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet(pub u128);

impl CpuSet {
    /// All CPUs.
    pub const ALL: Self = Self(u128::MAX);

    /// Exactly one CPU.
    pub fn one(cpu: usize) -> Self {
        Self(1 << cpu)
    }

    /// Whether `cpu` is in the set.
    pub fn has(self, cpu: usize) -> bool {
        self.0 >> cpu & 1 != 0
    }

    /// How many of the first `nr_cpus` CPUs are in the set.
    pub fn count(self, nr_cpus: usize) -> usize {
        (0..nr_cpus).filter(|cpu| self.has(*cpu)).count()
    }
}

/// `struct drfq_cpu`: the scheduler's slot of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// S of the running packet, ns of virtual time; stays while it runs.
    pub vtime_ns: u64,
    /// Whether a packet runs (a pid that is not 0).
    pub busy: bool,
    /// The task that yielded and was not queued since.
    pub yielded: Option<TaskId>,
    /// Virtual time up to which the running packet is charged, ns.
    pub charged_vtime_ns: u64,
    /// Whether a wake-up has preempted the packet.
    pub preempt_pending: bool,
}

/// One CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Its LLC.
    pub llc: usize,
    /// The task that it runs.
    pub current: Option<TaskId>,
    /// The kernel's idle mask: idle, and not yet picked for anything.
    pub idle: bool,
    /// Whether it runs the idle task.
    pub idles: bool,
    /// Tasks that run next, past the queues (`SCX_DSQ_LOCAL`).
    pub local: VecDeque<TaskId>,
    /// Whether a switch is due.
    pub resched: bool,
    /// Up to when the running task's time is accounted, ns.
    pub accounted_ns: u64,
    /// What is left of the slice, ns.
    pub slice_ns: u64,
    /// Counts packets, so that events of an earlier one are recognised.
    pub generation: u64,
    /// The scheduler's part.
    pub slot: Slot,
}

impl Cpu {
    /// An idle CPU of `llc`.
    pub fn new(llc: usize, v_ns: u64) -> Self {
        Self {
            llc,
            current: None,
            idle: true,
            idles: true,
            local: VecDeque::new(),
            resched: false,
            accounted_ns: 0,
            slice_ns: 0,
            generation: 0,
            slot: Slot {
                vtime_ns: v_ns,
                ..Slot::default()
            },
        }
    }
}

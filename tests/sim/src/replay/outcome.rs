// SPDX-License-Identifier: GPL-2.0-only
//! What a replay found.

/// A rounded division moves S by this much in each direction, virtual ns.
pub const ROUNDING_NS: u64 = 2;

/// A decision that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Time since the first event, ns.
    pub at_ns: u64,
    /// The CPU that decided.
    pub cpu: usize,
    /// What the kernel and the simulator did.
    pub text: String,
    /// Its class.
    pub class: &'static str,
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Picks of the next task, those of them with a task waiting, and the CPUs of wake-ups.
    pub picks: usize,
    /// Picks while a task waited on a queue.
    pub choices: usize,
    /// Choices of a CPU for a woken or new task.
    pub selections: usize,
    /// Packets that started, and those of them whose S is the kernel's to the nanosecond.
    pub packets: usize,
    /// See `packets`.
    pub exact: usize,
    /// Of the others: time since the first event (ns), task, and how much later S is in the kernel,
    /// virtual ns.
    pub apart_ns: Vec<(u64, i64, i64)>,
    /// Points of the trace that the simulator's callbacks did not come to.
    pub strays: usize,
    /// In the order of time.
    pub differences: Vec<Difference>,
}

impl Outcome {
    /// All decisions.
    pub fn decisions(&self) -> usize {
        self.picks + self.selections
    }

    /// Packets whose S is the kernel's within so many virtual ns.
    pub fn exact_within(&self, ns: u64) -> usize {
        let near = self
            .apart_ns
            .iter()
            .filter(|(.., late_ns)| late_ns.unsigned_abs() <= ns);
        self.exact + near.count()
    }

    /// Part of the decisions that are the kernel's.
    pub fn identical(&self) -> f64 {
        1.0 - self.differences.len() as f64 / self.decisions().max(1) as f64
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The values that are loaded into the BPF scheduler, after every option was
//! checked. `--dry-run` prints exactly these.

use std::path::PathBuf;

use clap::ValueEnum;
use drfq_controller_link::target::Target;
use drfq_sense::{perf_event::TrafficSource, queues::Queues};
use serde::Serialize;

use crate::{bandwidth::Bandwidth, capacity::Capacity};

/// delta of dovetailing DRFQ, which has no bound (DRFQ_DELTA_NONE_NS).
pub const DELTA_NONE_NS: u64 = 1 << 62;

/// K of 4.10 that no debt exceeds, so that delayed wake-up is off.
pub const HOLD_NEVER_NS: u64 = 1 << 62;

/// Whether memory bandwidth is shared by throttling (MBA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MbaMode {
    /// As on if m is measured or given; else observe if resctrl with MBA is mounted
    Auto,
    /// Leave resctrl alone
    Off,
    /// Monitor groups, and throttle none
    Observe,
    /// Throttle; only monitor where another program has classes
    On,
}

/// What slows groups down where no hardware does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Throttle {
    #[allow(missing_docs)] // the option's own text tells
    Hold,
}

/// What shares memory bandwidth as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entity {
    /// A thread, with its weight in CPU time
    Task,
    /// A process, with the largest weight of its threads that run
    Process,
    /// A cgroup, by cpu.weight along its path, or a process of the root cgroup
    Cgroup,
}

/// How the two virtual times of a task combine (thesis 2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Sum of maxima: each packet is charged for its dominant resource (thesis)
    Memoryless,
    /// Maximum of sums: exact shares over the whole life of a task
    Dovetailing,
    /// Dovetailing with a gap of at most --delta-slices between the two sums
    DeltaBounded,
}

/// When CPU time and memory traffic count against a task in the run queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Charging {
    /// While CPUs are contended. Memory has an account of its own, by which a memory
    /// controller serves
    Contended,
    /// Always; CPU time is divided by the number of busy CPUs (thesis 4.5.2)
    BusyCpus,
    /// Always; CPU time is divided by the number of CPUs (thesis 4.1)
    Always,
}

/// How a nice value becomes a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// The kernel's table: a lower nice value is a larger weight
    Kernel,
    /// Equation 4.9: 1 + nice, or 1 / (1 - nice); a HIGHER nice value is a larger
    /// weight
    Thesis,
}

/// A checked configuration. The fields are those of `struct drfq_conf` in
/// bpf/drfq.h and of bpf/options.bpf.h, which give their meaning.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// c: CPUs that the scheduler manages.
    pub nr_cpus: u32,
    /// One more than the highest CPU number that can ever be online.
    pub nr_cpu_ids: u32,
    /// The queues of runnable tasks.
    pub queues: Queues,
    /// Longest packet (ns).
    pub slice_ns: u64,
    /// How the virtual times of a task combine. `delta_ns` follows from it.
    pub variant: Variant,
    /// Bound of the gap between the virtual times of a task (ns).
    pub delta_ns: u64,
    /// C of 4.7 (ns of virtual time).
    pub wake_credit_ns: u64,
    /// Cap of Algorithm 2 (ns of virtual time).
    pub cap_ns: u64,
    /// K of 4.10 (ns of virtual time).
    pub hold_ns: u64,
    /// Longest hold (ns, wall clock).
    pub hold_max_ns: u64,
    /// Longest wait in a queue before a task goes to its front (ns, wall clock).
    pub rescue_ns: u64,
    /// Lead of a woken task over the packet that it preempts (ns, virtual time).
    pub preempt_margin_ns: u64,
    /// Lead of a task over the head of the local queue for a CPU of another LLC of
    /// its node to take it (ns, virtual time).
    pub steal_margin_ns: u64,
    /// When CPU time and memory traffic count against a task.
    pub charging: Charging,
    /// a: how far a task's memory account may lie behind B (ns of virtual time).
    pub bus_credit_ns: u64,
    /// How a nice value becomes a weight.
    pub weights: Weights,
    /// Schedule only tasks of the policy SCHED_EXT.
    pub partial: bool,
    /// Charge block I/O to its submitter.
    pub dma: bool,
    /// m (bytes per second); none: unknown, memory traffic is not charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth_bytes_per_s: Option<Bandwidth>,
    /// m, and where it comes from.
    #[serde(skip)]
    pub capacity: Capacity,
    /// 1/m, 32.32 fixed point; 0: memory traffic is not charged.
    pub mem_ns_per_byte_q32: u64,
    /// The last-level cache of each CPU.
    pub cpu_llc: Vec<u32>,
    /// CPUs that are online.
    pub online: Vec<u32>,
    /// The memory controller to drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Target>,
    /// Interval between updates of its registers (ns).
    pub controller_interval_ns: u64,
    /// Virtual times in registers have units of 2^register_shift ns.
    pub register_shift: u32,
    /// The model that shows what it would give each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Target>,
    /// Whether memory bandwidth is shared by throttling.
    pub mba: MbaMode,
    /// How it is shared where MBA is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
    /// Where the loop records each period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mba_trace: Option<PathBuf>,
    /// What shares it as one.
    pub entity: Entity,
    /// Threads are charged also what only MBM counts.
    pub charge_mbm: bool,
    /// What counts memory traffic.
    pub traffic: TrafficSource,
}

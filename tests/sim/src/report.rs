// SPDX-License-Identifier: GPL-2.0-only
//! The results of a run.

use crate::kernel::Kernel;

/// One task's results. Durations are ns of wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// Name of the spec.
    pub name: String,
    /// w in units of 1 / `DRFQ_WEIGHT_ONE`.
    pub weight: u32,
    /// CPU time.
    pub cpu_ns: u64,
    /// Memory traffic of the CPU, bytes.
    pub bytes: u64,
    /// DMA traffic, bytes.
    pub dma_bytes: u64,
    /// Longest wait for a CPU, without holds. A wait that goes on counts so far.
    pub max_wait_ns: u64,
    /// Longest time from the begin of a hold to the CPU. One that goes on counts so far.
    pub max_hold_to_run_ns: u64,
    /// Time from each wake-up, or release of a hold, to the CPU; in order.
    pub wake_latencies_ns: Vec<u64>,
    /// Length of each hold; in order.
    pub holds_ns: Vec<u64>,
    /// Time of the exit.
    pub exited_at_ns: Option<u64>,
}

impl TaskReport {
    /// The longest wake-up latency, ns; 0 without a wake-up.
    pub fn max_wake_ns(&self) -> u64 {
        self.wake_latencies_ns.iter().copied().max().unwrap_or(0)
    }
}

/// How often each event of `DRFQ_EVENTS` (bpf/intf.h) happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // described in intf.h
pub struct Counters {
    pub switches: u64,
    pub continued: u64,
    pub wakeups: u64,
    pub direct: u64,
    pub queued: u64,
    pub local_kthreads: u64,
    pub preempts: u64,
    pub steals: u64,
    pub held: u64,
    pub released_vtime: u64,
    pub released_idle: u64,
    pub released_bound: u64,
    pub rescued: u64,
    pub rescued_ns: u64,
    pub late: u64,
    pub agent_ahead: u64,
    pub agent_ahead_ns: u64,
    pub capped: u64,
    pub v_pulled: u64,
    pub lifted: u64,
    pub yields: u64,
}

impl Counters {
    /// Reads the counters of a kernel.
    pub fn read(kernel: &Kernel) -> Self {
        Self {
            switches: kernel.event_count("SWITCHES"),
            continued: kernel.event_count("CONTINUED"),
            wakeups: kernel.event_count("WAKEUPS"),
            direct: kernel.event_count("DIRECT"),
            queued: kernel.event_count("QUEUED"),
            local_kthreads: kernel.event_count("LOCAL_KTHREADS"),
            preempts: kernel.event_count("PREEMPTS"),
            steals: kernel.event_count("STEALS"),
            held: kernel.event_count("HELD"),
            released_vtime: kernel.event_count("RELEASED_VTIME"),
            released_idle: kernel.event_count("RELEASED_IDLE"),
            released_bound: kernel.event_count("RELEASED_BOUND"),
            rescued: kernel.event_count("RESCUED"),
            rescued_ns: kernel.event_count("RESCUED_NS"),
            late: kernel.event_count("LATE"),
            agent_ahead: kernel.event_count("AGENT_AHEAD"),
            agent_ahead_ns: kernel.event_count("AGENT_AHEAD_NS"),
            capped: kernel.event_count("CAPPED"),
            v_pulled: kernel.event_count("V_PULLED"),
            lifted: kernel.event_count("LIFTED"),
            yields: kernel.event_count("YIELDS"),
        }
    }
}

/// The results of all tasks, and of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Time simulated, ns.
    pub now_ns: u64,
    /// V, virtual ns.
    pub v_ns: u64,
    /// Tasks in the order of their creation in the simulation.
    pub tasks: Vec<TaskReport>,
    /// The scheduler's event counters.
    pub counters: Counters,
    /// The first violations of the invariants, such as a V that went back, or an idle CPU beside a
    /// queued task that it may run. Empty if there were none.
    pub violations: Vec<String>,
}

impl Report {
    /// Each task's share of all CPU time since `earlier`.
    pub fn shares_since(&self, earlier: &Report) -> Vec<f64> {
        let used = |i: usize| {
            let before = earlier.tasks.get(i).map_or(0, |t| t.cpu_ns);
            (self.tasks[i].cpu_ns - before) as f64
        };
        let total: f64 = (0..self.tasks.len()).map(used).sum();
        (0..self.tasks.len()).map(|i| used(i) / total).collect()
    }
}

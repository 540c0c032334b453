// SPDX-License-Identifier: GPL-2.0-only
//! The machine to simulate and the options of the scheduler.

use crate::ffi::{self, Conf};
use crate::{MS, SEC, US};

/// Everything that is constant during a run. Durations are ns of wall clock
/// unless they say virtual time.
#[derive(Clone, Debug)]
pub struct Config {
    /// The constants of the algorithm, as the loader hands them to BPF.
    pub conf: Conf,
    /// The LLC, and so the queue, of each CPU; its length is the number of CPUs.
    pub llc_of_cpu: Vec<usize>,
    /// Time a packet may run before the queue is looked at again.
    pub slice_ns: u64,
    /// Period of each CPU's tick; the CPUs' ticks are offset evenly.
    pub tick_ns: u64,
    /// From an interrupt to the switch that it asks for, in every direction.
    pub resched_ns: u64,
    /// Whether a slice ends when it is exhausted rather than at a tick.
    pub exact_slices: bool,
    /// Virtual time by which a running packet must be later to be preempted.
    pub preempt_margin_ns: u64,
    /// Virtual time by which another LLC's head must be earlier to be taken first.
    pub steal_margin_ns: u64,
    /// The longest hold of a delayed wake-up.
    pub hold_max_ns: u64,
    /// A task queued for longer goes to the front of its queue.
    pub rescue_ns: u64,
    /// Whether the CPUs' ticks are spread over a tick's length (`skew_tick=1`)
    /// instead of all at once, as they are by default.
    pub skewed_ticks: bool,
    /// Least time between two scans of the slots for V.
    pub v_lag_ns: u64,
    /// V at time 0.
    pub v_origin_ns: u64,
    /// Capacity of the stand-in memory, bytes/s; `None` is without limit.
    pub mem_bytes_per_s: Option<u64>,
    /// The stand-in memory serves by virtual time, and is told of it this often;
    /// `None`: all alike.
    pub controller_update_ns: Option<u64>,
}

impl Config {
    /// The defaults of the scheduler on `nr_cpus` CPUs that share one LLC.
    ///
    /// # Panics
    /// If `nr_cpus` is not 1 to 128.
    pub fn new(nr_cpus: usize) -> Self {
        assert!((1..=128).contains(&nr_cpus), "1 to 128 CPUs, not {nr_cpus}");
        let slice_ns = 4 * MS;
        let margin_ns = slice_ns / nr_cpus as u64;
        // CPU time on more CPUs than the thesis had (scx_drfq/src/options.rs).
        let credit_ns = 10 * slice_ns * nr_cpus.min(4) as u64 / nr_cpus as u64;
        Self {
            conf: Conf {
                nr_cpus: nr_cpus as u32,
                best_effort: 1,
                mem_ns_per_byte_q32: 0,
                delta_ns: 10 * slice_ns,
                wake_credit_ns: credit_ns,
                hold_ns: 10 * slice_ns,
                cap_ns: credit_ns,
            },
            llc_of_cpu: vec![0; nr_cpus],
            slice_ns,
            tick_ns: 4 * MS,
            resched_ns: 2 * US,
            exact_slices: false,
            preempt_margin_ns: margin_ns,
            steal_margin_ns: margin_ns,
            hold_max_ns: SEC,
            rescue_ns: 2 * SEC,
            skewed_ticks: false,
            v_lag_ns: (500 * nr_cpus as u64).max(20 * US),
            v_origin_ns: ffi::v_origin_ns(),
            mem_bytes_per_s: None,
            controller_update_ns: None,
        }
    }

    /// Splits the CPUs evenly among `nr_llcs` LLCs, each with its own queue.
    ///
    /// # Panics
    /// If there are fewer CPUs than LLCs, or no LLC.
    #[must_use]
    pub fn llcs(mut self, nr_llcs: usize) -> Self {
        let cpus = self.llc_of_cpu.len();
        assert!(
            nr_llcs >= 1 && nr_llcs <= cpus,
            "1 to {cpus} LLCs, not {nr_llcs}"
        );
        self.llc_of_cpu = (0..cpus).map(|cpu| cpu * nr_llcs / cpus).collect();
        self
    }

    /// Charges memory traffic against a bandwidth of `bytes_per_s`, and makes
    /// the stand-in memory deliver no more than that.
    ///
    /// # Panics
    /// If `bytes_per_s` is 0.
    #[must_use]
    pub fn memory(mut self, bytes_per_s: u64) -> Self {
        assert_ne!(bytes_per_s, 0, "a memory moves some bytes");
        let q32 = (u128::from(SEC) << 32) / u128::from(bytes_per_s);
        self.conf.mem_ns_per_byte_q32 = u64::try_from(q32).unwrap_or(u64::MAX);
        self.mem_bytes_per_s = Some(bytes_per_s);
        self
    }

    /// Makes the stand-in memory serve the lowest virtual time first, as its
    /// registers have it that the agent writes every `update_ns`.
    ///
    /// # Panics
    /// If `update_ns` is 0.
    #[must_use]
    pub fn controller(mut self, update_ns: u64) -> Self {
        assert_ne!(update_ns, 0, "an update takes some time");
        self.controller_update_ns = Some(update_ns);
        self
    }

    /// Sets delta, the bound of the gap between a flow's virtual times (ns).
    #[must_use]
    pub fn delta(mut self, delta_ns: u64) -> Self {
        self.conf.delta_ns = delta_ns;
        self
    }

    /// The number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.llc_of_cpu.len()
    }

    /// The number of LLCs.
    pub fn nr_llcs(&self) -> usize {
        self.llc_of_cpu.iter().max().map_or(0, |llc| llc + 1)
    }
}

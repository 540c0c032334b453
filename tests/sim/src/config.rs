// SPDX-License-Identifier: GPL-2.0-only
//! The machine to simulate and the options of the scheduler.

use crate::cpuset::CpuSet;
use crate::ffi::{self, Charging, Conf};
use crate::{MS, SEC, US};
use drfq_sense::queues::{LOCAL, Place, Queues};

/// The constants of a run. Durations are ns of wall clock, unless they are called virtual time.
#[derive(Clone, Debug)]
pub struct Config {
    /// The algorithm's constants, as the loader passes them to BPF.
    pub conf: Conf,
    /// The LLC of each CPU. The length is the number of CPUs.
    pub llc_of_cpu: Vec<usize>,
    /// NUMA nodes, among which the LLCs are spread evenly.
    pub nr_nodes: usize,
    /// Whether CPUs 2n and 2n + 1 are threads of one core.
    pub smt: bool,
    /// Longest time that a packet runs before its CPU looks at the queue.
    pub slice_ns: u64,
    /// Period of each CPU's tick.
    pub tick_ns: u64,
    /// Time from a request for a switch to the switch.
    pub resched_ns: u64,
    /// Whether a slice ends when it is used up, instead of at the next tick.
    pub exact_slices: bool,
    /// A woken task preempts a packet whose S is later by this virtual time.
    pub preempt_margin_ns: u64,
    /// A CPU takes the head of another LLC of its node if its S is earlier by this virtual time.
    pub steal_margin_ns: u64,
    /// Longest time that delayed wake-up holds a task.
    pub hold_max_ns: u64,
    /// A task that waits for longer goes to the front of its queue.
    pub rescue_ns: u64,
    /// No task may wait for a CPU for longer, ns; holds do not count.
    pub wait_bound_ns: u64,
    /// What each task adds to that bound that ever lived beside one of each spec, ns.
    pub wait_per_fork_ns: u64,
    /// Whether the CPUs' ticks are spread over a tick's period (`skew_tick=1`). Otherwise all CPUs
    /// tick together, which is the kernel's default.
    pub skewed_ticks: bool,
    /// V at time 0.
    pub v_origin_ns: u64,
    /// Whether every event is followed by a check of what must hold always. It costs time in
    /// proportion to the tasks.
    pub checked: bool,
    /// Bandwidth of the stand-in memory, bytes/s; `None`: no limit.
    pub mem_bytes_per_s: Option<u64>,
    /// Period at which the registers of the stand-in memory get the CPUs' virtual times, by which
    /// it then serves. `None`: it serves all CPUs alike.
    pub controller_update_ns: Option<u64>,
    /// Traffic counters of a CPU. The first counts what tasks move, the second only what
    /// [`crate::kernel::Kernel::count_writes`] adds.
    pub pmu_events: u32,
}

impl Config {
    /// The scheduler's defaults on `nr_cpus` CPUs with one LLC.
    ///
    /// # Panics
    /// If `nr_cpus` is not 1 to [`CpuSet::CPUS`].
    pub fn new(nr_cpus: usize) -> Self {
        let most = CpuSet::CPUS;
        assert!(
            (1..=most).contains(&nr_cpus),
            "1 to {most} CPUs, not {nr_cpus}"
        );
        let slice_ns = 4 * MS;
        let margin_ns = slice_ns / nr_cpus as u64;
        // CPU time on more CPUs than the thesis had (scx_drfq/src/options.rs).
        let credit_ns = 10 * slice_ns * nr_cpus.min(4) as u64 / nr_cpus as u64;
        Self {
            conf: Conf {
                nr_cpus: nr_cpus as u32,
                charging: Charging::Contended,
                mem_ns_per_byte_q32: 0,
                delta_ns: 10 * slice_ns,
                wake_credit_ns: credit_ns,
                hold_ns: 10 * slice_ns,
                cap_ns: credit_ns,
                bus_credit_ns: 3 * slice_ns,
            },
            llc_of_cpu: vec![0; nr_cpus],
            nr_nodes: 1,
            smt: false,
            slice_ns,
            tick_ns: 4 * MS,
            resched_ns: 2 * US,
            exact_slices: false,
            preempt_margin_ns: margin_ns,
            steal_margin_ns: margin_ns,
            hold_max_ns: 300 * MS,
            rescue_ns: 2 * SEC,
            wait_bound_ns: u64::MAX,
            wait_per_fork_ns: 0,
            skewed_ticks: false,
            v_origin_ns: ffi::v_origin_ns(),
            checked: true,
            mem_bytes_per_s: None,
            controller_update_ns: None,
            pmu_events: 1,
        }
    }

    /// Splits the CPUs evenly among `nr_llcs` LLCs.
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

    /// Sets the memory's bandwidth: traffic is charged against `bytes_per_s`, and the stand-in
    /// memory delivers no more.
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

    /// Makes the stand-in memory serve the lowest virtual time first. The agent writes the CPUs'
    /// virtual times into its registers every `update_ns`.
    ///
    /// # Panics
    /// If `update_ns` is 0.
    #[must_use]
    pub fn controller(mut self, update_ns: u64) -> Self {
        assert_ne!(update_ns, 0, "an update takes some time");
        self.controller_update_ns = Some(update_ns);
        self.conf.bus_credit_ns = 3 * self.slice_ns.max(update_ns);
        self
    }

    /// Sets when S is charged.
    #[must_use]
    pub fn charging(mut self, charging: Charging) -> Self {
        self.conf.charging = charging;
        self
    }

    /// Sets delta, the most that a flow's virtual times may differ (ns).
    #[must_use]
    pub fn delta(mut self, delta_ns: u64) -> Self {
        self.conf.delta_ns = delta_ns;
        self
    }

    /// The number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.llc_of_cpu.len()
    }

    /// The queues that the agent makes for this machine. Different nodes have distance 20.
    pub fn queues(&self) -> Queues {
        let place = |(cpu, &llc): (usize, &usize)| Place {
            node: (llc * self.nr_nodes / self.nr_llcs()) as u32,
            cache: llc as u32,
            core: if self.smt { cpu / 2 } else { cpu } as u32,
            cpu: cpu as u32,
        };
        let places: Vec<Place> = self.llc_of_cpu.iter().enumerate().map(place).collect();
        let distance = |a, b| if a == b { LOCAL } else { 2 * LOCAL };
        Queues::divide(&places, self.nr_cpus(), distance)
    }

    /// The number of LLCs.
    pub fn nr_llcs(&self) -> usize {
        self.llc_of_cpu.iter().max().map_or(0, |llc| llc + 1)
    }
}

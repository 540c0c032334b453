// SPDX-License-Identifier: GPL-2.0-only
//! The options of the scheduler as the user writes them. The doc comments are the
//! help text. `resolve` checks the options against each other and against the
//! machine, and turns them into the values that are loaded.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use drfq_controller_link::target::Target;
use drfq_sense::{
    perf_event::{EventChoice, TrafficSource},
    queues::Queues,
    topology::Topology,
};

use crate::{
    bandwidth::Bandwidth,
    capacity::{Capacity, Wanted},
    config::{
        Charging, Config, DELTA_NONE_NS, Entity, HOLD_NEVER_NS, MbaMode, Throttle, Variant, Weights,
    },
};

/// The number of CPUs that the thesis' constants are for. A slice of virtual time
/// is worth c slices of CPU time. With the same constants on 16 CPUs, 48 tasks that
/// wake up together would keep 16 busy tasks off their CPUs for 2 s (simulated).
const THESIS_CPUS: u64 = 4;

/// The largest number of slices in an option. With the longest slice it is
/// 1000 s, below the origin of virtual time (DRFQ_V_ORIGIN_NS, 1099 s).
const SLICES_MAX: u64 = 1000;

/// The default of --delta-slices.
const DELTA_SLICES: u64 = 10;

/// Options of the scheduler.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Longest time that a packet runs [microseconds, 100 to 1000000]
    #[arg(long, value_name = "US", default_value_t = 4000,
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub slice_us: u64,

    /// How the CPU time and the memory traffic of a task combine
    #[arg(long, value_enum, default_value_t = Variant::DeltaBounded)]
    pub variant: Variant,

    /// How far the two virtual times of a task may differ, with --variant
    /// delta-bounded [slices, 1 to 1000; default 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SLICES_MAX))]
    pub delta_slices: Option<u64>,

    /// How far behind the system virtual time a woken task may start (C of
    /// equation 4.7) [slices, 0 to 1000; worth at most as much CPU time as on 4 CPUs]
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(0..=SLICES_MAX))]
    pub wake_credit_slices: u64,

    /// How far beyond the system virtual time a running task may start its next
    /// packet (Algorithm 2) [slices, 1 to 1000; on more than 4 CPUs it shrinks
    /// like --wake-credit-slices]
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=SLICES_MAX))]
    pub cap_slices: u64,

    /// How far after V a woken task's debt may be (K, 4.10) [slices, 0 to 1000; default 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=SLICES_MAX))]
    pub hold_slices: Option<u64>,

    /// Longest delayed wake-up, and wait for a pace
    /// [milliseconds, 1 to 10000; default 300]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub hold_max_ms: Option<u64>,

    /// Dispatch woken tasks at once, however large their debt
    #[arg(long, conflicts_with = "hold_slices")]
    pub no_delayed_wakeup: bool,

    /// Waiting time after which a task may run ahead of its turn
    /// [milliseconds, 10 to 10000]
    #[arg(long, value_name = "MS", default_value_t = 2000,
          value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub rescue_ms: u64,

    /// How much earlier in virtual time a woken task must be to preempt a running
    /// packet [microseconds, 0 to 1000000; default: one slice / CPUs]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub preempt_margin_us: Option<u64>,

    /// Lead in virtual time by which a CPU takes a task of another last-level cache;
    /// more on distant NUMA nodes [microseconds, 0 to 1000000; default: one slice / CPUs]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub steal_margin_us: Option<u64>,

    /// When CPU time and memory traffic count against a task [default: contended;
    /// with --variant memoryless, as in the thesis: always]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub charge: Option<Charging>,

    /// How a nice value becomes a weight
    #[arg(long, value_enum, default_value_t = Weights::Kernel)]
    pub weights: Weights,

    /// One queue for all CPUs instead of one per last-level cache and at most 16 CPUs
    #[arg(long, conflicts_with = "steal_margin_us")]
    pub single_queue: bool,

    /// Schedule only tasks of the policy SCHED_EXT; all others go first
    #[arg(long)]
    pub partial: bool,

    /// Memory bandwidth of the machine: bytes per second, optionally with k, M, G
    /// or T, 1M to 100T; auto (default: the last calibration, else an estimate by
    /// what the firmware tells); or none, so that memory traffic is not charged
    #[arg(
        long,
        value_name = "BYTES_PER_SEC",
        default_value = "auto",
        hide_default_value = true
    )]
    pub memory_bandwidth: Wanted,

    /// Events that count memory traffic, one or two joined by "+": auto (default:
    /// the best of this CPU model), none, cache-misses, LLC-load-misses,
    /// raw:0xCONFIG[:0xCONFIG1], or software events as stand-ins (page-faults,
    /// task-clock, context-switches, ...)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        hide_default_value = true
    )]
    pub perf_event: EventChoice,

    /// Bytes that one event stands for [1 to 1048576; default: a line of the cache, if any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub event_bytes: Option<u32>,

    /// Neither count nor charge traffic of devices: block I/O and packets
    #[arg(long)]
    pub no_dma: bool,

    /// Memory controller to drive: mmio:PATH (a PCI resource file or UIO device),
    /// mmio:auto (search the PCI devices), or unix:PATH (a server such as
    /// drfq-mc). Without a PMU, tasks are charged the traffic that it counts
    #[arg(long, value_name = "TARGET")]
    pub controller: Option<Target>,

    /// Interval between updates of the controller's registers [us, 100 to 1000000]
    #[arg(long, value_name = "US", default_value_t = 1000, requires = "controller",
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub controller_interval_us: u64,

    /// Unit of virtual times in registers: 2^N ns [10 to 30; 22 is about one slice]
    #[arg(long, value_name = "N", default_value_t = 22,
          value_parser = clap::value_parser!(u32).range(10..=30))]
    pub register_shift: u32,

    /// Server of a controller's model, which only shows what it would give: unix:PATH
    #[arg(long, value_name = "TARGET")]
    pub shadow: Option<Target>,

    /// Share memory bandwidth by throttling (MBA) while memory is saturated
    #[arg(long, value_enum, default_value_t = MbaMode::Auto)]
    pub mba: MbaMode,

    /// Share memory bandwidth without MBA while memory is saturated: tasks wait
    #[arg(long, value_name = "hold", value_enum, hide_possible_values = true,
          conflicts_with_all = ["mba", "controller"])]
    pub throttle: Option<Throttle>,

    /// Record what the loop of --mba or --throttle measures: a line of JSON per period
    #[arg(long, value_name = "FILE")]
    pub mba_trace: Option<PathBuf>,

    /// Charge also what only MBM counts, as non-temporal stores, where --mba monitors
    #[arg(long)]
    pub charge_mbm: bool,

    /// What shares memory bandwidth as one, with --mba or --throttle
    #[arg(long, value_enum, default_value_t = Entity::Cgroup)]
    pub entity: Entity,
}

impl Options {
    /// The values to load on a machine with this topology and memory.
    ///
    /// # Errors
    /// Options contradict each other; in one line.
    pub fn resolve(&self, topology: &Topology, capacity: &Capacity) -> Result<Config> {
        let slice_ns = self.slice_us * 1000;
        let slices = |n: u64| n * slice_ns;
        let nr_cpus = topology.online.len() as u32;
        let cpus = u64::from(nr_cpus);
        let credit = |n: u64| slices(n) * THESIS_CPUS.min(cpus) / cpus;
        let queues = match self.single_queue {
            true => Queues::single(topology.cpu_llc.len()),
            false => topology.queues.clone(),
        };
        let margin_ns = |us: Option<u64>| us.map_or(slice_ns / u64::from(nr_cpus), |us| us * 1000);
        self.check_controllers()?;

        Ok(Config {
            nr_cpus,
            nr_cpu_ids: topology.nr_cpu_ids(),
            queues,
            slice_ns,
            variant: self.variant,
            delta_ns: self.delta_ns(slice_ns)?,
            wake_credit_ns: credit(self.wake_credit_slices),
            cap_ns: credit(self.cap_slices),
            hold_ns: match self.no_delayed_wakeup {
                true => HOLD_NEVER_NS,
                false => slices(self.hold_slices.unwrap_or(10)),
            },
            hold_max_ns: self.hold_max_ms.unwrap_or(300) * 1_000_000,
            rescue_ns: self.rescue_ms * 1_000_000,
            preempt_margin_ns: margin_ns(self.preempt_margin_us),
            steal_margin_ns: margin_ns(self.steal_margin_us),
            charging: self.charging(),
            bus_credit_ns: self.bus_credit_ns(slice_ns),
            weights: self.weights,
            partial: self.partial,
            dma: !self.no_dma,
            memory_bandwidth_bytes_per_s: capacity.bandwidth(),
            mem_ns_per_byte_q32: capacity.bandwidth().map_or(0, Bandwidth::ns_per_byte_q32),
            capacity: capacity.clone(),
            cpu_llc: topology.cpu_llc.clone(),
            online: topology.online.clone(),
            controller: self.controller.clone(),
            controller_interval_ns: self.controller_interval_us * 1000,
            register_shift: self.register_shift,
            shadow: self.shadow.clone(),
            mba: self.mba_mode(),
            throttle: self.throttle,
            mba_trace: self.mba_trace.clone(),
            charge_mbm: self.charge_mbm,
            entity: self.entity,
            traffic: self.traffic_source()?,
        })
    }

    /// Whether to share memory bandwidth by MBA. If a controller or paces do that, or other tasks
    /// belong to another scheduler, it must be asked for.
    pub fn mba_mode(&self) -> MbaMode {
        let elsewhere = self.controller.is_some() || self.throttle.is_some() || self.partial;
        match self.mba {
            MbaMode::Auto if elsewhere => MbaMode::Off,
            mode => mode,
        }
    }

    fn check_controllers(&self) -> Result<()> {
        let Some(shadow) = &self.shadow else {
            return Ok(());
        };
        ensure!(
            matches!(shadow, Target::Unix(_)),
            "--shadow needs unix:PATH, because only a model can replay traffic"
        );
        ensure!(
            self.controller.as_ref() != Some(shadow),
            "--shadow and --controller name the same server, which serves one agent; \
             start another server for one of them"
        );
        Ok(())
    }

    fn charging(&self) -> Charging {
        self.charge.unwrap_or(match self.variant {
            Variant::Memoryless => Charging::Always,
            Variant::Dovetailing | Variant::DeltaBounded => Charging::Contended,
        })
    }

    /// Three intervals between charges: the kernel's tick, for which a slice stands
    /// here, or the interval at which the controller learns of them.
    fn bus_credit_ns(&self, slice_ns: u64) -> u64 {
        3 * match self.controller {
            Some(_) => slice_ns.max(self.controller_interval_us * 1000),
            None => slice_ns,
        }
    }

    fn delta_ns(&self, slice_ns: u64) -> Result<u64> {
        if self.variant == Variant::DeltaBounded {
            return Ok(self.delta_slices.unwrap_or(DELTA_SLICES) * slice_ns);
        }
        ensure!(
            self.delta_slices.is_none(),
            "--delta-slices works with --variant delta-bounded only; drop one of the two"
        );
        Ok(match self.variant {
            Variant::Memoryless => 0,
            _ => DELTA_NONE_NS,
        })
    }

    fn traffic_source(&self) -> Result<TrafficSource> {
        let Some(event_bytes) = self.event_bytes else {
            if let EventChoice::Events(events) = &self.perf_event {
                let stand_in = events.iter().find(|event| event.is_stand_in());
                ensure!(
                    stand_in.is_none(),
                    "--perf-event {} is a software event and needs --event-bytes, such as 4096",
                    stand_in.map_or("", |event| &event.name)
                );
            }
            return Ok(TrafficSource {
                event: self.perf_event.clone(),
                event_bytes: None,
            });
        };
        match &self.perf_event {
            EventChoice::Auto => bail!("--event-bytes needs --perf-event NAME"),
            EventChoice::None => {
                bail!("--event-bytes contradicts --perf-event none; drop one of the two")
            }
            EventChoice::Events(_) => {}
        }
        Ok(TrafficSource {
            event: self.perf_event.clone(),
            event_bytes: Some(event_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use drfq_sense::queues::{LOCAL, Place};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    /// LLCs of `cpus` CPUs each.
    fn machine(nr_llcs: u32, cpus: u32) -> Topology {
        let place = |cpu| Place {
            node: 0,
            cache: cpu / cpus,
            core: cpu,
            cpu,
        };
        let places: Vec<Place> = (0..nr_llcs * cpus).map(place).collect();
        Topology {
            online: (0..nr_llcs * cpus).collect(),
            cpu_llc: places.iter().map(|place| place.cache).collect(),
            nr_llcs,
            queues: Queues::divide(&places, places.len(), |_, _| LOCAL),
        }
    }

    fn resolve(arguments: &str) -> Result<Config, String> {
        let command = Command::try_parse_from(arguments.split_whitespace());
        let options = command.map_err(|error| error.to_string())?.options;
        let capacity = Capacity::find(options.memory_bandwidth, Path::new("/nonexistent"));
        let resolved = options.resolve(&machine(2, 2), &capacity);
        resolved.map_err(|error| error.to_string())
    }

    /// Decision 13.
    #[test]
    fn on_four_cpus_c_k_and_the_cap_are_those_of_the_thesis() {
        let config = resolve("scx_drfq").unwrap();
        assert_eq!(config.slice_ns, 4_000_000);
        assert_eq!(config.wake_credit_ns, 40_000_000);
        assert_eq!(config.hold_ns, 40_000_000);
        assert_eq!(config.cap_ns, 40_000_000);
    }

    #[test]
    fn defaults_depart_from_the_thesis_where_a_decision_does() {
        let config = resolve("scx_drfq").unwrap();
        // Decision 10; the thesis charges memorylessly.
        assert_eq!(config.variant, Variant::DeltaBounded);
        assert_eq!(config.delta_ns, 40_000_000);
        // Decision 12; the thesis has equation 4.9.
        assert_eq!(config.weights, Weights::Kernel);
        // Decision 36; the thesis always charges.
        assert_eq!(config.charging, Charging::Contended);
        assert_eq!(config.bus_credit_ns, 12_000_000);
    }

    #[test]
    fn on_four_cpus_margins_are_a_quarter_of_a_slice() {
        let config = resolve("scx_drfq").unwrap();
        assert_eq!(config.preempt_margin_ns, 1_000_000);
        assert_eq!(config.steal_margin_ns, 1_000_000);
    }

    #[test]
    fn without_options_holds_and_waits_are_bounded_and_devices_are_charged() {
        let config = resolve("scx_drfq").unwrap();
        assert_eq!(config.hold_max_ns, 300_000_000);
        assert_eq!(config.rescue_ns, 2_000_000_000);
        assert!(config.dma && !config.partial);
        assert_eq!(config.mem_ns_per_byte_q32, 0);
    }

    #[test]
    fn each_last_level_cache_has_a_queue() {
        let config = resolve("scx_drfq").unwrap();
        assert_eq!((config.nr_cpus, config.nr_cpu_ids), (4, 4));
        assert_eq!(config.queues.of_cpu, [0, 0, 1, 1]);
    }

    #[test]
    fn on_sixteen_cpus_credits_shrink_to_a_quarter() {
        let topology = machine(1, 16);
        let command = Command::try_parse_from(["scx_drfq"]).unwrap();
        let capacity = Capacity::Unknown(String::new());
        let config = command.options.resolve(&topology, &capacity).unwrap();
        assert_eq!(config.wake_credit_ns, 10_000_000);
        assert_eq!(config.cap_ns, 10_000_000);
        // What memory traffic is worth does not depend on the number of CPUs.
        assert_eq!(config.hold_ns, 40_000_000);
        assert_eq!(config.delta_ns, 40_000_000);
    }

    #[test]
    fn mba_must_be_asked_for_where_something_else_shares_memory_or_cpus() {
        for (line, mode) in [
            ("", MbaMode::Auto),
            ("--partial", MbaMode::Off),
            ("--throttle hold", MbaMode::Off),
            ("--controller mmio:auto", MbaMode::Off),
            ("--controller mmio:auto --mba on", MbaMode::On),
            ("--partial --mba observe", MbaMode::Observe),
        ] {
            let config = resolve(&format!("scx_drfq {line}"));
            assert_eq!(config.map(|c| c.mba), Ok(mode), "{line}");
        }
    }

    #[test]
    fn an_option_changes_its_value() {
        type Check = fn(&Config) -> bool;
        let table: &[(&str, Check)] = &[
            ("--slice-us 1000", |c| {
                c.slice_ns == 1_000_000 && c.cap_ns == 10_000_000
            }),
            ("--variant memoryless", |c| c.delta_ns == 0),
            ("--variant dovetailing", |c| c.delta_ns == DELTA_NONE_NS),
            ("--delta-slices 3", |c| c.delta_ns == 12_000_000),
            ("--variant delta-bounded --delta-slices 1", |c| {
                c.delta_ns == 4_000_000
            }),
            ("--wake-credit-slices 0", |c| c.wake_credit_ns == 0),
            ("--cap-slices 20", |c| c.cap_ns == 80_000_000),
            ("--hold-slices 0", |c| c.hold_ns == 0),
            ("--hold-max-ms 5", |c| c.hold_max_ns == 5_000_000),
            ("--no-delayed-wakeup", |c| c.hold_ns == HOLD_NEVER_NS),
            // Waits for a pace have the bound of holds.
            ("--throttle hold --no-delayed-wakeup --hold-max-ms 5", |c| {
                c.hold_ns == HOLD_NEVER_NS && c.hold_max_ns == 5_000_000
            }),
            ("--rescue-ms 10", |c| c.rescue_ns == 10_000_000),
            ("--preempt-margin-us 0", |c| c.preempt_margin_ns == 0),
            ("--steal-margin-us 7", |c| c.steal_margin_ns == 7000),
            ("--charge always", |c| c.charging == Charging::Always),
            ("--variant memoryless", |c| c.charging == Charging::Always),
            ("--variant memoryless --charge contended", |c| {
                c.charging == Charging::Contended
            }),
            (
                "--controller mmio:auto --controller-interval-us 10000",
                |c| c.bus_credit_ns == 30_000_000,
            ),
            ("--no-dma", |c| !c.dma),
            ("--weights thesis", |c| c.weights == Weights::Thesis),
            ("--single-queue", |c| c.queues.of_cpu == [0; 4]),
            ("--memory-bandwidth 1G", |c| {
                c.mem_ns_per_byte_q32 == 1 << 32
            }),
            ("--perf-event page-faults --event-bytes 4096", |c| {
                c.traffic.event_bytes == Some(4096)
            }),
            ("--perf-event raw:0x4844", |c| {
                c.traffic.event_bytes.is_none()
            }),
            ("--mba on", |c| c.mba == MbaMode::On),
            ("--throttle hold", |c| c.throttle == Some(Throttle::Hold)),
            ("--controller mmio:auto", |c| {
                c.controller == Some(Target::MmioAuto) && c.controller_interval_ns == 1_000_000
            }),
            ("--controller unix:a --shadow unix:b", |c| {
                c.controller.is_some() && c.shadow.is_some()
            }),
            (
                "--controller unix:a --controller-interval-us 100 --register-shift 20",
                |c| c.controller_interval_ns == 100_000 && c.register_shift == 20,
            ),
        ];
        for (arguments, check) in table {
            let config = resolve(&format!("scx_drfq {arguments}")).expect(arguments);
            assert!(check(&config), "{arguments}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused() {
        for arguments in [
            "--slice-us 0",
            "--slice-us 99",
            "--slice-us 1000001",
            "--slice-us -5",
            "--slice-us 18446744073709551616",
            "--slice-us four",
            "--delta-slices 0",
            "--delta-slices 1001",
            "--cap-slices 0",
            "--hold-slices 1001",
            "--hold-max-ms 0",
            "--hold-max-ms 10001",
            "--rescue-ms 0",
            "--preempt-margin-us 1000001",
            "--memory-bandwidth 0",
            "--memory-bandwidth 1",
            "--memory-bandwidth lots",
            "--event-bytes 0 --perf-event cache-misses",
            "--event-bytes 1048577 --perf-event cache-misses",
            "--perf-event no-such-event",
            "--controller /dev/uio0",
            "--controller mmio:",
            "--controller mmio:auto --controller-interval-us 99",
            "--register-shift 9",
            "--register-shift 31",
            "--shadow tcp:1",
            "--variant fastest",
            "--weights heavy",
            "--charge never",
            "--mba maybe",
            "--throttle mba",
            "--entity user",
        ] {
            assert!(
                resolve(&format!("scx_drfq {arguments}")).is_err(),
                "{arguments}"
            );
        }
    }

    #[test]
    fn contradicting_options_are_refused() {
        for (arguments, reason) in [
            (
                "--variant memoryless --delta-slices 5",
                "delta-bounded only",
            ),
            (
                "--variant dovetailing --delta-slices 5",
                "delta-bounded only",
            ),
            ("--event-bytes 64", "needs --perf-event"),
            ("--perf-event none --event-bytes 64", "contradicts"),
            ("--perf-event page-faults", "needs --event-bytes"),
            ("--no-delayed-wakeup --hold-slices 3", "cannot be used with"),
            ("--single-queue --steal-margin-us 3", "cannot be used with"),
            ("--shadow mmio:auto", "only a model"),
            ("--throttle hold --mba on", "cannot be used with"),
            ("--throttle hold --controller unix:a", "cannot be used with"),
            (
                "--shadow unix:a --controller unix:a",
                "start another server",
            ),
            ("--controller-interval-us 500", "--controller <TARGET>"),
        ] {
            let error = resolve(&format!("scx_drfq {arguments}")).expect_err(arguments);
            assert!(error.contains(reason), "{arguments}: {error}");
        }
    }
}

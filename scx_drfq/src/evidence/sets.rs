// SPDX-License-Identifier: GPL-2.0-only
//! Two sets of loads of the thesis (chapter 5), by loads that we carry, under the kernel's
//! scheduler and under ours. Set 1: copiers, so many that they saturate the memory. Set 4: a copier
//! beside a spinner for each CPU.

use std::{fmt, io::Write, path::Path, time::Duration};

use anyhow::{Context, Result};
use drfq_sense::topology::Topology;
use serde::Serialize;

use crate::{
    calibrate::memory::{LEAST, beyond_cache, room},
    evidence::running::Running,
    loads::{self, Done, Load, Op, Work},
};

/// A level of nice changes the weight by this factor (Documentation/scheduler/sched-nice-design.rst).
const WEIGHT_STEP: f64 = 1.25;

/// What is to be measured.
pub struct Plan {
    /// For all sets together.
    pub time: Duration,
    /// m (bytes per second).
    pub bytes_per_s: u64,
    /// The scheduler can be loaded here.
    pub can_run: bool,
    /// Why this machine does not throttle (MBA); none: as far as it tells, it does.
    pub no_throttle: Option<String>,
}

/// What was measured.
#[derive(Debug, Default, Serialize)]
pub struct Sets {
    /// The schedulers that were not measured.
    pub missing: Vec<Missing>,
    /// A row for each set and scheduler.
    pub rows: Vec<Row>,
}

/// A scheduler that was not measured.
#[derive(Debug, Serialize)]
pub struct Missing {
    /// As in [`Row`], or `scx_drfq` with any options.
    pub scheduler: String,
    /// Why, in a few words.
    pub reason: String,
}

/// A set under a scheduler.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The set, in words.
    pub set: &'static str,
    /// `the kernel's scheduler`, or our command line.
    pub scheduler: String,
    /// How long was counted.
    pub seconds: f64,
    /// What each load got.
    pub loads: Vec<Got>,
    /// How far the dominant shares for each weight are apart: the largest over the smallest, less 1.
    /// None: a load got nothing.
    pub spread: Option<f64>,
    /// Traffic of all loads (bytes per second), and its part of m.
    pub total_bytes_per_s: f64,
    /// 1 if the memory is saturated.
    pub part_of_m: f64,
}

/// What a load got.
#[derive(Debug, Serialize)]
pub struct Got {
    /// `copier` or `spinner`.
    pub load: &'static str,
    /// Relative to nice 0.
    pub weight: f64,
    /// Traffic by its own count.
    pub bytes_per_s: f64,
    /// CPU time for each second.
    pub cpus: f64,
    /// The larger of its shares of m and of all CPUs.
    pub dominant_share: f64,
}

/// A set: its name, and nice values of its copiers and spinners.
struct Set {
    name: &'static str,
    copiers: Vec<i32>,
    spinners: Vec<i32>,
}

/// The schedulers that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Kernel,
    Ours,
    OursThrottling,
}

impl Scheduler {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => &[],
            Self::Ours => &["--mba", "off"],
            // The loads are threads of one process.
            Self::OursThrottling => &["--mba", "on", "--entity", "task"],
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("the kernel's scheduler"),
            _ => write!(f, "scx_drfq {}", self.options().join(" ")),
        }
    }
}

/// Runs all sets under all schedulers.
///
/// # Errors
/// A load cannot run, or the output cannot be written.
pub fn measure(
    plan: &Plan,
    topology: &Topology,
    root: &Path,
    out: &mut impl Write,
) -> Result<Sets> {
    let cpus = topology.online.len();
    let sets = sets(cpus);
    let mut found = Sets::default();
    let schedulers = schedulers(plan, &mut found);
    let time = plan.time / (sets.len() * schedulers.len()) as u32;
    let caches = Caches::of(topology, root);
    for scheduler in schedulers {
        let running = match scheduler {
            Scheduler::Kernel => None,
            ours => match Running::start(ours.options(), plan.bytes_per_s, root) {
                Ok(running) => Some(running),
                Err(reason) => {
                    writeln!(out, "{ours}: {reason:#}")?;
                    found.miss(ours.to_string(), format!("{reason:#}"));
                    continue;
                }
            },
        };
        for set in &sets {
            writeln!(out, "{}: under {scheduler}", set.name)?;
            let loads = set.loads(caches);
            let (done, counted) = loads::race(&loads, time, || Ok(()), |_| ())
                .with_context(|| format!("cannot run {}", set.name))?;
            let machine = (plan.bytes_per_s as f64, cpus as f64);
            found
                .rows
                .push(row(set.name, scheduler, &loads, &done, counted, machine));
        }
        // If the kernel has ended it, some of its rows are the kernel's own.
        if let Some(Err(reason)) = running.map(Running::stop) {
            writeln!(out, "{scheduler}: {reason:#}")?;
            found.miss(scheduler.to_string(), format!("{reason:#}"));
        }
    }
    Ok(found)
}

/// The schedulers that can be measured. Notes why others cannot. Where a machine should throttle, the
/// scheduler itself tells whether it does: the levels of MBA need not be known, as they are not
/// where they are absolute.
fn schedulers(plan: &Plan, found: &mut Sets) -> Vec<Scheduler> {
    if !plan.can_run {
        let reason = "it cannot be loaded here, see doctor";
        found.miss("scx_drfq".into(), reason.into());
        return vec![Scheduler::Kernel];
    }
    if let Some(reason) = &plan.no_throttle {
        found.miss(Scheduler::OursThrottling.to_string(), reason.clone());
        return vec![Scheduler::Kernel, Scheduler::Ours];
    }
    vec![
        Scheduler::Kernel,
        Scheduler::Ours,
        Scheduler::OursThrottling,
    ]
}

/// The sets on a machine of so many CPUs.
fn sets(cpus: usize) -> [Set; 3] {
    let copiers = cpus.max(2);
    [
        Set {
            name: "set 1, a copier for each CPU, of equal weight",
            copiers: vec![0; copiers],
            spinners: Vec::new(),
        },
        Set {
            name: "set 1, a copier for each CPU, of nice 0 and 5",
            copiers: (0..copiers).map(|at| 5 * (at as i32 % 2)).collect(),
            spinners: Vec::new(),
        },
        Set {
            name: "set 4, a copier and a spinner for each CPU",
            copiers: vec![0],
            spinners: vec![0; cpus],
        },
    ]
}

/// The last-level caches of a machine.
#[derive(Clone, Copy, Debug)]
struct Caches {
    /// Memory that does not stay in the largest one (bytes).
    beyond: usize,
    /// Their number.
    count: usize,
    /// What all loads together may touch (bytes).
    room: usize,
}

impl Caches {
    fn of(topology: &Topology, root: &Path) -> Self {
        let each = topology.online.iter().map(|&cpu| beyond_cache(cpu, root));
        Self {
            beyond: each.max().unwrap_or(LEAST),
            count: topology.nr_llcs as usize,
            room: room(root),
        }
    }

    /// Memory of each of so many copiers. The scheduler may place any of them before any cache, so
    /// all of them together go beyond all the caches that they can fill, where there is room.
    fn bytes_each(self, copiers: usize) -> usize {
        let wanted = self.beyond * self.count.min(copiers) / copiers;
        wanted.max(LEAST).min(self.room / copiers)
    }
}

impl Sets {
    /// Notes that a scheduler was not measured, and drops what there is of it.
    fn miss(&mut self, scheduler: String, reason: String) {
        self.rows.retain(|row| row.scheduler != scheduler);
        self.missing.push(Missing { scheduler, reason });
    }
}

impl Set {
    fn loads(&self, caches: Caches) -> Vec<Load> {
        let bytes = caches.bytes_each(self.copiers.len());
        let load = |work| {
            move |&nice: &i32| Load {
                work,
                cpu: None,
                nice,
            }
        };
        let copiers = self.copiers.iter().map(load(Work::Memory(Op::Copy, bytes)));
        copiers
            .chain(self.spinners.iter().map(load(Work::Spin)))
            .collect()
    }
}

/// `machine`: m (bytes per second) and the number of CPUs.
fn row(
    set: &'static str,
    scheduler: Scheduler,
    loads: &[Load],
    done: &[Done],
    counted: Duration,
    machine: (f64, f64),
) -> Row {
    let seconds = counted.as_secs_f64();
    let got: Vec<Got> = loads
        .iter()
        .zip(done)
        .map(|(load, done)| {
            let (bytes_per_s, cpus) = (
                done.bytes as f64 / seconds,
                done.cpu.as_secs_f64() / seconds,
            );
            Got {
                load: match load.work {
                    Work::Memory(..) => "copier",
                    Work::Spin => "spinner",
                },
                weight: WEIGHT_STEP.powi(-load.nice),
                bytes_per_s,
                cpus,
                dominant_share: (bytes_per_s / machine.0).max(cpus / machine.1),
            }
        })
        .collect();
    let shares = got.iter().map(|one| one.dominant_share / one.weight);
    let (least, most) = shares.fold((f64::INFINITY, 0f64), |(least, most), share| {
        (least.min(share), most.max(share))
    });
    let total_bytes_per_s = got.iter().map(|one| one.bytes_per_s).sum();
    Row {
        set,
        scheduler: scheduler.to_string(),
        seconds,
        total_bytes_per_s,
        part_of_m: total_bytes_per_s / machine.0,
        loads: got,
        spread: (least > 0.0).then(|| most / least - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use drfq_sense::queues::Queues;

    use super::*;

    fn done(bytes: u64, cpu_ms: u64) -> Done {
        Done {
            bytes,
            cpu: Duration::from_millis(cpu_ms),
        }
    }

    #[test]
    fn shares_are_of_the_dominant_resource_and_for_each_weight() {
        let set = Set {
            name: "one",
            copiers: vec![0, 5],
            spinners: vec![0],
        };
        let loads = set.loads(Caches {
            beyond: 4096,
            count: 1,
            room: usize::MAX,
        });
        // A second on two CPUs with m = 1000 bytes per second.
        let work = [done(600, 500), done(100, 300), done(0, 800)];
        let found = row(
            "one",
            Scheduler::Ours,
            &loads,
            &work,
            Duration::from_secs(1),
            (1000.0, 2.0),
        );
        let shares: Vec<f64> = found.loads.iter().map(|got| got.dominant_share).collect();
        assert_eq!(shares, [0.6, 0.15, 0.4]);
        assert!((found.loads[1].weight - 0.328).abs() < 0.001, "{found:?}");
        // 0.6 of weight 1 against 0.4 of weight 1; 0.15 of weight 0.328 is between them.
        let spread = found.spread.expect("each load got something");
        assert!((spread - 0.5).abs() < 1e-9, "{found:?}");
        assert_eq!((found.total_bytes_per_s, found.part_of_m), (700.0, 0.7));
    }

    #[test]
    fn copiers_of_a_machine_with_many_caches_go_beyond_all_of_them() {
        let root = tempfile::tempdir().unwrap();
        let mib = |count: usize| count << 20;
        let dir = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        for cpu in 0..128 {
            let dir = root.path().join(dir(cpu));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("size"), "32768K\n").unwrap();
        }
        let topology = Topology {
            online: (0..128).collect(),
            cpu_llc: (0..128).map(|cpu| cpu / 8).collect(),
            nr_llcs: 16,
            queues: Queues::single(128),
        };
        let caches = Caches::of(&topology, root.path());
        let bytes = |set: &Set| match set.loads(caches)[0].work {
            Work::Memory(_, bytes) => bytes,
            Work::Spin => 0,
        };
        // 8 copiers at each cache of 32 MiB, and one that has any of them for itself.
        let found: Vec<usize> = sets(128).iter().map(bytes).collect();
        assert_eq!(found, [mib(16), mib(16), mib(128)]);
        let room = mib(1280);
        let few = Caches { room, ..caches };
        assert_eq!(
            [1, 8, 128].map(|copiers| few.bytes_each(copiers)),
            [mib(128), mib(128), mib(10)]
        );
    }

    #[test]
    fn a_load_that_got_nothing_leaves_no_spread() {
        let loads = sets(1)[2].loads(Caches {
            beyond: 4096,
            count: 1,
            room: usize::MAX,
        });
        for work in [
            [done(600, 500), Done::default()],
            [Done::default(), Done::default()],
        ] {
            let second = Duration::from_secs(1);
            let found = row("one", Scheduler::Ours, &loads, &work, second, (1000.0, 1.0));
            assert_eq!(found.spread, None, "{work:?}");
        }
    }

    #[test]
    fn a_scheduler_that_was_not_measured_keeps_no_row() {
        let mut found = Sets::default();
        for scheduler in [Scheduler::Ours, Scheduler::OursThrottling] {
            let second = Duration::from_secs(1);
            found
                .rows
                .push(row("one", scheduler, &[], &[], second, (1.0, 1.0)));
        }
        let throttling = Scheduler::OursThrottling.to_string();
        found.miss(throttling.clone(), "it did not throttle: off".into());
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.rows[0].scheduler, Scheduler::Ours.to_string());
        assert_eq!(found.missing[0].scheduler, throttling);
    }

    #[test]
    fn each_scheduler_is_measured_or_missed() {
        let schedulers_of = |can_run, no_throttle: Option<&str>| {
            let plan = Plan {
                time: Duration::ZERO,
                bytes_per_s: 1,
                can_run,
                no_throttle: no_throttle.map(str::to_owned),
            };
            let mut found = Sets::default();
            let measured = schedulers(&plan, &mut found).len();
            let missing = found.missing.into_iter().map(|missing| missing.reason);
            (measured, missing.collect::<Vec<_>>())
        };
        assert_eq!(schedulers_of(true, None), (3, Vec::new()));
        let (measured, missing) = schedulers_of(true, Some("no MBA"));
        assert_eq!((measured, &missing[..]), (2, &["no MBA".to_owned()][..]));
        let (measured, missing) = schedulers_of(false, None);
        assert_eq!((measured, missing.len()), (1, 1));
    }

    #[test]
    fn a_scheduler_is_named_by_its_options() {
        assert_eq!(
            Scheduler::OursThrottling.to_string(),
            "scx_drfq --mba on --entity task"
        );
        assert_eq!(Scheduler::Ours.to_string(), "scx_drfq --mba off");
    }
}

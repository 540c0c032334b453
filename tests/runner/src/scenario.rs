// SPDX-License-Identifier: GPL-2.0-only
//! A scenario as its file declares it: schedulers, cases, and what is
//! expected of each case.

use crate::weight::Weights;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// One file of tests/scenarios.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the file, without its extension.
    pub name: String,
    /// What the table is about, one line.
    pub title: String,
    /// CPUs of the machine; the run is refused on another.
    pub cpus: u32,
    /// Last-level caches of the virtual machine.
    #[serde(default = "one")]
    pub llcs: u32,
    /// Kernel of the virtual machine, as vm/vm names it.
    #[serde(default = "newest")]
    pub kernel: String,
    /// Clock of the virtual machine.
    #[serde(default)]
    pub clock: Clock,
    /// With `Clock::Icount`, an instruction takes 2^N ns. Two CPUs of 2 ns are
    /// slow enough to be emulated in real time on a desktop.
    #[serde(default = "icount_shift")]
    pub icount_shift: u32,
    /// Block device of this size for the virtual machine, MiB; 0: none.
    #[serde(default)]
    pub disk_mib: u32,
    /// How long it runs.
    #[serde(flatten)]
    pub extent: Extent,
    /// How long it runs with --short.
    pub short: Option<Extent>,
    /// Schedulers that are compared.
    pub scheduler: Vec<Scheduler>,
    /// What they are compared by.
    pub case: Vec<Case>,
}

/// How guest time passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// With the host's: a busy host disturbs latencies, not shares.
    #[default]
    Real,
    /// With the instructions that the guest executes: deterministic.
    Icount,
}

/// Length of a run and how often it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Extent {
    /// Measured time of one run, s of the guest's time.
    pub duration_s: f64,
    /// Time before it that is not measured, s.
    pub warmup_s: f64,
    /// Runs of each case under each scheduler.
    pub repeats: u32,
}

/// A scheduler with its options.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Name in the table and in `Case::schedulers`.
    pub name: String,
    /// What is started.
    pub program: SchedulerProgram,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// How it understands nice values.
    #[serde(default)]
    pub weights: Weights,
    /// Bound on the gap of the two virtual times, slices of scx_drfq; the
    /// prediction of phases needs it. `None`: no bound (dovetailing).
    pub delta_slices: Option<u32>,
    /// Memory bandwidth given to scx_drfq, bytes/s.
    pub memory_bandwidth: Option<f64>,
    /// Bytes of one page fault given to scx_drfq (the named stand-in).
    pub event_bytes: Option<f64>,
}

/// The schedulers that can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerProgram {
    /// The kernel's own: nothing is started.
    Eevdf,
    /// This project's.
    ScxDrfq,
    /// Peers.
    ScxRusty,
    /// See tools/peers.
    ScxLavd,
    /// See tools/peers.
    ScxBpfland,
    /// See tools/peers.
    ScxCosmos,
}

impl SchedulerProgram {
    /// Whether tolerances apply; the peers' figures stand beside ours.
    pub fn is_judged(self) -> bool {
        self == SchedulerProgram::ScxDrfq
    }
}

/// One set of tasks and what is expected of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name in the table.
    pub name: String,
    /// Names of the schedulers it runs under.
    pub schedulers: Vec<String>,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// Debts that are injected while it runs, for `Expect::Hold`.
    pub inject: Option<Inject>,
    /// What is expected.
    pub expect: Vec<Expect>,
}

/// Tasks that are alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Name, at most 12 characters; the number of the copy is appended.
    pub name: String,
    /// Load and its options, as drfq-load takes them.
    pub load: String,
    /// Nice value.
    #[serde(default)]
    pub nice: i32,
    /// Copies.
    #[serde(default = "one")]
    pub count: u32,
    /// The only CPU that it may run on.
    pub cpu: Option<usize>,
    /// It sleeps by itself, so what it uses is its demand.
    #[serde(default)]
    pub sleeps: bool,
    /// CPU time of its phases if it has any, ms: CPU-heavy, memory-heavy.
    pub phases_ms: Option<[f64; 2]>,
}

/// A debt of device traffic given to a task while it sleeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    /// Name of the task (its first copy).
    pub task: String,
    /// Traffic of each injection.
    pub bytes: u64,
}

/// What is expected, and within what.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Expect {
    /// Every task that never sleeps has its weighted max-min fair share.
    Shares {
        /// Tolerance.
        #[serde(flatten)]
        within: Within,
    },
    /// No CPU idles while a task waits; there must be enough tasks. The scheduler's
    /// agent uses a hundredth of a CPU at most. What the tasks used stands beside it.
    WorkConserving {
        /// Limit of the idle time, percent of all CPUs.
        idle_pct: f64,
    },
    /// A task that sleeps uses at most its fair share.
    AtMostFair {
        /// Which task.
        task: String,
        /// By how much it may exceed it, percent of it.
        worst_pct: f64,
    },
    /// A task that sleeps, but wants more than its fair share, has that share.
    FairShare {
        /// Which task.
        task: String,
        /// Tolerance.
        #[serde(flatten)]
        within: Within,
    },
    /// Wake-ups are served within a time.
    WakeLatency {
        /// Which task.
        task: String,
        /// Limit of the 99th percentile, us.
        p99_us: f64,
    },
    /// Every task has the same dominant share per weight.
    Dominant {
        /// Tolerance.
        #[serde(flatten)]
        within: Within,
    },
    /// CPU shares are those that the variant's definition predicts.
    Phases {
        /// Tolerance.
        #[serde(flatten)]
        within: Within,
    },
    /// Held wake-ups are released when rule 4.10 says.
    Hold(Hold),
}

/// Two-sided tolerance of relative errors, over all tasks and repeats.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Within {
    /// Limit of the median error, percent.
    pub median_pct: f64,
    /// Limit of the largest error, percent.
    pub worst_pct: f64,
}

/// Which release is expected of held wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "release", rename_all = "snake_case", deny_unknown_fields)]
pub enum Hold {
    /// When V reaches S - K, between two readings of V.
    Vtime {
        /// The hold ends at most so late after V was read there, ms. A CPU looks at held
        /// tasks when its packet ends.
        within_ms: f64,
    },
    /// At once, because nothing else runs: at most so late.
    Alone {
        /// Limit of the latency, ms.
        within_ms: f64,
    },
    /// By the bound of holds: then, give or take.
    Bound {
        /// The bound given to scx_drfq, ms.
        bound_ms: f64,
        /// Largest error, ms: a CPU looks when its packet ends.
        within_ms: f64,
        /// Longest time from the wake-up to the CPU, ms.
        run_ms: f64,
    },
}

fn one() -> u32 {
    1
}

fn icount_shift() -> u32 {
    2
}

fn newest() -> String {
    "newest".into()
}

impl Scenario {
    /// Reads and checks one file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let parsed: Self = toml::from_str(&text).with_context(|| format!("{name} is not valid"))?;
        parsed
            .check()
            .with_context(|| format!("{name} is not valid"))?;
        Ok(parsed)
    }

    /// The scheduler called `name`; `check` made sure that it exists.
    pub fn scheduler(&self, name: &str) -> Option<&Scheduler> {
        self.scheduler.iter().find(|s| s.name == name)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.cpus > 0, "cpus must be at least 1");
        for extent in std::iter::once(&self.extent).chain(&self.short) {
            ensure!(
                extent.duration_s > 0.0 && extent.warmup_s >= 0.0 && extent.repeats > 0,
                "duration_s and repeats must be above 0"
            );
        }
        let mut seen = BTreeSet::new();
        for case in &self.case {
            ensure!(
                seen.insert(&case.name),
                "two cases are called {:?}",
                case.name
            );
            self.check_case(case)
                .with_context(|| format!("case {:?}", case.name))?;
        }
        Ok(())
    }

    fn check_case(&self, case: &Case) -> Result<()> {
        for name in &case.schedulers {
            ensure!(
                self.scheduler(name).is_some(),
                "no scheduler is called {name:?}"
            );
        }
        for task in &case.tasks {
            ensure!(
                task.name.len() <= 12,
                "task name {:?} is longer than 12",
                task.name
            );
            ensure!(
                (-20..=19).contains(&task.nice),
                "nice {} is not in -20..=19",
                task.nice
            );
            ensure!(task.count > 0, "count of {:?} is 0", task.name);
            ensure!(
                task.phases_ms
                    .is_none_or(|both| both.iter().all(|ms| *ms > 0.0)),
                "both phases_ms of {:?} must be above 0",
                task.name
            );
            let pinned = |t: &Task| t.cpu.is_some();
            ensure!(
                task.cpu.is_none_or(|cpu| cpu < self.cpus as usize),
                "{:?} is for a CPU that the machine does not have",
                task.name
            );
            ensure!(
                pinned(task) == pinned(&case.tasks[0]),
                "either all tasks name a cpu or none: fair shares of a mixture are not worked out here"
            );
        }
        let known = |name: &str| case.tasks.iter().any(|t| t.name == name);
        for expect in &case.expect {
            match expect {
                Expect::AtMostFair { task, .. }
                | Expect::FairShare { task, .. }
                | Expect::WakeLatency { task, .. }
                    if !known(task) =>
                {
                    bail!("no task is called {task:?}")
                }
                Expect::Hold(_) if case.inject.is_none() => bail!("hold needs an injection"),
                _ => {}
            }
        }
        match &case.inject {
            Some(inject) if !known(&inject.task) => bail!("no task is called {:?}", inject.task),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "x"
        title = "t"
        cpus = 2
        duration_s = 5
        warmup_s = 1
        repeats = 1
        [[scheduler]]
        name = "eevdf"
        program = "eevdf"
        [[case]]
        name = "a"
        schedulers = ["eevdf"]
        tasks = [{ name = "h", load = "hog", count = 3 }]
        expect = [{ kind = "shares", median_pct = 1.0, worst_pct = 2.0 }]
    "#;

    fn parse(text: &str) -> Result<Scenario> {
        let parsed: Scenario = toml::from_str(text)?;
        parsed.check()?;
        Ok(parsed)
    }

    #[test]
    fn a_valid_file_is_read_with_its_defaults() {
        let got = parse(GOOD).unwrap();
        assert_eq!(got.case[0].tasks[0].count, 3);
        assert_eq!(got.kernel, "newest");
        assert!(
            matches!(got.case[0].expect[0], Expect::Shares { within } if within.worst_pct == 2.0)
        );
    }

    #[test]
    fn a_file_with_a_mistake_is_refused() {
        for (from, to) in [
            ("cpus = 2", "cpus = 0"),
            ("repeats = 1", "repeats = 0"),
            ("schedulers = [\"eevdf\"]", "schedulers = [\"cfs\"]"),
            ("count = 3", "count = 0"),
            ("count = 3", "nice = 20"),
            ("count = 3", "colour = 1"),
            ("\"shares\"", "\"luck\""),
            ("name = \"h\"", "name = \"longer than twelve\""),
            ("program = \"eevdf\"", "program = \"cfs\""),
        ] {
            assert!(GOOD.contains(from));
            assert!(parse(&GOOD.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn every_scenario_of_the_project_is_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let mut read = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                let got = Scenario::read(&path).unwrap();
                assert_eq!(path.file_stem().unwrap().to_str(), Some(got.name.as_str()));
                read += 1;
            }
        }
        assert!(read > 0, "no scenario was found");
    }
}

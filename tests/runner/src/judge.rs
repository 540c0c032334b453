// SPDX-License-Identifier: GPL-2.0-only
//! From what was measured to figures, and from figures to a verdict. Pure.

use crate::experiment::{Case, Expect, Hold, Scheduler, Within};
use crate::fair::{Claim, max_min};
use crate::predict::{Alternation, charge_rate};
use crate::record::{Record, TaskRecord};
use crate::statistic::{median, worst};
use anyhow::{Context, Result, bail, ensure};

/// The longest packet, ms: a slice that a tick of 250 Hz ends late.
const PACKET_MAX_MS: f64 = 8.0;

/// One measured value beside what was expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Which task, or what.
    pub what: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// What the definition gives.
    pub expected: f64,
    /// What was seen.
    pub measured: f64,
    /// Error, percent: relative to `expected` for a two-sided limit; by how
    /// much the limit is exceeded for a one-sided one (negative: it is kept).
    pub error_pct: f64,
    /// The part of the error that the length of the run explains, percent.
    pub allowance_pct: f64,
}

/// What the errors are held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Both signs count.
    Within(Within),
    /// Only an excess counts.
    AtMost(f64),
}

/// The machine and the length of a run, as far as expectations depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// CPUs.
    pub cpus: f64,
    /// Length of the measured time, s.
    pub duration_s: f64,
    /// The run is a short one: its length is allowed for.
    pub short: bool,
}

impl Setting {
    /// STFQ is fair to about one packet at each end of the measured time: the
    /// error that this makes in the share of a task that uses `cpus`, percent.
    /// Long runs get no allowance.
    fn allowance_pct(&self, cpus: f64) -> f64 {
        if !self.short || cpus <= 0.0 {
            return 0.0;
        }
        100.0 * 2.0 * PACKET_MAX_MS / (cpus * self.duration_s * 1000.0)
    }
}

impl Expect {
    /// What its figures are held against.
    pub fn limit(&self) -> Limit {
        match self {
            Expect::Shares { within } | Expect::Dominant { within } | Expect::Phases { within } => {
                Limit::Within(*within)
            }
            Expect::AtMostFair { worst_pct, .. } => Limit::AtMost(*worst_pct),
            Expect::WorkConserving { .. } | Expect::WakeLatency { .. } | Expect::Hold(_) => {
                Limit::AtMost(0.0)
            }
        }
    }

    /// The figures of one run.
    pub fn figures(
        &self,
        case: &Case,
        scheduler: &Scheduler,
        record: &Record,
        ctx: &Setting,
    ) -> Result<Vec<Figure>> {
        let view = View {
            case,
            scheduler,
            record,
            ctx,
        };
        match self {
            Expect::Shares { .. } => Ok(view.shares()),
            Expect::WorkConserving { idle_pct } => Ok(view.work_conserving(*idle_pct)),
            Expect::AtMostFair { task, .. } => Ok(view.at_most_fair(task)),
            Expect::WakeLatency { task, p99_us } => view.wake_latency(task, *p99_us),
            Expect::Dominant { .. } => view.dominant(),
            Expect::Phases { .. } => view.phases(),
            Expect::Hold(hold) => view.hold(hold),
        }
    }
}

/// Everything that a figure is computed from.
struct View<'a> {
    case: &'a Case,
    scheduler: &'a Scheduler,
    record: &'a Record,
    ctx: &'a Setting,
}

impl View<'_> {
    fn weight(&self, task: &TaskRecord) -> f64 {
        self.scheduler.weights.of(self.case.tasks[task.task].nice)
    }

    fn sleeps(&self, task: &TaskRecord) -> bool {
        self.case.tasks[task.task].sleeps
    }

    /// CPUs that each task is entitled to; `demand` says what each can use.
    fn fair(&self, demand: impl Fn(&TaskRecord) -> f64) -> Vec<f64> {
        let claim = |t| Claim {
            weight: self.weight(t),
            demand: demand(t),
        };
        let cpu = |t: &TaskRecord| self.case.tasks[t.task].cpu;
        let tasks = &self.record.tasks;
        if tasks.iter().all(|t| cpu(t).is_none()) {
            let claims: Vec<_> = tasks.iter().map(claim).collect();
            return max_min(&claims, self.ctx.cpus);
        }
        // Pinned: each CPU is shared by itself.
        let mut fair = vec![0.0; tasks.len()];
        for one in 0..self.ctx.cpus as usize {
            let here: Vec<usize> = (0..tasks.len())
                .filter(|i| cpu(&tasks[*i]) == Some(one))
                .collect();
            let claims: Vec<_> = here.iter().map(|i| claim(&tasks[*i])).collect();
            for (i, share) in here.iter().zip(max_min(&claims, 1.0)) {
                fair[*i] = share;
            }
        }
        fair
    }

    /// A two-sided comparison of CPU shares, in percent of one CPU.
    fn compare_cpus(&self, task: &TaskRecord, expected: f64, measured: f64) -> Figure {
        Figure {
            what: task.name.clone(),
            unit: "% of a CPU",
            expected: 100.0 * expected,
            measured: 100.0 * measured,
            error_pct: 100.0 * (measured / expected - 1.0),
            allowance_pct: self.ctx.allowance_pct(expected),
        }
    }

    /// Shares of what the tasks got together: what the rest of the system
    /// took is not theirs to share, and stands beside it (`WorkConserving`).
    fn shares(&self) -> Vec<Figure> {
        let demand = |t: &TaskRecord| if self.sleeps(t) { t.cpus() } else { 1.0 };
        let fair = self.fair(demand);
        let scale = fair.iter().sum::<f64>() / self.total_cpus();
        let tasks = self.record.tasks.iter().zip(fair);
        tasks
            .filter(|(task, _)| !self.sleeps(task))
            .map(|(task, fair)| self.compare_cpus(task, fair, task.cpus() * scale))
            .collect()
    }

    fn total_cpus(&self) -> f64 {
        self.record.tasks.iter().map(TaskRecord::cpus).sum()
    }

    /// The idle time is judged, the rest is for the reader.
    fn work_conserving(&self, idle_pct: f64) -> Vec<Figure> {
        let pct = |cpus: f64| 100.0 * cpus / self.ctx.cpus;
        let unit = "% of all CPUs";
        vec![
            at_most("idle", unit, idle_pct, pct(self.record.idle_cpus)),
            told("tasks", unit, pct(self.total_cpus())),
            told("agent", unit, pct(self.record.agent_cpus)),
        ]
    }

    fn at_most_fair(&self, name: &str) -> Vec<Figure> {
        let fair = self.fair(|_| 1.0);
        let tasks = self.record.tasks.iter().zip(fair);
        tasks
            .filter(|(task, _)| self.case.tasks[task.task].name == name)
            .map(|(task, fair)| self.compare_cpus(task, fair, task.cpus()))
            .collect()
    }

    fn wake_latency(&self, name: &str, p99_us: f64) -> Result<Vec<Figure>> {
        let tasks = self.record.tasks.iter();
        tasks
            .filter(|task| self.case.tasks[task.task].name == name)
            .map(|task| {
                let p99_ns = task.report["wake_latency"]["p99_ns"]
                    .as_f64()
                    .with_context(|| format!("{} reports no wake-up latency", task.name))?;
                Ok(at_most(
                    &format!("{} p99", task.name),
                    "us",
                    p99_us,
                    p99_ns / 1000.0,
                ))
            })
            .collect()
    }

    fn bytes_per_ns(&self, task: &TaskRecord) -> f64 {
        let per_fault = self.scheduler.event_bytes.unwrap_or(0.0);
        task.faults_per_ns() * per_fault + task.read_bytes_per_ns()
    }

    fn bandwidth(&self) -> Result<f64> {
        self.scheduler
            .memory_bandwidth
            .context("the scheduler has no memory_bandwidth")
    }

    fn dominant(&self) -> Result<Vec<Figure>> {
        let per_ns = self.bandwidth()? / 1e9;
        let share = |task: &TaskRecord| {
            let cpu = task.cpus() / self.ctx.cpus;
            cpu.max(self.bytes_per_ns(task) / per_ns) / self.weight(task)
        };
        let shares: Vec<_> = self.record.tasks.iter().map(share).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let tasks = self.record.tasks.iter().zip(shares);
        Ok(tasks
            .map(|(task, share)| Figure {
                what: task.name.clone(),
                unit: "% of the machine, dominant",
                expected: 100.0 * mean,
                measured: 100.0 * share,
                error_pct: 100.0 * (share / mean - 1.0),
                allowance_pct: self.ctx.allowance_pct(task.cpus()),
            })
            .collect())
    }

    /// Tasks share the CPUs in inverse proportion to what their variant
    /// charges them for CPU time.
    fn phases(&self) -> Result<Vec<Figure>> {
        let memory_ns_per_byte = 1e9 / self.bandwidth()?;
        let bytes = self
            .scheduler
            .event_bytes
            .context("the scheduler has no event_bytes")?;
        let slice_ms = 4.0;
        let delta_ms = self
            .scheduler
            .delta_slices
            .map_or(f64::INFINITY, |n| f64::from(n) * slice_ms);
        let rate = |task: &TaskRecord| {
            let spec = &self.case.tasks[task.task];
            // What it did, not what it was asked for: a burst that comes late
            // is not made up for. All of it falls in the memory-heavy phase.
            let [cpu_ms, memory_ms] = spec.phases_ms.unwrap_or([slice_ms, 0.0]);
            let per_cpu_ns = task.faults_per_ns() / task.cpus();
            let memory_rate = match spec.phases_ms {
                Some(_) => {
                    per_cpu_ns * (cpu_ms + memory_ms) / memory_ms * bytes * memory_ns_per_byte
                }
                None => 0.0,
            };
            let phases = Alternation {
                cpu_ms,
                memory_ms,
                memory_rate,
            };
            charge_rate(&phases, self.ctx.cpus, delta_ms, slice_ms)
        };
        let claims: Vec<_> = self
            .record
            .tasks
            .iter()
            .map(|t| Claim {
                weight: self.weight(t) / rate(t),
                demand: 1.0,
            })
            .collect();
        let fair = max_min(&claims, self.ctx.cpus);
        let scale = fair.iter().sum::<f64>() / self.total_cpus();
        let tasks = self.record.tasks.iter().zip(fair);
        Ok(tasks
            .map(|(task, fair)| {
                let mut figure = self.compare_cpus(task, fair, task.cpus() * scale);
                figure.allowance_pct += self.partial_cycle_pct(fair);
                figure
            })
            .collect())
    }

    /// A measured time that ends within a phase holds more of one phase than
    /// of the other: at most one CPU-heavy phase at each end.
    fn partial_cycle_pct(&self, cpus: f64) -> f64 {
        let phases = self.case.tasks.iter().filter_map(|t| t.phases_ms);
        let longest_ms = phases.map(|[cpu_ms, _]| cpu_ms).fold(0.0, f64::max);
        self.ctx.allowance_pct(cpus) * longest_ms / PACKET_MAX_MS
    }

    fn hold(&self, hold: &Hold) -> Result<Vec<Figure>> {
        let hold_ns = 10 * 4_000_000;
        let name = self.case.inject.as_ref().map_or("", |inject| &inject.task);
        let tasks = &self.record.tasks;
        let task = tasks.iter().find(|t| self.case.tasks[t.task].name == name);
        let task = task.context("the held task is not there")?;
        let wakes: Vec<(u64, u64)> = serde_json::from_value(task.report["wakes"].clone())
            .with_context(|| format!("{name} reports no wake-ups"))?;
        ensure!(!self.record.debts.is_empty(), "no debt was injected");
        let mut figures = Vec::new();
        for debt in &self.record.debts {
            let Some((due, ran)) = wakes.iter().find(|(due, _)| *due > debt.injected_ns) else {
                continue;
            };
            let waited_ms = ran.saturating_sub(*due) as f64 / 1e6;
            let held_ms = debt.held_ns as f64 / 1e6;
            figures.push(match hold {
                Hold::Alone { within_ms } => at_most("latency", "ms", *within_ms, waited_ms),
                Hold::Bound {
                    bound_ms,
                    within_ms,
                } => hold_figure(*bound_ms, held_ms, *within_ms),
                Hold::Vtime { within_ms } => {
                    let Some(release_ns) = debt.release_ns(hold_ns) else {
                        bail!("V was not seen to reach S - K: {debt:?}");
                    };
                    let expected = release_ns.saturating_sub(*due) as f64 / 1e6;
                    hold_figure(expected, held_ms, *within_ms)
                }
            });
            figures.push(told("wake-up to run", "ms", waited_ms));
        }
        ensure!(!figures.is_empty(), "no wake-up followed a debt");
        Ok(figures)
    }
}

fn at_most(what: &str, unit: &'static str, limit: f64, measured: f64) -> Figure {
    Figure {
        what: what.into(),
        unit,
        expected: limit,
        measured,
        error_pct: 100.0 * (measured / limit - 1.0),
        allowance_pct: 0.0,
    }
}

/// A figure that nothing is expected of.
fn told(what: &str, unit: &'static str, measured: f64) -> Figure {
    Figure {
        what: what.into(),
        unit,
        expected: f64::NAN,
        measured,
        error_pct: 0.0,
        allowance_pct: 0.0,
    }
}

fn hold_figure(expected: f64, measured: f64, within: f64) -> Figure {
    Figure {
        what: "hold".into(),
        unit: "ms",
        expected,
        measured,
        error_pct: 100.0 * ((measured - expected).abs() / within - 1.0),
        allowance_pct: 0.0,
    }
}

/// Whether the figures of all repeats keep the limit; else why not.
pub fn verdict(figures: &[Figure], limit: Limit) -> Result<(), String> {
    if figures.is_empty() {
        return Err("nothing was measured".into());
    }
    // No comparison below would notice it.
    if let Some(bad) = figures.iter().find(|f| !f.error_pct.is_finite()) {
        return Err(format!(
            "{} has no error: {} of {}",
            bad.what, bad.measured, bad.expected
        ));
    }
    let excess = |error: fn(f64) -> f64| -> Vec<f64> {
        figures
            .iter()
            .map(|f| error(f.error_pct) - f.allowance_pct)
            .collect()
    };
    let largest = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match limit {
        Limit::AtMost(most) => {
            let top = largest(&excess(|e| e));
            if top <= most {
                return Ok(());
            }
            Err(format!(
                "exceeded by {top:.2} %, at most {most:.2} % allowed"
            ))
        }
        Limit::Within(Within {
            median_pct,
            worst_pct,
        }) => {
            let over = excess(f64::abs);
            if median(&over) <= median_pct && largest(&over) <= worst_pct {
                return Ok(());
            }
            let errors: Vec<f64> = figures.iter().map(|f| f.error_pct.abs()).collect();
            let (middle, top) = (median(&errors), worst(&errors));
            Err(format!(
                "median error {middle:.2} % (limit {median_pct} %), \
                 worst {top:.2} % (limit {worst_pct} %)"
            ))
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

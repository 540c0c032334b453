// SPDX-License-Identifier: GPL-2.0-only
//! From what one run recorded to measurements. Pure.

use crate::debt::Debt;
use crate::fair_share::{Claim, max_min};
use crate::measurement::{Expectation, Limit, Measurement};
use crate::predict::{Alternation, charge_rate};
use crate::record::{Record, TaskRecord};
use crate::scenario::{Case, Expect, Hold, Scheduler};
use anyhow::{Context, Result, bail, ensure};

/// The longest packet, ms: a slice that a tick of 250 Hz ends late.
const PACKET_MAX_MS: f64 = 8.0;

/// Default slice of scx_drfq, ms.
const SLICE_MS: f64 = 4.0;

/// K of rule 4.10, ns: ten slices.
const HOLD_NS: u64 = 40_000_000;

/// The most CPU time of the scheduler's agent, while no client asks it, CPUs. 70 runs on 2 and on
/// 16 CPUs took 0.0010 to 0.0035.
const AGENT_MAX_CPUS: f64 = 0.01;

/// Fewer debts that are judged, in percent, say too little about the holds. Where there are few,
/// one that is judged has to do.
const JUDGED_MIN_PCT: f64 = 50.0;
const FEW_DEBTS: usize = 6;

/// From the time that a task was to wake up until it ran, by its own clock.
const WAKE_TO_RUN: &str = "wake-up to run";

/// The VM and the length of a run, as far as expectations depend on it.
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
    /// The error that the ends of the measured time make in the share of a task
    /// that uses `cpus`, percent. STFQ is fair to about one packet at each end.
    /// Long runs get no allowance.
    fn allowance_pct(&self, cpus: f64) -> f64 {
        if !self.short || cpus <= 0.0 {
            return 0.0;
        }
        100.0 * 2.0 * PACKET_MAX_MS / (cpus * self.duration_s * 1000.0)
    }
}

impl Expect {
    /// The limit of the errors.
    pub fn limit(&self) -> Limit {
        match self {
            Expect::Shares { within }
            | Expect::FairShare { within, .. }
            | Expect::Dominant { within }
            | Expect::Phases { within } => Limit::Within(*within),
            Expect::AtMostFair { worst_pct, .. } => Limit::AtMost(*worst_pct),
            Expect::WorkConserving { .. } | Expect::WakeLatency { .. } | Expect::Hold(_) => {
                Limit::AtMost(0.0)
            }
        }
    }

    /// The measurements of one run.
    pub fn measurements(
        &self,
        case: &Case,
        scheduler: &Scheduler,
        record: &Record,
        setting: &Setting,
    ) -> Result<Vec<Measurement>> {
        let view = View {
            case,
            scheduler,
            record,
            setting,
        };
        match self {
            Expect::Shares { .. } => Ok(view.shares()),
            Expect::WorkConserving { idle_pct } => Ok(view.work_conserving(*idle_pct)),
            Expect::AtMostFair { task, .. } => Ok(view.at_most_fair(task)),
            Expect::FairShare { task, .. } => Ok(view.fair_share(task)),
            Expect::WakeLatency { task, p99_us } => view.wake_latency(task, *p99_us),
            Expect::Dominant { .. } => view.dominant(),
            Expect::Phases { .. } => view.phases(),
            Expect::Hold(hold) => view.hold(hold),
        }
    }
}

/// Everything that a measurement is computed from.
struct View<'a> {
    case: &'a Case,
    scheduler: &'a Scheduler,
    record: &'a Record,
    setting: &'a Setting,
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
            return max_min(&claims, self.setting.cpus);
        }
        // Pinned: each CPU is shared by itself.
        let mut fair = vec![0.0; tasks.len()];
        for one in 0..self.setting.cpus as usize {
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

    /// A CPU share beside the expected one, in percent of one CPU.
    fn cpu_share(&self, task: &TaskRecord, expected: f64, measured: f64) -> Measurement {
        Measurement {
            what: task.name.clone(),
            unit: "% of a CPU",
            expectation: Expectation::Value(100.0 * expected),
            value: 100.0 * measured,
            error_pct: 100.0 * (measured / expected - 1.0),
            allowance_pct: self.setting.allowance_pct(expected),
        }
    }

    /// Shares of what the tasks got together. What the rest of the system used
    /// is left out; `WorkConserving` shows it.
    fn shares(&self) -> Vec<Measurement> {
        let demand = |t: &TaskRecord| if self.sleeps(t) { t.cpus() } else { 1.0 };
        let fair = self.fair(demand);
        let scale = fair.iter().sum::<f64>() / self.total_cpus();
        let tasks = self.record.tasks.iter().zip(fair);
        tasks
            .filter(|(task, _)| !self.sleeps(task))
            .map(|(task, fair)| self.cpu_share(task, fair, task.cpus() * scale))
            .collect()
    }

    fn total_cpus(&self) -> f64 {
        self.record.tasks.iter().map(TaskRecord::cpus).sum()
    }

    /// The idle time and the agent's are judged, the rest is for the reader.
    fn work_conserving(&self, idle_pct: f64) -> Vec<Measurement> {
        let pct = |cpus: f64| 100.0 * cpus / self.setting.cpus;
        let unit = "% of all CPUs";
        vec![
            at_most("idle", unit, idle_pct, pct(self.record.idle_cpus)),
            unjudged("tasks", unit, pct(self.total_cpus())),
            at_most(
                "agent",
                unit,
                pct(AGENT_MAX_CPUS),
                pct(self.record.agent_cpus),
            ),
        ]
    }

    fn at_most_fair(&self, name: &str) -> Vec<Measurement> {
        let fair = self.fair(|_| 1.0);
        let tasks = self.record.tasks.iter().zip(fair);
        tasks
            .filter(|(task, _)| self.case.tasks[task.task].name == name)
            .map(|(task, fair)| Measurement {
                expectation: Expectation::AtMost(100.0 * fair),
                ..self.cpu_share(task, fair, task.cpus())
            })
            .collect()
    }

    /// Shares of what the tasks got together, as in [`Self::shares`].
    fn fair_share(&self, name: &str) -> Vec<Measurement> {
        let fair = self.fair(|_| 1.0);
        let scale = fair.iter().sum::<f64>() / self.total_cpus();
        let tasks = self.record.tasks.iter().zip(fair);
        tasks
            .filter(|(task, _)| self.case.tasks[task.task].name == name)
            .map(|(task, fair)| self.cpu_share(task, fair, task.cpus() * scale))
            .collect()
    }

    fn wake_latency(&self, name: &str, p99_us: f64) -> Result<Vec<Measurement>> {
        let tasks = self.record.tasks.iter();
        tasks
            .filter(|task| self.case.tasks[task.task].name == name)
            .map(|task| {
                let latency = &task.report["wake_latency"];
                let p99_ns = latency["p99_ns"]
                    .as_f64()
                    .filter(|_| latency["count"].as_u64().is_some_and(|count| count > 0))
                    .with_context(|| format!("{} reports no wake-up latency", task.name))?;
                let what = format!("{} p99", task.name);
                Ok(at_most(&what, "us", p99_us, p99_ns / 1000.0))
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

    fn dominant(&self) -> Result<Vec<Measurement>> {
        let per_ns = self.bandwidth()? / 1e9;
        let share = |task: &TaskRecord| {
            let cpu = task.cpus() / self.setting.cpus;
            cpu.max(self.bytes_per_ns(task) / per_ns) / self.weight(task)
        };
        let shares: Vec<_> = self.record.tasks.iter().map(share).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let tasks = self.record.tasks.iter().zip(shares);
        Ok(tasks
            .map(|(task, share)| Measurement {
                what: task.name.clone(),
                unit: "% of the machine, dominant",
                expectation: Expectation::Value(100.0 * mean),
                value: 100.0 * share,
                error_pct: 100.0 * (share / mean - 1.0),
                allowance_pct: self.setting.allowance_pct(task.cpus()),
            })
            .collect())
    }

    /// Tasks share the CPUs in inverse proportion to what their variant
    /// charges them for CPU time.
    fn phases(&self) -> Result<Vec<Measurement>> {
        let memory_ns_per_byte = 1e9 / self.bandwidth()?;
        let bytes = self
            .scheduler
            .event_bytes
            .context("the scheduler has no event_bytes")?;
        let claim = |task: &TaskRecord| Claim {
            weight: self.weight(task) / self.phase_charge(task, bytes * memory_ns_per_byte),
            demand: 1.0,
        };
        let claims: Vec<_> = self.record.tasks.iter().map(claim).collect();
        let fair = max_min(&claims, self.setting.cpus);
        let scale = fair.iter().sum::<f64>() / self.total_cpus();
        let tasks = self.record.tasks.iter().zip(fair);
        Ok(tasks
            .map(|(task, fair)| {
                let share = self.cpu_share(task, fair, task.cpus() * scale);
                let allowance_pct = share.allowance_pct + self.partial_cycle_pct(fair);
                Measurement {
                    allowance_pct,
                    ..share
                }
            })
            .collect())
    }

    /// What the variant charges for CPU time of `task` in the long run, if a
    /// page fault takes so much of the memory's time (ns).
    fn phase_charge(&self, task: &TaskRecord, memory_ns_per_fault: f64) -> f64 {
        // The faults that happened, not those asked for, because a late burst
        // is not made up for. All fall in the memory-heavy phase.
        let spec = self.case.tasks[task.task].phases_ms;
        let [cpu_ms, memory_ms] = spec.unwrap_or([SLICE_MS, 0.0]);
        let per_cpu_ns = task.faults_per_ns() / task.cpus();
        let memory_rate = match spec {
            Some(_) => per_cpu_ns * (cpu_ms + memory_ms) / memory_ms * memory_ns_per_fault,
            None => 0.0,
        };
        let phases = Alternation {
            cpu_ms,
            memory_ms,
            memory_rate,
        };
        let delta_slices = self.scheduler.delta_slices.map_or(f64::INFINITY, f64::from);
        charge_rate(
            &phases,
            self.setting.cpus,
            delta_slices * SLICE_MS,
            SLICE_MS,
        )
    }

    /// A measured time that ends within a phase holds more of one phase than of
    /// the other. The excess is at most one CPU-heavy phase at each end.
    fn partial_cycle_pct(&self, cpus: f64) -> f64 {
        let phases = self.case.tasks.iter().filter_map(|t| t.phases_ms);
        let longest_ms = phases.map(|[cpu_ms, _]| cpu_ms).fold(0.0, f64::max);
        self.setting.allowance_pct(cpus) * longest_ms / PACKET_MAX_MS
    }

    fn hold(&self, hold: &Hold) -> Result<Vec<Measurement>> {
        let name = self.case.inject.as_ref().map_or("", |inject| &inject.task);
        let tasks = &self.record.tasks;
        let task = tasks.iter().find(|t| self.case.tasks[t.task].name == name);
        let task = task.context("the held task is not there")?;
        let wakes: Vec<(u64, u64)> = serde_json::from_value(task.report["wakes"].clone())
            .with_context(|| format!("{name} reports no wake-ups"))?;
        ensure!(!self.record.debts.is_empty(), "no debt was injected");
        let mut found = Vec::new();
        let mut judged = 0;
        for debt in &self.record.debts {
            let Some((due, ran)) = wakes.iter().find(|(due, _)| *due > debt.injected_ns) else {
                continue;
            };
            let waited_ms = ran.saturating_sub(*due) as f64 / 1e6;
            let held_ms = debt.held_ns as f64 / 1e6;
            let hold_or_latency = match hold {
                Hold::Alone { within_ms } => at_most("latency", "ms", *within_ms, waited_ms),
                Hold::Bound {
                    bound_ms,
                    within_ms,
                    ..
                } => hold_time(*bound_ms, held_ms, *within_ms),
                Hold::Vtime { within_ms } => {
                    let Some((earliest_ms, latest_ms)) = hold_by_vtime(debt, *due)? else {
                        continue;
                    };
                    // The load's own clock knows neither our V nor our account of holds.
                    found.push(at_least(WAKE_TO_RUN, "ms", earliest_ms, waited_ms));
                    let middle_ms = earliest_ms.midpoint(latest_ms + within_ms);
                    hold_time(middle_ms, held_ms, latest_ms + within_ms - middle_ms)
                }
            };
            found.push(hold_or_latency);
            match hold {
                Hold::Bound { run_ms, .. } => {
                    found.push(at_most(WAKE_TO_RUN, "ms", *run_ms, waited_ms));
                }
                Hold::Alone { .. } => found.push(unjudged(WAKE_TO_RUN, "ms", waited_ms)),
                Hold::Vtime { .. } => {}
            }
            judged += 1;
        }
        ensure!(
            !found.is_empty(),
            "no wake-up followed a debt, or V was not known when it ended a hold"
        );
        let debts = self.record.debts.len();
        let judged_pct = 100.0 * f64::from(judged) / debts as f64;
        let least_pct = if debts < FEW_DEBTS {
            0.0
        } else {
            JUDGED_MIN_PCT
        };
        found.push(at_least(
            "debts judged",
            "% of the injected ones",
            least_pct,
            judged_pct,
        ));
        Ok(found)
    }
}

/// Between which times after its wake-up, in ms, V ends the hold of a task. `None` if the readings
/// of V do not tell.
fn hold_by_vtime(debt: &Debt, due_ns: u64) -> Result<Option<(f64, f64)>> {
    let Some(release) = debt.release(HOLD_NS) else {
        bail!("V did not reach S - K while it was observed: {debt:?}");
    };
    let late_max_ns = debt.late_max_ns(due_ns).filter(|_| release.known());
    let after_due = |at_ns: u64| at_ns.saturating_sub(due_ns) as f64 / 1e6;
    Ok(late_max_ns.map(|late_max_ns| {
        let earliest_ns = release.earliest_ns.saturating_sub(late_max_ns);
        (after_due(earliest_ns), after_due(release.latest_ns))
    }))
}

fn at_most(what: &str, unit: &'static str, limit: f64, value: f64) -> Measurement {
    Measurement {
        what: what.into(),
        unit,
        expectation: Expectation::AtMost(limit),
        value,
        error_pct: 100.0 * (value / limit - 1.0),
        allowance_pct: 0.0,
    }
}

/// A value that must reach a limit. The reader sees no expectation.
fn at_least(what: &str, unit: &'static str, limit: f64, value: f64) -> Measurement {
    let error_pct = if value < limit {
        100.0 * (limit - value) / limit
    } else {
        0.0
    };
    Measurement {
        error_pct,
        ..unjudged(what, unit, value)
    }
}

/// A value for the reader.
fn unjudged(what: &str, unit: &'static str, value: f64) -> Measurement {
    Measurement {
        what: what.into(),
        unit,
        expectation: Expectation::None,
        value,
        error_pct: 0.0,
        allowance_pct: 0.0,
    }
}

fn hold_time(expected: f64, value: f64, within: f64) -> Measurement {
    Measurement {
        what: "hold".into(),
        unit: "ms",
        expectation: Expectation::Value(expected),
        value,
        error_pct: 100.0 * ((value - expected).abs() / within - 1.0),
        allowance_pct: 0.0,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

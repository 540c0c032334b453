// SPDX-License-Identifier: GPL-2.0-only
//! One run: a case under a scheduler, measured once.

use crate::debt::{Debt, Injector};
use crate::kmsg::Kmsg;
use crate::loads::Loads;
use crate::process::{Usage, children, cpu_ns, idle_ns, now_ns};
use crate::record::{Record, TaskRecord};
use crate::rows::Provenance;
use crate::scenario::{Case, Extent, Scenario, Scheduler, SchedulerProgram};
use crate::scheduler::{Executables, LoadedScheduler};
use crate::stats_client::Stats;
use crate::subject::{Subject, follows_vtime, setup};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What is the same for all runs of a scenario.
pub struct Runner<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its length: the whole or the short one.
    pub extent: Extent,
    /// Executables.
    pub executables: &'a Executables,
    /// Directory for logs and reports.
    pub dir: &'a Path,
    /// What is measured, and when.
    pub provenance: &'a Provenance,
}

/// What was measured while the scheduler ran.
struct RunOutcome {
    tasks: Vec<TaskRecord>,
    idle_cpus: f64,
    agent_cpus: f64,
    debts: Vec<Debt>,
    events: Value,
    trouble: Vec<String>,
}

impl Runner<'_> {
    /// What the first run of `case` under `scheduler` measures.
    pub fn subject(&self, case: &Case, scheduler: &Scheduler) -> Subject {
        Subject {
            scenario: self.scenario.name.clone(),
            case: case.name.clone(),
            scheduler: scheduler.name.clone(),
            repeat: 1,
            duration_s: self.extent.duration_s,
            kernel: kernel_release(),
            version: self.executables.version(scheduler.program),
            commit: self.provenance.commit.clone(),
            setup: setup(self.scenario, self.extent, case, scheduler),
        }
    }

    /// Loads the scheduler, runs the case, unloads it. Failures of the
    /// scheduler are part of the record; an error is one of the scenario.
    pub fn run(&self, case: &Case, scheduler: &Scheduler, subject: Subject) -> Result<Record> {
        let mut kmsg = Kmsg::from_now()?;
        let log = self.dir.join("scheduler.log");
        let mut loaded =
            LoadedScheduler::start(self.executables, scheduler.program, &scheduler.args, &log)?;
        let mut outcome = self.measure(case, scheduler, loaded.pid())?;
        if let Some(status) = loaded.exited()? {
            outcome
                .trouble
                .push(format!("the scheduler ended during the run: {status}"));
        }
        if let Err(error) = loaded.stop() {
            outcome.trouble.push(format!("{error:#}"));
        }
        outcome.trouble.extend(kmsg.trouble()?);
        Ok(Record {
            subject,
            date: self.provenance.date.clone(),
            tasks: outcome.tasks,
            idle_cpus: outcome.idle_cpus,
            agent_cpus: outcome.agent_cpus,
            debts: outcome.debts,
            events: outcome.events,
            trouble: outcome.trouble,
        })
    }

    fn measure(
        &self,
        case: &Case,
        scheduler: &Scheduler,
        agent: Option<u32>,
    ) -> Result<RunOutcome> {
        let mut loads = Loads::start(
            &self.executables.ours.join("drfq-load"),
            &case.tasks,
            self.dir,
        )?;
        loads.release();
        std::thread::sleep(Duration::from_secs_f64(self.extent.warmup_s));
        loads.mark();
        let (before, others) = (loads.usage()?, OtherCpuTime::read(agent)?);
        let end_ns = now_ns() + (self.extent.duration_s * 1e9) as u64;
        let debts = self.inject(case, scheduler, &loads, end_ns)?;
        std::thread::sleep(Duration::from_nanos(end_ns.saturating_sub(now_ns())));
        let (after, others) = (loads.usage()?, OtherCpuTime::read(agent)?.since(&others));
        let (events, trouble) = match scheduler.program {
            SchedulerProgram::ScxDrfq => ask_scx_drfq()?,
            _ => (Value::Null, Vec::new()),
        };
        let names: Vec<_> = loads.all.iter().map(|l| (l.task, l.name.clone())).collect();
        let reports = loads.finish()?;
        Ok(RunOutcome {
            tasks: task_records(names, &before, &after, reports),
            idle_cpus: others.idle_ns as f64 / others.at_ns as f64,
            agent_cpus: others.agent_ns as f64 / others.at_ns as f64,
            debts,
            events,
            trouble,
        })
    }

    /// Injects debts until `end_ns` if the case asks for it.
    fn inject(
        &self,
        case: &Case,
        scheduler: &Scheduler,
        loads: &Loads,
        end_ns: u64,
    ) -> Result<Vec<Debt>> {
        let Some(inject) = &case.inject else {
            return Ok(Vec::new());
        };
        let load = loads
            .all
            .iter()
            .find(|load| case.tasks[load.task].name == inject.task)
            .context("the task of the injection did not start")?;
        let bandwidth = scheduler
            .memory_bandwidth
            .context("an injection needs memory_bandwidth")?;
        let injector = Injector {
            program: &self.executables.ours.join("scx_drfq"),
            bytes: inject.bytes,
            ns_per_byte: 1e9 / bandwidth,
            follow: follows_vtime(&case.expect),
        };
        injector.run(load, end_ns)
    }
}

/// CPU time that is not the tasks'.
struct OtherCpuTime {
    at_ns: u64,
    idle_ns: u64,
    agent_ns: u64,
}

impl OtherCpuTime {
    fn read(agent: Option<u32>) -> Result<Self> {
        // An agent that has ended is noticed elsewhere.
        let processes = agent
            .into_iter()
            .flat_map(|pid| [vec![pid], children(pid)].concat());
        let agent_ns = processes.map(|pid| cpu_ns(pid).unwrap_or(0)).sum();
        Ok(Self {
            at_ns: now_ns(),
            idle_ns: idle_ns()?,
            agent_ns,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            at_ns: self.at_ns - before.at_ns,
            idle_ns: self.idle_ns - before.idle_ns,
            agent_ns: self.agent_ns.saturating_sub(before.agent_ns),
        }
    }
}

fn ask_scx_drfq() -> Result<(Value, Vec<String>)> {
    let stats = Stats::ask()?;
    let trouble = stats.contradictions()?;
    Ok((json!(stats.system.rest), trouble))
}

fn task_records(
    names: Vec<(usize, String)>,
    before: &[Usage],
    after: &[Usage],
    reports: Vec<Value>,
) -> Vec<TaskRecord> {
    let used = before
        .iter()
        .zip(after)
        .map(|(before, after)| after.since(before));
    names
        .into_iter()
        .zip(used)
        .zip(reports)
        .map(|(((task, name), used), report)| TaskRecord {
            task,
            name,
            used,
            report,
        })
        .collect()
}

/// Release of the running kernel, as `uname -r` prints it.
pub fn kernel_release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

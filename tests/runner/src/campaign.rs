// SPDX-License-Identifier: GPL-2.0-only
//! A whole scenario: every case under every scheduler, repeated, judged.

use crate::judge::Setting;
use crate::record::Record;
use crate::resume::Earlier;
use crate::rows::{self, Provenance, Row};
use crate::run::{Runner, kernel_release};
use crate::scenario::{Case, Clock, Extent, Scenario, Scheduler};
use crate::scheduler::Executables;
use crate::subject::Subject;
use crate::verdict::{Group, verdict};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How a scenario is run.
#[derive(clap::Args)]
pub struct Plan {
    /// A file of tests/scenarios.
    pub file: PathBuf,
    /// The short form, for CI.
    #[arg(long)]
    pub short: bool,
    /// Only this case (may be repeated).
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Only this scheduler (may be repeated).
    #[arg(long = "scheduler", value_name = "NAME")]
    pub schedulers: Vec<String>,
    /// Keep the results in DIR/results.jsonl and run only what is missing, for example after an interruption,
    /// or was measured on another kernel, of another version or commit, or with other tasks or options.
    #[arg(long)]
    pub resume: bool,
    /// Directory for rows.csv, results.jsonl and logs.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    provenance: Provenance,
}

impl Plan {
    fn wants(list: &[String], name: &str) -> bool {
        list.is_empty() || list.iter().any(|wanted| wanted == name)
    }

    fn extent(&self, scenario: &Scenario) -> Result<Extent> {
        if !self.short {
            return Ok(scenario.extent);
        }
        scenario
            .short
            .with_context(|| format!("{} has no short form", scenario.name))
    }

    /// The command that repeats one case under one scheduler.
    fn command(&self, case: &str, scheduler: &str) -> String {
        let short = if self.short { " --short" } else { "" };
        let file = self.file.display();
        format!("tests/vm/scenario {file}{short} --case '{case}' --scheduler '{scheduler}'")
    }
}

/// Runs `plan`; whether everything that is judged was as expected.
pub fn run(plan: &Plan) -> Result<bool> {
    let scenario = Scenario::read(&plan.file)?;
    let executables = Executables::find()?;
    let extent = plan.extent(&scenario)?;
    check_cpus(&scenario)?;
    std::fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot make {}", plan.out.display()))?;
    let runner = Runner {
        scenario: &scenario,
        extent,
        executables: &executables,
        dir: &plan.out,
        provenance: &plan.provenance,
    };
    let pairs = pairs(plan, &scenario, &executables)?;
    let records = measure(plan, &runner, &pairs)?;
    let setting = Setting {
        cpus: f64::from(scenario.cpus),
        duration_s: extent.duration_s,
        short: plan.short,
    };
    let mut groups = Vec::new();
    for (case, scheduler) in &pairs {
        groups.extend(judge(&scenario.name, case, scheduler, &records, &setting)?);
    }
    let all: Vec<Row> = groups.iter().flat_map(Group::rows).collect();
    rows::write(&plan.out, &all)?;
    println!("{}", scenario.title);
    println!(
        "kernel {}, {} CPUs, {} runs of {} s each",
        kernel_release(),
        scenario.cpus,
        extent.repeats,
        extent.duration_s
    );
    println!("{}", rows::table(&all));
    let failures = failures(&pairs, &records, &groups);
    for (case, scheduler, why) in &failures {
        let command = plan.command(case, scheduler);
        println!("FAILED {case}, {scheduler}: {why}; run: {command}");
    }
    Ok(failures.is_empty())
}

/// Each name that `option` chose must be one of `known`.
fn check_chosen<'a>(
    option: &str,
    chosen: &[String],
    known: impl Iterator<Item = &'a String>,
) -> Result<()> {
    let known: BTreeSet<_> = known.collect();
    for name in chosen {
        ensure!(
            known.contains(name),
            "{option} {name}: the scenario has none of that name; it has: {}",
            known
                .iter()
                .map(|name| name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(())
}

type Pair<'a> = (&'a Case, &'a Scheduler);

/// Cases and schedulers in the order of the file. A peer that is not installed is
/// left out, with a message.
fn pairs<'a>(
    plan: &Plan,
    scenario: &'a Scenario,
    executables: &Executables,
) -> Result<Vec<Pair<'a>>> {
    check_chosen("--case", &plan.cases, scenario.case.iter().map(|c| &c.name))?;
    check_chosen(
        "--scheduler",
        &plan.schedulers,
        scenario.case.iter().flat_map(|c| &c.schedulers),
    )?;
    let mut pairs = Vec::new();
    for case in scenario
        .case
        .iter()
        .filter(|c| Plan::wants(&plan.cases, &c.name))
    {
        for name in case
            .schedulers
            .iter()
            .filter(|n| Plan::wants(&plan.schedulers, n))
        {
            let scheduler = scenario
                .scheduler(name)
                .context("checked when it was read")?;
            if executables.has(scheduler.program) {
                pairs.push((case, scheduler));
            } else if scheduler.program.is_judged() {
                anyhow::bail!("{name} is not built; run: cargo build --workspace");
            } else {
                eprintln!(
                    "{name} is left out: it is not installed; to install it, run: tools/peers"
                );
            }
        }
    }
    ensure!(
        !pairs.is_empty(),
        "no case is left; change --case or --scheduler"
    );
    Ok(pairs)
}

/// All runs. Repeats are the outermost loop, so that slow changes of the host
/// affect all schedulers alike. Each record is written as soon as it is there.
fn measure(plan: &Plan, runner: &Runner, pairs: &[Pair]) -> Result<Vec<Record>> {
    let path = plan.out.join("results.jsonl");
    let first: Vec<Subject> = pairs.iter().map(|(c, s)| runner.subject(c, s)).collect();
    let of_repeat = |repeat| first.iter().cloned().map(move |s| Subject { repeat, ..s });
    let planned: Vec<Subject> = (1..=runner.extent.repeats).flat_map(of_repeat).collect();
    let earlier = if plan.resume {
        Earlier::new(Record::read_all(&path)?, &planned)
    } else {
        Earlier::default()
    };
    for message in earlier.messages() {
        eprintln!("{}: {message}", path.display());
    }
    // Runs take hours and may be interrupted, so all that stays is written before the first.
    Record::write_all(&path, &earlier.kept)?;
    let mut file = OpenOptions::new()
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let (mut records, total) = (Vec::new(), planned.len());
    for (subject, (case, scheduler)) in planned.into_iter().zip(pairs.iter().cycle()) {
        if let Some(record) = earlier.kept.iter().find(|r| r.subject == subject) {
            records.push(record.clone());
            continue;
        }
        let (n, repeat) = (records.len() + 1, subject.repeat);
        let names = format!("{}, {}", case.name, scheduler.name);
        eprintln!("[{n}/{total}] {names}, repeat {repeat}");
        let record = runner.run(case, scheduler, subject).with_context(|| {
            format!(
                "{names}; run: {}",
                plan.command(&case.name, &scheduler.name)
            )
        })?;
        writeln!(file, "{}", serde_json::to_string(&record)?)?;
        records.push(record);
    }
    Ok(records)
}

/// The measurements of one case under one scheduler, and their verdicts.
fn judge<'a>(
    series: &'a str,
    case: &'a Case,
    scheduler: &'a Scheduler,
    records: &[Record],
    setting: &Setting,
) -> Result<Vec<Group<'a>>> {
    let of_pair = |r: &&Record| r.is_of(case, scheduler);
    let mine: Vec<&Record> = records.iter().filter(of_pair).collect();
    let oldest = mine.first().context("a case was not measured")?;
    let mut groups = Vec::new();
    for expect in &case.expect {
        let mut measurements = Vec::new();
        for record in &mine {
            measurements.extend(expect.measurements(case, scheduler, record, setting)?);
        }
        let limit = expect.limit();
        let judged = scheduler.program.is_judged();
        groups.push(Group {
            series,
            case: &case.name,
            scheduler: &scheduler.name,
            verdict: judged.then(|| verdict(&measurements, limit)),
            measurements,
            limit,
            runs: mine.len(),
            provenance: oldest.provenance(),
        });
    }
    Ok(groups)
}

/// Case, scheduler and reason of everything that failed.
fn failures(pairs: &[Pair], records: &[Record], groups: &[Group]) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (case, scheduler) in pairs {
        let mut add = |why: &String| {
            found.push((case.name.clone(), scheduler.name.clone(), why.clone()));
        };
        let of_pair = |r: &&Record| r.is_of(case, scheduler);
        let mine = records.iter().filter(of_pair);
        mine.flat_map(|record| &record.trouble).for_each(&mut add);
        let of_pair = |g: &&Group| g.case == case.name && g.scheduler == scheduler.name;
        let verdicts = groups
            .iter()
            .filter(of_pair)
            .filter_map(|g| g.verdict.as_ref());
        verdicts
            .filter_map(|verdict| verdict.as_ref().err())
            .for_each(&mut add);
    }
    found
}

/// A scenario for another number of CPUs would give other fair shares.
fn check_cpus(scenario: &Scenario) -> Result<()> {
    // SAFETY: sysconf has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    ensure!(
        online == i64::from(scenario.cpus),
        "{} is for {} CPUs, this machine has {online}; run: tests/vm/scenario",
        scenario.name,
        scenario.cpus
    );
    Ok(())
}

/// The VM that the scenario is for, as words for tests/vm/scenario.
pub fn describe(file: &Path) -> Result<String> {
    let scenario = Scenario::read(file)?;
    Ok(format!(
        "kernel={} cpus={} llcs={} disk_mib={} clock={} icount_shift={}",
        scenario.kernel,
        scenario.cpus,
        scenario.llcs,
        scenario.disk_mib,
        match scenario.clock {
            Clock::Real => "real",
            Clock::Icount => "icount",
        },
        scenario.icount_shift
    ))
}

#[cfg(test)]
#[path = "campaign_tests.rs"]
mod tests;

// SPDX-License-Identifier: GPL-2.0-only
//! A whole experiment: every case under every scheduler, repeated, judged.

use crate::experiment::{Case, Expect, Experiment, Extent, Scheduler};
use crate::judge::{Figure, Limit, Setting, verdict};
use crate::record::Record;
use crate::run::{Bench, kernel_release};
use crate::scheduler::Programs;
use crate::table::{Group, Heading, render};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How an experiment is run.
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
    /// Keep the results that DIR/results.jsonl has, and run what is missing: after an interruption, or after
    /// lines of one scheduler were deleted because it changed.
    #[arg(long)]
    pub resume: bool,
    /// Directory for table.md, results.jsonl and logs.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

impl Plan {
    fn wants(list: &[String], name: &str) -> bool {
        list.is_empty() || list.iter().any(|wanted| wanted == name)
    }

    fn extent(&self, experiment: &Experiment) -> Result<Extent> {
        if !self.short {
            return Ok(experiment.extent);
        }
        experiment
            .short
            .with_context(|| format!("{} has no short form", experiment.name))
    }

    /// The command that repeats one case under one scheduler.
    fn command(&self, case: &str, scheduler: &str) -> String {
        let short = if self.short { " --short" } else { "" };
        let file = self.file.display();
        format!("tests/vm/experiment {file}{short} --case '{case}' --scheduler '{scheduler}'")
    }
}

/// Runs `plan`; whether everything that is judged was as expected.
pub fn run(plan: &Plan) -> Result<bool> {
    let experiment = Experiment::read(&plan.file)?;
    let programs = Programs::find()?;
    let extent = plan.extent(&experiment)?;
    check_machine(&experiment)?;
    std::fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot make {}", plan.out.display()))?;
    let bench = Bench {
        experiment: &experiment,
        extent,
        programs: &programs,
        dir: &plan.out,
    };
    let pairs = pairs(plan, &experiment, &programs)?;
    let records = measure(plan, &bench, &pairs)?;
    let setting = Setting {
        cpus: f64::from(experiment.cpus),
        duration_s: extent.duration_s,
        short: plan.short,
    };
    let (groups, good) = judge(plan, &pairs, &records, &setting)?;
    let line = format!(
        "Kernel {}, {} CPUs, {} runs of {} s each. {}",
        kernel_release(),
        experiment.cpus,
        extent.repeats,
        extent.duration_s,
        versions(&records)
    );
    let heading = Heading {
        name: &experiment.name,
        title: &experiment.title,
        setting: &line,
    };
    let page = render(&heading, &groups);
    std::fs::write(plan.out.join("table.md"), &page)?;
    println!("{page}");
    Ok(good)
}

/// The schedulers that were measured, in a sentence.
fn versions(records: &[Record]) -> String {
    let known: BTreeSet<&str> = records.iter().map(|r| r.version.as_str()).collect();
    let known: Vec<&str> = known.into_iter().filter(|v| !v.is_empty()).collect();
    match known[..] {
        [] => String::new(),
        _ => format!("Measured: {}.", known.join(", ")),
    }
}

type Pair<'a> = (&'a Case, &'a Scheduler);

/// Cases and schedulers in the order of the file. A peer that is not
/// installed is left out, and said to be.
fn pairs<'a>(
    plan: &Plan,
    experiment: &'a Experiment,
    programs: &Programs,
) -> Result<Vec<Pair<'a>>> {
    let mut pairs = Vec::new();
    for case in experiment
        .case
        .iter()
        .filter(|c| Plan::wants(&plan.cases, &c.name))
    {
        for name in case
            .schedulers
            .iter()
            .filter(|n| Plan::wants(&plan.schedulers, n))
        {
            let scheduler = experiment
                .scheduler(name)
                .context("checked when it was read")?;
            if programs.has(scheduler.program) {
                pairs.push((case, scheduler));
            } else if scheduler.program.is_judged() {
                anyhow::bail!("{name} is not built; run: cargo build --workspace");
            } else {
                eprintln!("{name} is not installed and left out; to install it: tools/peers");
            }
        }
    }
    ensure!(
        !pairs.is_empty(),
        "no case is left: see --case and --scheduler"
    );
    Ok(pairs)
}

/// All runs, repeats outermost so that slow changes of the host meet all
/// schedulers alike. Each record is written as soon as it is there.
fn measure(plan: &Plan, bench: &Bench, pairs: &[Pair]) -> Result<Vec<Record>> {
    let path = plan.out.join("results.jsonl");
    let kept = if plan.resume {
        Record::read_all(&path)?
    } else {
        Vec::new()
    };
    let mut file =
        std::fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let (mut records, total) = (Vec::new(), pairs.len() * bench.extent.repeats as usize);
    for repeat in 1..=bench.extent.repeats {
        for (case, scheduler) in pairs {
            let (n, names) = (
                records.len() + 1,
                format!("{}, {}", case.name, scheduler.name),
            );
            let same = |r: &&Record| bench.is_of(r, case, scheduler, repeat);
            if let Some(record) = kept.iter().find(same) {
                writeln!(file, "{}", serde_json::to_string(record)?)?;
                records.push(record.clone());
                continue;
            }
            eprintln!("[{n}/{total}] {names}, repeat {repeat}");
            let record = bench.run(case, scheduler, repeat).with_context(|| {
                format!(
                    "{names}; run: {}",
                    plan.command(&case.name, &scheduler.name)
                )
            })?;
            writeln!(file, "{}", serde_json::to_string(&record)?)?;
            records.push(record);
        }
    }
    Ok(records)
}

fn judge(
    plan: &Plan,
    pairs: &[Pair],
    records: &[Record],
    setting: &Setting,
) -> Result<(Vec<Group>, bool)> {
    let (mut groups, mut good) = (Vec::new(), true);
    for (case, scheduler) in pairs {
        let ours = |r: &&Record| r.case == case.name && r.scheduler == scheduler.name;
        let mine: Vec<&Record> = records.iter().filter(ours).collect();
        let mut failures: Vec<String> = mine
            .iter()
            .flat_map(|record| record.trouble.clone())
            .collect();
        for expect in &case.expect {
            let mut figures: Vec<Figure> = Vec::new();
            for record in &mine {
                figures.extend(expect.figures(case, scheduler, record, setting)?);
            }
            let limit: Limit = expect.limit();
            let one_sided = matches!(limit, Limit::AtMost(_)) && !matches!(expect, Expect::Hold(_));
            let verdict = scheduler
                .program
                .is_judged()
                .then(|| verdict(&figures, limit));
            if let Some(Err(why)) = &verdict {
                failures.push(why.clone());
            }
            let (case, scheduler) = (case.name.clone(), scheduler.name.clone());
            groups.push(Group {
                case,
                scheduler,
                figures,
                one_sided,
                verdict,
            });
        }
        for why in &failures {
            good = false;
            println!(
                "FAILED {}, {}: {why}; run: {}",
                case.name,
                scheduler.name,
                plan.command(&case.name, &scheduler.name)
            );
        }
    }
    Ok((groups, good))
}

/// An experiment for another number of CPUs would give other fair shares.
fn check_machine(experiment: &Experiment) -> Result<()> {
    // SAFETY: sysconf has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    ensure!(
        online == i64::from(experiment.cpus),
        "{} is for {} CPUs, this machine has {online}; run: tests/vm/experiment",
        experiment.name,
        experiment.cpus
    );
    Ok(())
}

/// The machine that the experiment is for, as words for tests/vm/experiment.
pub fn describe(file: &Path) -> Result<String> {
    let experiment = Experiment::read(file)?;
    Ok(format!(
        "kernel={} cpus={} llcs={} disk_mib={} clock={} icount_shift={}",
        experiment.kernel,
        experiment.cpus,
        experiment.llcs,
        experiment.disk_mib,
        match experiment.clock {
            crate::experiment::Clock::Real => "real",
            crate::experiment::Clock::Icount => "icount",
        },
        experiment.icount_shift
    ))
}

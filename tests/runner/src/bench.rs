// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling costs: perf's scheduler benchmarks, forks, wake-ups beside hogs, schbench,
//! hackbench, a build, and the run time of the BPF programs, side by side in one session.

mod compile;
mod programs;
mod schbench;

use crate::bpf_programs::{self, BpfProgram};
use crate::rows::{self, Provenance, Row};
use crate::run::kernel_release;
use crate::scenario::SchedulerProgram;
use crate::scheduler::{Executables, LoadedScheduler};
use anyhow::{Context, Result, ensure};
use programs::Program;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Schedulers by their name in the rows.
const SCHEDULERS: [(&str, SchedulerProgram); 6] = [
    ("EEVDF", SchedulerProgram::Eevdf),
    ("scx_drfq", SchedulerProgram::ScxDrfq),
    ("scx_rusty", SchedulerProgram::ScxRusty),
    ("scx_lavd", SchedulerProgram::ScxLavd),
    ("scx_bpfland", SchedulerProgram::ScxBpfland),
    ("scx_cosmos", SchedulerProgram::ScxCosmos),
];

/// Round trips of `perf bench sched pipe`.
const PIPE_LOOPS: u32 = 20_000;

/// Processes that are forked, one after the other.
const FORKS: u32 = 1_000;

/// What an instruction takes on the VM's clock, ns (tests/vm/bench).
const INSTRUCTION_NS: f64 = 4.0;

const BPF_STATS_FILE: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// What a value is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Series(&'static str);

const BENCH: Series = Series("bench");
const BPF_PROGRAMS: Series = Series("bench-programs");

/// Series, what, index of the scheduler, unit: one value for each repeat.
type Values = BTreeMap<(Series, String, usize, &'static str), Vec<f64>>;

/// Runs everything `repeats` times, schedulers interleaved, and writes
/// rows.csv into `dir`. A peer that fails is left out with its error.
pub fn run(repeats: u32, dir: &Path, provenance: &Provenance) -> Result<()> {
    let executables = Executables::find()?;
    let programs = programs::installed();
    let mut values = Values::new();
    let mut failed = BTreeSet::new();
    for repeat in 1..=repeats {
        for (index, (name, scheduler)) in SCHEDULERS.into_iter().enumerate() {
            if failed.contains(&index) {
                continue;
            }
            if !executables.has(scheduler) {
                eprintln!(
                    "{name} is left out: it is not installed; to install a peer, run: tools/peers"
                );
                continue;
            }
            eprintln!("repeat {repeat} of {repeats}: {name}");
            let session = match session(&executables, scheduler, &programs, dir) {
                Ok(session) => session,
                Err(error) if is_peer(scheduler) => {
                    eprintln!("{name} is left out: {error:#}");
                    failed.insert(index);
                    values.retain(|(_, _, of, _), _| *of != index);
                    continue;
                }
                Err(error) => return Err(error.context(name)),
            };
            for ((series, what, unit), value) in session {
                let key = (series, what, index, unit);
                values.entry(key).or_default().push(value);
            }
        }
    }
    let all = to_rows(&values, provenance);
    rows::write(dir, &all)?;
    println!("kernel {}, {repeats} repeats", kernel_release());
    println!("{}", rows::table(&all));
    Ok(())
}

/// Whether the others can be measured without this scheduler.
fn is_peer(scheduler: SchedulerProgram) -> bool {
    !matches!(
        scheduler,
        SchedulerProgram::Eevdf | SchedulerProgram::ScxDrfq
    )
}

fn to_rows(values: &Values, provenance: &Provenance) -> Vec<Row> {
    let row =
        |((series, what, index, unit), found): (&(Series, String, usize, &str), &Vec<f64>)| {
            let row = Row {
                series: series.0.into(),
                what: what.clone(),
                variant: SCHEDULERS[*index].0.into(),
                unit: (*unit).into(),
                n: found.len().to_string(),
                commit: provenance.commit.clone(),
                date: provenance.date.clone(),
                ..Row::default()
            };
            row.with_values(found, 1)
        };
    values.iter().map(row).collect()
}

/// Series, what, unit and value.
type Found = Vec<((Series, String, &'static str), f64)>;

/// One round of all benchmarks under one scheduler.
fn session(
    executables: &Executables,
    scheduler: SchedulerProgram,
    programs: &[Program],
    dir: &Path,
) -> Result<Found> {
    let before = bpf_programs::loaded();
    let log = dir.join("scheduler.log");
    let loaded = LoadedScheduler::start(executables, scheduler, &[], &log)?;
    let switches = context_switches()?;
    let pipe_s = pipe_s()?;
    let switches = context_switches()? - switches;
    let pipe_us = pipe_s * 1e6 / f64::from(PIPE_LOOPS);
    let per_switch = pipe_s * 1e9 / INSTRUCTION_NS / switches as f64;
    let messaging_switches = context_switches()?;
    let messaging_ms = messaging_s()? * 1e3;
    let messaging_switches = context_switches()? - messaging_switches;
    let fork_us = forks_s()? * 1e6 / f64::from(FORKS);
    let bench = |what: &str, unit| (BENCH, what.to_string(), unit);
    let mut found = vec![
        (bench("sched pipe, one round trip", "us"), pipe_us),
        (
            bench("instructions per context switch in sched pipe", "1"),
            per_switch,
        ),
        (bench("sched messaging -g 4 -l 50", "ms"), messaging_ms),
        (
            bench("context switches in sched messaging", "1"),
            messaging_switches as f64,
        ),
        (bench("fork, exec and exit of one process", "us"), fork_us),
    ];
    for (what, value) in wake_ups(&executables.ours, dir)? {
        found.push((bench(what, "us"), value));
    }
    for program in programs {
        for (what, unit, value) in program.measure()? {
            found.push((bench(&what, unit), value));
        }
    }
    if scheduler != SchedulerProgram::Eevdf {
        found.extend(bpf_time(&before)?);
    }
    loaded.stop()?;
    Ok(found)
}

/// A second pipe run, because the kernel's accounting of BPF time costs time
/// itself.
fn bpf_time(before: &BTreeMap<u32, BpfProgram>) -> Result<Found> {
    std::fs::write(BPF_STATS_FILE, "1")
        .with_context(|| format!("cannot write {BPF_STATS_FILE}"))?;
    let (first, switches) = (bpf_programs::since(before), context_switches()?);
    pipe_s()?;
    let (last, switches) = (bpf_programs::since(before), context_switches()? - switches);
    std::fs::write(BPF_STATS_FILE, "0")
        .with_context(|| format!("cannot write {BPF_STATS_FILE}"))?;
    let mut total_ns = 0;
    let mut found = Found::new();
    for program in last {
        let Some(old) = first.iter().find(|old| old.id == program.id) else {
            continue;
        };
        let runs = program.run_count - old.run_count;
        let time_ns = program.run_time_ns - old.run_time_ns;
        total_ns += time_ns;
        // A program that ran a few times has no meaningful mean.
        if runs >= u64::from(PIPE_LOOPS) / 100 {
            let mean_ns = time_ns as f64 / runs as f64;
            found.push(((BPF_PROGRAMS, program.name, "ns"), mean_ns));
        }
    }
    let per_switch_ns = total_ns as f64 / switches as f64;
    let what = "BPF time per context switch in sched pipe".to_string();
    found.push(((BENCH, what, "ns"), per_switch_ns));
    Ok(found)
}

/// Seconds of the pipe benchmark.
fn pipe_s() -> Result<f64> {
    perf("sched", &["pipe", "-l", &PIPE_LOOPS.to_string()])
}

fn messaging_s() -> Result<f64> {
    perf("sched", &["messaging", "-g", "4", "-l", "50"])
}

/// Seconds of [`FORKS`] short processes, one after the other.
fn forks_s() -> Result<f64> {
    let start = Instant::now();
    for _ in 0..FORKS {
        Command::new("true").status().context("cannot start true")?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// How late a sleeper of 1 ms runs and 5 ms sleeps wakes up beside three hogs: median and 99th
/// percentile, us.
fn wake_ups(ours: &Path, dir: &Path) -> Result<[(&'static str, f64); 2]> {
    let load = ours.join("drfq-load");
    let report = dir.join("wake-ups.json");
    // A session before this one has left its own.
    if report.exists() {
        std::fs::remove_file(&report)
            .with_context(|| format!("cannot remove {}", report.display()))?;
    }
    let start = |command: &mut Command| command.spawn().context("cannot start drfq-load");
    let mut loads = Vec::new();
    for _ in 0..3 {
        let hog = start(Command::new(&load).args(["--duration-s=3.5", "hog"]))?;
        loads.push(("hog", hog));
    }
    let sleeper = start(
        Command::new(&load)
            .args(["--duration-s=3", "--json"])
            .arg(&report)
            .args(["sleeper", "--run-us=1000", "--sleep-us=5000"]),
    )?;
    loads.push(("sleeper", sleeper));
    // None may run on beside what is measured next, so all are waited for before one is judged.
    let ended: Vec<_> = loads
        .iter_mut()
        .map(|(name, load)| (*name, load.wait()))
        .collect();
    // A load that its own timer ends succeeds.
    for (name, status) in ended {
        let status = status.with_context(|| format!("drfq-load {name}"))?;
        ensure!(status.success(), "drfq-load {name} ended with {status}");
    }
    let text = std::fs::read_to_string(&report).context("the sleeper left no report")?;
    let report: serde_json::Value = serde_json::from_str(&text).context("the sleeper's report")?;
    let us = |name: &str| {
        find_number(&report, name)
            .map(|ns| ns / 1e3)
            .with_context(|| format!("the sleeper's report has no {name}"))
    };
    Ok([
        ("wake-up beside 3 hogs, median", us("p50_ns")?),
        ("wake-up beside 3 hogs, 99th percentile", us("p99_ns")?),
    ])
}

/// The number of this name, however deep in a report.
fn find_number(value: &serde_json::Value, name: &str) -> Option<f64> {
    let fields = value.as_object()?;
    fields
        .get(name)
        .and_then(serde_json::Value::as_f64)
        .or_else(|| fields.values().find_map(|value| find_number(value, name)))
}

/// `perf bench --format=simple SUITE ...` prints the seconds it took.
fn perf(suite: &str, args: &[&str]) -> Result<f64> {
    let mut command = Command::new("perf");
    command.args(["bench", "--format=simple", suite]).args(args);
    let output = programs::output(&mut command).context("perf bench, of the package linux-perf")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("perf bench printed {text:?}"))
}

/// Context switches of the system since boot.
fn context_switches() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = text.lines().find_map(|l| l.strip_prefix("ctxt "));
    line.context("/proc/stat has no ctxt")?
        .trim()
        .parse()
        .context("ctxt of /proc/stat")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const REPORT: &str = r#"{"wakes": {"p50_ns": 3000, "p99_ns": 5000}}"#;

    /// A directory with a shell script as its drfq-load, and with the report of another session.
    /// The script has what it does as `sleeper` or `hog` in `$load`, and the report's name in `$report`.
    fn with_load(script: &str) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "#!/bin/sh\nload=hog\nwhile [ $# -gt 0 ]; do\ncase $1 in\n--json) report=$2 ;;\n\
             sleeper) load=sleeper ;;\nesac\nshift\ndone\n{script}\n"
        );
        std::fs::write(directory.path().join("script"), text).unwrap();
        // A file that this process has written may still be open in a child of another test, and
        // the kernel runs no such file.
        let mut install = Command::new("install");
        install
            .current_dir(&directory)
            .args(["script", "drfq-load"]);
        programs::output(&mut install).unwrap();
        std::fs::write(directory.path().join("wake-ups.json"), REPORT).unwrap();
        directory
    }

    fn wake_ups_of(script: &str) -> Result<[(&'static str, f64); 2]> {
        let directory = with_load(script);
        wake_ups(directory.path(), directory.path())
    }

    #[test]
    fn wake_ups_are_those_of_the_report() {
        let other = REPORT.replace("3000", "4000");
        let script = format!("[ $load = hog ] || echo '{other}' > $report");
        let found = wake_ups_of(&script).unwrap();
        assert_eq!(found.map(|(_, us)| us), [4.0, 5.0]);
    }

    #[test]
    fn the_report_of_another_session_is_not_taken() {
        let error = wake_ups_of("exit 0").unwrap_err();
        assert!(error.to_string().contains("no report"), "{error:#}");
    }

    #[test]
    fn a_sleeper_or_a_hog_that_fails_is_an_error() {
        for failed in ["hog", "sleeper"] {
            let script = format!(
                "[ $load = hog ] || echo '{REPORT}' > $report\n[ $load != {failed} ] || exit 3"
            );
            let error = wake_ups_of(&script).unwrap_err().to_string();
            assert!(error.contains(failed) && error.contains("3"), "{error}");
        }
    }
}

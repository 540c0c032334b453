// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling costs: perf's scheduler benchmarks, and the run time of the
//! BPF programs, side by side in one session.

use crate::experiment::Program as Scheduler;
use crate::programs::{self, Program};
use crate::run::kernel_release;
use crate::scheduler::{Loaded, Programs};
use crate::statistic::{half_range, median};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The columns, in order.
const SCHEDULERS: [(&str, Scheduler); 3] = [
    ("EEVDF", Scheduler::Eevdf),
    ("scx_drfq", Scheduler::ScxDrfq),
    ("scx_rusty", Scheduler::ScxRusty),
];

/// Round trips of `perf bench sched pipe`.
const PIPE_LOOPS: u32 = 20_000;

const BPF_STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Row, column, one value for each repeat.
type Values = BTreeMap<(String, usize), Vec<f64>>;

/// All measurements.
#[derive(Default)]
struct Results {
    /// Benchmarks, us or ms as their name says.
    bench: Values,
    /// ns of BPF per run, by program.
    program: Values,
}

/// Runs everything `repeats` times, schedulers interleaved, and writes
/// bench.md into `dir`.
pub fn run(repeats: u32, dir: &Path) -> Result<()> {
    let programs = Programs::find()?;
    let mut results = Results::default();
    for repeat in 1..=repeats {
        for (column, (name, scheduler)) in SCHEDULERS.into_iter().enumerate() {
            if !programs.has(scheduler) {
                eprintln!("{name} is not there and left out; to install a peer: tools/peers");
                continue;
            }
            eprintln!("repeat {repeat} of {repeats}: {name}");
            results
                .session(&programs, scheduler, column, dir)
                .with_context(|| name.to_string())?;
        }
    }
    let page = results.render(repeats, &programs);
    std::fs::write(dir.join("bench.md"), &page)?;
    println!("{page}");
    Ok(())
}

impl Results {
    fn session(
        &mut self,
        programs: &Programs,
        scheduler: Scheduler,
        column: usize,
        dir: &Path,
    ) -> Result<()> {
        let before = programs::loaded();
        let loaded = Loaded::start(programs, scheduler, &[], &dir.join("scheduler.log"))?;
        let pipe_us = pipe_s()? * 1e6 / f64::from(PIPE_LOOPS);
        self.add_bench("sched pipe, us per round trip", column, pipe_us);
        self.add_bench(
            "sched messaging -g 4 -l 50, ms",
            column,
            messaging_s()? * 1e3,
        );
        if scheduler != Scheduler::Eevdf {
            self.bpf_time(&before, column)?;
        }
        loaded.stop()
    }

    fn add_bench(&mut self, row: &str, column: usize, value: f64) {
        self.bench
            .entry((row.into(), column))
            .or_default()
            .push(value);
    }

    /// A second pipe run, because the kernel's accounting of BPF time costs
    /// time itself.
    fn bpf_time(&mut self, before: &BTreeMap<u32, Program>, column: usize) -> Result<()> {
        std::fs::write(BPF_STATS, "1").with_context(|| format!("cannot write {BPF_STATS}"))?;
        let (first, switches) = (programs::since(before), context_switches()?);
        pipe_s()?;
        let (last, switches) = (programs::since(before), context_switches()? - switches);
        std::fs::write(BPF_STATS, "0").with_context(|| format!("cannot write {BPF_STATS}"))?;
        let mut total_ns = 0;
        for program in last {
            let Some(old) = first.iter().find(|old| old.id == program.id) else {
                continue;
            };
            let runs = program.run_count - old.run_count;
            let time_ns = program.run_time_ns - old.run_time_ns;
            total_ns += time_ns;
            // What ran a few times by chance has no mean worth showing.
            if runs >= u64::from(PIPE_LOOPS) / 100 {
                let mean_ns = time_ns as f64 / runs as f64;
                self.program
                    .entry((program.name, column))
                    .or_default()
                    .push(mean_ns);
            }
        }
        let per_switch = total_ns as f64 / switches as f64;
        self.add_bench(
            "BPF time, ns per context switch (sched pipe)",
            column,
            per_switch,
        );
        Ok(())
    }

    fn render(&self, repeats: u32, programs: &Programs) -> String {
        let measured = [Scheduler::ScxDrfq, Scheduler::ScxRusty].map(|s| programs.version(s));
        // SAFETY: sysconf has no preconditions.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let mut text = format!(
            "# What scheduling costs\n\n\
             `./justw bench` on kernel {}, {cpus} CPUs, {repeats} repeats with the schedulers \
             interleaved; median ± half range. Default options everywhere. In the VM the CPU is \
             emulated: compare the columns, not the figures with those of hardware. \
             Measured: {}.\n\n",
            kernel_release(),
            measured.join(", ")
        );
        let names = SCHEDULERS.map(|(name, _)| name);
        table(&mut text, "benchmark", &names, &self.bench, 0);
        text += "\nBPF run time per call in `sched pipe`, ns:\n\n";
        table(&mut text, "program", &names[1..], &self.program, 1);
        text
    }
}

fn table(text: &mut String, corner: &str, names: &[&str], values: &Values, first: usize) {
    let mut rows: Vec<&String> = values.keys().map(|(row, _)| row).collect();
    rows.dedup();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {corner} | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(names.len()));
    for row in rows {
        let _ = write!(text, "| {row} |");
        for column in first..first + names.len() {
            let _ = match values.get(&(row.clone(), column)) {
                Some(v) => write!(text, " {:.1} ± {:.1} |", median(v), half_range(v)),
                None => write!(text, " |"),
            };
        }
        text.push('\n');
    }
}

/// Seconds of the pipe benchmark.
fn pipe_s() -> Result<f64> {
    perf(&["pipe", "-l", &PIPE_LOOPS.to_string()])
}

fn messaging_s() -> Result<f64> {
    perf(&["messaging", "-g", "4", "-l", "50"])
}

/// `perf bench --format=simple sched ...` prints the seconds it took.
fn perf(args: &[&str]) -> Result<f64> {
    let output = Command::new("perf")
        .args(["bench", "--format=simple", "sched"])
        .args(args)
        .output()
        .context("cannot start perf: install linux-perf")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "perf bench ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
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

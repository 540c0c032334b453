// SPDX-License-Identifier: GPL-2.0-only
//! Replays recorded runs of the kernel and counts the decisions that are the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use drfq_sim::replay::event::Recording;
use drfq_sim::replay::{Outcome, replay};

#[path = "scale/rows.rs"]
mod rows;

use rows::{Row, Rows};

const SERIES: &str = "replay";

/// Replays recorded runs of the kernel in the simulator, and compares each decision
#[derive(Parser)]
#[command(name = "replay")]
struct Options {
    /// Recordings; without any, all of tests/sim/traces
    traces: Vec<PathBuf>,
    /// Print so many differences of each trace
    #[arg(long, value_name = "N", default_value_t = 0)]
    show: usize,
    /// Write rows for docs/results
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
}

/// The rows of one trace.
fn rows_of(name: &str, outcome: &Outcome) -> Vec<Row> {
    let row = |variant, unit, value| Row::new(SERIES, name, "decisions", variant, unit, value);
    vec![
        row("all", "1", outcome.decisions() as f64),
        row("picks while a task waits", "1", outcome.choices as f64),
        row("CPUs of wake-ups", "1", outcome.selections as f64),
        row("different", "1", outcome.differences.len() as f64),
        row("identical, %", "1", 100.0 * outcome.identical()),
    ]
}

fn run(path: &Path, show: usize) -> Result<Vec<Row>, String> {
    let recording = Recording::read(path)?;
    let outcome = replay(&recording, |_| {})?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for difference in &outcome.differences {
        *classes.entry(difference.class).or_default() += 1;
    }
    println!("{name}, kernel {}", recording.kernel);
    for (class, count) in classes {
        println!("  {class}: {count}");
    }
    println!(
        "  {} packets, {} with the kernel's S, {} points that were not reached",
        outcome.packets, outcome.exact, outcome.strays
    );
    for (at_ns, pid, late_ns) in outcome.apart_ns.iter().take(show) {
        println!("  {at_ns} ns: S of {pid} is later by {late_ns} ns in the kernel");
    }
    for d in outcome.differences.iter().take(show) {
        println!("  {} ns, CPU {}: {} [{}]", d.at_ns, d.cpu, d.text, d.class);
    }
    Ok(rows_of(&name, &outcome))
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.traces.is_empty() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/traces");
        let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
        options.traces = found.map(|entry| entry.path()).collect();
        options.traces.sort();
    }
    let mut rows = Rows::default();
    for path in &options.traces {
        match run(path, options.show) {
            Ok(found) => rows.extend(found),
            Err(error) => {
                eprintln!("replay: error: {error}");
                return ExitCode::from(2);
            }
        }
    }
    rows.print(SERIES);
    options
        .rows
        .map_or(ExitCode::SUCCESS, |path| rows.write(&path))
}

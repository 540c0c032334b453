// SPDX-License-Identifier: GPL-2.0-only
//! Replays recorded runs of the kernel and counts the decisions that are the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use drfq_sim::Config;
use drfq_sim::replay::event::Recording;
use drfq_sim::replay::order::{Order, Orders};
use drfq_sim::replay::{Outcome, ROUNDING_NS, find_first_v, replay};

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
    /// Look for the orders in which the simulator does what the kernel did, and write them to
    /// this file; takes minutes
    #[arg(long, value_name = "FILE")]
    search: Option<PathBuf>,
    /// Replay another scheduler, with a slice of so many us: neither the recorded order nor a
    /// found one should explain it
    #[arg(long, value_name = "US")]
    slice_us: Option<u64>,
    /// Write rows for docs/results
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
}

/// The rows of one trace, in the recorded order and in the one that was found.
fn rows_of(name: &str, recorded: &Outcome, order: &Order, ordered: &Outcome) -> Vec<Row> {
    let row = |variant, value| Row::new(SERIES, name, "decisions", variant, "1", value);
    vec![
        row("all", recorded.decisions() as f64),
        row("picks while a task waits", recorded.choices as f64),
        row("CPUs of wake-ups", recorded.selections as f64),
        row("different", recorded.differences.len() as f64),
        row("identical, %", 100.0 * recorded.identical()),
        row("events moved", order.moved() as f64),
        row("different then", ordered.differences.len() as f64),
        row("packets", ordered.packets as f64),
        row("S equal then", ordered.exact_within(ROUNDING_NS) as f64),
    ]
}

fn print(outcome: &Outcome, show: usize) {
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for difference in &outcome.differences {
        *classes.entry(difference.class).or_default() += 1;
    }
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
}

/// Replays one trace. With `--search`, its order is looked for first.
fn run(path: &Path, options: &Options, orders: &mut Orders) -> Result<Vec<Row>, String> {
    let change = |config: &mut Config| {
        if let Some(us) = options.slice_us {
            config.slice_ns = us * 1000;
        }
    };
    let recording = find_first_v(Recording::read(path)?)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    println!("{name}, kernel {}", recording.kernel);
    let recorded = replay(&recording, change)?;
    print(&recorded, options.show);
    if options.search.is_some() {
        let order = Order::search(&recording, change)?;
        orders.0.insert(name.clone().into_owned(), order);
    }
    let order = orders.of(&name);
    println!("{name}, {} events moved", order.moved());
    let ordered = replay(&order.apply(&recording)?, change)?;
    print(&ordered, options.show);
    Ok(rows_of(&name, &recorded, &order, &ordered))
}

/// Replays all traces that the options name.
fn run_all(options: &Options, directory: &Path) -> Result<Rows, String> {
    let file = directory.join("orders.toml");
    let mut orders = match &options.search {
        Some(_) => Orders::default(),
        None => Orders::read(&file)?,
    };
    let mut rows = Rows::default();
    for path in &options.traces {
        rows.extend(run(path, options, &mut orders)?);
    }
    if let Some(file) = &options.search {
        let written = std::fs::write(file, orders.text()?);
        written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(rows)
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/traces"));
    if options.traces.is_empty() {
        let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = found.map(|entry| entry.path());
        let traces = paths.filter(|path| path.extension().is_some_and(|end| end == "zst"));
        options.traces = traces.collect();
        options.traces.sort();
    }
    let rows = match run_all(&options, directory) {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("replay: error: {error}");
            return ExitCode::from(2);
        }
    };
    rows.print(SERIES);
    options
        .rows
        .map_or(ExitCode::SUCCESS, |path| rows.write(&path))
}

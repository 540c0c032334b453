// SPDX-License-Identifier: GPL-2.0-only
//! Prints how the work of a switch and of a wake-up grows: from 2 to 256 CPUs, 1 to 16 LLCs, 10 to
//! 10,000 tasks, 1 to 1,000 cgroups, and with 1,000 held or pinned tasks.

mod lines;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use drfq_sim::MS;
use drfq_sim::count::{KINDS, Kind};
use drfq_sim::scale::{Load, Operations, measure, worst_share_error};

use rows::{Row, Rows};

/// Counts the operations of the scheduler's callbacks in the simulator
#[derive(Parser)]
#[command(name = "scale")]
struct Options {
    /// Write the table as rows for ./justw results --add
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Print the cache lines that move most, and the code that stores to them, instead of the table
    #[arg(long)]
    lines: bool,
    /// CPUs for --lines
    #[arg(long, default_value_t = 256, requires = "lines")]
    cpus: usize,
    /// LLCs for --lines
    #[arg(long, default_value_t = 16, requires = "lines")]
    llcs: usize,
    /// Simulated milliseconds that are counted
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    window: u64,
    /// Simulated seconds of the shares
    #[arg(long, value_name = "SEC", default_value_t = 60)]
    seconds: u64,
}

/// What the table leaves out: calls are its unit, and slots shared by design are no growth of a path.
const LEFT_OUT: [Kind; 3] = [Kind::Calls, Kind::SharedLoads, Kind::SharedStores];

/// What other CPUs or waiting tasks may make dearer: the sum of these is the work as a whole.
const SUMMED: [Kind; 3] = [Kind::RemoteLoads, Kind::Atomics, Kind::ListSteps];

/// A case with the load of a machine with so many CPUs and LLCs.
fn machine((cpus, llcs): (usize, usize)) -> (String, Load) {
    let llcs_text = if llcs == 1 { "LLC" } else { "LLCs" };
    let case = format!("{cpus} CPUs, {llcs} {llcs_text}");
    (case, Load::new(cpus, llcs))
}

/// The same, where half of the tasks are hogs and about half of the CPUs idle at a time.
fn half_idle(machine_of: (usize, usize)) -> (String, Load) {
    let (case, load) = machine(machine_of);
    let tasks = load.cpus;
    (case, Load { tasks, ..load })
}

/// The series of the table with their cases.
fn series() -> Vec<(&'static str, Vec<(String, Load)>)> {
    let machines = [
        (2, 1),
        (4, 1),
        (8, 1),
        (16, 1),
        (16, 2),
        (64, 1),
        (64, 8),
        (128, 8),
        (256, 1),
        (256, 16),
    ];
    let idle = [
        (4, 1),
        (16, 1),
        (16, 2),
        (64, 1),
        (64, 8),
        (256, 1),
        (256, 16),
    ];
    let load = Load::new(16, 2);
    let tasks = [10, 100, 1000, 10_000].map(|tasks| {
        (
            format!("{tasks} tasks on 16 CPUs, 2 LLCs"),
            Load { tasks, ..load },
        )
    });
    let cgroups = [0, 1, 10, 100, 1000].map(|cgroups| {
        (
            format!("{cgroups} cgroups, 1000 tasks"),
            Load {
                cgroups,
                tasks: 1000,
                ..load
            },
        )
    });
    let others = [
        ("48 tasks alone".to_owned(), load),
        (
            "with 1000 held tasks".to_owned(),
            Load { held: 1000, ..load },
        ),
        (
            "with 1000 tasks pinned to one CPU".to_owned(),
            Load {
                pinned: 1000,
                ..load
            },
        ),
    ];
    vec![
        ("scale-machines", machines.map(machine).into()),
        ("scale-idle", idle.map(half_idle).into()),
        ("scale-tasks", tasks.into()),
        ("scale-cgroups", cgroups.into()),
        ("scale-others", others.into()),
    ]
}

/// The rows of one case.
fn rows_of(series: &str, case: &str, operations: &Operations) -> Vec<Row> {
    let per = |what: &str, values: &[f64]| -> Vec<Row> {
        let row = |(kind, variant): &(Kind, &str)| {
            Row::new(
                series,
                case,
                what,
                variant,
                "operations",
                values[*kind as usize],
            )
        };
        KINDS
            .iter()
            .filter(|(kind, _)| !LEFT_OUT.contains(kind))
            .map(row)
            .collect()
    };
    let mut rows = per("switch", &operations.per_switch);
    rows.extend(per("wake-up", &operations.per_wakeup));
    rows.extend(per("tick", &operations.per_tick));
    let sum = SUMMED.iter().map(|kind| operations.of(*kind));
    rows.push(Row::new(
        series,
        case,
        "wake-up and switch",
        "loads, atomics and steps",
        "operations",
        sum.map(|(switch, wakeup)| switch + wakeup).sum(),
    ));
    rows
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.lines {
        return lines::print(options.cpus, options.llcs, options.window * MS);
    }
    let mut rows = Rows::default();
    for (name, cases) in series() {
        for (case, load) in cases {
            rows.extend(rows_of(name, &case, &measure(&load, options.window * MS)));
        }
        rows.print(name);
    }
    for (cpus, llcs) in [(16, 1), (64, 4), (256, 1), (256, 16)] {
        let worst = 100.0 * worst_share_error(cpus, llcs, options.seconds);
        let case = format!(
            "{cpus} CPUs, {llcs} LLC{}",
            if llcs == 1 { "" } else { "s" }
        );
        let what = "worst error of a share";
        let mut row = Row::new("scale-shares", &case, what, "", "%", worst);
        row.at_most = "1";
        row.verdict = if worst <= 1.0 { "ok" } else { "failed" };
        rows.extend([row]);
    }
    rows.print("scale-shares");
    println!("shares: {} simulated seconds each", options.seconds);
    match options.rows {
        None => ExitCode::SUCCESS,
        Some(path) => rows.write(&path),
    }
}

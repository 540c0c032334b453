// SPDX-License-Identifier: GPL-2.0-only
//! What refreshes of `top` cost, for a count of instructions:
//! `valgrind --tool=callgrind cost TASKS COLUMNS LINES REFRESHES`.
//!
//! A refresh reads the answer of the stats socket as the client does, adds it to the
//! history, and draws. Of 500 tasks, five are new in each refresh. The input is made
//! before; REFRESHES of 0 gives the instructions to subtract.

use std::{env, sync::Arc};

use drfq_stats::{report::Tasks, rows::Rows};
use drfq_view::{
    app::App,
    paint::Painter,
    palette::Palette,
    settings::Settings,
    snapshot::{Process, Snapshot},
    view::View,
};
use ratatui::{Terminal, TerminalOptions, Viewport, backend::CrosstermBackend, layout::Rect};

/// Answers that repeat.
const ANSWERS: u32 = 2;

fn report(tasks: u32, round: u32) -> Tasks {
    let template = drfq_view::fixture::noisy().report;
    let mut report = template.clone();
    report.tasks.clear();
    for at in 0..tasks {
        let mut task = template.tasks[at as usize % template.tasks.len()].clone();
        // One task in a hundred is another one in the next round.
        task.pid = 1000 + at + if at % 100 == 0 { round * 100_000 } else { 0 };
        task.tgid = task.pid;
        task.cpu_pct += f64::from((at * 7 + round * 13) % 11) / 3.0;
        report.tasks.push(task);
    }
    report.nr_tasks = tasks.into();
    report
}

fn snapshot(report: Tasks, template: &Snapshot, at: u64) -> Snapshot {
    let mut snapshot = Snapshot {
        at_unix_ns: template.at_unix_ns + at * 100_000_000,
        cgroups: template.cgroups.clone(),
        cpus: template.cpus.clone(),
        ..Snapshot::default()
    };
    let process = Arc::new(Process {
        name: "postgres".into(),
        user: "postgres".into(),
        cgroup: "/system.slice/postgresql.service".into(),
    });
    let processes = report.tasks.iter();
    snapshot.processes = processes
        .map(|task| (task.tgid, Arc::clone(&process)))
        .collect();
    snapshot.report = report;
    snapshot
}

fn main() {
    let numbers: Vec<u32> = env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let [tasks, columns, lines, refreshes] = numbers[..] else {
        eprintln!("usage: cost TASKS COLUMNS LINES REFRESHES");
        std::process::exit(2);
    };
    let answers: Vec<String> = (0..ANSWERS)
        .map(|round| serde_json::to_string(&Rows::from(report(tasks, round))).unwrap_or_default())
        .collect();
    let size = Rect::new(0, 0, columns as u16, lines as u16);
    let options = TerminalOptions {
        viewport: Viewport::Fixed(size),
    };
    let backend = CrosstermBackend::new(std::io::sink());
    let Ok(mut terminal) = Terminal::with_options(backend, options) else {
        return;
    };
    let mut app = App::new("live".into(), Settings::default(), Palette::new(true));
    app.view = View::Tasks;
    app.resize(size);
    let mut painter = Painter::default();
    let template = drfq_view::fixture::noisy();
    for at in 0..refreshes {
        let answer = &answers[(at % ANSWERS) as usize];
        let Ok(rows) = serde_json::from_str::<Rows>(answer) else {
            return;
        };
        let Ok(report) = Tasks::try_from(rows) else {
            return;
        };
        app.push(snapshot(report, &template, at.into()));
        let _ = painter.paint(&mut terminal, &app);
    }
    println!("{} bytes an answer", answers[0].len());
}

// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, each with its last-level cache, use and task.

use std::collections::HashMap;

use drfq_stats::report::{Cpu, Task};
use ratatui::{Frame, layout::Rect, style::Style, text::Line};

use super::{empty, meters::gauge, put};
use crate::{
    app::App,
    entity::clean,
    snapshot::{CpuTime, Snapshot},
};

const HEADING: &str =
    " CPU  LLC  BUSY                    IRQ%   SWITCHES/s   STEALS  S-V ms     PID  TASK";

/// Draws the CPUs that fit.
pub fn draw(frame: &mut Frame, area: Rect, app: &App, snapshot: &Snapshot) {
    let report = &snapshot.report;
    if report.cpus.is_empty() {
        return empty(
            frame,
            area,
            &[
                "The statistics have no CPUs: the running scheduler is older than this command.",
                "Start the scheduler anew with this version.",
            ],
        );
    }
    let tasks: HashMap<u32, &Task> = report.tasks.iter().map(|task| (task.pid, task)).collect();
    let times: HashMap<u32, &CpuTime> = snapshot.cpus.iter().map(|cpu| (cpu.cpu, cpu)).collect();
    let line = |y| Rect::new(area.x, y, area.width, 1).intersection(area);
    let width = usize::from(area.width);
    let heading = Line::styled(format!("{HEADING:width$}"), app.palette.heading());
    put(frame, line(area.y), heading);
    let visible = report.cpus.iter().enumerate().skip(app.top);
    for (y, (at, cpu)) in (area.y + 1..area.bottom()).zip(visible) {
        let text = text(
            cpu,
            times.get(&cpu.cpu).copied(),
            tasks.get(&cpu.pid).copied(),
        );
        let style = match (at == app.cursor, cpu.pid) {
            (true, _) => app.palette.selected(),
            (_, 0) => app.palette.dim(),
            _ => Style::new(),
        };
        put(frame, line(y), Line::styled(text, style));
    }
}

fn text(cpu: &Cpu, time: Option<&CpuTime>, task: Option<&Task>) -> String {
    let time = time.copied().unwrap_or_default();
    let start = format!(
        "{:4} {:4}  {} {:5.1} {:6.1} {:12.1} {:8}",
        cpu.cpu,
        cpu.llc,
        gauge(time.busy_pct / 100.0, 15),
        time.busy_pct,
        time.irq_pct,
        cpu.switches_per_s,
        cpu.steals,
    );
    match (cpu.pid, task) {
        (0, _) => format!("{start}       -       -  none of this scheduler"),
        (pid, task) => {
            let name = task.map_or("(started just now)".into(), |task| clean(&task.comm));
            format!("{start} {:7.1} {pid:7}  {name}", cpu.lag_ns as f64 / 1e6)
        }
    }
}

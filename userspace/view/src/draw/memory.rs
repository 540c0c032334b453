// SPDX-License-Identifier: GPL-2.0-only
//! Memory bandwidth: how much is used, by which group, and what the throttles leave.

use drfq_stats::{mba_report::MbaGroup, report::System};
use ratatui::{Frame, layout::Rect, style::Style, text::Line, widgets::Paragraph};

use super::{empty, meters::gauge, put};
use crate::{
    app::App,
    entity::unit_name,
    history::{capacity, traffic},
    snapshot::Snapshot,
    words::{rate, rate_in_words},
};

const HEADING: &str = "  TRAFFIC  SHARE%  LEVEL                    WEIGHT  DOMINANT%  TASKS  GROUP";

/// The summary gets only lines that this many groups leave.
const LEAST_GROUPS: usize = 5;

/// The parts of the body for the groups with their heading, and for the summary below them.
pub fn parts(body: Rect, snapshot: &Snapshot) -> (Rect, Rect) {
    let kept = match snapshot.report.system.mba.groups.len() {
        0 => 0,
        groups => groups.min(LEAST_GROUPS) as u16 + 1,
    };
    // An empty line parts the summary from the groups.
    let wanted = summary(snapshot).len() as u16 + 1;
    let below = match body.height.saturating_sub(kept).min(wanted) {
        0 | 1 => 0,
        height => height,
    };
    let groups = Rect {
        height: body.height - below,
        ..body
    };
    let summary = Rect {
        y: groups.bottom(),
        height: below,
        ..body
    };
    (groups, summary)
}

/// Draws what is known of memory bandwidth.
pub fn draw(frame: &mut Frame, area: Rect, app: &App, snapshot: &Snapshot) {
    let system = &snapshot.report.system;
    let (groups, below) = parts(area, snapshot);
    if system.mba.groups.is_empty() {
        let reason = why(system);
        empty(frame, groups, &[&reason.0, &reason.1]);
    } else {
        draw_groups(frame, groups, app, system);
    }
    let lines: Vec<Line> = std::iter::once(String::new())
        .chain(summary(snapshot))
        .map(Line::from)
        .collect();
    frame.render_widget(Paragraph::new(lines), below);
}

fn draw_groups(frame: &mut Frame, area: Rect, app: &App, system: &System) {
    let line = |y| Rect::new(area.x, y, area.width, 1).intersection(area);
    let width = usize::from(area.width);
    let heading = Line::styled(format!("{HEADING:width$}"), app.palette.heading());
    put(frame, line(area.y), heading);
    let visible = system.mba.groups.iter().enumerate().skip(app.top);
    for (y, (at, group)) in (area.y + 1..area.bottom()).zip(visible) {
        let style = match at == app.cursor {
            true => app.palette.selected(),
            false if group.level_pct < 99.5 => app.palette.below(),
            false => Style::new(),
        };
        put(frame, line(y), Line::styled(text(group, system), style));
    }
}

fn text(group: &MbaGroup, system: &System) -> String {
    let name = if group.name.starts_with('/') {
        unit_name(&group.name)
    } else {
        crate::entity::clean(&group.name)
    };
    let share = match capacity(system) {
        full if full > 0.0 => format!("{:.1}", 100.0 * group.bytes_per_s / full),
        _ => "-".into(),
    };
    format!(
        "{:>9} {share:>7}  {} {:5.0} {:9.3} {:10.1} {:6}  {name}",
        rate(group.bytes_per_s),
        gauge(group.level_pct / 100.0, 15),
        group.level_pct,
        group.weight,
        group.dominant_pct,
        group.tasks,
    )
}

/// The state of the memory in a few lines.
fn summary(snapshot: &Snapshot) -> Vec<String> {
    let system = &snapshot.report.system;
    let m = match system.mem_bytes_per_s {
        0 => "unknown, so traffic is not charged (set --memory-bandwidth)".into(),
        bytes => rate_in_words(bytes as f64),
    };
    let stand_in = if system.mem_stand_in != 0 {
        " (a software event as STAND-IN)"
    } else {
        ""
    };
    let mut lines = vec![
        format!("Bandwidth of the machine (m): {m}"),
        format!("Traffic is counted by: {}{stand_in}", system.mem_source),
    ];
    let mba = &system.mba;
    let named: f64 = if mba.domains > 0 {
        mba.groups.iter().map(|group| group.bytes_per_s).sum()
    } else {
        let tasks = snapshot.report.tasks.iter();
        tasks.map(|task| task.mem_bytes_per_s).sum()
    };
    let all = traffic(snapshot);
    let rest = (all - named).max(0.0);
    lines.push(format!(
        "Traffic: {}, of it without a group: {}",
        rate_in_words(all),
        rate_in_words(rest)
    ));
    if mba.domains > 0 {
        let full = match mba.capacity_bytes_per_s {
            full if full > 0.0 => rate_in_words(full),
            _ => "an unknown rate".into(),
        };
        lines.push(format!(
            "Domains: {}, saturated {}, throttles move in {}; full at {full}; sharing: {}",
            mba.domains, mba.saturated, mba.acting, mba.state,
        ));
        lines.push(format!(
            "Since loading: {} periods, {} levels written, {} groups moved, {} errors, {} foreign \
             tasks",
            mba.periods, mba.writes, mba.moves, mba.errors, mba.foreign
        ));
    }
    lines
}

/// Why no group is listed, and what to do.
fn why(system: &System) -> (String, String) {
    match system.mba.state.as_str() {
        "" | "off" => (
            "No group of tasks is monitored: memory bandwidth is not shared by throttling.".into(),
            "Start the scheduler with  --mba observe  to see groups, or  --mba on  to share it. \
             scx_drfq doctor  tells whether this machine can."
                .into(),
        ),
        state => (
            format!("No group is monitored yet (sharing: {state})."),
            "A group appears once it uses 2 % of a CPU, or 1 % of the memory traffic.".into(),
        ),
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The memory controller that scx_drfq drives, and the model that shadows it.

use drfq_stats::controller_report::Controller;
use ratatui::{Frame, layout::Rect, text::Line, widgets::Paragraph};

use super::empty;
use crate::{
    app::App,
    entity::clean,
    snapshot::Snapshot,
    words::{rate, rate_in_words},
};

/// Tasks that are listed, the heaviest first.
const TASKS: usize = 10;

/// Draws both links and the heaviest tasks.
pub fn draw(frame: &mut Frame, area: Rect, app: &App, snapshot: &Snapshot) {
    let system = &snapshot.report.system;
    let mut lines = Vec::new();
    for (name, link) in [
        ("Controller", &system.controller),
        ("Shadow", &system.shadow),
    ] {
        if !matches!(link.state.as_str(), "" | "off") {
            lines.push(Line::styled(
                format!("{name}: {}", link.state),
                app.palette.label(),
            ));
            lines.extend(link_lines(link).into_iter().map(Line::from));
            lines.push(Line::default());
        }
    }
    if lines.is_empty() {
        return empty(
            frame,
            area,
            &[
                "No memory controller is connected, and no model runs in its place.",
                "Start the scheduler with  --controller TARGET  to drive one, or with  --shadow \
                 TARGET  to ask a model. docs/howto/own-controller.md tells how.",
            ],
        );
    }
    lines.push(Line::styled(
        format!(
            "{:>7}  {:16} {:>10} {:>10} {:>10}",
            "PID", "NAME", "CHARGED", "COUNTED", "SHADOW"
        ),
        app.palette.heading(),
    ));
    lines.extend(task_lines(snapshot).map(Line::from));
    frame.render_widget(Paragraph::new(lines), area);
}

fn link_lines(link: &Controller) -> Vec<String> {
    let labels = if link.mailbox != 0 {
        "CPUs label their traffic at each switch".into()
    } else {
        format!(
            "labels are copied every {:.2} ms",
            link.copy_interval_ns / 1e6
        )
    };
    vec![
        format!(
            "  traffic {}; in all {} GB: shared ids {:.1} %, unattributed {:.1} %, from before \
             {:.1} %",
            rate_in_words(link.bytes_per_s),
            link.bytes / 1_000_000_000,
            part(link.shared_bytes, link.bytes),
            part(link.unattributed_bytes, link.bytes),
            part(link.inherited_bytes, link.bytes),
        ),
        format!("  {} tasks hold an id; {labels}", link.ids),
        format!(
            "  {} polls, {} writes, {} losses, {:.1} ms of CPU time",
            link.polls,
            link.writes,
            link.losses,
            link.cpu_ns as f64 / 1e6
        ),
    ]
}

fn part(bytes: u64, all: u64) -> f64 {
    100.0 * bytes as f64 / all.max(1) as f64
}

fn task_lines(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let mut tasks: Vec<_> = snapshot.report.tasks.iter().collect();
    tasks.sort_by(|a, b| {
        let size = |task: &drfq_stats::report::Task| {
            task.controller_bytes_per_s.max(task.shadow_bytes_per_s)
        };
        size(b).total_cmp(&size(a)).then(a.pid.cmp(&b.pid))
    });
    tasks.into_iter().take(TASKS).map(|task| {
        format!(
            "{:7}  {:16} {:>10} {:>10} {:>10}",
            task.pid,
            clean(&task.comm),
            rate(task.mem_bytes_per_s),
            rate(task.controller_bytes_per_s),
            rate(task.shadow_bytes_per_s),
        )
    })
}

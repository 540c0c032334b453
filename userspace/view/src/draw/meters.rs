// SPDX-License-Identifier: GPL-2.0-only
//! The machine and the selected row over time.

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::put;
use crate::{
    app::App,
    history::{Series, capacity, traffic},
    snapshot::Snapshot,
    words::{rate, rate_in_words},
};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LABEL: u16 = 36;

/// Values as bars of a height up to `full`. It ends with the newest value.
pub fn sparkline(values: &[f64], full: f64, width: usize) -> String {
    let from = values.len().saturating_sub(width);
    let bar = |value: &f64| {
        if !value.is_finite() || *value <= 0.0 || full <= 0.0 {
            return ' ';
        }
        let height = (value / full * BARS.len() as f64) as usize;
        BARS[height.min(BARS.len() - 1)]
    };
    values[from..].iter().map(bar).collect()
}

/// A part of ten characters, such as `[####......]`; readable without colour.
pub fn gauge(part: f64, width: usize) -> String {
    let filled = ((part.clamp(0.0, 1.0)) * width as f64).round() as usize;
    format!("[{}{}]", "#".repeat(filled), ".".repeat(width - filled))
}

fn line<'a>(label: String, bars: String, style: Style, area: Rect) -> Line<'a> {
    let width = usize::from(LABEL.min(area.width));
    Line::from(vec![
        Span::raw(format!("{label:width$.width$} ")),
        Span::styled(bars, style),
    ])
}

fn rows(area: Rect) -> impl Iterator<Item = Rect> {
    (area.y..area.bottom()).map(move |y| Rect::new(area.x, y, area.width, 1))
}

/// CPUs and memory of the machine.
pub fn draw(frame: &mut Frame, area: Rect, app: &App, snapshot: &Snapshot) {
    let width = usize::from(area.width.saturating_sub(LABEL + 1));
    if area.height == 0 {
        return;
    }
    let series = app.history.machine(app.back, width);
    let busy = series.cpu_pct.last().copied().unwrap_or(0.0);
    let system = &snapshot.report.system;
    let known = capacity(system);
    let most = || series.mem_bytes_per_s.iter().copied().fold(0.0, f64::max);
    let full = if known > 0.0 { known } else { most() };
    let moved = traffic(snapshot);
    let memory = if known <= 0.0 {
        format!("Memory {} (m unknown)", rate_in_words(moved))
    } else {
        format!(
            "Memory {} {} of {}",
            gauge(moved / full, 10),
            rate(moved),
            rate(full)
        )
    };
    let cpus = format!("CPUs   {} {busy:.0} %", gauge(busy / 100.0, 10));
    let lines = [
        line(
            cpus,
            sparkline(&series.cpu_pct, 100.0, width),
            app.palette.cpu(),
            area,
        ),
        line(
            memory,
            sparkline(&series.mem_bytes_per_s, full, width),
            app.palette.memory(),
            area,
        ),
    ];
    for (area, line) in rows(area).zip(lines) {
        put(frame, area, line);
    }
}

/// The selected row over time.
pub fn detail(frame: &mut Frame, area: Rect, app: &App) {
    let Some(entity) = app.selected().filter(|_| area.height > 0) else {
        return;
    };
    let width = usize::from(area.width.saturating_sub(LABEL + 1));
    let Series {
        cpu_pct,
        mem_bytes_per_s,
    } = app.history.entity(&entity, app.back, width);
    let last = |values: &[f64]| values.last().copied().unwrap_or(0.0);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (cpu, memory) = (most(&cpu_pct).max(100.0), most(&mem_bytes_per_s));
    let lines = [
        Line::styled(format!("{entity} over time"), app.palette.label()),
        line(
            format!("  CPU    {:.1} %, full bar {cpu:.0} %", last(&cpu_pct)),
            sparkline(&cpu_pct, cpu, width),
            app.palette.cpu(),
            area,
        ),
        line(
            format!(
                "  memory {}, most {}",
                rate(last(&mem_bytes_per_s)),
                rate(memory)
            ),
            sparkline(&mem_bytes_per_s, memory, width),
            app.palette.memory(),
            area,
        ),
    ];
    for (area, line) in rows(area).zip(lines) {
        put(frame, area, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_values_and_survive_odd_ones() {
        assert_eq!(
            sparkline(&[0.0, 1.0, 50.0, 100.0, 200.0], 100.0, 9),
            " ▁▅██"
        );
        assert_eq!(sparkline(&[1.0, 2.0, 4.0], 4.0, 2), "▅█");
        assert_eq!(sparkline(&[f64::NAN, 1.0, -1.0], 0.0, 9), "   ");
        assert_eq!(gauge(0.5, 4), "[##..]");
        assert_eq!(
            (gauge(9.0, 2), gauge(f64::NAN, 2)),
            ("[##]".into(), "[..]".into())
        );
    }
}

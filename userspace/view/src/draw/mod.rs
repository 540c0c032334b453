// SPDX-License-Identifier: GPL-2.0-only
//! From the state to a screen. Nothing here changes the state.

mod controller;
mod cpus;
pub(crate) mod memory;
mod meters;
mod overlays;
mod rows;
pub mod screen;
#[cfg(test)]
mod tests;

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use self::screen::Screen;
use crate::{
    app::{App, Input, Overlay},
    snapshot::Snapshot,
    view::{VIEWS, View},
    words::time_of_day,
};

/// Draws the whole screen.
pub fn draw(frame: &mut Frame, app: &App) {
    let screen = Screen::of(frame.area());
    let shown = app.shown().map(|snapshot| &**snapshot);
    put(frame, screen.title, title(app, shown));
    tabs(frame, &screen, app);
    match shown {
        None => empty(
            frame,
            screen.body,
            &["Measuring. The first figures appear after one interval."],
        ),
        Some(snapshot) => {
            meters::draw(frame, screen.meters, app, snapshot);
            match app.view {
                View::Tasks | View::Processes | View::Cgroups => rows::draw(frame, &screen, app),
                View::Cpus => cpus::draw(frame, screen.body, app, snapshot),
                View::Memory => memory::draw(frame, screen.body, app, snapshot),
                View::Controller => controller::draw(frame, screen.body, app, snapshot),
            }
            meters::detail(frame, screen.detail, app);
        }
    }
    footer(frame, screen.footer, app);
    if let Some(overlay) = &app.overlay {
        overlays::draw(frame, app, overlay);
    }
}

/// One line, cut off at the end of its part.
fn put<'a>(frame: &mut Frame, area: Rect, line: impl Into<Line<'a>>) {
    frame.render_widget(Paragraph::new(line.into()), area);
}

/// Why a panel is empty and how to fill it, one paragraph each.
fn empty(frame: &mut Frame, area: Rect, paragraphs: &[&str]) {
    let mut lines = vec![Line::default()];
    for paragraph in paragraphs {
        lines.push(Line::from(format!("  {paragraph}")));
        lines.push(Line::default());
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn title<'a>(app: &App, shown: Option<&Snapshot>) -> Line<'a> {
    let mut spans = vec![Span::styled("scx_drfq", app.palette.heading())];
    if let Some(snapshot) = shown {
        let system = &snapshot.report.system;
        spans.push(Span::raw(format!(
            " {} {} UTC  {:.1} s  V {:.3} s  {} of {} CPUs busy  {} tasks",
            app.source,
            time_of_day(snapshot.at_unix_ns),
            system.interval_ns as f64 / 1e9,
            system.vtime_ns as f64 / 1e9,
            system.busy_cpus,
            system.nr_cpus,
            snapshot.report.nr_tasks,
        )));
        if app.frozen {
            let newest = app.history.back(0).map_or(0, |newest| newest.at_unix_ns);
            let ago = newest.saturating_sub(snapshot.at_unix_ns) as f64 / 1e9;
            let text = format!("  FROZEN, {ago:.1} s ago");
            spans.push(Span::styled(text, app.palette.below()));
        }
    } else {
        spans.push(Span::raw(format!(" {}", app.source)));
    }
    Line::from(spans)
}

fn tabs(frame: &mut Frame, screen: &Screen, app: &App) {
    for (at, view) in VIEWS.into_iter().enumerate() {
        let part = screen.tab(view);
        let area = Rect::new(
            part.start,
            screen.tabs.y,
            part.len() as u16,
            screen.tabs.height,
        );
        let style = if view == app.view {
            app.palette.heading()
        } else {
            Style::new()
        };
        let text = format!("{} {}", at + 1, view.name());
        let line = Line::from(vec![Span::styled(text, style), Span::raw("  ")]);
        put(frame, area.intersection(screen.tabs), line);
    }
}

fn footer(frame: &mut Frame, area: Rect, app: &App) {
    let line = match (&app.overlay, &app.message) {
        (Some(Overlay::Input(input, text)), message) => {
            let prompt = match input {
                Input::Search => "Search",
                Input::Filter => "Filter",
            };
            let error = message
                .as_ref()
                .map_or(String::new(), |text| format!("  ({text})"));
            Line::from(format!("{prompt}: {text}_{error}"))
        }
        (_, Some(message)) => Line::styled(message.clone(), app.palette.below()),
        _ => keys(app),
    };
    put(frame, area, line);
}

fn keys<'a>(app: &App) -> Line<'a> {
    let keys = [
        ("F1", "Help "),
        ("F2", "Columns "),
        ("F3", "Search "),
        ("F4", "Filter "),
        ("F5", "Tree "),
        ("F6", "Order "),
        ("e", "Explain "),
        ("Space", "Freeze "),
        ("F10", "Quit "),
    ];
    let mut spans = Vec::new();
    if !app.filter.text.is_empty() {
        let text = format!("filter: {}  ", app.filter.text);
        spans.push(Span::styled(text, app.palette.below()));
    }
    for (key, name) in keys {
        spans.push(Span::raw(key));
        spans.push(Span::styled(name, app.palette.heading()));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

// SPDX-License-Identifier: GPL-2.0-only
//! The tables of tasks, processes and cgroups.

use ratatui::{Frame, layout::Rect, style::Style, text::Span, widgets::Paragraph};

use super::{empty, screen::Screen};
use crate::{
    app::App,
    columns::Column,
    row::{Row, State},
    view::View,
    words::shortened,
};

/// Draws the heading and the rows that fit.
pub fn draw(frame: &mut Frame, screen: &Screen, app: &App) {
    let body = screen.body;
    if app.rows.is_empty() {
        return why(frame, body, app);
    }
    let table = app.settings.table(app.view);
    let heading = Paragraph::new("").style(app.palette.heading());
    frame.render_widget(
        heading,
        Rect {
            height: body.height.min(1),
            ..body
        },
    );
    let visible = app
        .rows
        .iter()
        .enumerate()
        .skip(app.top)
        .take(screen.rows());
    let visible: Vec<(usize, &Row)> = visible.collect();
    for (y, (at, _)) in (body.y + 1..).zip(&visible) {
        if *at == app.cursor {
            let line = Rect::new(body.x, y, body.width, 1);
            frame.render_widget(Paragraph::new("").style(app.palette.selected()), line);
        }
    }
    for (column, part) in screen.columns(table, app.view) {
        let place = |y| Rect::new(part.start, y, part.len() as u16, 1).intersection(body);
        let text = match (column.name == table.sort, table.ascending) {
            (true, true) => format!("{}↑", column.heading),
            (true, false) => format!("{}↓", column.heading),
            _ => column.heading.to_owned(),
        };
        cell(frame, place(body.y), column, text, app.palette.heading());
        for (y, (at, row)) in (body.y + 1..).zip(&visible) {
            let style = if *at == app.cursor {
                app.palette.selected()
            } else {
                style(app, column, row)
            };
            cell(frame, place(y), column, text_of(app, column, row), style);
        }
    }
}

fn cell(frame: &mut Frame, area: Rect, column: &Column, mut text: String, style: Style) {
    let area = area.intersection(frame.area());
    if area.is_empty() {
        return;
    }
    let printable = text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    let width_of = |text: &str| match printable {
        true => text.len(),
        false => Span::raw(text).width(),
    };
    let mut width = width_of(&text);
    if column.right && width > area.width.into() {
        text = shortened(&text, area.width.into());
        width = width_of(&text);
    }
    let width = width.try_into().unwrap_or(u16::MAX);
    let x = match column.right {
        true => area.right().saturating_sub(width).max(area.x),
        false => area.x,
    };
    let room = usize::from(area.right() - x);
    let buffer = frame.buffer_mut();
    if !printable {
        buffer.set_stringn(x, area.y, text, room, style);
        return;
    }
    // Most cells of a screen come here, so the search for graphemes is left out.
    let from = buffer.index_of(x, area.y);
    let cells = &mut buffer.content[from..from + room.min(text.len())];
    for (at, cell) in cells.iter_mut().enumerate() {
        cell.set_symbol(&text[at..=at]).set_style(style);
    }
}

fn text_of(app: &App, column: &Column, row: &Row) -> String {
    let text = (column.cell)(row);
    if column.name != "name" || app.view != View::Cgroups {
        return text;
    }
    let sign = match (row.parent, row.folded) {
        (false, _) => "  ",
        (true, true) => "+ ",
        (true, false) => "- ",
    };
    format!("{}{sign}{text}", "  ".repeat(row.depth))
}

/// What a cell tells stands in its text; the style repeats it.
fn style(app: &App, column: &Column, row: &Row) -> Style {
    let palette = app.palette;
    match (column.name, row.distance_pct()) {
        ("distance", Some(distance)) if distance <= -5.0 => palette.below(),
        ("distance", Some(distance)) if distance >= 5.0 => palette.above(),
        ("level", _) if row.level_pct.is_some_and(|level| level < 99.5) => palette.below(),
        ("held", _) if row.held_pct >= 5.0 => palette.below(),
        ("resource", _) if row.dominant() == "memory" => palette.memory(),
        ("resource", _) => palette.cpu(),
        _ if row.state == State::Blocked => palette.dim(),
        _ => Style::new(),
    }
}

/// Why there is no row.
fn why(frame: &mut Frame, area: Rect, app: &App) {
    let filter = format!("No row matches the filter: {}", app.filter.text);
    if app.filter.text.is_empty() {
        empty(
            frame,
            area,
            &[
                "The scheduler has no task: nothing has run since it was loaded.",
                "Start a program, or run  scx_drfq doctor  to see whether it schedules.",
            ],
        );
    } else {
        empty(
            frame,
            area,
            &[&filter, "Press Esc to clear it, or F4 to change it."],
        );
    }
}

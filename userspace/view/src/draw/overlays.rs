// SPDX-License-Identifier: GPL-2.0-only
//! What lies over the view: the help, the explanation, the choosers.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Text},
    widgets::{Block, Clear, Paragraph, Wrap},
};

use crate::{
    app::{App, Overlay},
    explain::explain,
    input::HELP,
};

/// Draws an overlay.
pub fn draw(frame: &mut Frame, app: &App, overlay: &Overlay) {
    match overlay {
        Overlay::Help(line) => help(frame, *line),
        Overlay::Explain(line) => explanation(frame, app, *line),
        Overlay::Columns(at) => chooser(
            frame,
            app,
            *at,
            "Columns: Space shows, Left Right move, s saves, Esc closes",
            true,
        ),
        Overlay::Sort(at) => chooser(frame, app, *at, "Order: Enter chooses, Esc closes", false),
        Overlay::Input(..) => {}
    }
}

/// A box in the middle.
fn panel(frame: &mut Frame, width: u16, height: u16, title: &str) -> Rect {
    let area = frame.area();
    let (width, height) = (width.min(area.width), height.min(area.height));
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(format!(" {title} "));
    let inside = block.inner(place);
    frame.render_widget(block, place);
    inside
}

fn help(frame: &mut Frame, line: u16) {
    let notes = [
        String::new(),
        "CPU%, FAIR%: percent of one CPU. DIST%: distance from the fair share, in".into(),
        "percent of it. SHARE%: the dominant share, in percent of the machine.".into(),
        "- : no entitlement, because it asks for less than its share.".into(),
    ];
    let keys = HELP.iter().map(|(keys, text)| format!("{keys:28} {text}"));
    let lines: Vec<Line> = keys.chain(notes).map(Line::from).collect();
    let inside = panel(
        frame,
        84,
        lines.len() as u16 + 2,
        "Keys; any other key closes",
    );
    frame.render_widget(Paragraph::new(lines).scroll((line, 0)), inside);
}

fn explanation(frame: &mut Frame, app: &App, line: u16) {
    let text = match app.selected() {
        Some(entity) => explain(&app.history, app.back, &entity).text(),
        None => "Nothing is selected. Choose a row of a table, or a CPU that runs a task.".into(),
    };
    let width = frame.area().width.saturating_sub(4).min(100);
    let height = frame.area().height.saturating_sub(4).min(24);
    let inside = panel(frame, width, height, "Explain; any other key closes");
    let paragraph = Paragraph::new(Text::from(text)).wrap(Wrap { trim: false });
    frame.render_widget(paragraph.scroll((line, 0)), inside);
}

fn chooser(frame: &mut Frame, app: &App, at: usize, title: &str, marks: bool) {
    let all = app.settings.table(app.view).all();
    let inside = panel(frame, 76, all.len() as u16 + 2, title);
    let first = (at + 1).saturating_sub(inside.height.into());
    let visible = all.iter().enumerate().skip(first);
    for (y, (index, (column, shown))) in (inside.y..inside.bottom()).zip(visible) {
        let mark = match (marks, shown) {
            (false, _) => "",
            (true, true) => "[x] ",
            (true, false) => "[ ] ",
        };
        let text = format!("{mark}{:10} {}", column.heading, column.text);
        let style = if index == at {
            app.palette.selected()
        } else {
            ratatui::style::Style::new()
        };
        let width = usize::from(inside.width);
        let line = Line::styled(format!("{text:width$}"), style);
        let place = Rect::new(inside.x, y, inside.width, 1);
        frame.render_widget(Paragraph::new(line), place);
    }
}

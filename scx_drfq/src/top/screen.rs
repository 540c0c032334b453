// SPDX-License-Identifier: GPL-2.0-only
//! `top` on a terminal.

use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use drfq_stats::report::Tasks;
use drfq_view::source::Source;
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout},
    style::{Color, Modifier, Style},
    text::{Line, Text},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::table::{COLUMNS, GROUPS_SHOWN, cells, error_pct, group_lines, header};

/// A share that differs this much from the fair one is highlighted (percent of the
/// fair one).
const NOTABLE_ERROR_PCT: f64 = 5.0;

/// The longest time until a key is noticed.
const KEY_POLL: Duration = Duration::from_millis(100);

/// Draws reports until `q`, Escape or Ctrl-C.
///
/// # Errors
/// The scheduler has ended, or the terminal cannot be drawn on.
pub fn run(feed: impl Source) -> Result<()> {
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let result = refresh(&mut terminal, feed);
    ratatui::try_restore().context("cannot restore the terminal")?;
    result
}

fn refresh(terminal: &mut ratatui::DefaultTerminal, mut feed: impl Source) -> Result<()> {
    let mut shown = Tasks::default();
    while !feed.over() {
        terminal.draw(|frame| draw(frame, &shown))?;
        if event::poll(feed.wait().min(KEY_POLL))? && ends(&event::read()?) {
            break;
        }
        if let Some(tasks) = feed.poll()? {
            shown = tasks.report;
        }
    }
    Ok(())
}

fn ends(event: &Event) -> bool {
    let Event::Key(KeyEvent {
        code, modifiers, ..
    }) = event
    else {
        return false;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

fn draw(frame: &mut Frame, tasks: &Tasks) {
    // Tasks keep half of the screen.
    let room = usize::from(frame.area().height / 2).saturating_sub(2);
    let groups: Vec<String> = group_lines(&tasks.system.mba, GROUPS_SHOWN.min(room)).collect();
    let above = Constraint::Length(2 + groups.len() as u16);
    let [head, body] = Layout::vertical([above, Constraint::Min(1)]).areas(frame.area());
    if tasks.system.nr_cpus == 0 {
        frame.render_widget(Paragraph::new("scx_drfq  measuring ... (q quits)"), head);
        return;
    }
    let visible = usize::from(body.height.saturating_sub(1)).min(tasks.tasks.len());
    let lines = header(&tasks.system, visible, tasks.nr_tasks);
    let lines: Vec<Line> = lines.into_iter().chain(groups).map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), head);

    let measured = tasks.system.mem_measured != 0;
    let rows = tasks.tasks.iter().take(visible).map(|task| {
        let far = task.backlogged != 0 && error_pct(task).abs() > NOTABLE_ERROR_PCT;
        let style = match task.state.as_str() {
            "held" => Style::new().fg(Color::Magenta),
            "blocked" => Style::new().fg(Color::DarkGray),
            _ if far => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        Row::new(aligned(cells(task, measured))).style(style)
    });
    let headings = aligned(COLUMNS.each_ref().map(|column| column.heading.to_owned()));
    let widths = COLUMNS
        .each_ref()
        .map(|column| Constraint::Length(column.width));
    let headings = Row::new(headings).style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(Table::new(rows, widths).header(headings), body);
}

fn aligned(cells: [String; COLUMNS.len()]) -> Vec<Cell<'static>> {
    let cells = cells.into_iter().zip(&COLUMNS).map(|(cell, column)| {
        let side = if column.right {
            Alignment::Right
        } else {
            Alignment::Left
        };
        Cell::from(Text::from(cell).alignment(side))
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::{super::table::tests::report, *};

    /// The lines of a terminal of this size.
    fn screen(tasks: &Tasks, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, tasks)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(width.into());
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect()
    }

    #[test]
    fn the_screen_shows_the_same_as_the_plain_table() {
        let plain = super::super::table::plain(&report());
        let screen = screen(&report(), 100, 6);
        for (shown, expected) in screen.iter().zip(plain.lines()) {
            assert_eq!(shown.trim_end(), expected);
        }
        assert_eq!(screen[5].trim(), "");
    }

    #[test]
    fn a_small_terminal_shows_the_heaviest_tasks() {
        let screen = screen(&report(), 90, 4);
        assert!(screen[0].contains("tasks 1 of 90"), "{}", screen[0]);
        assert!(screen[3].contains("hog"));
    }

    #[test]
    fn a_tiny_terminal_causes_no_panic() {
        for (width, height) in [(1, 1), (5, 2), (20, 3)] {
            screen(&report(), width, height);
        }
    }

    #[test]
    fn before_the_first_report_the_screen_says_measuring() {
        assert!(screen(&Tasks::default(), 60, 5)[0].contains("measuring"));
    }

    #[test]
    fn q_and_control_c_end_the_screen() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        assert!(ends(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(ends(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!ends(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
        assert!(!ends(&Event::FocusGained));
    }
}

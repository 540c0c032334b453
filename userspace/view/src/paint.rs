// SPDX-License-Identifier: GPL-2.0-only
//! Writes a screen to a terminal: only the cells that changed.
//!
//! ratatui's own comparison of two screens costs some 110 instructions a cell, which is most
//! of a refresh of a large terminal. This one costs a quarter.

use std::mem;

use ratatui::{
    Terminal,
    backend::Backend,
    buffer::{Buffer, Cell},
    layout::Rect,
};

use crate::{app::App, draw::draw};

/// What a terminal shows.
#[derive(Debug, Default)]
pub struct Painter {
    shown: Buffer,
}

impl Painter {
    /// Draws the state of `top`.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn paint<B: Backend>(
        &mut self,
        terminal: &mut Terminal<B>,
        app: &App,
    ) -> Result<(), B::Error> {
        // It clears a terminal of another size.
        terminal.autoresize()?;
        let mut frame = terminal.get_frame();
        if self.shown.area != frame.area() {
            self.shown = Buffer::empty(frame.area());
        }
        draw(&mut frame, app);
        // The terminal gets the old screen to draw the next one on.
        mem::swap(frame.buffer_mut(), &mut self.shown);
        let old = mem::take(frame.buffer_mut());
        let result = self.write(terminal, &old);
        let buffer = terminal.current_buffer_mut();
        *buffer = old;
        buffer.reset();
        result
    }

    fn write<B: Backend>(&self, terminal: &mut Terminal<B>, old: &Buffer) -> Result<(), B::Error> {
        terminal.hide_cursor()?;
        let backend = terminal.backend_mut();
        match narrow_changes(old, &self.shown) {
            Some(changes) => backend.draw(changes.into_iter())?,
            None => backend.draw(old.diff(&self.shown).into_iter())?,
        }
        backend.flush()
    }
}

type Change<'a> = (u16, u16, &'a Cell);

/// The cells that differ; none if a character may take another width than one cell.
fn narrow_changes<'a>(old: &Buffer, new: &'a Buffer) -> Option<Vec<Change<'a>>> {
    let Rect { x, y, width, .. } = new.area;
    let mut changes = Vec::new();
    let width = usize::from(width.max(1));
    let lines = old.content.chunks(width).zip(new.content.chunks(width));
    for (line, (old, new)) in (y..).zip(lines) {
        for (column, (old, new)) in (x..).zip(old.iter().zip(new)) {
            let (was, is) = (old.symbol(), new.symbol());
            let same = match (was.as_bytes(), is.as_bytes()) {
                ([was], [is]) => was == is,
                _ if is_narrow(was) && is_narrow(is) => was == is,
                _ => return None,
            };
            if !(same && old.modifier == new.modifier && old.fg == new.fg && old.bg == new.bg) {
                changes.push((column, line, new));
            }
        }
    }
    Some(changes)
}

/// Whether a character surely takes one cell: ASCII, arrows, boxes, blocks and shapes.
fn is_narrow(symbol: &str) -> bool {
    // The others have three bytes, and a mark behind a character makes more.
    match symbol.len() {
        1 => true,
        3 => matches!(
            symbol.chars().next(),
            Some('\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{25ff}')
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::{fixture, palette::Palette, settings::Settings, view::VIEWS};

    /// A terminal of the painter, and one of ratatui alone.
    struct Pair {
        painter: Painter,
        painted: Terminal<TestBackend>,
        drawn: Terminal<TestBackend>,
    }

    impl Pair {
        fn new() -> Self {
            let terminal = || Terminal::new(TestBackend::new(80, 24)).unwrap();
            Self {
                painter: Painter::default(),
                painted: terminal(),
                drawn: terminal(),
            }
        }

        fn resize(&mut self, width: u16, height: u16) {
            self.painted.backend_mut().resize(width, height);
            self.drawn.backend_mut().resize(width, height);
        }

        fn assert_alike(&mut self, app: &App) {
            self.painter.paint(&mut self.painted, app).unwrap();
            self.drawn.draw(|frame| draw(frame, app)).unwrap();
            let painted = self.painted.backend().buffer();
            assert_eq!(painted, self.drawn.backend().buffer());
        }
    }

    fn app() -> App {
        App::new("live".into(), Settings::default(), Palette::new(true))
    }

    #[test]
    fn a_painted_screen_is_what_ratatui_draws_in_every_view_and_size() {
        let (mut pair, mut app) = (Pair::new(), app());
        pair.assert_alike(&app);
        for (second, view) in (0..).zip(VIEWS.into_iter().cycle().take(20)) {
            if second % 7 == 6 {
                let (width, height) = (60 + 11 * second as u16, 15 + second as u16);
                pair.resize(width, height);
                app.resize(Rect::new(0, 0, width, height));
            }
            app.view = view;
            app.push(fixture::snapshot(second));
            pair.assert_alike(&app);
        }
    }

    #[test]
    fn only_cells_that_changed_are_written() {
        let (mut pair, mut app) = (Pair::new(), app());
        app.push(fixture::snapshot(0));
        pair.assert_alike(&app);
        let old = pair.painter.shown.clone();
        pair.assert_alike(&app);
        let shown = &pair.painter.shown;
        assert_eq!(narrow_changes(&old, shown), Some(Vec::new()));
        app.push(fixture::snapshot(1));
        pair.assert_alike(&app);
        let changes = narrow_changes(&old, &pair.painter.shown).unwrap();
        let expected = old.diff(&pair.painter.shown);
        assert!(!changes.is_empty());
        assert_eq!(changes, expected);
    }

    #[test]
    fn characters_of_two_cells_take_the_careful_way() {
        let (mut pair, mut app) = (Pair::new(), app());
        for name in ["plain", "\u{5e73}\u{548c}", "x", "\u{25bc}\u{fe0f}y"] {
            let mut snapshot = fixture::snapshot(0);
            for task in &mut snapshot.report.tasks {
                task.comm = name.into();
            }
            let old = pair.painter.shown.clone();
            app.push(snapshot);
            pair.assert_alike(&app);
            if name != "plain" {
                assert_eq!(narrow_changes(&old, &pair.painter.shown), None, "{name}");
            }
        }
    }
}

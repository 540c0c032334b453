// SPDX-License-Identifier: GPL-2.0-only
//! Keys while something lies over the view.

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use super::{App, Effect, Input, Overlay};
use crate::filter::Filter;

impl App {
    pub(super) fn handle_overlay(&mut self, overlay: Overlay, event: &Event) -> Effect {
        let Event::Key(key) = event else {
            self.overlay = Some(overlay);
            return Effect::None;
        };
        if key.kind == KeyEventKind::Release {
            self.overlay = Some(overlay);
            return Effect::None;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Effect::Quit;
        }
        match overlay {
            Overlay::Help(line) => self.overlay = scrolled(line, key.code).map(Overlay::Help),
            Overlay::Explain(line) => {
                self.overlay = scrolled(line, key.code).map(Overlay::Explain);
            }
            Overlay::Columns(at) => return self.choose_columns(at, key.code),
            Overlay::Sort(at) => self.choose_order(at, key.code),
            Overlay::Input(input, text) => self.type_into(input, text, key.code),
        }
        Effect::None
    }

    fn choose_columns(&mut self, at: usize, key: KeyCode) -> Effect {
        let table = self.settings.table_mut(self.view);
        let all = table.all();
        let name = all[at.min(all.len() - 1)].0.name;
        let mut at = moved(at, all.len(), key);
        match key {
            KeyCode::Char(' ') | KeyCode::Enter => {
                table.toggle(name);
                let place = table
                    .all()
                    .iter()
                    .position(|(column, _)| column.name == name);
                at = place.unwrap_or(at);
            }
            KeyCode::Char('[') | KeyCode::Left if table.shift(name, false) => at -= 1,
            KeyCode::Char(']') | KeyCode::Right if table.shift(name, true) => at += 1,
            KeyCode::Char('s' | 'W') => {
                self.overlay = None;
                return Effect::Save;
            }
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::F(2 | 10) => return Effect::None,
            _ => {}
        }
        self.overlay = Some(Overlay::Columns(at));
        Effect::None
    }

    fn choose_order(&mut self, at: usize, key: KeyCode) {
        let all = self.settings.table(self.view).all();
        match key {
            KeyCode::Enter | KeyCode::Char(' ') => self.sort_by(all[at.min(all.len() - 1)].0.name),
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::F(6 | 10) => {}
            _ => self.overlay = Some(Overlay::Sort(moved(at, all.len(), key))),
        }
    }

    fn type_into(&mut self, input: Input, mut text: String, key: KeyCode) {
        match key {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Esc => return,
            KeyCode::Enter => {
                match input {
                    Input::Search => {
                        self.search = text;
                        self.find(false);
                    }
                    Input::Filter => match Filter::parse(&text) {
                        Ok(filter) => {
                            self.filter = filter;
                            self.refresh();
                        }
                        Err(error) => {
                            self.message = Some(error);
                            self.overlay = Some(Overlay::Input(input, text));
                        }
                    },
                }
                return;
            }
            _ => {}
        }
        self.overlay = Some(Overlay::Input(input, text));
    }
}

/// The line at the top after a key; none if the key closes the overlay.
fn scrolled(line: u16, key: KeyCode) -> Option<u16> {
    match key {
        KeyCode::Down | KeyCode::Char('j') => Some(line.saturating_add(1).min(500)),
        KeyCode::Up | KeyCode::Char('k') => Some(line.saturating_sub(1)),
        KeyCode::PageDown => Some(line.saturating_add(10).min(500)),
        KeyCode::PageUp => Some(line.saturating_sub(10)),
        _ => None,
    }
}

fn moved(at: usize, length: usize, key: KeyCode) -> usize {
    let last = length.saturating_sub(1);
    match key {
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => at.min(last),
    }
}

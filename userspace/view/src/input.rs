// SPDX-License-Identifier: GPL-2.0-only
//! What keys and the mouse mean. The keys are those of htop, where htop has such a key.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

use crate::view::{VIEWS, View};

/// What the user wants while no overlay is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    Quit,
    Help,
    Show(View),
    NextView(bool),
    /// Rows down.
    Move(i32),
    Page(i32),
    First,
    Last,
    /// Steps back in time; negative ones forward.
    Back(i32),
    Freeze,
    Follow,
    Explain,
    Search,
    SearchAgain,
    Filter,
    FilterUser,
    Columns,
    SortMenu,
    SortBy(&'static str),
    Reverse,
    Tree,
    Fold(bool),
    ToggleFold,
    Clear,
    Save,
    Click(u16, u16),
    Resize,
}

/// The keys as the help lists them: keys, and what they do.
pub const HELP: &[(&str, &str)] = &[
    ("1 - 6, Tab", "choose a view"),
    ("Up Down PgUp PgDn Home End", "choose a row"),
    ("Left Right", "go back and forth in time"),
    ("Space", "freeze, and go on"),
    ("F or f", "follow the selected row as it moves"),
    ("e Enter", "explain the selected row"),
    ("F3 /", "search;  n  finds the next"),
    ("F4 \\", "filter: web user:www cgroup:x pid:7 weight>2"),
    ("u", "filter by user"),
    ("F2 C", "choose, order and save columns"),
    ("F6 > .", "choose the order"),
    ("I", "reverse the order"),
    ("P M T N", "order by CPU, memory, time waited, id"),
    ("F5 t", "tree of cgroups, and back"),
    ("+ - *", "unfold, fold, toggle a row of the tree"),
    ("W", "save columns and order"),
    ("Esc", "clear the filter, go back to now"),
    ("F1 h ?", "this help"),
    ("F10 q Ctrl-C", "quit"),
    ("mouse", "click tabs, headings and rows; the wheel moves"),
];

/// What an event means; none if it means nothing.
pub fn action(event: &Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Action::Click(mouse.column, mouse.row)),
            MouseEventKind::ScrollDown => Some(Action::Move(3)),
            MouseEventKind::ScrollUp => Some(Action::Move(-3)),
            _ => None,
        },
        Event::Resize(..) => Some(Action::Resize),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char(c) => return of_char(c),
        KeyCode::F(number) => return of_function(number),
        KeyCode::Tab => Action::NextView(true),
        KeyCode::BackTab => Action::NextView(false),
        KeyCode::Up => Action::Move(-1),
        KeyCode::Down => Action::Move(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        KeyCode::Left => Action::Back(1),
        KeyCode::Right => Action::Back(-1),
        KeyCode::Enter => Action::Explain,
        KeyCode::Esc => Action::Clear,
        _ => return None,
    })
}

fn of_function(number: u8) -> Option<Action> {
    Some(match number {
        1 => Action::Help,
        2 => Action::Columns,
        3 => Action::Search,
        4 => Action::Filter,
        5 => Action::Tree,
        6 => Action::SortMenu,
        10 => Action::Quit,
        _ => return None,
    })
}

fn of_char(c: char) -> Option<Action> {
    Some(match c {
        'q' => Action::Quit,
        'h' | '?' => Action::Help,
        '1'..='6' => Action::Show(VIEWS[c as usize - '1' as usize]),
        'k' => Action::Move(-1),
        'j' => Action::Move(1),
        ' ' => Action::Freeze,
        'f' | 'F' => Action::Follow,
        'e' => Action::Explain,
        '/' => Action::Search,
        'n' => Action::SearchAgain,
        '\\' => Action::Filter,
        'u' => Action::FilterUser,
        'C' => Action::Columns,
        '>' | '.' => Action::SortMenu,
        'P' => Action::SortBy("cpu"),
        'M' => Action::SortBy("memory"),
        'T' => Action::SortBy("wait"),
        'N' => Action::SortBy("pid"),
        'I' => Action::Reverse,
        't' => Action::Tree,
        '+' => Action::Fold(false),
        '-' => Action::Fold(true),
        '*' => Action::ToggleFold,
        'W' => Action::Save,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_quits_and_other_control_keys_do_nothing() {
        let key = |c, modifiers| Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert_eq!(action(&key('c', KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(action(&key('q', KeyModifiers::CONTROL)), None);
        assert_eq!(action(&key('q', KeyModifiers::NONE)), Some(Action::Quit));
        assert_eq!(action(&Event::FocusGained), None);
    }

    #[test]
    fn every_key_of_the_help_does_something() {
        for (keys, _) in HELP {
            for word in keys.split(' ').filter(|word| word.chars().count() == 1) {
                let c = word.chars().next().unwrap();
                if c != '-' || *keys == "+ - *" {
                    assert!(of_char(c).is_some(), "{word} of {keys}");
                }
            }
        }
    }
}

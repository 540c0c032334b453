// SPDX-License-Identifier: GPL-2.0-only
//! What keys and the mouse do to the state.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::fixture;

fn app() -> App {
    let mut app = App::new("live".into(), Settings::default(), Palette::new(true));
    app.resize(Rect::new(0, 0, 140, 30));
    (0..10).for_each(|second| app.push(fixture::snapshot(second)));
    app
}

pub(crate) fn press(app: &mut App, code: KeyCode) -> Effect {
    app.handle(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn write(app: &mut App, text: &str) -> Effect {
    let effects = text.chars().map(|c| match c {
        '\n' => press(app, KeyCode::Enter),
        c => press(app, KeyCode::Char(c)),
    });
    effects.last().unwrap()
}

pub(crate) fn click(app: &mut App, x: u16, y: u16) {
    app.handle(&Event::Mouse(MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: x,
        row: y,
        modifiers: KeyModifiers::NONE,
    }));
}

#[test]
fn numbers_and_tab_choose_the_view_and_each_keeps_its_cursor() {
    let mut app = app();
    write(&mut app, "jjj2j");
    assert_eq!((app.view, app.cursor), (View::Processes, 1));
    write(&mut app, "1");
    assert_eq!((app.view, app.cursor), (View::Tasks, 3));
    press(&mut app, KeyCode::BackTab);
    assert_eq!(app.view, View::Controller);
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.view, View::Tasks);
}

#[test]
fn the_cursor_stays_within_the_rows_and_on_the_screen() {
    let mut app = app();
    app.resize(Rect::new(0, 0, 80, 10));
    for key in [
        KeyCode::End,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::PageUp,
        KeyCode::Up,
    ] {
        press(&mut app, key);
        let room = Screen::of(Rect::new(0, 0, 80, 10)).rows();
        assert!(app.cursor < app.len(), "{key:?}");
        assert!((app.top..app.top + room).contains(&app.cursor), "{key:?}");
    }
    assert_eq!(app.cursor, 0);
}

#[test]
fn a_followed_task_keeps_the_cursor_when_the_order_changes() {
    let mut app = app();
    write(&mut app, "jjf");
    let followed = app.selected();
    write(&mut app, "NI");
    assert_eq!(app.selected(), followed);
    write(&mut app, "f");
    let line = app.cursor;
    write(&mut app, "I");
    assert_eq!(app.cursor, line);
}

#[test]
fn a_frozen_view_keeps_its_moment_while_snapshots_come() {
    let mut app = app();
    write(&mut app, " ");
    let moment = app.shown().unwrap().at_unix_ns;
    app.push(fixture::snapshot(10));
    assert_eq!(app.shown().unwrap().at_unix_ns, moment);
    assert_eq!(press(&mut app, KeyCode::Left), Effect::None);
    assert!(app.shown().unwrap().at_unix_ns < moment);
    press(&mut app, KeyCode::Right);
    press(&mut app, KeyCode::Right);
    assert_eq!(press(&mut app, KeyCode::Right), Effect::Newer);
    write(&mut app, " ");
    assert!(!app.frozen && app.back == 0);
}

#[test]
fn before_the_oldest_snapshot_older_ones_are_asked_for() {
    let mut app = app();
    for _ in 0..9 {
        assert_eq!(press(&mut app, KeyCode::Left), Effect::None);
    }
    assert_eq!(press(&mut app, KeyCode::Left), Effect::Older);
    assert_eq!(app.back, 9);
}

#[test]
fn a_filter_is_typed_and_a_wrong_one_stays_to_be_mended() {
    let mut app = app();
    let all = app.len();
    write(&mut app, "\\pid:x\n");
    assert!(app.message.as_ref().unwrap().contains("number"));
    assert!(matches!(
        app.overlay,
        Some(Overlay::Input(Input::Filter, _))
    ));
    press(&mut app, KeyCode::Backspace);
    write(&mut app, "901\n");
    assert_eq!((app.len(), app.overlay.clone()), (1, None));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.len(), all);
    write(&mut app, "uwww\n");
    assert!(app.rows.iter().all(|row| row.user() == "www-data"));
}

#[test]
fn a_search_moves_the_cursor_and_n_finds_the_next() {
    let mut app = app();
    write(&mut app, "/post\n");
    let first = app.selected();
    assert_eq!(app.rows[app.cursor].name, "postgres");
    write(&mut app, "n");
    assert_eq!(app.rows[app.cursor].name, "postgres");
    assert_ne!(app.selected(), first);
    write(&mut app, "/nothing\n");
    assert!(app.message.as_ref().unwrap().contains("nothing"));
}

#[test]
fn branches_fold_and_unfold() {
    let mut app = app();
    write(&mut app, "t");
    assert_eq!(app.view, View::Cgroups);
    let all = app.len();
    write(&mut app, "-");
    assert_eq!(app.len(), 1);
    write(&mut app, "+");
    assert_eq!(app.len(), all);
    write(&mut app, "**t");
    assert_eq!(app.view, View::Processes);
}

#[test]
fn columns_are_chosen_moved_and_saved() {
    let mut app = app();
    press(&mut app, KeyCode::F(2));
    press(&mut app, KeyCode::Right);
    assert_eq!(app.settings.tasks.columns[..2], ["user", "pid"]);
    press(&mut app, KeyCode::Char(' '));
    assert!(!app.settings.tasks.columns.contains(&"pid".to_owned()));
    assert_eq!(press(&mut app, KeyCode::Char('s')), Effect::Save);
    assert_eq!(app.overlay, None);
    assert_eq!(write(&mut app, "W"), Effect::Save);
}

#[test]
fn the_order_is_chosen_by_key_menu_and_click() {
    let mut app = app();
    write(&mut app, "P");
    assert_eq!(
        (&*app.settings.tasks.sort, app.settings.tasks.ascending),
        ("cpu", false)
    );
    write(&mut app, "P");
    assert!(app.settings.tasks.ascending);
    press(&mut app, KeyCode::F(6));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.settings.tasks.sort, "user");
    let screen = Screen::of(Rect::new(0, 0, 140, 30));
    let table = app.settings.tasks.clone();
    let (column, part) = screen.columns(&table, View::Tasks).nth(3).unwrap();
    click(&mut app, part.start, screen.body.y);
    assert_eq!(app.settings.tasks.sort, column.name);
}

#[test]
fn the_mouse_chooses_tabs_and_rows() {
    let mut app = app();
    let screen = Screen::of(Rect::new(0, 0, 140, 30));
    click(&mut app, 5, screen.body.y + 3);
    assert_eq!(app.cursor, 2);
    click(&mut app, 5, screen.footer.y);
    assert_eq!(app.cursor, 2);
    for view in VIEWS {
        click(&mut app, screen.tab(view).start, screen.tabs.y);
        assert_eq!(app.view, view);
    }
}

#[test]
fn overlays_open_and_close_and_control_c_always_quits() {
    let mut app = app();
    for key in ['h', 'e', '/', 'C', '>'] {
        write(&mut app, &key.to_string());
        assert!(app.overlay.is_some(), "{key}");
        let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.handle(&Event::Key(quit)), Effect::Quit);
        write(&mut app, &key.to_string());
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.overlay, None, "{key}");
    }
    write(&mut app, "4C");
    assert!(app.overlay.is_none() && app.message.is_some());
}

#[test]
fn cpus_and_groups_select_what_they_run() {
    let mut app = app();
    write(&mut app, "4");
    assert_eq!(app.selected(), Some(Entity::Task(901)));
    press(&mut app, KeyCode::End);
    assert_eq!(app.selected(), None, "an idle CPU");
    write(&mut app, "5");
    assert!(matches!(app.selected(), Some(Entity::Cgroup(_))));
    write(&mut app, "6");
    assert_eq!(app.selected(), None);
}

#[test]
fn no_key_panics_before_the_first_snapshot() {
    let mut app = App::new("live".into(), Settings::default(), Palette::new(true));
    write(&mut app, "123456 fetnIPMTN+-*W");
    press(&mut app, KeyCode::Left);
    press(&mut app, KeyCode::Right);
    write(&mut app, "/x\n");
    assert!(app.is_empty());
}

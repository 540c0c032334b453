// SPDX-License-Identifier: GPL-2.0-only
//! Each view on a test terminal.

use crossterm::event::KeyCode;
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, style::Color};

use super::*;
use crate::{
    app::tests::{click, press},
    filter::Filter,
    fixture,
    palette::Palette,
    settings::Settings,
};

/// The state after some seconds of a snapshot.
fn app(view: View, snapshot: Snapshot) -> App {
    let mut app = App::new("live".into(), Settings::default(), Palette::new(true));
    (30..40).for_each(|second| app.push(fixture::snapshot(second)));
    app.push(snapshot);
    app.view = view;
    app.refresh();
    app
}

fn buffer(app: &mut App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    app.resize(Rect::new(0, 0, width, height));
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().buffer().clone()
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let buffer = buffer(app, width, height);
    let lines = buffer.content().chunks(width.max(1).into());
    let text = lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[track_caller]
fn assert_shows(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not on the screen:\n{text}");
    }
}

#[test]
fn tasks_show_shares_resource_and_throttle() {
    let text = screen(&mut app(View::Tasks, fixture::noisy()), 150, 30);
    assert_shows(
        &text,
        &[
            "03:12:40 UTC",
            "of 8 CPUs busy",
            "SHARE%↓",
            "memory",
            "analytics",
            "held",
            "task 90",
        ],
    );
    let hog = text
        .lines()
        .find(|line| line.contains("analytics"))
        .unwrap();
    assert!(hog.contains(" 40 "), "the level of its group: {hog}");
}

#[test]
fn processes_fold_threads_and_name_users() {
    let text = screen(&mut app(View::Processes, fixture::noisy()), 150, 30);
    assert_eq!(text.matches("analytics").count(), 1);
    assert_shows(
        &text,
        &["spark", "www-data", "postgres", "process 901 over time"],
    );
}

#[test]
fn cgroups_are_a_tree_of_units_and_containers() {
    let text = screen(&mut app(View::Cgroups, fixture::noisy()), 120, 30);
    assert_shows(
        &text,
        &[
            "- /",
            "- system.slice",
            "web.service",
            "container 4f1d6c0b9a7e",
        ],
    );
}

#[test]
fn cpus_show_their_cache_and_their_task() {
    let text = screen(&mut app(View::Cpus, fixture::noisy()), 120, 30);
    assert_shows(&text, &["LLC", "[#####", "nginx", "none of this scheduler"]);
}

#[test]
fn memory_shows_groups_levels_and_what_is_unattributed() {
    let text = screen(&mut app(View::Memory, fixture::noisy()), 120, 30);
    assert_shows(
        &text,
        &[
            "[######.........]    40",
            "web.service",
            "Domains: 2, saturated 1",
            "of it without a group: 1.80 GB/s",
        ],
    );
}

/// The view of memory with groups `/g0`, `/g1`, ...
fn app_with_groups(number: usize) -> App {
    let mut snapshot = fixture::noisy();
    let groups = &mut snapshot.report.system.mba.groups;
    let first = groups[0].clone();
    *groups = vec![first; number];
    for (at, group) in groups.iter_mut().enumerate() {
        group.name = format!("/g{at}");
    }
    app(View::Memory, snapshot)
}

#[test]
fn the_selected_group_is_on_the_screen_at_any_height() {
    let mut app = app_with_groups(15);
    for height in 5..40 {
        for key in [
            KeyCode::Home,
            KeyCode::PageDown,
            KeyCode::End,
            KeyCode::PageUp,
        ] {
            app.resize(Rect::new(0, 0, 80, height));
            press(&mut app, key);
            let selected = format!("g{}", app.cursor);
            let text = screen(&mut app, 80, height);
            let list = text.lines().filter(|line| line.starts_with("    31.3G"));
            let shown = list.filter(|line| line.ends_with(&selected)).count();
            assert_eq!(shown, 1, "{selected}, {height} lines:\n{text}");
        }
    }
}

#[test]
fn a_page_of_groups_is_what_the_summary_leaves() {
    let mut app = app_with_groups(30);
    let text = screen(&mut app, 80, 24);
    let visible = text.matches("[######.........]").count();
    press(&mut app, KeyCode::PageDown);
    assert_eq!(app.cursor, visible);
}

#[test]
fn groups_win_over_the_summary_where_lines_are_few() {
    let mut app = app_with_groups(15);
    let text = screen(&mut app, 80, 9);
    assert_shows(&text, &[" g0\n", " g4\n"]);
    assert!(!text.contains("Bandwidth of the machine"), "{text}");
    let text = screen(&mut app, 80, 12);
    assert_shows(&text, &[" g4\n"]);
    let text = screen(&mut app, 80, 14);
    assert_shows(&text, &[" g4\n", "Bandwidth of the machine"]);
    let text = screen(&mut app, 80, 24);
    assert_shows(&text, &[" g8\n", "Since loading"]);
}

#[test]
fn a_click_on_the_summary_selects_no_group() {
    let mut app = app_with_groups(15);
    let text = screen(&mut app, 80, 24);
    let line_of = |part: &str| text.lines().position(|line| line.contains(part)).unwrap();
    click(&mut app, 5, line_of(" g8") as u16);
    assert_eq!(app.cursor, 8);
    for part in ["Bandwidth of the machine", "Since loading"] {
        click(&mut app, 5, line_of(part) as u16);
        assert_eq!(app.cursor, 8, "{part}");
    }
}

#[test]
fn the_controller_shows_its_link_and_tasks() {
    let text = screen(
        &mut app(View::Controller, fixture::with_controller()),
        120,
        30,
    );
    assert_shows(
        &text,
        &["38.2 GB/s", "unattributed 1.0 %", "COUNTED", "analytics"],
    );
}

#[test]
fn every_empty_panel_says_why_and_what_to_do() {
    let mut empty = Snapshot::default();
    for (view, parts) in [
        (View::Tasks, ["has no task", "scx_drfq doctor"]),
        (View::Processes, ["has no task", "Start a program"]),
        // The tree has at least its root.
        (View::Cgroups, ["- ", "/"]),
        (View::Cpus, ["older than this command", "anew"]),
        (View::Memory, ["No group", "--mba on"]),
        (View::Controller, ["No memory controller", "--controller"]),
    ] {
        assert_shows(&screen(&mut app(view, empty.clone()), 100, 30), &parts);
    }
    empty.report.system.mba.state = "observe".into();
    assert_shows(
        &screen(&mut app(View::Memory, empty), 100, 30),
        &["No group is monitored yet"],
    );
    let mut filtered = app(View::Tasks, fixture::noisy());
    filtered.filter = Filter::parse("nothing").unwrap();
    filtered.refresh();
    assert_shows(
        &screen(&mut filtered, 100, 30),
        &["No row matches", "Press Esc"],
    );
    let mut new = App::new("live".into(), Settings::default(), Palette::new(true));
    assert_shows(&screen(&mut new, 80, 24), &["Measuring."]);
}

#[test]
fn no_size_of_a_terminal_causes_a_panic() {
    for view in VIEWS {
        let mut app = app(view, fixture::with_controller());
        for overlay in [
            None,
            Some(Overlay::Help(3)),
            Some(Overlay::Explain(1)),
            Some(Overlay::Columns(9)),
        ] {
            app.overlay = overlay;
            for (width, height) in [(1, 1), (3, 2), (20, 4), (80, 24), (300, 100), (500, 2)] {
                screen(&mut app, width, height);
            }
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_names_and_a_wide_one_shows_all_columns() {
    let mut app = app(View::Tasks, fixture::noisy());
    assert_shows(&screen(&mut app, 80, 24), &["NAME", "analytics", "CPU%"]);
    assert_shows(
        &screen(&mut app, 300, 100),
        &["HELD%", "LEVEL%", "S-V ms", "STATE"],
    );
}

#[test]
fn without_colours_the_screen_says_the_same() {
    for view in VIEWS {
        let mut colourful = app(view, fixture::noisy());
        let with = buffer(&mut colourful, 120, 30);
        colourful.palette = Palette::new(false);
        let without = buffer(&mut colourful, 120, 30);
        assert!(
            without
                .content()
                .iter()
                .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        );
        assert_ne!(with, without, "{view:?}");
        let text = |buffer: &Buffer| -> String {
            buffer.content().iter().map(|cell| cell.symbol()).collect()
        };
        assert_eq!(text(&with), text(&without));
    }
}

#[test]
fn control_characters_in_names_are_shown_as_question_marks() {
    let mut snapshot = fixture::with_controller();
    for task in &mut snapshot.report.tasks {
        task.comm = "a\x1b[2J".into();
    }
    for group in &mut snapshot.report.system.mba.groups {
        group.name = "a\x1b[2J 7".into();
    }
    for view in [View::Tasks, View::Cpus, View::Memory, View::Controller] {
        let text = screen(&mut app(view, snapshot.clone()), 150, 30);
        assert_shows(&text, &["a?[2J"]);
    }
}

#[test]
fn a_number_wider_than_its_column_is_marked() {
    let mut snapshot = fixture::noisy();
    for task in &mut snapshot.report.tasks {
        task.wait_pct = match task.pid {
            901 => 1_234_500.0,
            310 => 123_456.7,
            _ => 0.0,
        };
    }
    let text = screen(&mut app(View::Cgroups, snapshot), 300, 30);
    assert!(!text.contains("123450"), "{text}");
    assert_shows(&text, &[" >99999 ", " 123457 "]);
}

// SPDX-License-Identifier: GPL-2.0-only
//! The pictures of the documentation: every view of the same machine.

use ratatui::{Terminal, backend::TestBackend, layout::Rect};

use crate::{
    app::{App, Overlay},
    draw::draw,
    fixture,
    palette::Palette,
    picture::svg,
    settings::Settings,
    snapshot::Snapshot,
    view::View,
};

const WIDTH: u16 = 132;
const HEIGHT: u16 = 28;

/// Seconds of history before the moment that is shown.
const SECONDS: u64 = 90;

/// The name of each file and its content.
pub fn pictures() -> Vec<(&'static str, String)> {
    let of = |view, last| picture(view, None, last);
    let noisy = fixture::snapshot(SECONDS);
    vec![
        ("tasks.svg", of(View::Tasks, noisy.clone())),
        ("processes.svg", of(View::Processes, noisy.clone())),
        ("cgroups.svg", of(View::Cgroups, noisy.clone())),
        ("cpus.svg", of(View::Cpus, noisy.clone())),
        ("memory.svg", of(View::Memory, noisy.clone())),
        (
            "controller.svg",
            of(View::Controller, fixture::with_controller()),
        ),
        (
            "explain.svg",
            picture(View::Processes, Some(Overlay::Explain(0)), noisy.clone()),
        ),
        (
            "help.svg",
            picture(View::Tasks, Some(Overlay::Help(0)), noisy),
        ),
    ]
}

fn picture(view: View, overlay: Option<Overlay>, last: Snapshot) -> String {
    let mut app = App::new("live".into(), Settings::default(), Palette::new(true));
    (0..SECONDS).for_each(|second| app.push(fixture::snapshot(second)));
    app.push(last);
    let size = Rect::new(0, 0, WIDTH, HEIGHT);
    app.resize(size);
    app.view = view;
    app.overlay = overlay;
    app.refresh();
    let Ok(mut terminal) = Terminal::new(TestBackend::new(WIDTH, HEIGHT));
    let Ok(_) = terminal.draw(|frame| draw(frame, &app));
    let title = format!("scx_drfq top: {}", view.name());
    svg(terminal.backend().buffer(), &title)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_pictures_of_the_documentation_are_current() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/top");
        for (name, svg) in pictures() {
            let file = directory.join(name);
            let drawn = fs::read_to_string(&file).unwrap_or_default();
            assert!(
                drawn == svg,
                "{} is not what top draws; run: cargo run -p drfq_view --example pictures",
                file.display()
            );
        }
    }
}

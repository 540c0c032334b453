// SPDX-License-Identifier: GPL-2.0-only
//! `top` on a terminal.

use std::{env, io, time::Duration};

use anyhow::{Context, Result};
use crossterm::{
    event::{self, DisableMouseCapture, EnableMouseCapture},
    execute,
};
use drfq_view::{
    app::{App, Effect},
    paint::Painter,
    palette::Palette,
    source::Source,
};
use ratatui::DefaultTerminal;

use super::settings;

/// The longest time until a key is noticed.
const KEY_POLL: Duration = Duration::from_millis(100);

/// How far a step before the oldest snapshot of a recording goes back (ns).
const OLDER_NS: u64 = 60_000_000_000;

/// Draws snapshots until the user or the duration ends it.
///
/// # Errors
/// The scheduler has ended, or the terminal cannot be drawn on.
pub fn run(source: impl Source) -> Result<()> {
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    // A terminal without a mouse ignores it.
    let _ = execute!(io::stdout(), EnableMouseCapture);
    let result = refresh(&mut terminal, source);
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::try_restore().context("cannot restore the terminal")?;
    result
}

fn refresh(terminal: &mut DefaultTerminal, mut source: impl Source) -> Result<()> {
    let (settings, wrong) = settings::read();
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut app = App::new(source.name(), settings, Palette::new(colours));
    app.message = wrong;
    let mut painter = Painter::default();
    let mut stale = true;
    // A recording stays on the screen after its end.
    while !source.over() || source.span().is_some() {
        if stale {
            app.resize(terminal.size()?.into());
            painter.paint(terminal, &app)?;
            stale = false;
        }
        let paused = source.span().is_some() && (app.frozen || source.over());
        let wait = if paused {
            KEY_POLL
        } else {
            source.wait().min(KEY_POLL)
        };
        if event::poll(wait)? {
            stale = true;
            if !obey(&mut app, &mut source)? {
                return Ok(());
            }
        }
        if !paused && let Some(snapshot) = source.poll()? {
            app.push(snapshot);
            stale = true;
        }
    }
    Ok(())
}

/// Handles an event. Returns whether to go on.
fn obey(app: &mut App, source: &mut impl Source) -> Result<bool> {
    match app.handle(&event::read()?) {
        Effect::Quit => return Ok(false),
        Effect::Save => app.message = Some(settings::write(&app.settings)),
        Effect::Older => older(app, source)?,
        Effect::Newer => {
            if source.span().is_some()
                && let Some(snapshot) = source.poll()?
            {
                app.push(snapshot);
                app.back = 0;
                app.refresh();
            }
        }
        Effect::None => {}
    }
    Ok(true)
}

/// Fills the history with what a recording has before its oldest snapshot.
fn older(app: &mut App, source: &mut impl Source) -> Result<()> {
    let Some(oldest) = app.history.back(app.history.len().saturating_sub(1)) else {
        return Ok(());
    };
    let oldest = oldest.at_unix_ns;
    let first = source.span().is_none_or(|(first, _)| oldest <= first);
    if first || !source.seek(oldest.saturating_sub(OLDER_NS))? {
        app.message = Some("there is nothing older".into());
        return Ok(());
    }
    app.history.clear();
    while let Some(snapshot) = source.poll()? {
        let reached = snapshot.at_unix_ns >= oldest;
        app.push(snapshot);
        if reached {
            break;
        }
    }
    app.back = usize::from(app.history.len() > 1);
    app.refresh();
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-only
//! `top` on a terminal.

use std::{
    env, io,
    time::{Duration, Instant},
};

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
use crate::signals::{Hangup, Signals};

/// The longest time until a key is noticed.
const KEY_POLL: Duration = Duration::from_millis(100);

/// How far a step before the oldest snapshot of a recording goes back (ns).
const OLDER_NS: u64 = 60_000_000_000;

/// Draws snapshots until the user or the source ends it. `end`: when to stop, too.
///
/// # Errors
/// The scheduler has ended, or the terminal cannot be drawn on.
pub fn run(source: impl Source, end: Option<Instant>) -> Result<()> {
    // A signal must not leave the terminal as it is while we draw.
    let signals = Signals::listen(Hangup::Ends).context("cannot handle signals")?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    // A terminal without a mouse ignores it.
    let _ = execute!(io::stdout(), EnableMouseCapture);
    let result = refresh(&mut terminal, source, end, &signals);
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::try_restore().context("cannot restore the terminal")?;
    result
}

fn refresh(
    terminal: &mut DefaultTerminal,
    mut source: impl Source,
    end: Option<Instant>,
    signals: &Signals,
) -> Result<()> {
    let (settings, wrong) = settings::read();
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut app = App::new(source.name(), settings, Palette::new(colours));
    app.message = wrong;
    let mut painter = Painter::default();
    let mut stale = true;
    // A recording stays on the screen after its end.
    let ended = || signals.stop() || end.is_some_and(|end| Instant::now() >= end);
    while !ended() && (!source.over() || source.span().is_some()) {
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
                && let Some(snapshot) = source.step()?
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
    while let Some(snapshot) = source.step()? {
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

#[cfg(test)]
mod tests {
    use drfq_recording::{
        reader::{Reader, Replay},
        writer::Writer,
    };
    use drfq_view::{settings::Settings, snapshot::Snapshot};

    use super::*;

    #[test]
    fn a_step_before_the_oldest_snapshot_goes_back_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let mut writer = Writer::open(&path, 1 << 20).unwrap();
        let at = |second: u64| second * 1_000_000_000;
        for second in 100..200 {
            let snapshot = Snapshot {
                at_unix_ns: at(second),
                ..Snapshot::default()
            };
            writer.append(&snapshot).unwrap();
        }
        drop(writer);
        let mut replay = Replay::new(Reader::open(&path).unwrap()).unwrap();
        let mut app = App::new("r".into(), Settings::default(), Palette::new(true));
        replay.seek(at(190)).unwrap();
        app.push(replay.step().unwrap().unwrap());
        older(&mut app, &mut replay).unwrap();
        assert_eq!(app.shown().unwrap().at_unix_ns, at(189));
        assert_eq!(app.history.len(), 61);
    }
}

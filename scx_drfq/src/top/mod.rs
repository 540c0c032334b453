// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq top` and `scx_drfq explain`: what runs, against its fair share.

mod background;
pub mod live;
mod screen;
mod settings;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use drfq_recording::reader::{Reader, Replay};
use drfq_view::{entity, explain::explain, history::History, source::Source};

use self::{
    background::Background,
    live::{Form, Live},
};
use crate::{
    cli::{Explain, Top},
    local_time::TimeOfDay,
    report::tell_loss,
};

/// Shows reports until the user or the duration ends it.
///
/// # Errors
/// No scheduler is running, or it ended.
pub fn run(options: &Top) -> Result<()> {
    let plain = options.plain || !io::stdout().is_terminal();
    let rows = if plain {
        options.rows as usize
    } else {
        usize::MAX
    };
    let end = options.duration.map(|time| Instant::now() + time.0);
    if let Some(path) = &options.replay {
        let replay = open_replay(path, options.at)?;
        return if plain {
            print(replay, rows, end)
        } else {
            screen::run(replay, end)
        };
    }
    let source = Live::open(
        options.interval.0,
        options.duration.map(|time| time.0),
        rows,
        if plain { Form::Whole } else { Form::Shown },
    )?;
    if plain {
        print(source, rows, None)
    } else {
        screen::run(Background::start(source), None)
    }
}

/// A recording as a source, from the first snapshot or from a time on.
fn open_replay(path: &Path, at: Option<TimeOfDay>) -> Result<Replay> {
    let reader = Reader::open(path)?;
    tell_loss(&reader);
    let span = reader.times();
    let mut replay = Replay::new(reader)?;
    if let Some(at) = at {
        replay.seek(at.within(span)?)?;
    }
    Ok(replay)
}

/// Prints tables of at most `rows` tasks. `end`: when to stop; none: once the source is over.
fn print(mut source: impl Source, rows: usize, end: Option<Instant>) -> Result<()> {
    let left = || {
        end.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        })
    };
    while !source.over() && !left().is_zero() {
        sleep(source.wait().min(left()));
        if let Some(mut snapshot) = source.poll()? {
            snapshot.report.tasks.truncate(rows);
            writeln!(io::stdout(), "{}", table::plain(&snapshot.report))?;
        }
    }
    Ok(())
}

/// Prints what an entity asked for, what it got, and why.
///
/// # Errors
/// No scheduler is running, or nothing has the name.
pub fn explain_entity(options: &Explain) -> Result<()> {
    let mut source = Live::open(options.interval.0, None, usize::MAX, Form::Shown)?;
    let snapshot = loop {
        sleep(source.wait());
        if let Some(snapshot) = source.poll()? {
            break snapshot;
        }
    };
    let entity = entity::find(&options.entity, &snapshot).map_err(|error| anyhow!(error))?;
    let mut history = History::default();
    history.push(snapshot);
    write!(io::stdout(), "{}", explain(&history, 0, &entity).text())?;
    Ok(())
}

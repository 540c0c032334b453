// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq top` and `scx_drfq explain`: what runs, against its fair share.

mod live;
mod screen;
mod settings;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    thread::sleep,
};

use anyhow::{Result, anyhow};
use drfq_view::{entity, explain::explain, history::History, source::Source};

use self::live::Live;
use crate::cli::{Explain, Top};

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
    let source = Live::open(
        options.interval.0,
        options.duration.map(|time| time.0),
        rows,
    )?;
    if plain {
        print(source)
    } else {
        screen::run(source)
    }
}

fn print(mut source: impl Source) -> Result<()> {
    while !source.over() {
        sleep(source.wait());
        if let Some(snapshot) = source.poll()? {
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
    let mut source = Live::open(options.interval.0, None, usize::MAX)?;
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

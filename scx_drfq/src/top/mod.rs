// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq top`: the tasks of the running scheduler against their fair shares.

mod live;
mod screen;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    thread::sleep,
};

use anyhow::Result;
use drfq_view::source::Source;

use self::live::Live;
use crate::cli::Top;

/// More than fit on any screen.
const SCREEN_ROWS: usize = 500;

/// Shows reports until the user or the duration ends it.
///
/// # Errors
/// No scheduler is running, or it ended.
pub fn run(options: &Top) -> Result<()> {
    let plain = options.plain || !io::stdout().is_terminal();
    let rows = if plain {
        options.rows as usize
    } else {
        SCREEN_ROWS
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

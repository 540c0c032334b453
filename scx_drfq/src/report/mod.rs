// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq report`: a recording as one page of HTML, and what happened at a time.

mod changes;
mod history;
mod page;
mod svg;

use std::{
    fs,
    io::{self, Write},
};

use anyhow::{Context, Result, ensure};
use drfq_recording::reader::Reader;

use self::history::History;
use crate::cli::Report;

/// Writes the page, or tells what happened at a time.
///
/// # Errors
/// The recording cannot be read, the page cannot be written, or the time is not in the
/// recording.
pub fn run(options: &Report) -> Result<()> {
    let mut reader = Reader::open(&options.file)?;
    tell_loss(&reader);
    let span = reader.times();
    ensure!(
        span.1 > span.0,
        "{} holds one moment only, which makes no chart; record longer",
        options.file.display()
    );
    let at = options.at.map(|at| at.within(span)).transpose()?;
    let chosen = at.map(|at| changes::windows(span, at));
    let (history, near) = History::read(&mut reader, chosen.map(|(_, near)| near))?;
    let changes = changes::around(near.as_ref().unwrap_or(&history), at);
    if let Some(path) = &options.output {
        let page = page::page(&options.file.display().to_string(), &history, &changes);
        fs::write(path, page)
            .with_context(|| format!("cannot write the page {}", path.display()))?;
    }
    if options.output.is_none() || at.is_some() {
        write!(io::stdout(), "{}", changes.text())?;
    }
    Ok(())
}

/// Tells if the end of a recording cannot be read.
pub fn tell_loss(reader: &Reader) {
    let lost = reader.lost_bytes();
    if lost > 0 {
        // If standard error is closed, the line has no reader.
        let _ = writeln!(
            io::stderr(),
            "scx_drfq: the last {lost} bytes of the recording are incomplete; all before is read"
        );
    }
}

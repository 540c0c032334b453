// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq record`: snapshots of the running scheduler in a file.

use std::{
    io::{self, Write},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use drfq_recording::{TASKS_MAX, writer::Writer};
use drfq_view::source::Source;

use crate::{
    cli::Record,
    signals::{Hangup, Signals},
    top::live::{Form, Live},
};

/// How long a signal may wait.
const POLL: Duration = Duration::from_millis(100);

/// Records until the user, the duration or the scheduler ends it.
///
/// # Errors
/// No scheduler is running, it has ended, or the last snapshot could not be written.
pub fn run(options: &Record) -> Result<()> {
    let signals = Signals::listen(Hangup::EndsUnlessIgnored).context("cannot handle signals")?;
    let duration = options.duration.map(|time| time.0);
    let mut source = Live::open(options.interval.0, duration, TASKS_MAX, Form::Whole)?;
    let mut writer = Writer::open(&options.file, options.max_size.0)?;
    let mut problem = None;
    let mut count = 0u64;
    while !signals.stop() && !source.over() {
        let wait = source.wait();
        if !wait.is_zero() {
            sleep(wait.min(POLL));
            continue;
        }
        let snapshot = match source.poll() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                bail!(
                    "{error:#}; {} holds {count} snapshots",
                    options.file.display()
                )
            }
        };
        let Some(snapshot) = snapshot else {
            continue;
        };
        // A full disk may have room again later.
        let failed = writer.append(&snapshot).err();
        count += u64::from(failed.is_none());
        if let Some(error) = failed.as_ref().filter(|_| problem.is_none()) {
            let _ = writeln!(io::stderr(), "scx_drfq: {error:#}; trying again");
        }
        problem = failed;
    }
    match problem {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq top`: the tasks of the running scheduler against their fair shares.

mod screen;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::Result;
use drfq_stats::report::Tasks;

use crate::{cli::Top, client::Client};

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
    let feed = Feed::open(
        options.interval.0,
        options.duration.map(|time| time.0),
        rows,
    )?;
    if plain {
        print(feed)
    } else {
        screen::run(feed)
    }
}

fn print(mut feed: Feed) -> Result<()> {
    while !feed.over() {
        sleep(feed.wait());
        if let Some(tasks) = feed.poll()? {
            writeln!(io::stdout(), "{}", table::plain(&tasks))?;
        }
    }
    Ok(())
}

/// Reports at regular intervals.
struct Feed {
    client: Client,
    interval: Duration,
    rows: usize,
    next: Instant,
    end: Option<Instant>,
}

impl Feed {
    fn open(interval: Duration, duration: Option<Duration>, rows: usize) -> Result<Self> {
        let mut client = Client::connect()?;
        // The first report would cover the time since the scheduler was loaded.
        client.tasks(0)?;
        let now = Instant::now();
        let end = duration.map(|duration| now + duration);
        Ok(Self {
            client,
            interval,
            rows,
            next: now + interval,
            end,
        })
    }

    /// Whether the duration is over, so that no further report comes.
    fn over(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// Time until the next report.
    fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// The report that is due, if one is.
    fn poll(&mut self) -> Result<Option<Tasks>> {
        if !self.wait().is_zero() {
            return Ok(None);
        }
        self.next += self.interval;
        if let Ok(tasks) = self.client.tasks(self.rows) {
            return Ok(Some(tasks));
        }
        self.client = Client::reconnect()?;
        self.client.tasks(0)?;
        self.next = Instant::now() + self.interval;
        Ok(None)
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Statistics on standard output while scheduling.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::Result;
use drfq_stats::{
    interval::{system, tasks},
    report::System,
    sample::{Facts, Sample},
};

use crate::{cli::Run, client, json_lines, local_time, printer::Printer};

/// Prints statistics at regular intervals.
pub struct Periodic {
    interval: Duration,
    json: bool,
    next: Instant,
    prev: (System, Sample),
    printer: Printer,
}

impl Periodic {
    /// None if the user asked for no statistics. `loaded`: where the first interval
    /// begins.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(run: &Run, facts: &Facts, loaded: Sample) -> io::Result<Option<Self>> {
        let Some(interval) = run.stats else {
            return Ok(None);
        };
        Ok(Some(Self {
            interval: interval.0,
            json: run.json,
            next: Instant::now() + interval.0,
            prev: (system(facts, &loaded, &loaded), loaded),
            printer: Printer::new(io::stdout())?,
        }))
    }

    /// Time until the next statistics.
    pub fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether the sample must have tasks.
    pub fn needs_tasks(&self) -> bool {
        self.json
    }

    /// Prints the statistics of an interval that ends with `sample`.
    ///
    /// # Errors
    /// The output cannot be written. The scheduler does not depend on that.
    pub fn print(&mut self, facts: &Facts, sample: Sample) -> Result<()> {
        let line = self.line(facts, sample)?;
        self.printer.print(line)
    }

    fn line(&mut self, facts: &Facts, sample: Sample) -> Result<String> {
        let cur = system(facts, &self.prev.1, &sample);
        let line = if self.json {
            let report = tasks(facts, &self.prev.1, &sample, usize::MAX);
            json_lines::line(local_time::now_ns(), &report)?
        } else {
            client::line(&self.prev.0, &cur)
        };
        self.prev = (cur, sample);
        self.next = Instant::now() + self.interval;
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn periodic(arguments: &[&str]) -> Option<Periodic> {
        let cli = Cli::parse_from([&["scx_drfq"], arguments].concat());
        Periodic::new(&cli.run, &Facts::default(), Sample::default()).unwrap()
    }

    #[test]
    fn statistics_come_only_if_asked_for() {
        assert!(periodic(&[]).is_none());
        assert!(!periodic(&["--stats", "1"]).unwrap().needs_tasks());
        assert!(periodic(&["--stats", "1", "--json"]).unwrap().needs_tasks());
    }

    #[test]
    fn each_interval_is_a_line_of_json() {
        let mut periodic = periodic(&["--stats", "1", "--json"]).unwrap();
        let mut interval = |at_ns| {
            let sample = Sample {
                at_ns,
                ..Sample::default()
            };
            let line = periodic.line(&Facts::default(), sample).unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            value["system"]["interval_ns"].as_u64().unwrap()
        };
        assert_eq!([interval(5), interval(9)], [5, 4]);
    }
}

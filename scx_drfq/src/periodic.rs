// SPDX-License-Identifier: GPL-2.0-only
//! Statistics on standard output while scheduling.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use drfq_stats::{
    interval::{system, tasks},
    report::System,
    sample::{Facts, Sample},
};

use crate::{cli::Run, client, json_lines};

/// Prints statistics at regular intervals.
pub struct Periodic {
    interval: Duration,
    json: bool,
    next: Instant,
    prev: (System, Sample),
}

impl Periodic {
    /// None if the user asked for no statistics. `loaded`: where the first interval
    /// begins.
    pub fn new(run: &Run, facts: &Facts, loaded: Sample) -> Option<Self> {
        let interval = run.stats?.0;
        Some(Self {
            interval,
            json: run.json,
            next: Instant::now() + interval,
            prev: (system(facts, &loaded, &loaded), loaded),
        })
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
    pub fn print(&mut self, facts: &Facts, sample: Sample, output: &mut impl Write) -> Result<()> {
        let cur = system(facts, &self.prev.1, &sample);
        let line = if self.json {
            let report = tasks(facts, &self.prev.1, &sample, usize::MAX);
            json_lines::line(json_lines::now_ns(), &report)?
        } else {
            client::line(&self.prev.0, &cur)
        };
        self.prev = (cur, sample);
        self.next = Instant::now() + self.interval;
        writeln!(output, "{line}")
            .and_then(|()| output.flush())
            .context("cannot write statistics to standard output")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn periodic(arguments: &[&str]) -> Option<Periodic> {
        let cli = Cli::parse_from([&["scx_drfq"], arguments].concat());
        Periodic::new(&cli.run, &Facts::default(), Sample::default())
    }

    #[test]
    fn statistics_come_only_if_asked_for() {
        assert!(periodic(&[]).is_none());
        assert!(!periodic(&["--stats", "1"]).unwrap().needs_tasks());
        assert!(periodic(&["--stats", "1", "--json"]).unwrap().needs_tasks());
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_output() {
        let mut full = std::fs::File::create("/dev/full").unwrap();
        let mut periodic = periodic(&["--stats", "1"]).unwrap();
        let error = periodic.print(&Facts::default(), Sample::default(), &mut full);
        let text = format!("{:#}", error.unwrap_err());
        assert!(
            text.contains("standard output") && text.contains("space"),
            "{text}"
        );
    }

    #[test]
    fn each_interval_is_a_line_of_json() {
        let mut periodic = periodic(&["--stats", "1", "--json"]).unwrap();
        let mut output = Vec::new();
        for at_ns in [5, 9] {
            let sample = Sample {
                at_ns,
                ..Sample::default()
            };
            periodic
                .print(&Facts::default(), sample, &mut output)
                .unwrap();
        }
        let text = String::from_utf8(output).unwrap();
        let intervals: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|value| value["system"]["interval_ns"].as_u64().unwrap())
            .collect();
        assert_eq!(intervals, [5, 4]);
    }
}

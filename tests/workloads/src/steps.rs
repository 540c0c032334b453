// SPDX-License-Identifier: GPL-2.0-only
//! Steps of a simulation: those that warm up and those that are measured.

use crate::clock;
use crate::report::Report;
use anyhow::Result;
use std::io::Write;

/// How many steps a simulation makes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Steps {
    /// Steps before the measured part.
    #[arg(long, default_value_t = 1)]
    warmup: u64,
    /// Steps of the measured part; 0: until stopped.
    #[arg(long, default_value_t = 0)]
    steps: u64,
}

impl Steps {
    /// Makes the steps by `step`, which returns false if it was told to stop before its end.
    /// Prints a line when the measured part begins.
    pub fn run(self, report: &mut Report, mut step: impl FnMut() -> bool) -> Result<()> {
        for _ in 0..self.warmup {
            if !step() {
                return Ok(());
            }
        }
        let mut output = std::io::stdout();
        writeln!(output, "{{\"ready\":true}}")?;
        output.flush()?;
        let start_ns = clock::now_ns();
        report.measured_ns = Some(0);
        while (self.steps == 0 || report.rounds < self.steps) && step() {
            report.rounds += 1;
            report.measured_ns = Some(clock::now_ns() - start_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_steps_follow_the_warm_up() {
        let mut made = 0;
        let mut report = Report::default();
        let steps = Steps {
            warmup: 2,
            steps: 3,
        };
        let step = || {
            made += 1;
            true
        };
        steps.run(&mut report, step).unwrap();
        assert_eq!((made, report.rounds), (5, 3));
        assert!(report.measured_ns.is_some());
    }

    #[test]
    fn a_step_that_was_stopped_ends_the_load_and_does_not_count() {
        for (ends_at, rounds) in [(2, None), (3, Some(0)), (5, Some(2))] {
            let mut made = 0;
            let mut report = Report::default();
            let steps = Steps {
                warmup: 2,
                steps: 0,
            };
            let step = || {
                made += 1;
                made < ends_at
            };
            steps.run(&mut report, step).unwrap();
            assert_eq!(report.measured_ns.map(|_| report.rounds), rounds);
        }
    }
}

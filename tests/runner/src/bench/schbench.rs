// SPDX-License-Identifier: GPL-2.0-only
//! schbench: a thread that wakes workers, whose requests sleep, compute and hold a lock of their
//! CPU.

use super::programs::{Measured, output};
use anyhow::{Context, Result};
use std::process::Command;

/// A waker and 4 workers for 5 s. A request multiplies matrices of 16 KB in all twice, in some
/// 1.3 ms at 250 million instructions a second.
const OPTIONS: &str = "-m 1 -t 4 -F 16 -n 2 -r 5";

/// Values of a report: section, line and what the row is called.
const LATENCIES: [(&str, &str, &str); 3] = [
    (
        "Wakeup Latencies percentiles (usec)",
        "50.0th:",
        "wake-up, median",
    ),
    (
        "Wakeup Latencies percentiles (usec)",
        "99.0th:",
        "wake-up, 99th percentile",
    ),
    (
        "Request Latencies percentiles (usec)",
        "99.0th:",
        "request, 99th percentile",
    ),
];

/// Runs it once.
pub fn measure() -> Result<Measured> {
    let output = output(Command::new("schbench").args(OPTIONS.split(' ')))?;
    // The report goes to standard error.
    let text = String::from_utf8_lossy(&output.stderr);
    parse(&text).with_context(|| format!("schbench printed {text:?}"))
}

fn parse(text: &str) -> Result<Measured> {
    let mut found = Measured::new();
    for (section, line, what) in LATENCIES {
        let us = latency_us(text, section, line)
            .with_context(|| format!("no {line} below {section}"))?;
        found.push((format!("schbench {OPTIONS}, {what}"), "us", us));
    }
    let rate = rate(text).context("no average rps")?;
    found.push((format!("schbench {OPTIONS}, requests"), "1/s", rate));
    Ok(found)
}

/// A percentile of the last report, us. Reports of intervals may come before it.
fn latency_us(text: &str, section: &str, percentile: &str) -> Option<f64> {
    let (_, report) = text.rsplit_once(section)?;
    let value = report
        .lines()
        .skip(1)
        .map(|line| line.trim_start_matches(['\t', ' ', '*']))
        .take_while(|line| !line.starts_with("min="))
        .find_map(|line| line.strip_prefix(percentile))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Requests per second, the mean of the whole run.
fn rate(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("average rps:"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run of 3 s printed in the VM.
    const REPORT: &str = "\
Wakeup Latencies percentiles (usec) runtime 3 (s) (1815 total samples)
\t  50.0th: 62         (447 samples)
\t  90.0th: 1490       (735 samples)
\t* 99.0th: 2500       (154 samples)
\t  99.9th: 4728       (17 samples)
\t  min=8, max=4909
Request Latencies percentiles (usec) runtime 3 (s) (1815 total samples)
\t  50.0th: 5656       (542 samples)
\t  90.0th: 9520       (734 samples)
\t* 99.0th: 15664      (155 samples)
\t  99.9th: 21600      (17 samples)
\t  min=1314, max=31555
RPS percentiles (requests) runtime 3 (s) (4 total samples)
\t  20.0th: 0          (1 samples)
\t* 50.0th: 587        (1 samples)
\t  90.0th: 613        (2 samples)
\t  min=587, max=612
average rps: 605.00
sched delay: message 0 (usec) worker 0 (usec)
";

    fn values(text: &str) -> Vec<f64> {
        let measured = parse(text).unwrap();
        measured.into_iter().map(|(_, _, value)| value).collect()
    }

    #[test]
    fn a_report_is_parsed() {
        assert_eq!(values(REPORT), [62.0, 2500.0, 15664.0, 605.0]);
    }

    #[test]
    fn the_last_report_counts() {
        let interval = REPORT
            .replace("62  ", "999 ")
            .replace("average rps: 605.00", "current rps: 587.00");
        let values = values(&format!("{interval}{REPORT}"));
        assert_eq!(values, [62.0, 2500.0, 15664.0, 605.0]);
    }

    #[test]
    fn a_value_of_another_section_is_not_taken() {
        let text = REPORT.replacen("\t* 99.0th: 2500       (154 samples)\n", "", 1);
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("99.0th: below Wakeup"), "{error}");
        assert!(parse("").is_err());
    }
}

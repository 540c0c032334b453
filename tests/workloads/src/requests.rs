// SPDX-License-Identifier: GPL-2.0-only
//! A service: requests arrive at random times, whether or not earlier ones are done, and
//! each looks up entries of a table. A latency counts from the arrival.

use crate::cycle::{Cycle, Random};
use crate::report::Report;
use crate::samples::Samples;
use crate::{clock, process, signals};
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write;

/// Latencies that are printed at once.
const BATCH: usize = 8;

/// What arrives, and what each request does.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Mean time between two arrivals, ns.
    pub period_ns: u64,
    /// Entries that a request looks up. Each look-up needs the one before.
    pub lookups: u32,
    /// Size of the table, KiB.
    pub table_kib: usize,
    /// Decides the arrivals and the table.
    pub seed: u64,
    /// Whether each latency is printed.
    pub print: bool,
}

/// Serves requests until told to stop.
pub fn run(report: &mut Report, requests: Requests) -> Result<()> {
    process::precise_timers()?;
    let mut random = Random(requests.seed);
    let mut table = Cycle::new(requests.table_kib, &mut random);
    let mut latencies = Samples::default();
    let mut marks = signals::marks();
    let mut batch = Vec::with_capacity(BATCH);
    let mut arrival_ns = clock::now_ns();
    while !signals::stopped() {
        arrival_ns += exponential(&mut random, requests.period_ns);
        while clock::now_ns() < arrival_ns && !signals::stopped() {
            clock::sleep_until(arrival_ns);
        }
        if signals::stopped() {
            break;
        }
        if signals::marks() != marks {
            // What arrived during a pause is not made up for.
            marks = signals::marks();
            latencies.clear();
            arrival_ns = clock::now_ns();
            continue;
        }
        table.look_up(requests.lookups, || ());
        let latency_ns = clock::now_ns().saturating_sub(arrival_ns);
        if signals::marks() != marks {
            continue;
        }
        latencies.add(latency_ns);
        report.rounds += 1;
        if requests.print {
            batch.push(latency_ns / 1000);
            if batch.len() == BATCH {
                print(&batch)?;
                batch.clear();
            }
        }
    }
    print(&batch)?;
    report.request_latency = Some(latencies.summary());
    Ok(())
}

/// Writes latencies (us), a line each, in one write that no other writer divides.
fn print(latencies_us: &[u64]) -> Result<()> {
    let mut text = String::new();
    for latency in latencies_us {
        let _ = writeln!(text, "{latency}");
    }
    let mut output = std::io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

/// A time until the next arrival, of this mean: arrivals do not depend on each other.
fn exponential(random: &mut Random, mean_ns: u64) -> u64 {
    let uniform = (random.next() + 1) as f64 / (1_u64 << 31) as f64;
    (-uniform.ln() * mean_ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_arrivals_have_the_mean_asked_for() {
        let mut random = Random(1);
        let sum: u64 = (0..100_000).map(|_| exponential(&mut random, 1000)).sum();
        assert!((99_000_000..101_000_000).contains(&sum), "{sum}");
    }
}

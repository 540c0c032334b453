// SPDX-License-Identifier: GPL-2.0-only
//! A service: requests arrive at random times, whether or not earlier ones are done, and
//! each looks up entries of a table. A latency counts from the arrival.

use crate::report::Report;
use crate::samples::Samples;
use crate::{clock, process, signals};
use anyhow::Result;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write;

/// Words of an entry, a line of the cache.
const ENTRY: usize = 8;

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
    let table = table(requests.table_kib * 1024 / 8 / ENTRY, &mut random);
    let mut latencies = Samples::default();
    let mut marks = signals::marks();
    let mut batch = Vec::with_capacity(BATCH);
    let mut entry = 0;
    let mut arrival_ns = clock::now_ns();
    while !signals::stopped() {
        arrival_ns += random.exponential(requests.period_ns);
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
        entry = look_up(&table, entry, requests.lookups);
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

/// A table whose entries name one another in one random cycle.
fn table(entries: usize, random: &mut Random) -> Vec<[usize; ENTRY]> {
    let mut table: Vec<_> = (0..entries.max(2)).map(|at| [at; ENTRY]).collect();
    for at in (1..table.len()).rev() {
        // Sattolo's shuffle.
        table.swap(at, random.next() as usize % at);
    }
    table
}

/// Follows the cycle for so many entries.
fn look_up(table: &[[usize; ENTRY]], mut entry: usize, lookups: u32) -> usize {
    for _ in 0..lookups {
        entry = black_box(table[entry][0]);
    }
    entry
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

/// Knuth's generator MMIX.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A time until the next arrival, of this mean: arrivals do not depend on each other.
    fn exponential(&mut self, mean_ns: u64) -> u64 {
        let uniform = (self.next() + 1) as f64 / (1_u64 << 31) as f64;
        (-uniform.ln() * mean_ns as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_one_cycle_through_all_entries() {
        let table = table(100, &mut Random(7));
        let mut entry = 0;
        for step in 1..=100 {
            entry = look_up(&table, entry, 1);
            assert_eq!(entry == 0, step == 100, "after {step} steps");
        }
    }

    #[test]
    fn times_between_arrivals_have_the_mean_asked_for() {
        let mut random = Random(1);
        let sum: u64 = (0..100_000).map(|_| random.exponential(1000)).sum();
        assert!((99_000_000..101_000_000).contains(&sum), "{sum}");
    }
}

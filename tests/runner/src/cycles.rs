// SPDX-License-Identifier: GPL-2.0-only
//! Loads and unloads repeatedly, and counts what that leaves.

use crate::kmsg::Kmsg;
use crate::scenario::SchedulerProgram;
use crate::scheduler::{Executables, LoadedScheduler, sched_ext_state, wait_for_state};
use anyhow::{Context, Result, ensure};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use std::path::Path;
use std::time::{Duration, Instant};

/// With fewer cycles, noise hides a leak of memory.
const MEMORY_CYCLES_MIN: usize = 200;

/// Growth of kernel memory that is not taken for a leak, bytes per cycle. The
/// smallest thing a load makes that is not a BPF object is larger.
const MEMORY_MAX_PER_CYCLE: f64 = 1024.0;

/// BPF objects that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Objects {
    programs: usize,
    maps: usize,
    links: usize,
}

impl Objects {
    fn count() -> Self {
        Self {
            programs: ProgInfoIter::default().count(),
            maps: MapInfoIter::default().count(),
            links: LinkInfoIter::default().count(),
        }
    }

    /// They are freed after grace periods: waits until there are `wanted`.
    fn settle(wanted: Objects) -> Result<()> {
        let start = Instant::now();
        loop {
            let now = Self::count();
            if now == wanted {
                return Ok(());
            }
            ensure!(
                start.elapsed() < Duration::from_secs(30),
                "BPF objects are left: {now:?} after, {wanted:?} before"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Kernel memory that is not page cache: slabs that cannot be reclaimed,
/// vmalloc and per-CPU memory, bytes.
fn kernel_memory() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let mut sum_kib = 0.0;
    for field in ["SUnreclaim:", "VmallocUsed:", "Percpu:"] {
        let line = text.lines().find_map(|l| l.strip_prefix(field));
        let value = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
        sum_kib += value.with_context(|| format!("/proc/meminfo has no {field}"))?;
    }
    Ok(sum_kib * 1024.0)
}

/// Loads and unloads `count` times; whether nothing is left behind.
pub fn run(count: usize, dir: &Path) -> Result<bool> {
    let executables = Executables::find()?;
    let log = dir.join("scheduler.log");
    let mut kmsg = Kmsg::from_now()?;
    let before = Objects::count();
    let mut memory = Vec::with_capacity(count);
    for cycle in 1..=count {
        let loaded = LoadedScheduler::start(&executables, SchedulerProgram::ScxDrfq, &[], &log)
            .with_context(|| format!("cycle {cycle}"))?;
        loaded.stop().with_context(|| format!("cycle {cycle}"))?;
        Objects::settle(before).with_context(|| format!("cycle {cycle}"))?;
        memory.push(kernel_memory()?);
        if cycle % 50 == 0 {
            eprintln!(
                "{cycle} of {count} cycles, kernel memory {:.1} MiB",
                mib(memory[cycle - 1])
            );
        }
    }
    let growth = growth_per_cycle(&memory);
    let trouble = kmsg.trouble()?;
    println!("{count} cycles; BPF objects as before: {before:?}");
    match growth {
        Some(bytes) => println!("kernel memory grew by {bytes:.0} bytes per cycle"),
        None => println!("kernel memory was not judged: {MEMORY_CYCLES_MIN} cycles are needed"),
    }
    trouble
        .iter()
        .for_each(|line| println!("kernel log: {line}"));
    Ok(trouble.is_empty() && growth.is_none_or(|bytes| bytes <= MEMORY_MAX_PER_CYCLE))
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// From the second quarter to the last: caches are warm in both. The least of each is compared,
/// because the kernel frees some of what a cycle used a moment later: on 6.16 the same load left
/// 20.6 or 22.1 MiB. A leak raises the least, too.
fn growth_per_cycle(memory: &[f64]) -> Option<f64> {
    if memory.len() < MEMORY_CYCLES_MIN {
        return None;
    }
    let quarter = memory.len() / 4;
    let least = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    let early = least(&memory[quarter..2 * quarter]);
    let late = least(&memory[3 * quarter..]);
    Some((late - early) / (2 * quarter) as f64)
}

/// When an agent is killed.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    /// Half a second after the kernel runs its scheduler.
    Loaded,
    /// At random, from its start until twice the time that it needs to load the scheduler.
    Random,
}

/// Kills the agent (SIGKILL) `count` times; whether the kernel was back at its
/// own scheduler within `limit` each time, and nothing was left.
pub fn kill(count: usize, moment: Moment, limit: Duration, dir: &Path) -> Result<bool> {
    let executables = Executables::find()?;
    let log = dir.join("scheduler.log");
    let mut kmsg = Kmsg::from_now()?;
    let before = Objects::count();
    let span = match moment {
        Moment::Loaded => Duration::ZERO,
        Moment::Random => 2 * time_to_load(&executables, &log)?,
    };
    let (mut good, mut loaded_by_then, mut slowest) = (true, 0, Duration::ZERO);
    for round in 1..=count {
        let drfq = SchedulerProgram::ScxDrfq;
        let loaded = match moment {
            Moment::Loaded => {
                let loaded = LoadedScheduler::start(&executables, drfq, &[], &log)?;
                std::thread::sleep(Duration::from_millis(500));
                let state = sched_ext_state()?;
                ensure!(
                    state == "enabled",
                    "sched_ext is {state} before kill {round}"
                );
                loaded
            }
            Moment::Random => {
                let loaded = LoadedScheduler::spawn(&executables, drfq, &[], &log)?;
                std::thread::sleep(span.mul_f64(random_part(round)));
                loaded
            }
        };
        let state = sched_ext_state()?;
        loaded_by_then += usize::from(state == "enabled");
        let took = loaded.kill()?;
        println!(
            "kill {round}: {state}, disabled after {:.0} ms",
            took.as_secs_f64() * 1e3
        );
        slowest = slowest.max(took);
        good &= took <= limit;
    }
    Objects::settle(before)?;
    let trouble = kmsg.trouble()?;
    println!(
        "{count} kills, {loaded_by_then} of a loaded scheduler; slowest {:.0} ms; BPF objects as \
         before: {before:?}",
        slowest.as_secs_f64() * 1e3
    );
    trouble
        .iter()
        .for_each(|line| println!("kernel log: {line}"));
    if matches!(moment, Moment::Random) {
        ensure!(
            loaded_by_then.min(count - loaded_by_then) >= count / 4,
            "{loaded_by_then} of {count} kills met a loaded scheduler; a quarter should, and a \
             quarter should not"
        );
    }
    Ok(good && trouble.is_empty())
}

fn time_to_load(executables: &Executables, log: &Path) -> Result<Duration> {
    let start = Instant::now();
    let loaded = LoadedScheduler::start(executables, SchedulerProgram::ScxDrfq, &[], log)?;
    let took = start.elapsed();
    loaded.stop()?;
    wait_for_state("disabled", Duration::from_secs(60))?;
    Ok(took)
}

/// A number from 0 to 1 for each round, always the same (SplitMix64).
fn random_part(round: usize) -> f64 {
    let mut mixed = (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steady_growth_of_memory_is_a_leak() {
        let leak: Vec<f64> = (0..400).map(|i| 1e8 + 4096.0 * f64::from(i)).collect();
        assert_eq!(growth_per_cycle(&leak), Some(4096.0));
        // Caches that fill once are none.
        let warm: Vec<f64> = (0..400).map(|i| if i < 50 { 1e8 } else { 2e8 }).collect();
        assert_eq!(growth_per_cycle(&warm), Some(0.0));
        // Memory that is freed late now and then is none, and hides no leak.
        let late = |i: u32| if i % 100 < 80 || i == 399 { 1.5e6 } else { 0.0 };
        let steps: Vec<f64> = (0..400).map(|i| 1e8 + late(i)).collect();
        assert_eq!(growth_per_cycle(&steps), Some(0.0));
        let both: Vec<f64> = (0..400)
            .map(|i| steps[i as usize] + 4096.0 * f64::from(i))
            .collect();
        assert_eq!(growth_per_cycle(&both), Some(4096.0));
        assert_eq!(growth_per_cycle(&[1.0; 20]), None);
    }

    #[test]
    fn random_moments_spread_over_the_whole_time() {
        let moments: Vec<f64> = (1..=200).map(random_part).collect();
        for tenth in 0..10 {
            let from = f64::from(tenth) / 10.0;
            let count = moments.iter().filter(|&&m| m >= from && m < from + 0.1);
            assert!((5..=40).contains(&count.count()), "tenth {tenth}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sleeps and works by turns, and records how late each wake-up was.

use crate::clock;
use crate::report::Report;
use crate::samples::Samples;
use crate::{process, signals};
use anyhow::Result;
use std::hint::black_box;

/// Works `run_us` of its own CPU time, then sleeps `sleep_us`, for ever.
/// `log`: every wake-up is reported, not only their summary.
pub fn run(report: &mut Report, run_us: u64, sleep_us: u64, log: bool) -> Result<()> {
    process::precise_timers()?;
    let mut latency = Samples::default();
    let mut marks = signals::marks();
    while !signals::stopped() {
        let deadline_ns = clock::now_ns() + sleep_us * 1000;
        while !clock::sleep_until(deadline_ns) && !signals::stopped() {}
        if signals::marks() != marks {
            marks = signals::marks();
            latency.clear();
        }
        let now_ns = clock::now_ns();
        // At the end a wake-up that is still due counts, too: the task may have been starved.
        if !signals::stopped() || now_ns > deadline_ns {
            latency.add(now_ns.saturating_sub(deadline_ns));
            if log {
                report.wakes.push((deadline_ns, now_ns));
            }
        }
        report.rounds += 1;
        spin_cpu_ns(run_us * 1000);
    }
    report.wake_latency = Some(latency.summary());
    Ok(())
}

/// Spins until this thread has used `budget_ns` more CPU time.
pub fn spin_cpu_ns(budget_ns: u64) {
    let end_ns = clock::thread_cpu_ns() + budget_ns;
    while clock::thread_cpu_ns() < end_ns && !signals::stopped() {
        for i in 0..64 {
            black_box(i);
        }
    }
}

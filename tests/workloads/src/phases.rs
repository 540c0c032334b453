// SPDX-License-Identifier: GPL-2.0-only
//! Alternates CPU-heavy and fault-heavy phases, measured in its own CPU time,
//! so that the order of phases does not depend on what else runs.

use crate::faults::{Pace, Pages, paced_burst};
use crate::report::Report;
use crate::sleeper::spin_cpu_ns;
use crate::{clock, process, signals};
use anyhow::Result;

/// Lengths of the two phases in CPU time of the load.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// CPU-heavy phase, ns.
    pub cpu_ns: u64,
    /// Fault-heavy phase, ns.
    pub fault_ns: u64,
}

/// Runs both phases in turn until told to stop; `rounds` counts the pairs.
pub fn run(report: &mut Report, phases: Phases, pages: usize, pace: Pace) -> Result<()> {
    let mut memory = Pages::map(pages)?;
    let before = process::faults();
    let mut due_ns = clock::now_ns();
    // Ends are planned, not measured: an overshoot of one phase shortens the
    // next one of its kind instead of adding up.
    let mut end_ns = clock::thread_cpu_ns();
    while !signals::stopped() {
        end_ns += phases.cpu_ns;
        spin_cpu_ns(end_ns.saturating_sub(clock::thread_cpu_ns()));
        end_ns += phases.fault_ns;
        while clock::thread_cpu_ns() < end_ns && !signals::stopped() {
            paced_burst(&mut memory, pace, &mut due_ns);
        }
        report.rounds += 1;
    }
    report.pages_touched = Some(memory.touched);
    report.faults_counted = Some(process::faults() - before);
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-only
//! Chases pointers: a load that waits for the latency of memory, and moves little.

use crate::cycle::{Cycle, Random};
use crate::report::Report;
use crate::signals;
use crate::steps::Steps;
use anyhow::Result;
use std::hint::black_box;

/// What is chased.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Chase {
    /// Size of the table, KiB.
    #[arg(long, default_value_t = 65536)]
    kib: usize,
    /// Reads of a step.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    lookups: u32,
    /// Iterations of a loop between two reads. They keep reads apart on a modelled machine, whose
    /// cores wait for a miss only when their window is full of later instructions.
    #[arg(long, default_value_t = 0)]
    spins: u32,
}

/// Looks up entries of the table.
pub fn run(report: &mut Report, chase: Chase, steps: Steps) -> Result<()> {
    let mut cycle = Cycle::new(chase.kib, &mut Random(1));
    steps.run(report, || {
        cycle.look_up(chase.lookups, || (0..chase.spins).for_each(spin));
        !signals::stopped()
    })
}

/// Does nothing that the compiler could leave out.
fn spin(i: u32) {
    black_box(i);
}

// SPDX-License-Identifier: GPL-2.0-only
//! Uses all the CPU time it gets.

use crate::report::Report;
use crate::signals;
use std::hint::black_box;

/// Iterations between two looks at the stop flag.
const SPINS: u64 = 4096;

/// Spins until told to stop.
pub fn run(report: &mut Report) {
    while !signals::stopped() {
        for i in 0..SPINS {
            black_box(i);
        }
        report.rounds += 1;
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Makes short-lived processes as fast as it can.

use crate::report::Report;
use crate::signals;
use crate::sleeper::spin_cpu_ns;
use anyhow::{Context, Result};

/// Keeps `width` children alive, each of which works `child_us` of CPU time.
/// `rounds` counts the children that were born.
pub fn run(report: &mut Report, width: u32, child_us: u64) -> Result<()> {
    let mut alive = 0;
    while !signals::stopped() {
        if alive < width {
            fork_child(child_us)?;
            alive += 1;
            report.rounds += 1;
        } else if reap() {
            alive -= 1;
        }
    }
    while alive > 0 {
        alive -= u32::from(reap());
    }
    Ok(())
}

fn fork_child(child_us: u64) -> Result<()> {
    // SAFETY: this process has one thread; the child only spins and leaves.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("cannot fork"),
        0 => {
            spin_cpu_ns(child_us * 1000);
            // SAFETY: ends the child without running the parent's clean-up.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

/// Waits for one child; false when a signal came first.
fn reap() -> bool {
    // SAFETY: the status is not asked for.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Copies memory without pause: a load that takes all the bandwidth it gets.

use crate::report::Report;
use crate::signals;
use std::ptr;

/// Words copied between two looks at the stop flag.
const STEP: usize = 4096;

/// Copies one half of `kib` KiB to the other, again and again, until told to stop.
pub fn run(report: &mut Report, kib: usize) {
    let words = (kib * 1024 / 2 / size_of::<u64>()).max(STEP);
    let from = vec![1_u64; words];
    let mut to = vec![2_u64; words];
    let mut copied = 0_u64;
    'passes: loop {
        for (from, to) in from.chunks(STEP).zip(to.chunks_mut(STEP)) {
            if signals::stopped() {
                break 'passes;
            }
            copy(from, to);
            copied += from.len() as u64;
        }
        report.rounds += 1;
    }
    report.copied_bytes = Some(copied * size_of::<u64>() as u64);
}

/// Copies word by word. A string instruction, which a library's copy may use, would run
/// ahead of the time of a modelled machine.
fn copy(from: &[u64], to: &mut [u64]) {
    for (from, to) in from.iter().zip(to) {
        // SAFETY: both are valid references.
        unsafe { ptr::write_volatile(to, ptr::read_volatile(from)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_equals_its_source() {
        let from: Vec<u64> = (0..100).collect();
        let mut to = vec![0; 100];
        copy(&from, &mut to);
        assert_eq!(from, to);
    }
}

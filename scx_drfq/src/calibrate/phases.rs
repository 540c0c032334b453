// SPDX-License-Identifier: GPL-2.0-only
//! The phases of a calibration, each of which runs one kind of load. Other programs may disturb it.

use std::{io, path::Path, time::Duration};

use crate::loads::{self, Moved, Op};

/// Below this part of the time on their CPUs, the loads were disturbed.
pub const UNDISTURBED: f64 = 0.9;

/// What the phases of a measurement share.
pub struct Phases<'a, W> {
    /// The machine's `/`.
    pub root: &'a Path,
    /// How long one takes.
    pub time: Duration,
    /// The part of the time that the loads had their CPUs, in the phase in which they had the least.
    pub on_cpu: f64,
    /// Gets a line of each.
    pub out: &'a mut W,
}

impl<W> Phases<'_, W> {
    /// As [`loads::run`], but a run that was disturbed is repeated.
    ///
    /// # Errors
    /// As there.
    pub fn run(
        &mut self,
        op: Op,
        threads: &[(u32, usize)],
        join: impl Fn() -> io::Result<()> + Sync,
    ) -> io::Result<Moved> {
        let moved = repeated(|| loads::run(op, threads, self.time, &join))?;
        self.on_cpu = self.on_cpu.min(moved.on_cpu);
        Ok(moved)
    }
}

/// Runs a phase, and once more if it was disturbed. The less disturbed one counts.
fn repeated(mut run: impl FnMut() -> io::Result<Moved>) -> io::Result<Moved> {
    let first = run()?;
    if first.on_cpu >= UNDISTURBED {
        return Ok(first);
    }
    let second = run()?;
    Ok(match second.on_cpu > first.on_cpu {
        true => second,
        false => first,
    })
}

/// The part that a throttle leaves of `full`. What other programs take of the CPU is none of the
/// throttle's, so only the time on it counts.
pub fn kept(moved: Moved, full: Moved) -> f64 {
    let while_on_cpu = |moved: Moved| moved.bytes_per_s / moved.on_cpu.max(f64::MIN_POSITIVE);
    while_on_cpu(moved) / while_on_cpu(full)
}

/// Says after a measurement how far it was disturbed.
pub fn disturbed(moved: Moved) -> String {
    match moved.on_cpu < UNDISTURBED {
        true => format!(
            " (disturbed: the loads had their CPUs for {:.0} % of the time)",
            100.0 * moved.on_cpu
        ),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(bytes_per_s: f64, on_cpu: f64) -> Moved {
        Moved {
            bytes_per_s,
            on_cpu,
        }
    }

    #[test]
    fn a_disturbed_phase_is_repeated_once_and_the_better_one_counts() {
        for (first, second, counts) in [(0.95, 0.1, 0.95), (0.5, 0.97, 0.97), (0.7, 0.6, 0.7)] {
            let mut phases = [moved(1.0, first), moved(2.0, second)].into_iter();
            let found = repeated(|| Ok(phases.next().unwrap())).unwrap();
            assert_eq!(found.on_cpu, counts);
        }
    }

    #[test]
    fn what_other_programs_take_of_the_cpu_is_none_of_the_throttles() {
        let fraction = kept(moved(15.0, 0.5), moved(100.0, 1.0));
        assert!((fraction - 0.3).abs() < 1e-9, "{fraction}");
        assert_eq!(kept(moved(0.0, 0.0), moved(100.0, 1.0)), 0.0);
    }
}

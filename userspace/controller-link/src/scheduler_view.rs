// SPDX-License-Identifier: GPL-2.0-only
//! The running scheduler as the jobs of a controller see it.

use std::collections::HashMap;

/// What a CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Thread that runs; 0: none of the scheduler's.
    pub pid: u32,
    /// Virtual time up to which it is charged (ns).
    pub vtime_ns: u64,
}

/// A task at a roll call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskUsage {
    /// Thread id.
    pub pid: u32,
    /// CPU time since the scheduler was loaded (ns).
    pub cpu_ns: u64,
    /// Memory traffic since then (bytes), however it was measured.
    pub bytes: u64,
    /// S: its virtual time (ns).
    pub vtime_ns: u64,
}

/// The running scheduler.
pub trait SchedulerView {
    /// What each CPU does, by number.
    fn cores(&mut self) -> &[Core];

    /// Every task. Costs more than the CPUs.
    ///
    /// # Errors
    /// The scheduler does not tell; in one line.
    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String>;

    /// Charges memory traffic to a task, which may have ended.
    fn charge(&mut self, pid: u32, bytes: u64);

    /// The part of the machine that this CPU time (ns) and traffic (bytes) are
    /// of an interval (ns): the larger of both, 0 to 1.
    fn share(&self, cpu_ns: u64, bytes: u64, interval_ns: u64) -> f64;
}

/// What each task used since an earlier roll call: (CPU ns, bytes). A count
/// that went back is that of another task with the same id.
pub fn used(before: &HashMap<u32, TaskUsage>, now: &[TaskUsage]) -> HashMap<u32, (u64, u64)> {
    let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
    now.iter()
        .map(|now| {
            let before = before.get(&now.pid).copied().unwrap_or_default();
            let cpu_ns = since(now.cpu_ns, before.cpu_ns);
            (now.pid, (cpu_ns, since(now.bytes, before.bytes)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_pid_starts_again() {
        let task = |pid, cpu_ns, bytes| TaskUsage {
            pid,
            cpu_ns,
            bytes,
            vtime_ns: 0,
        };
        let before = [(1, task(1, 10, 100)), (2, task(2, 50, 500))].into();
        let now = [task(1, 15, 100), task(2, 5, 7), task(3, 1, 2)];
        assert_eq!(
            used(&before, &now),
            [(1, (5, 0)), (2, (5, 7)), (3, (1, 2))].into()
        );
    }
}

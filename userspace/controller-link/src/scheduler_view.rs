// SPDX-License-Identifier: GPL-2.0-only
//! What a driver sees of the running scheduler.

use std::collections::HashMap;

use crate::registers::HwId;

/// What runs on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTask {
    /// Thread id; 0: no task of this scheduler.
    pub pid: u32,
    /// The hardware id in the CPU's label; 0: no task of this scheduler.
    pub id: HwId,
    /// The virtual time in the CPU's label (in the unit of the registers).
    pub vtime: u64,
}

/// What a task has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskUsage {
    /// Thread id.
    pub pid: u32,
    /// CPU time since the scheduler was loaded (ns).
    pub cpu_ns: u64,
    /// Memory traffic since then (bytes), from whichever source.
    pub bytes: u64,
    /// What devices moved for it since then, as the scheduler counts it (bytes).
    pub device_bytes: u64,
    /// Virtual time of its traffic (in the unit of the registers).
    pub vtime: u64,
    /// It is a thread of the kernel, which works for other tasks.
    pub kthread: bool,
}

/// What of the controller's count the scheduler is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// Nothing.
    #[default]
    Nothing,
    /// What the CPUs' events miss, if each core labels its own traffic.
    Missed,
    /// All, so traffic should be read soon: no CPU has events.
    All,
}

/// The running scheduler.
pub trait SchedulerView {
    /// What runs on each CPU, by CPU number.
    fn running(&mut self) -> &[RunningTask];

    /// The virtual time of the task that has this id (in the unit of the registers), as it was
    /// last charged. It is kept for tasks that devices move memory for, if there is a mailbox.
    fn device_vtime(&self, id: HwId) -> u64;

    /// Every task. This costs far more than `running`.
    ///
    /// # Errors
    /// Why the tasks cannot be read, in one line.
    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String>;

    /// Gives a task the hardware id that its CPU's label carries from its next tick or
    /// switch on. A task that has ended is skipped.
    fn assign(&mut self, pid: u32, id: HwId);

    /// What is to be charged.
    fn charging(&self) -> Charging;

    /// Charges memory traffic (bytes) to a task. A task that has ended is skipped.
    fn charge(&mut self, pid: u32, bytes: u64);

    /// The dominant share, 0 to 1 of the machine, that this CPU time (ns) and
    /// traffic (bytes) make in an interval (ns).
    fn machine_share(&self, cpu_ns: u64, bytes: u64, interval_ns: u64) -> f64;
}

/// The (CPU time in ns, traffic in bytes) of each task since an earlier scan. A
/// counter that went back belongs to another task with the same thread id.
pub fn usage_since(
    before: &HashMap<u32, TaskUsage>,
    now: &[TaskUsage],
) -> HashMap<u32, (u64, u64)> {
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
            ..TaskUsage::default()
        };
        let before = [(1, task(1, 10, 100)), (2, task(2, 50, 500))].into();
        let now = [task(1, 15, 100), task(2, 5, 7), task(3, 1, 2)];
        assert_eq!(
            usage_since(&before, &now),
            [(1, (5, 0)), (2, (5, 7)), (3, (1, 2))].into()
        );
    }
}

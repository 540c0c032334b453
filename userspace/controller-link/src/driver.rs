// SPDX-License-Identifier: GPL-2.0-only
//! What the link does with its controller: the interface of the two drivers.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    link_stats::LinkStats,
    registers::{Fault, Registers},
    scheduler_view::SchedulerView,
};

/// Uses a controller by polling it at regular intervals.
pub trait Driver: Send {
    /// Time between two polls.
    fn interval(&self) -> Duration;

    /// Tells the driver whether the cores label their traffic themselves.
    fn use_mailbox(&mut self, active: bool) {
        let _ = active;
    }

    /// Prepares a newly connected controller, which may be the same as before.
    ///
    /// # Errors
    /// The controller's fault. The caller connects again later.
    fn connect(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault>;

    /// Writes what changed and reads the traffic that was counted.
    ///
    /// # Errors
    /// As for `connect`.
    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault>;

    /// Clears what would become stale without an agent, and reads the traffic
    /// that was counted until now.
    ///
    /// # Errors
    /// As for `connect`.
    fn shutdown(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault>;
}

/// Locks the statistics. They are counters, so they stay valid even if a thread
/// panicked while it held the lock.
pub fn lock(stats: &Mutex<LinkStats>) -> MutexGuard<'_, LinkStats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

// SPDX-License-Identifier: GPL-2.0-only
//! What a link does with its controller, turn by turn.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    link_stats::LinkStats,
    registers::{Fault, Registers},
    scheduler_view::SchedulerView,
};

/// A driver.
pub trait Driver: Send {
    /// Time between two turns.
    fn interval(&self) -> Duration;

    /// First contact with a controller, which may have been there before.
    ///
    /// # Errors
    /// The controller's; the link then tries again.
    fn connect(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault>;

    /// One round.
    ///
    /// # Errors
    /// As for `connect`.
    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault>;

    /// The last contact: leaves nothing behind that would go stale, and books
    /// what was counted.
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

/// LinkStats are counters: what a thread that died left of them is good.
pub fn lock(stats: &Mutex<LinkStats>) -> MutexGuard<'_, LinkStats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

// SPDX-License-Identifier: GPL-2.0-only
//! What a link does with its controller, turn by turn.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    figures::Figures,
    machine::Machine,
    registers::{Fault, Registers},
};

/// A job.
pub trait Job: Send {
    /// Time between two turns.
    fn interval(&self) -> Duration;

    /// First contact with a controller, which may have been there before.
    ///
    /// # Errors
    /// The controller's; the link then tries again.
    fn greet(
        &mut self,
        registers: &mut dyn Registers,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault>;

    /// One round.
    ///
    /// # Errors
    /// As for `greet`.
    fn turn(
        &mut self,
        registers: &mut dyn Registers,
        machine: &mut dyn Machine,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault>;

    /// The last contact: leaves nothing behind that would go stale, and books
    /// what was counted.
    ///
    /// # Errors
    /// As for `greet`.
    fn settle(
        &mut self,
        registers: &mut dyn Registers,
        machine: &mut dyn Machine,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault>;
}

/// Figures are counters: what a thread that died left of them is good.
pub fn lock(figures: &Mutex<Figures>) -> MutexGuard<'_, Figures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

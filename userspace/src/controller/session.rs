// SPDX-License-Identifier: GPL-2.0-only
//! What a job knows of the controller that it talks to, and how it talks.

use std::sync::Mutex;

use super::{
    figures::{Clock, Figures},
    ids::IdTable,
    image::Image,
    job::lock,
    registers::{Access, Fault, Registers},
};

/// One job's knowledge of its controller.
#[derive(Debug, Default)]
pub struct Session {
    /// What its registers hold.
    pub image: Image,
    /// Its time.
    pub clock: Clock,
    /// The ids in the registers are of our table; before that all traffic is
    /// inherited from an earlier agent.
    pub labelled: bool,
}

impl Session {
    /// The controller may be another one than before.
    pub fn restart(&mut self) {
        self.image.forget();
        self.clock.restart();
    }

    /// Carries out a batch and books what came of it, also if only part of it
    /// was done. `booked` gets the (pid, bytes) that tasks moved.
    pub fn exchange(
        &mut self,
        registers: &mut dyn Registers,
        figures: &Mutex<Figures>,
        ids: &IdTable,
        accesses: &mut [Access],
        booked: &mut Vec<(u32, u64)>,
    ) -> Result<(), Fault> {
        let result = registers.batch(accesses);
        self.image.learn(accesses);
        let mut figures = lock(figures);
        if self.labelled {
            booked.extend(figures.ledger.book(accesses, ids));
        } else {
            figures.ledger.inherit(accesses);
        }
        figures.time_ps += self.clock.tick(result?);
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What a driver knows of the controller that it talks to, and how it talks.

use std::sync::Mutex;

use crate::{
    driver::lock,
    id_table::IdTable,
    link_stats::{Clock, LinkStats},
    register_cache::RegisterCache,
    registers::{Access, Fault, Registers},
};

/// One driver's knowledge of its controller.
#[derive(Debug, Default)]
pub struct Session {
    /// What its registers hold.
    pub cache: RegisterCache,
    /// Its time.
    pub clock: Clock,
    /// The ids in the registers are of our table; before that all traffic is
    /// inherited from an earlier agent.
    pub labelled: bool,
}

impl Session {
    /// The controller may be another one than before.
    pub fn restart(&mut self) {
        self.cache.forget();
        self.clock.restart();
    }

    /// Carries out a batch and books what came of it, also if only part of it
    /// was done. `booked` gets the (pid, bytes) that tasks moved.
    pub fn exchange(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        ids: &IdTable,
        accesses: &mut [Access],
        booked: &mut Vec<(u32, u64)>,
    ) -> Result<(), Fault> {
        let result = registers.batch(accesses);
        self.cache.learn(accesses);
        let mut stats = lock(stats);
        if self.labelled {
            booked.extend(stats.traffic.book(accesses, ids));
        } else {
            stats.traffic.inherit(accesses);
        }
        stats.time_ps += self.clock.tick(result?);
        Ok(())
    }
}

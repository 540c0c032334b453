// SPDX-License-Identifier: GPL-2.0-only
//! What a driver knows about its connected controller.

use std::sync::Mutex;

use crate::{
    driver::lock,
    id_table::IdTable,
    link_stats::{Clock, LinkStats},
    register_cache::RegisterCache,
    registers::{Access, Fault, Registers},
    traffic_accounting::take_absurd,
};

/// State of one connection.
#[derive(Debug, Default)]
pub struct Session {
    /// The last known content of its registers.
    pub cache: RegisterCache,
    /// Its clock.
    pub clock: Clock,
    /// Whether the registers hold ids of our table. Until then all traffic is
    /// inherited from an earlier agent.
    pub ids_written: bool,
}

impl Session {
    /// Starts anew, because the controller may be another one.
    pub fn restart(&mut self) {
        self.cache.forget();
        self.clock.restart();
    }

    /// Carries out a batch and books the traffic that it read, even if the batch
    /// failed half-way. Appends the (thread id, bytes) to charge to `booked`.
    ///
    /// # Errors
    /// As for [`Registers::batch`].
    pub fn run_batch(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        ids: &IdTable,
        accesses: &mut [Access],
        booked: &mut Vec<(u32, u64)>,
    ) -> Result<(), Fault> {
        let result = registers.batch(accesses);
        self.cache.learn(accesses);
        let absurd = take_absurd(accesses);
        let mut stats = lock(stats);
        if self.ids_written {
            booked.extend(stats.traffic.book(accesses, ids));
        } else {
            stats.traffic.inherit(accesses);
        }
        stats.time_ps += self.clock.tick(result?);
        absurd.map_or(Ok(()), |what| Err(Fault::Protocol(what)))
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The memory controller that schedules by virtual time (thesis 3.2, 4.4), seen
//! from the agent: what its registers are told, and what is read from them.
//!
//! * [`target`] names a controller; [`registers`] is what all have in common;
//!   [`socket`] (with [`wire`]) and [`mmio`] (with [`pci`]) reach one.
//! * [`ids`], [`image`] and [`ledger`] are the policies: who has which hardware
//!   id, what has to be written, whose the bytes are. They do no I/O.
//! * [`session`] is what a job knows of its controller.
//! * [`forward`] and [`shadow`] are the two [`job`]s made of them, and [`link`]
//!   does a job for as long as it is wanted, whatever becomes of the controller.

pub mod figures;
pub mod forward;
pub mod ids;
pub mod image;
pub mod job;
pub mod ledger;
pub mod link;
pub mod machine;
pub mod mmio;
pub mod pci;
pub mod registers;
pub mod session;
pub mod shadow;
pub mod socket;
pub mod target;
pub mod wire;

#[cfg(test)]
mod fake;

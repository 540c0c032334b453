// SPDX-License-Identifier: GPL-2.0-only
//! The agent's link to a memory controller that schedules by virtual time
//! (thesis 3.2 and 4.4). It writes the registers that name the running tasks and
//! reads the registers that count their traffic.
//!
//! * [`interface`] holds the constants of the registers and of the socket
//!   protocol, [`registers`] the trait of everything that reaches a controller.
//! * [`target`] names a controller. [`socket`] (with [`wire`]) and [`mmio`]
//!   (with [`pci`]) reach one. [`pagemap`] finds the pages of its mailbox.
//! * [`id_table`], [`register_cache`] and [`traffic_accounting`] decide which
//!   task has which hardware id, what must be written, and which task caused
//!   which bytes. They do no I/O.
//! * [`sweep`] decides which traffic is read, and when. [`device_users`] are the tasks
//!   whose virtual times no core carries.
//! * [`session`] holds what a driver knows about its controller.
//! * [`forwarder`] (`--controller`) and [`shadow`] (`--shadow`) are the two
//!   [`driver`]s. A [`reconnector`] runs a driver in a separate thread and
//!   connects again whenever the controller is lost.
//! * [`scheduler_view`] is what a driver reads of the running scheduler;
//!   [`link_stats`] is what the agent reads of the link.

pub mod device_users;
pub mod driver;
pub mod forwarder;
pub mod id_table;
pub mod interface;
pub mod link_stats;
pub mod missed;
pub mod mmio;
pub mod pagemap;
pub mod pci;
pub mod reconnector;
pub mod register_cache;
pub mod registers;
pub mod scheduler_view;
pub mod session;
pub mod shadow;
pub mod socket;
pub mod sweep;
pub mod target;
pub mod traffic_accounting;
pub mod wire;

#[cfg(test)]
mod fake;

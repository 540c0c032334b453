// SPDX-License-Identifier: GPL-2.0-only
//! The agent of scx_drfq without its mechanism: sensors that read the machine,
//! pure policies, and the figures that are shown.
//!
//! Nothing here loads or calls BPF; the binary crate `scx_drfq` does. Sensors
//! take the directory that stands for `/`, policies are functions of their
//! arguments, so that both are tested by tables.
//!
//! Units are part of the names: `_ns` nanoseconds, `_bytes` bytes,
//! `_bytes_per_s` bytes per second (1 GB/s is 1e9), `_pct` percent of one CPU
//! or of the machine, as said at each field.

pub mod bandwidth;
pub mod config;
pub mod controller;
pub mod fair_share;
pub mod options;
pub mod sense;
pub mod stats;

/// Version of the project and the commit that it was built from, if known.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("DRFQ_GIT_SUFFIX"));

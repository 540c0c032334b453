// SPDX-License-Identifier: GPL-2.0-only
//! The statistics of scx_drfq: pure functions from two samples of what the
//! scheduler counted to what the stats socket serves.
//!
//! A name that ends in `_ns` is in nanoseconds, `_ps` in picoseconds, `_bytes`
//! in bytes, `_bytes_per_s` in bytes per second (1 GB/s is 1e9), `_pct` in
//! percent of one CPU or of the machine, as the field says.

pub mod controller_report;
pub mod events;
pub mod interval;
pub mod report;
pub mod sample;

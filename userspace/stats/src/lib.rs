// SPDX-License-Identifier: GPL-2.0-only
//! The statistics of scx_drfq: pure functions from two samples of what the
//! scheduler counted to what the stats socket serves.
//!
//! A name ends in its unit: `_ns`, `_ps`, `_bytes` or `_bytes_per_s` (1 GB/s is
//! 1e9). `_pct` is percent of one CPU or of the machine, as the field says.

pub mod controller_report;
pub mod events;
pub mod interval;
pub mod mba_report;
pub mod report;
pub mod rows;
pub mod sample;

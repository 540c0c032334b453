// SPDX-License-Identifier: GPL-2.0-only
//! What `scx_drfq top` shows: snapshots of the running scheduler and their source.

pub mod snapshot;
pub mod source;

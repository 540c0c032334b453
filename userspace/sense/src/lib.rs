// SPDX-License-Identifier: GPL-2.0-only
//! What scx_drfq reads from the machine. Sensors never act. Each takes the
//! directory that stands for `/`, so that tests can show it another machine.

mod counter;
pub mod cpu_model;
pub mod dmi;
pub mod perf_event;
pub mod queues;
pub mod sched_ext;
pub mod silent_counters;
pub mod topology;
pub mod traffic_counters;
pub mod traffic_events;

#[cfg(test)]
mod fake_root;

use std::path::PathBuf;

/// The directory that stands for `/`: `$SCX_SYSFS_PREFIX`, the variable that
/// the other scx tools use, or `/` itself.
pub fn root() -> PathBuf {
    let prefix = std::env::var_os("SCX_SYSFS_PREFIX").unwrap_or_default();
    if prefix.is_empty() {
        PathBuf::from("/")
    } else {
        PathBuf::from(prefix)
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What the agent reads from the machine. Sensors never act.

pub mod cpu_model;
pub mod event;
pub mod kernel;
pub mod perf;
pub mod resctrl;
pub mod topology;

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

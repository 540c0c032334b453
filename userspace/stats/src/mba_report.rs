// SPDX-License-Identifier: GPL-2.0-only
//! Statistics of the loop that shares memory bandwidth by throttling (MBA).

use scx_stats_derive::Stats;
use serde::{Deserialize, Serialize};

/// Why a loop only observes, in [`Mba::state`]. It would take the best traffic so far for full memory.
pub const NOT_MEASURED: &str = "when memory is full is not known";

/// Why a loop only observes, in [`Mba::state`]. Nothing tells what the levels are of the memory.
pub const NO_SCALE: &str = "levels of MBA are absolute here, and the memory bandwidth is unknown";

/// The loop. `--help-stats` prints the descriptions.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: sharing of memory bandwidth by throttling (--mba)")]
pub struct Mba {
    #[stat(desc = "off, observe, on or hold, with the reason", _om_skip)]
    pub state: String,
    #[stat(desc = "domains of memory bandwidth")]
    pub domains: u32,
    #[stat(desc = "domains whose memory is saturated")]
    pub saturated: u32,
    #[stat(desc = "domains in which throttles move")]
    pub acting: u32,
    #[stat(desc = "traffic of all domains in the last period (bytes per second)")]
    pub bytes_per_s: f64,
    #[stat(desc = "traffic that counts as full (bytes per second; 0: unknown)")]
    pub capacity_bytes_per_s: f64,
    #[stat(desc = "mean number of users' tasks that ran or waited for a CPU")]
    pub runnable: f64,
    #[stat(desc = "groups that are monitored, heaviest first")]
    pub groups: Vec<MbaGroup>,
    #[stat(desc = "periods since the scheduler was loaded")]
    pub periods: u64,
    #[stat(desc = "schemata written since the scheduler was loaded")]
    pub writes: u64,
    #[stat(desc = "groups moved to another class since the scheduler was loaded")]
    pub moves: u64,
    #[stat(desc = "operations of resctrl that failed since the scheduler was loaded")]
    pub errors: u64,
    #[stat(desc = "tasks left alone because another program has put them into a group")]
    pub foreign: u64,
}

/// A group of tasks that shares memory bandwidth as one.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: a group of tasks that shares memory bandwidth")]
pub struct MbaGroup {
    #[stat(
        desc = "its cgroup, or the name and id of its process or task",
        _om_skip
    )]
    pub name: String,
    #[stat(desc = "share by weight; those of all groups that are not idle add up to 1")]
    pub weight: f64,
    #[stat(desc = "traffic in the last period (bytes per second)")]
    pub bytes_per_s: f64,
    #[stat(desc = "traffic counted since it is monitored (bytes)")]
    pub bytes: u64,
    #[stat(desc = "dominant share in the last period (percent of the machine)")]
    pub dominant_pct: f64,
    #[stat(
        desc = "part of its bandwidth that the throttle leaves (percent; the least of all domains)"
    )]
    pub level_pct: f64,
    #[stat(desc = "tasks in the group")]
    pub tasks: u64,
}

// SPDX-License-Identifier: GPL-2.0-only
//! Statistics of a memory controller that scx_drfq drives or asks.

use drfq_controller_link::link_stats::{LinkState, LinkStats};
use scx_stats_derive::Stats;
use serde::{Deserialize, Serialize};

/// A link to a memory controller. `--help-stats` prints the descriptions.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[serde(default)]
#[stat(desc = "scx_drfq: a memory controller")]
pub struct Controller {
    #[stat(
        desc = "off, or the controller and the state of the link to it",
        _om_skip
    )]
    pub state: String,
    #[stat(desc = "1 if connected")]
    pub connected: u32,
    #[stat(desc = "traffic over the interval (bytes per second of its time)")]
    pub bytes_per_s: f64,
    #[stat(desc = "traffic that was read since the agent started (bytes)")]
    pub bytes: u64,
    #[stat(desc = "part of that traffic for tasks that share a hardware id (bytes)")]
    pub shared_bytes: u64,
    #[stat(desc = "part of that traffic that is attributed to no task (bytes)")]
    pub unattributed_bytes: u64,
    #[stat(desc = "part of that traffic that was counted before this agent started (bytes)")]
    pub inherited_bytes: u64,
    #[stat(desc = "tasks that hold a hardware id")]
    pub ids: u64,
    #[stat(desc = "time of the controller's clock while it was connected (ps)")]
    pub time_ps: u64,
    #[stat(desc = "polls of the registers since the agent started")]
    pub polls: u64,
    #[stat(desc = "1 if each CPU labels its traffic itself, at each switch")]
    pub mailbox: u32,
    #[stat(desc = "time between two copies of the CPUs' labels (ns of its time); 0: no copies")]
    pub copy_interval_ns: f64,
    #[stat(desc = "registers written since the agent started")]
    pub writes: u64,
    #[stat(desc = "times that the connection was lost")]
    pub losses: u64,
    #[stat(desc = "CPU time that the link took since the agent started (ns)")]
    pub cpu_ns: u64,
}

impl Controller {
    /// A link over the interval between two samples.
    pub fn over(prev: &LinkStats, cur: &LinkStats) -> Self {
        let bytes = cur.traffic.total();
        // What it had counted before the agent came has no part in a rate.
        let moved = |link: &LinkStats| link.traffic.total() - link.traffic.inherited;
        Self {
            state: cur.state_text(),
            connected: (cur.state == LinkState::Connected).into(),
            bytes_per_s: per_s(moved(cur).saturating_sub(moved(prev)), prev, cur),
            bytes,
            shared_bytes: cur.traffic.shared,
            unattributed_bytes: cur.traffic.unattributed,
            inherited_bytes: cur.traffic.inherited,
            ids: cur.ids,
            time_ps: cur.time_ps,
            polls: cur.polls,
            mailbox: cur.mailbox.into(),
            copy_interval_ns: copy_interval_ns(prev, cur),
            writes: cur.writes,
            losses: cur.losses,
            cpu_ns: cur.cpu_ns,
        }
    }
}

/// Mean time between two copies of the labels; by so much can a label be late.
fn copy_interval_ns(prev: &LinkStats, cur: &LinkStats) -> f64 {
    match cur.polls.saturating_sub(prev.polls) {
        0 => 0.0,
        _ if cur.mailbox => 0.0,
        polls => cur.time_ps.saturating_sub(prev.time_ps) as f64 / 1e3 / polls as f64,
    }
}

/// Traffic that was counted for a task between two samples (bytes per second of
/// the controller's time).
pub fn rate(prev: &LinkStats, cur: &LinkStats, pid: u32) -> f64 {
    let bytes = |link: &LinkStats| link.traffic.by_pid.get(&pid).copied().unwrap_or(0);
    // A count that went back belongs to another task with the same thread id.
    let since = bytes(cur).checked_sub(bytes(prev));
    per_s(since.unwrap_or_else(|| bytes(cur)), prev, cur)
}

fn per_s(bytes: u64, prev: &LinkStats, cur: &LinkStats) -> f64 {
    match cur.time_ps.saturating_sub(prev.time_ps) {
        0 => 0.0,
        ps => bytes as f64 * 1e12 / ps as f64,
    }
}

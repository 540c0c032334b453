// SPDX-License-Identifier: GPL-2.0-only
//! Statistics of a link and its controller.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::traffic_accounting::TrafficAccounting;

/// State of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkState {
    /// Not asked for.
    #[default]
    Off,
    /// Connected.
    Connected,
    /// Lost, and trying to connect again; why it was lost.
    Lost(String),
}

/// Totals since the agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    /// The controller as the user named it.
    pub target: String,
    /// State of the link.
    pub state: LinkState,
    /// Polls.
    pub polls: u64,
    /// How often the controller was lost.
    pub losses: u64,
    /// Time of the controller's clock while it was connected (ps).
    pub time_ps: u64,
    /// CPU time of the thread that talks to it (ns).
    pub cpu_ns: u64,
    /// Whether the cores label their traffic themselves.
    pub mailbox: bool,
    /// Registers written.
    pub writes: u64,
    /// Tasks that hold a hardware id.
    pub ids: u64,
    /// Bytes that the controller counted, by their cause.
    pub traffic: TrafficAccounting,
    /// Shadow mode: the rate that the model was asked to make for each task
    /// (bytes per second, by thread id).
    pub demand_bytes_per_s: HashMap<u32, u64>,
}

impl LinkStats {
    /// The state in one word or one clause.
    pub fn state_text(&self) -> String {
        match &self.state {
            LinkState::Off => "off".into(),
            LinkState::Connected => format!("{}: connected", self.target),
            LinkState::Lost(why) => format!("{}: lost: {why}", self.target),
        }
    }
}

/// Measures intervals of the controller's clock, which restarts with its server.
#[derive(Debug, Default)]
pub struct Clock {
    last_ps: Option<u64>,
}

impl Clock {
    /// Time since the last call (ps); 0 after a restart.
    pub fn tick(&mut self, now_ps: u64) -> u64 {
        let last_ps = self.last_ps.replace(now_ps);
        last_ps.map_or(0, |last_ps| now_ps.saturating_sub(last_ps))
    }

    /// Makes the next reading the first of a new interval.
    pub fn restart(&mut self) {
        self.last_ps = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_clock_adds_no_time() {
        let mut clock = Clock::default();
        assert_eq!([5, 8, 8, 20].map(|ps| clock.tick(ps)), [0, 3, 0, 12]);
        clock.restart();
        assert_eq!([3, 4].map(|ps| clock.tick(ps)), [0, 1]);
        assert_eq!(clock.tick(2), 0, "a clock that went back");
    }
}

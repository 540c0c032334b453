// SPDX-License-Identifier: GPL-2.0-only
//! What a link tells about itself and its controller.

use std::collections::HashMap;

use crate::traffic_accounting::TrafficAccounting;

/// How a link is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It was not asked for.
    #[default]
    Off,
    /// It works.
    Connected,
    /// It tries to reach the controller again; why it has to.
    Lost(String),
}

/// Totals since the agent started.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// The controller, as the user named it.
    pub target: String,
    /// How the link is.
    pub state: LinkState,
    /// Rounds of register accesses.
    pub turns: u64,
    /// Times that the controller was lost.
    pub losses: u64,
    /// Time of the controller's clock while it was connected (ps).
    pub time_ps: u64,
    /// CPU time of the thread that talks to it (ns).
    pub cpu_ns: u64,
    /// Registers written.
    pub writes: u64,
    /// Tasks that have a hardware id of their own.
    pub ids: u64,
    /// Whose the bytes are that the controller counted.
    pub traffic: TrafficAccounting,
    /// Shadow mode: what each task asks for (bytes per second).
    pub demand_bytes_per_s: HashMap<u32, u64>,
}

impl LinkStats {
    /// One word, or one clause.
    pub fn state_text(&self) -> String {
        match &self.state {
            LinkState::Off => "off".into(),
            LinkState::Connected => format!("{}: connected", self.target),
            LinkState::Lost(why) => format!("{}: lost: {why}", self.target),
        }
    }
}

/// Adds up the time of a clock that starts anew with its server.
#[derive(Debug, Default)]
pub struct Clock {
    last_ps: Option<u64>,
}

impl Clock {
    /// The time since the last call (ps); 0 if the clock is new.
    pub fn tick(&mut self, now_ps: u64) -> u64 {
        let last_ps = self.last_ps.replace(now_ps);
        last_ps.map_or(0, |last_ps| now_ps.saturating_sub(last_ps))
    }

    /// The next reading is of another clock, or after a gap.
    pub fn restart(&mut self) {
        self.last_ps = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_over_a_restart() {
        let mut clock = Clock::default();
        assert_eq!([5, 8, 8, 20].map(|ps| clock.tick(ps)), [0, 3, 0, 12]);
        clock.restart();
        assert_eq!([3, 4].map(|ps| clock.tick(ps)), [0, 1]);
        assert_eq!(clock.tick(2), 0, "a clock that went back");
    }
}

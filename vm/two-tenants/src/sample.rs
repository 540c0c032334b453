// SPDX-License-Identifier: GPL-2.0-only
//! What the guest tells the host: a line of JSON per interval.

use serde::{Deserialize, Serialize};

/// The scheduler of an interval's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheduler {
    /// The kernel's own.
    #[default]
    Eevdf,
    /// scx_drfq.
    Drfq,
}

/// What a tenant has used since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time by the cgroup's account (us).
    pub cpu_us: u64,
    /// Memory traffic by the kernel's bandwidth monitoring (bytes).
    pub bytes: u64,
    /// Weight of the cgroup.
    pub weight: u32,
    /// Processes.
    pub processes: u32,
}

/// The machine at one moment, and the requests served since the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The guest's clock (ns).
    pub at_ns: u64,
    /// Which scheduler runs.
    pub scheduler: Scheduler,
    /// The tenant with requests.
    pub service: Usage,
    /// The tenant that copies memory.
    pub hogs: Usage,
    /// From the arrival of each request to its end (us).
    pub latencies_us: Vec<u64>,
    /// What the user should know.
    pub message: Option<String>,
}

/// What the host asks of the guest: a line of text each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Load scx_drfq.
    Load,
    /// Unload it.
    Unload,
    /// So many hogs shall run.
    Hogs(u32),
    /// The service's cgroup gets this weight.
    Weight(u32),
    /// End.
    Quit,
}

impl Order {
    /// The order as a line.
    pub fn line(self) -> String {
        match self {
            Order::Load => "load\n".into(),
            Order::Unload => "unload\n".into(),
            Order::Hogs(count) => format!("hogs {count}\n"),
            Order::Weight(weight) => format!("weight {weight}\n"),
            Order::Quit => "quit\n".into(),
        }
    }

    /// Reads a line; none if it is not an order.
    pub fn read(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "load" => Some(Order::Load),
            "unload" => Some(Order::Unload),
            "hogs" => number.parse().ok().map(Order::Hogs),
            "weight" => number.parse().ok().map(Order::Weight),
            "quit" => Some(Order::Quit),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written_and_other_text_is_none() {
        for order in [
            Order::Load,
            Order::Unload,
            Order::Hogs(3),
            Order::Weight(250),
            Order::Quit,
        ] {
            assert_eq!(Order::read(order.line().trim_end()), Some(order));
        }
        for other in ["", "hogs", "hogs x", "weight -1", "loads"] {
            assert_eq!(Order::read(other), None, "{other}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Counters that open without an error and never count, as those of some virtual machines do.

use std::fmt;

use crate::topology::cpu_list;

/// Packets that a CPU has started before a counter of its reads may be called silent. Each packet
/// brings at least a few lines into the cache.
const PACKETS: u64 = 1000;

/// Events that the CPU's first counter has counted before its second one may be called silent.
/// Even a task that only reads makes its kernel write now and then.
const FIRST_EVENTS: u64 = 1_000_000;

/// What a counter has counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its CPU.
    pub cpu: u32,
    /// Its number on that CPU, from 0.
    pub index: usize,
    /// What it has counted.
    pub events: u64,
    /// What the CPU's first counter has counted.
    pub first_events: u64,
    /// Packets that the CPU has started.
    pub packets: u64,
}

impl Count {
    /// Whether the counter seems never to count.
    pub fn is_silent(&self) -> bool {
        let enough = match self.index {
            0 => self.packets >= PACKETS,
            _ => self.first_events >= FIRST_EVENTS,
        };
        self.events == 0 && enough
    }
}

/// An event that seems never to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Name of the event.
    pub event: String,
    /// The CPUs, ascending.
    pub cpus: Vec<u32>,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is never counted on CPUs {}, so that traffic is not charged there; a virtual \
             machine's PMU may offer events that it does not count (see --perf-event)",
            self.event,
            cpu_list(self.cpus.iter().copied())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_silent_once_its_cpu_has_done_enough() {
        let count = |index, events, first_events, packets| Count {
            cpu: 0,
            index,
            events,
            first_events,
            packets,
        };
        for (count, silent) in [
            (count(0, 0, 0, PACKETS), true),
            (count(0, 0, 0, PACKETS - 1), false),
            (count(0, 1, 1, PACKETS), false),
            (count(1, 0, FIRST_EVENTS, 1), true),
            (count(1, 0, FIRST_EVENTS - 1, PACKETS), false),
            (count(1, 1, FIRST_EVENTS, PACKETS), false),
        ] {
            assert_eq!(count.is_silent(), silent, "{count:?}");
        }
    }

    #[test]
    fn a_silence_is_one_line_with_its_cpus() {
        let silence = Silence {
            event: "raw:0x1234".into(),
            cpus: vec![0, 1, 3],
        };
        let line = silence.to_string();
        assert!(
            line.starts_with("raw:0x1234 is never counted on CPUs 0-1,3,"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}

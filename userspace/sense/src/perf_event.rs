// SPDX-License-Identifier: GPL-2.0-only
//! Events that a perf counter can count, by name.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// `PERF_TYPE_*` and the config of perf_event_open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Generalized hardware event, whose encoding the kernel knows.
    Hardware(u64),
    /// Generalized cache event: cache | operation << 8 | result << 16.
    Cache(u64),
    /// Encoding that is specific to the CPU model.
    Raw {
        /// Event, unit mask and modifiers.
        config: u64,
        /// On Intel, which responses of the uncore count (MSR_OFFCORE_RSP_x); 0: none.
        config1: u64,
    },
    /// Software event, which the kernel counts on any machine. It is no memory
    /// traffic, but a stand-in for trials without a PMU.
    Software(u64),
}

/// An event to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfEvent {
    /// The name that users write and see.
    pub name: String,
    /// Its encoding.
    pub kind: EventKind,
}

/// Names as perf(1) writes them, with the numbers of linux/perf_event.h.
const NAMES: &[(&str, EventKind)] = &[
    ("cache-misses", EventKind::Hardware(3)),
    ("cache-references", EventKind::Hardware(2)),
    ("LLC-loads", EventKind::Cache(0x0_0002)),
    ("LLC-load-misses", EventKind::Cache(0x1_0002)),
    ("LLC-stores", EventKind::Cache(0x0_0102)),
    ("LLC-store-misses", EventKind::Cache(0x1_0102)),
    ("node-loads", EventKind::Cache(0x0_0006)),
    ("node-load-misses", EventKind::Cache(0x1_0006)),
    ("cpu-clock", EventKind::Software(0)),
    ("task-clock", EventKind::Software(1)),
    ("page-faults", EventKind::Software(2)),
    ("context-switches", EventKind::Software(3)),
    ("cpu-migrations", EventKind::Software(4)),
    ("minor-faults", EventKind::Software(5)),
    ("major-faults", EventKind::Software(6)),
];

impl PerfEvent {
    /// Whether the event is only a stand-in for memory traffic.
    pub fn is_stand_in(&self) -> bool {
        matches!(self.kind, EventKind::Software(_))
    }

    /// Whether programs may run for long without it: it counts streaming stores alone.
    pub fn may_never_occur(&self) -> bool {
        matches!(
            self.kind,
            EventKind::Raw {
                config1: 0x1_0800,
                ..
            } | EventKind::Raw { config: 0x0150, .. }
        )
    }

    /// Last-level cache misses as the kernel defines them for the CPU.
    pub fn cache_misses() -> Self {
        Self {
            name: "cache-misses".into(),
            kind: EventKind::Hardware(3),
        }
    }
}

impl FromStr for PerfEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = match text.strip_prefix("raw:") {
            Some(numbers) => raw(numbers),
            None => NAMES
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, kind)| *kind),
        };
        match kind {
            Some(kind) => Ok(Self {
                name: text.into(),
                kind,
            }),
            None => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "expected one of auto, none, raw:0x... (an event), raw:0x...:0x... (with its \
                     config1), {}",
                    names.join(", ")
                ))
            }
        }
    }
}

/// The numbers of `raw:0xCONFIG` or `raw:0xCONFIG:0xCONFIG1`.
fn raw(numbers: &str) -> Option<EventKind> {
    let (config, config1) = numbers.split_once(':').unwrap_or((numbers, ""));
    let hex = |text: &str| {
        let digits = text.strip_prefix("0x")?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        (number != 0 && !digits.starts_with('+')).then_some(number)
    };
    let config1 = match config1 {
        "" if !numbers.contains(':') => 0,
        text => hex(text)?,
    };
    let config = hex(config)?;
    Some(EventKind::Raw { config, config1 })
}

/// Events of a CPU at most: BPF reads so many counters (DRFQ_PMU_EVENTS of bpf/intf.h).
pub const MAX_EVENTS: usize = 2;

/// How the events that count memory traffic are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventChoice {
    /// The best known events of the CPU model, or none if they cannot be counted.
    Auto,
    /// No event, so memory traffic of tasks is not measured.
    None,
    /// These events, one or two. It is an error if they cannot be counted.
    Events(Vec<PerfEvent>),
}

impl FromStr for EventChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            names => {
                let events: Vec<_> = names.split('+').map(str::parse).collect::<Result<_, _>>()?;
                match events.len() {
                    1..=MAX_EVENTS => Ok(Self::Events(events)),
                    _ => Err(format!("expected at most {MAX_EVENTS} events")),
                }
            }
        }
    }
}

impl fmt::Display for EventChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Events(events) => f.write_str(&names(events)),
        }
    }
}

/// The names of events, as users write them.
pub fn names(events: &[PerfEvent]) -> String {
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    names.join("+")
}

impl Serialize for EventChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which events count memory traffic, as the user asked for it. What the machine
/// offers decides what becomes of it; see [`crate::traffic_counters`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficSource {
    /// The events, or how they are chosen.
    pub event: EventChoice,
    /// Bytes that one event stands for; none: the default of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_bytes: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_its_encoding() {
        for (text, kind) in [
            ("cache-misses", EventKind::Hardware(3)),
            ("LLC-load-misses", EventKind::Cache(0x10002)),
            ("page-faults", EventKind::Software(2)),
            (
                "raw:0x4844",
                EventKind::Raw {
                    config: 0x4844,
                    config1: 0,
                },
            ),
            (
                "raw:0x1b7:0x3fbc0007f7",
                EventKind::Raw {
                    config: 0x1b7,
                    config1: 0x3f_bc00_07f7,
                },
            ),
        ] {
            let event: PerfEvent = text.parse().unwrap();
            assert_eq!(event.kind, kind, "{text}");
            assert_eq!(event.name, text);
        }
    }

    #[test]
    fn only_a_software_event_is_a_stand_in() {
        assert!("page-faults".parse::<PerfEvent>().unwrap().is_stand_in());
        assert!(!"cache-misses".parse::<PerfEvent>().unwrap().is_stand_in());
        assert!(!"raw:0x1".parse::<PerfEvent>().unwrap().is_stand_in());
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for text in [
            "",
            "cache",
            "raw:",
            "raw:0x",
            "raw:0x0",
            "raw:12",
            "raw:0xfg",
            "raw:0x+1",
            "raw:0x1:",
            "raw:0x1:0x0",
            "raw::0x1",
            "raw:0x1:0x2:0x3",
            "cache-misses+",
            "+",
        ] {
            let error = text.parse::<EventChoice>().expect_err(text);
            assert!(error.contains("page-faults"), "{error}");
        }
    }

    #[test]
    fn more_than_two_events_are_refused() {
        let three = "cache-misses+cache-references+page-faults";
        assert_eq!(
            three.parse::<EventChoice>(),
            Err("expected at most 2 events".into())
        );
    }

    #[test]
    fn a_choice_is_shown_as_it_was_written() {
        for text in ["auto", "none", "page-faults", "cache-misses+raw:0x1:0x2"] {
            assert_eq!(text.parse::<EventChoice>().unwrap().to_string(), text);
        }
    }
}

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
    Raw(u64),
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
        let kind = match text.strip_prefix("raw:0x") {
            Some(hex) => u64::from_str_radix(hex, 16)
                .ok()
                .filter(|config| *config != 0 && !hex.starts_with('+'))
                .map(EventKind::Raw),
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
                    "expected one of auto, none, raw:0x..., {}",
                    names.join(", ")
                ))
            }
        }
    }
}

/// How the event that counts memory traffic is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventChoice {
    /// The best known event of the CPU model, or none if it cannot be counted.
    Auto,
    /// No event, so memory traffic of tasks is not measured.
    None,
    /// This event. It is an error if it cannot be counted.
    Event(PerfEvent),
}

impl FromStr for EventChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            name => name.parse().map(Self::Event),
        }
    }
}

impl fmt::Display for EventChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Event(event) => &event.name,
        })
    }
}

impl Serialize for EventChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which event counts memory traffic, as the user asked for it. What the machine
/// offers decides what becomes of it; see [`crate::traffic_counters`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficSource {
    /// The event, or how it is chosen.
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
            ("raw:0x4844", EventKind::Raw(0x4844)),
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
            "", "cache", "raw:", "raw:0x", "raw:0x0", "raw:12", "raw:0xfg", "raw:0x+1",
        ] {
            let error = text.parse::<EventChoice>().expect_err(text);
            assert!(error.contains("page-faults"), "{error}");
        }
    }

    #[test]
    fn a_choice_is_shown_as_it_was_written() {
        for text in ["auto", "none", "page-faults"] {
            assert_eq!(text.parse::<EventChoice>().unwrap().to_string(), text);
        }
    }
}

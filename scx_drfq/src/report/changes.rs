// SPDX-License-Identifier: GPL-2.0-only
//! What changed at a time: means before it against means after it.

use std::{fmt::Write, ops::Range};

use drfq_view::entity::clean;

use super::history::{Entity, History, Metric, POINTS};
use crate::{bandwidth::format_bytes_per_s, local_time};

/// How far before and after a time means reach (ns).
const WINDOW_NS: u64 = 60_000_000_000;

/// Entities and events that are told.
const MOST: usize = 8;

/// The changes at a time.
#[derive(Debug)]
pub struct Changes {
    /// The time (ns since 1970), and whether the user chose it.
    pub at: u64,
    pub chosen: bool,
    /// The entities that changed most.
    pub entities: Vec<Change>,
    /// Events, with their rates before and after (per second).
    pub events: Vec<(String, f64, f64)>,
    /// Loads of the scheduler within the windows (ns since 1970).
    pub loads: Vec<u64>,
    /// Why there is no comparison: what has no snapshot.
    unrecorded: Option<&'static str>,
    windows: (u64, u64),
}

/// An entity before and after.
#[derive(Debug)]
pub struct Change {
    pub name: String,
    /// CPU time (percent of one CPU).
    pub cpu: (f64, f64),
    /// Memory traffic (bytes per second).
    pub bytes: (f64, f64),
    /// Waiting for a CPU (percent).
    pub wait: (f64, f64),
    /// Held by delayed wake-up (percent).
    pub held: (f64, f64),
}

/// The time and the ends of the windows around it (ns since 1970) in a recording of this span.
pub fn windows((begin, end): (u64, u64), at: u64) -> (u64, (u64, u64)) {
    let at = at.clamp(begin, end);
    let from = at.saturating_sub(WINDOW_NS).max(begin);
    (at, (from, (at + WINDOW_NS).min(end)))
}

/// The changes at `at` within a minute; without it, those of the second half of the
/// recording against the first. The points of `history` must be closer together than a minute.
pub fn around(history: &History, at: Option<u64>) -> Changes {
    let (begin, end) = history.span;
    let middle = begin + (end - begin) / 2;
    let halves = (middle, history.span);
    let (time, (from, to)) = at.map_or(halves, |at| windows(history.span, at));
    let point = history.point(time).clamp(1, POINTS - 1);
    let before = history.point(from).min(point - 1)..point;
    let after = point..history.point(to).max(point) + 1;
    let recorded = [&before, &after].map(|points| history.recorded(points.clone()));
    let mut changes = Changes {
        at: time,
        chosen: at.is_some(),
        entities: Vec::new(),
        events: Vec::new(),
        loads: history.loads.clone(),
        unrecorded: match recorded {
            [true, true] => None,
            [false, true] => Some("before"),
            [true, false] => Some("after"),
            [false, false] => Some("before and after"),
        },
        windows: (time - from, to - time),
    };
    changes.loads.retain(|load| (from..=to).contains(load));
    if changes.unrecorded.is_none() {
        changes.entities = entities(history, &before, &after);
        changes.events = events(history, &before, &after);
    }
    changes
}

/// The entities that changed most.
fn entities(history: &History, before: &Range<usize>, after: &Range<usize>) -> Vec<Change> {
    let mut entities: Vec<Change> = history
        .entities
        .iter()
        .map(|(name, entity)| change(history, name, entity, before, after))
        .collect();
    let most = entities
        .iter()
        .map(|c| c.bytes.0.max(c.bytes.1))
        .fold(1.0, f64::max);
    let size = |change: &Change| {
        let by = |pair: (f64, f64)| (pair.1 - pair.0).abs();
        by(change.cpu) + by(change.wait) + by(change.held) + 100.0 * by(change.bytes) / most
    };
    entities.sort_by(|a, b| size(b).total_cmp(&size(a)));
    entities.retain(|change| size(change) > 0.5);
    entities.truncate(MOST);
    entities
}

/// The events whose rates changed most.
fn events(
    history: &History,
    before: &Range<usize>,
    after: &Range<usize>,
) -> Vec<(String, f64, f64)> {
    let rate = |sums: &[f64], points: &Range<usize>| history.event_mean(sums, points.clone());
    let mut events: Vec<_> = history
        .events()
        .map(|(name, sums)| (name.to_owned(), rate(sums, before), rate(sums, after)))
        .collect();
    let grown =
        |event: &(String, f64, f64)| (event.2 - event.1).abs() / (event.1 + event.2).max(0.1);
    events.sort_by(|a, b| grown(b).total_cmp(&grown(a)));
    events.retain(|event| grown(event) > 0.2);
    events.truncate(MOST);
    events
}

fn change(
    history: &History,
    name: &str,
    entity: &Entity,
    before: &Range<usize>,
    after: &Range<usize>,
) -> Change {
    let pair = |metric| {
        let mean = |points: &Range<usize>| history.mean(entity, metric, points.clone());
        (mean(before), mean(after))
    };
    Change {
        name: name.to_owned(),
        cpu: pair(Metric::Cpu),
        bytes: pair(Metric::Bytes),
        wait: pair(Metric::Wait),
        held: pair(Metric::Held),
    }
}

impl Changes {
    /// A title in words.
    pub fn title(&self) -> String {
        let seconds = |ns: u64| ns.div_ceil(1_000_000_000);
        let (before, after) = (seconds(self.windows.0), seconds(self.windows.1));
        let time = local_time::text(self.at);
        match self.chosen {
            true => format!("At {time}: {before} s before against {after} s after"),
            false => format!("First half against second half, from {time} on"),
        }
    }

    /// Why there is no comparison, in words.
    pub fn unrecorded(&self) -> Option<String> {
        let side = self.unrecorded?;
        Some(format!(
            "nothing recorded {side}, so there is no comparison"
        ))
    }

    /// All of it as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title());
        for load in &self.loads {
            let _ = writeln!(text, "  scx_drfq was loaded at {}", local_time::text(*load));
        }
        for entity in &self.entities {
            let _ = writeln!(text, "  {}: {}", clean(&entity.name), entity.text());
        }
        for (name, before, after) in &self.events {
            let _ = writeln!(text, "  event {name}: {before:.1}/s -> {after:.1}/s");
        }
        if let Some(line) = self.unrecorded() {
            let _ = writeln!(text, "  {line}");
        } else if self.entities.is_empty() && self.events.is_empty() && self.loads.is_empty() {
            text += "  nothing changed by more than 0.5 %\n";
        }
        text
    }
}

impl Change {
    fn text(&self) -> String {
        let percent = |what: &str, pair: (f64, f64)| {
            let told = pair.0.max(pair.1) >= 0.05;
            told.then(|| format!("{what} {:.1} % -> {:.1} %", pair.0, pair.1))
        };
        let bytes = (self.bytes.0.max(self.bytes.1) >= 1.0).then(|| {
            let text = |bytes: f64| format_bytes_per_s(bytes.round());
            format!("memory {} -> {}", text(self.bytes.0), text(self.bytes.1))
        });
        let parts = [
            percent("CPU", self.cpu),
            bytes,
            percent("waiting", self.wait),
            percent("held", self.held),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::history::tests::{SECOND, noisy, noisy_in},
        *,
    };

    #[test]
    fn the_hog_that_came_is_told_at_its_time() {
        let text = around(&noisy(), Some(66_000_000_000)).text();
        assert!(text.contains("hog: CPU 0.0 % -> 50.0 %"), "{text}");
        assert!(text.contains("/web<1>: CPU 90.0 % -> 50.0 %"), "{text}");
        assert!(text.contains("waiting 1.0 % -> 45.0 %"), "{text}");
        assert!(text.contains("event rescued: 0.0/s -> 10.0/s"), "{text}");
    }

    #[test]
    fn a_quiet_time_has_no_changes() {
        let changes = around(&noisy(), Some(1_000_000_000));
        assert!(
            changes.text().contains("nothing changed"),
            "{}",
            changes.text()
        );
    }

    #[test]
    fn without_a_time_the_halves_are_compared() {
        let changes = around(&noisy(), None);
        assert!(!changes.chosen && changes.entities.len() == 2);
    }

    /// What `noisy` recorded within the windows around a time (s since 1970).
    fn near(at_s: u64) -> (u64, History) {
        let (at, span) = windows((SECOND, 20 * 3600 * SECOND), at_s * SECOND);
        (at, noisy_in(span))
    }

    #[test]
    fn a_minute_of_a_long_recording_is_compared_with_the_next() {
        let (at, history) = near(66);
        let text = around(&history, Some(at)).text();
        assert!(text.contains("60 s before against 60 s after"), "{text}");
        assert!(text.contains("hog: CPU 0.0 % -> 50.0 %"), "{text}");
        assert!(text.contains("/web<1>: CPU 90.0 % -> 50.0 %"), "{text}");
        assert!(text.contains("event rescued: 0.0/s -> 10.0/s"), "{text}");
    }

    #[test]
    fn a_side_without_snapshots_is_not_taken_for_zero_use() {
        for (at_s, side) in [(121, "after"), (180, "after"), (3600, "before and after")] {
            let (at, history) = near(at_s);
            let text = around(&history, Some(at)).text();
            let words = format!("nothing recorded {side},");
            assert!(text.contains(&words), "{text}");
            assert!(!text.contains("hog"), "{text}");
        }
    }
}

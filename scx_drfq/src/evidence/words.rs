// SPDX-License-Identifier: GPL-2.0-only
//! Evidence in plain words.

use crate::{
    bandwidth::format_bytes_per_s,
    calibration::Calibration,
    evidence::{sensors::Sensors, sets::Sets},
};

/// A sensor that is off by more than this part is named.
const ACCURATE: f64 = 0.05;

/// Loads that move more than this part of m had help from the caches.
const CACHED: f64 = 1.1;

/// What a reader should know first, a sentence each.
pub fn summary(sensors: &Sensors, calibration: &Calibration, sets: &Sets) -> Vec<String> {
    let mut lines = events(sensors);
    lines.extend(monitoring(sensors));
    lines.extend(sensors.factors.iter().map(|factor| {
        format!(
            "By MBM, an event {} stands for {:.1} bytes, give or take {:.1}.",
            factor.event, factor.bytes, factor.std_dev
        )
    }));
    lines.push(format!(
        "The memory moves {} at most (m).",
        format_bytes_per_s(calibration.bytes_per_s as f64)
    ));
    lines.extend(sets.rows.iter().map(|row| {
        let cached = match row.part_of_m > CACHED {
            true => " Caches served a part of it, so it tells little of memory.",
            false => "",
        };
        let shares = row.spread.map_or_else(
            || "a load got nothing".to_owned(),
            |spread| format!("dominant shares are {:.1} % apart", 100.0 * spread),
        );
        format!(
            "{}, under {}: {shares}, {} in all ({:.0} % of m).{cached}",
            capital(row.set),
            row.scheduler,
            format_bytes_per_s(row.total_bytes_per_s),
            100.0 * row.part_of_m
        )
    }));
    lines.extend(sets.missing.iter().map(|missing| {
        format!(
            "{} was not measured: {}.",
            missing.scheduler, missing.reason
        )
    }));
    lines
}

fn events(sensors: &Sensors) -> Vec<String> {
    let compared = sensors.rows.iter().map(|row| {
        let Some(bytes) = row.event_bytes else {
            return format!("No event counts what a {} load moves.", row.load);
        };
        sentence("The events count", row.load, bytes, row.load_bytes)
    });
    match sensors.rows.iter().any(|row| row.event_bytes.is_some()) {
        true => compared.collect(),
        false => vec![format!(
            "No event counts memory traffic: {}.",
            sensors.events
        )],
    }
}

fn monitoring(sensors: &Sensors) -> Vec<String> {
    if let Some(reason) = &sensors.no_mbm {
        return vec![format!("Bandwidth is not monitored (MBM): {reason}.")];
    }
    let read = sensors
        .rows
        .iter()
        .filter_map(|row| Some((row, row.mbm_bytes?)));
    let worst = read.max_by(|(a, of_a), (b, of_b)| {
        let off = |bytes: u64, load: u64| (bytes as f64 / load as f64 - 1.0).abs();
        off(*of_a, a.load_bytes).total_cmp(&off(*of_b, b.load_bytes))
    });
    let Some((row, bytes)) = worst else {
        return vec!["MBM gave no reading.".to_owned()];
    };
    let worst = sentence("At worst, MBM shows", row.load, bytes, row.load_bytes);
    let unread = sensors.rows.iter().filter(|row| row.mbm_bytes.is_none());
    let unread = unread.map(|row| format!("MBM gave no reading for the {} load.", row.load));
    std::iter::once(worst).chain(unread).collect()
}

fn sentence(who: &str, load: &str, bytes: u64, true_bytes: u64) -> String {
    let part = bytes as f64 / true_bytes.max(1) as f64;
    let verdict = match part - 1.0 {
        off if off.abs() <= ACCURATE => "",
        off if off < 0.0 => ": too little",
        _ => ": too much, or other programs moved memory, too",
    };
    format!(
        "{who} {:.1} % of what a {load} load moves{verdict}.",
        100.0 * part
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{
        sensors::{Factor, Row as SensorRow},
        sets::{Got, Missing, Row},
    };

    fn calibration() -> Calibration {
        Calibration {
            machine: String::new(),
            kernel: String::new(),
            version: String::new(),
            date: String::new(),
            bytes_per_s: 20_000_000_000,
            domains: Vec::new(),
        }
    }

    fn sensor(load: &'static str, event_bytes: Option<u64>, mbm_bytes: Option<u64>) -> SensorRow {
        SensorRow {
            load,
            load_bytes: 1000,
            event_bytes,
            mbm_bytes,
            ..SensorRow::default()
        }
    }

    #[test]
    fn each_sensor_and_each_set_has_its_sentence() {
        let sensors = Sensors {
            events: "two".into(),
            no_mbm: None,
            factors: vec![Factor {
                event: "reads".into(),
                bytes: 95.96,
                std_dev: 0.42,
            }],
            rows: vec![
                sensor("read", Some(990), Some(1001)),
                sensor("copy", Some(667), Some(1010)),
                sensor("write", Some(1200), None),
            ],
        };
        let sets = Sets {
            missing: vec![Missing {
                scheduler: "scx_drfq --mba on --entity task".into(),
                reason: "it ended: no MBA".into(),
            }],
            rows: vec![Row {
                set: "set 1",
                scheduler: "scx_drfq".into(),
                seconds: 1.0,
                loads: Vec::<Got>::new(),
                spread: Some(0.023),
                total_bytes_per_s: 18e9,
                part_of_m: 0.9,
            }],
        };
        assert_eq!(
            summary(&sensors, &calibration(), &sets),
            [
                "The events count 99.0 % of what a read load moves.",
                "The events count 66.7 % of what a copy load moves: too little.",
                "The events count 120.0 % of what a write load moves: too much, or other \
                 programs moved memory, too.",
                "At worst, MBM shows 101.0 % of what a copy load moves.",
                "MBM gave no reading for the write load.",
                "By MBM, an event reads stands for 96.0 bytes, give or take 0.4.",
                "The memory moves 20 GB/s at most (m).",
                "Set 1, under scx_drfq: dominant shares are 2.3 % apart, 18 GB/s in all (90 % of m).",
                "scx_drfq --mba on --entity task was not measured: it ended: no MBA.",
            ]
        );
    }

    #[test]
    fn a_set_that_moves_more_than_memory_can_tells_of_the_caches() {
        let line = |part_of_m| {
            let row = Row {
                set: "set 1",
                scheduler: "scx_drfq".into(),
                seconds: 1.0,
                loads: Vec::new(),
                spread: Some(0.023),
                total_bytes_per_s: 1e9,
                part_of_m,
            };
            let sets = Sets {
                missing: Vec::new(),
                rows: vec![row],
            };
            summary(&Sensors::default(), &calibration(), &sets).pop()
        };
        assert!(line(9.0).is_some_and(|line| line.contains("Caches served a part")));
        assert!(line(1.05).is_some_and(|line| line.ends_with("m).")));
    }

    #[test]
    fn a_load_that_got_nothing_is_told_in_place_of_a_spread() {
        let row = Row {
            set: "set 4",
            scheduler: "scx_drfq".into(),
            seconds: 1.0,
            loads: Vec::new(),
            spread: None,
            total_bytes_per_s: 2e9,
            part_of_m: 0.1,
        };
        let sets = Sets {
            missing: Vec::new(),
            rows: vec![row],
        };
        let line = summary(&Sensors::default(), &calibration(), &sets).pop();
        let expected = "Set 4, under scx_drfq: a load got nothing, 2 GB/s in all (10 % of m).";
        assert_eq!(line.as_deref(), Some(expected));
    }

    #[test]
    fn what_is_missing_is_said() {
        let sensors = Sensors {
            events: "no PMU".into(),
            no_mbm: Some("this machine or its kernel has no resctrl".into()),
            factors: Vec::new(),
            rows: vec![sensor("read", None, None)],
        };
        let sets = Sets {
            missing: vec![Missing {
                scheduler: "scx_drfq".into(),
                reason: "it cannot be loaded here, see doctor".into(),
            }],
            rows: Vec::new(),
        };
        let lines = summary(&sensors, &calibration(), &sets);
        assert_eq!(lines[0], "No event counts memory traffic: no PMU.");
        assert!(lines[1].contains("no resctrl"), "{lines:?}");
        assert!(lines.last().unwrap().contains("see doctor"), "{lines:?}");
    }
}

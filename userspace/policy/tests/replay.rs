// SPDX-License-Identifier: GPL-2.0-only
//! The policy `drf` on what the agent measured in a virtual machine, as `--mba-trace`
//! records it. The records do not answer to what the policy plans here.
//!
//! traces/xeon-3456.jsonl: the machine `xeon`, copies of weight 3, 4, 5 and 6, each on its
//! CPU, and two programs that move next to nothing.

use drfq_policy::drf::{Domain, Group, Plan, Snapshot, State, curve::Curve, plan};
use serde_json::Value;

/// A period: the groups' names, and what was measured.
type Period = (Vec<String>, Snapshot);

fn read(text: &str) -> Vec<Period> {
    text.lines()
        .map(|line| period(&serde_json::from_str(line).unwrap()))
        .collect()
}

fn period(line: &Value) -> Period {
    let number = |value: &Value| value.as_f64().unwrap();
    let groups = line["groups"].as_array().unwrap();
    let snapshot = Snapshot {
        period_s: number(&line["period_s"]),
        cpus: number(&line["cpus"]),
        runnable: number(&line["runnable"]),
        curve: Some(Curve::linear(10, 10, 100)),
        classes: 7,
        domains: vec![Domain {
            bytes_per_s: number(&line["domains"][0]["bytes_per_s"]),
            ..Domain::default()
        }],
        groups: groups
            .iter()
            .map(|group| Group {
                id: group["id"].as_u64().unwrap(),
                weight: number(&group["weight"]),
                min: 0.0,
                max: f64::INFINITY,
                bytes_per_s: vec![number(&group["bytes_per_s"][0])],
            })
            .collect(),
    };
    let name = |group: &Value| group["name"].as_str().unwrap().to_owned();
    (groups.iter().map(name).collect(), snapshot)
}

/// The names and the plan of each period.
fn replay(periods: &[Period]) -> Vec<(&[String], Plan)> {
    let mut state = State::default();
    let mut out = Vec::new();
    for (names, snapshot) in periods {
        let planned;
        (planned, state) = plan(snapshot, &state);
        out.push((names.as_slice(), planned));
    }
    out
}

fn fraction(period: &(&[String], Plan), name: &str) -> f64 {
    let at = period.0.iter().position(|known| known.starts_with(name));
    period.1.groups[at.unwrap()].fractions[0]
}

#[test]
fn the_lighter_of_two_hogs_is_throttled_more() {
    let periods = read(include_str!("traces/xeon-3456.jsonl"));
    let planned = replay(&periods);
    let with_groups = planned.iter().filter(|(names, _)| !names.is_empty());
    // One second. Later the recorded shares are fair, whatever is planned here.
    for (number, period) in with_groups.enumerate().skip(5).take(10) {
        assert!(period.1.domains[0].acts, "period {number}");
        let hogs = ["/hog0", "/hog1", "/hog2"].map(|name| fraction(period, name));
        assert!(hogs.is_sorted(), "period {number}: {hogs:?}");
        let heaviest = fraction(period, "/hog3");
        assert!(hogs[1] < 1.0 && heaviest > 0.8, "period {number}: {hogs:?}");
    }
}

#[test]
fn programs_that_move_next_to_nothing_are_not_throttled() {
    let periods = read(include_str!("traces/xeon-3456.jsonl"));
    for period in replay(&periods) {
        for (name, group) in period.0.iter().zip(&period.1.groups) {
            if !name.starts_with("/hog") {
                assert!(group.fractions[0] >= 1.0, "{name}");
            }
        }
    }
}

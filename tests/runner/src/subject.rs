// SPDX-License-Identifier: GPL-2.0-only
//! What a run measures.

use crate::scenario::{Case, Expect, Extent, Hold, Scenario, Scheduler};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a run measures: runs of equal subjects differ by chance alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the case.
    pub case: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// How long it was to last, s.
    pub duration_s: f64,
    /// Release of the kernel.
    pub kernel: String,
    /// What the scheduler's `--version` says; empty for the kernel's own.
    #[serde(default)]
    pub version: String,
    /// Commit that was measured, if the caller told it.
    #[serde(default)]
    pub commit: String,
    /// What [`setup`] says; `null` in records that do not have it.
    #[serde(default)]
    pub setup: Value,
}

impl Subject {
    /// Whether it has the same names, number and length, so that a table has one of the two.
    pub fn replaces(&self, other: &Self) -> bool {
        self.scenario == other.scenario
            && self.case == other.case
            && self.scheduler == other.scheduler
            && self.repeat == other.repeat
            && self.duration_s == other.duration_s
    }

    /// What else has changed since `old`, each for a reader.
    pub fn changes_since(&self, old: &Self) -> Vec<String> {
        let texts = [
            ("kernel", &old.kernel, &self.kernel),
            ("version", &old.version, &self.version),
            ("commit", &old.commit, &self.commit),
        ];
        let changed = texts.iter().filter(|(_, was, is)| was != is);
        let mut found: Vec<String> = changed
            .map(|(what, was, is)| format!("{what} {was:?}, now {is:?}"))
            .collect();
        if old.setup.is_null() {
            found.push("its tasks and options are unknown".into());
        } else if old.setup != self.setup {
            found.push(format!("other {}", differing(&old.setup, &self.setup)));
        }
        found
    }
}

/// The parts of a scenario that decide what is measured, as JSON. Limits and weights are not
/// among them: they decide how it is judged.
pub fn setup(scenario: &Scenario, extent: Extent, case: &Case, scheduler: &Scheduler) -> Value {
    // Without `..`, so that who adds a field decides whether it belongs here.
    let Scenario {
        cpus,
        llcs,
        clock,
        icount_shift,
        disk_mib,
        name: _,
        title: _,
        kernel: _, // the release of the kernel tells
        extent: _,
        short: _,
        scheduler: _,
        case: _,
    } = scenario;
    let Case {
        tasks,
        inject,
        expect,
        name: _,
        schedulers: _,
    } = case;
    let Scheduler {
        program,
        args,
        memory_bandwidth,
        name: _,
        weights: _,
        delta_slices: _,
        event_bytes: _,
    } = scheduler;
    json!({
        "cpus": cpus,
        "llcs": llcs,
        "clock": clock,
        "icount_shift": icount_shift,
        "disk_mib": disk_mib,
        "warmup_s": extent.warmup_s,
        "program": program,
        "args": args,
        "memory_bandwidth": memory_bandwidth,
        "tasks": tasks,
        "inject": inject,
        "follows_vtime": follows_vtime(expect),
    })
}

/// Whether V is watched while a debt is held: not where its release does not depend on V.
pub fn follows_vtime(expect: &[Expect]) -> bool {
    let alone = |e: &Expect| matches!(e, Expect::Hold(Hold::Alone { .. }));
    !expect.iter().any(alone)
}

/// Names of the fields by which two objects differ.
fn differing(a: &Value, b: &Value) -> String {
    let objects = [a, b].map(Value::as_object);
    let names: BTreeSet<&str> = objects
        .into_iter()
        .flatten()
        .flat_map(|object| object.keys().map(String::as_str))
        .filter(|name| a.get(name) != b.get(name))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SCENARIO: &str = r#"
        name = "x"
        title = "t"
        cpus = 2
        duration_s = 5
        warmup_s = 1
        repeats = 1
        [[scheduler]]
        name = "s"
        program = "scx_drfq"
        args = ["--slice-us", "1000"]
        [[case]]
        name = "a"
        schedulers = ["s"]
        tasks = [{ name = "h", load = "hog", nice = -5 }]
        expect = [{ kind = "shares", median_pct = 1.0, worst_pct = 2.0 }]
    "#;

    fn setup_of(text: &str) -> Value {
        let all: Scenario = toml::from_str(text).unwrap();
        setup(&all, all.extent, &all.case[0], &all.scheduler[0])
    }

    #[test]
    fn a_setup_changes_with_what_is_run_and_not_with_how_it_is_judged() {
        for (from, to, differs) in [
            ("cpus = 2", "cpus = 3", "cpus"),
            ("warmup_s = 1", "warmup_s = 2", "warmup_s"),
            ("\"1000\"", "\"2000\"", "args"),
            ("nice = -5", "nice = 0", "tasks"),
            ("worst_pct = 2.0", "worst_pct = 3.0", ""),
            ("title = \"t\"", "title = \"u\"", ""),
        ] {
            assert!(SCENARIO.contains(from), "{from}");
            let (before, after) = (setup_of(SCENARIO), setup_of(&SCENARIO.replace(from, to)));
            assert_eq!(differing(&before, &after), differs, "{to}");
        }
    }

    #[test]
    fn what_is_read_back_is_equal() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let all = Scenario::read(&path).unwrap();
            for case in &all.case {
                for scheduler in &all.scheduler {
                    let subject = Subject {
                        setup: setup(&all, all.extent, case, scheduler),
                        duration_s: all.extent.duration_s,
                        ..Subject::default()
                    };
                    let text = serde_json::to_string(&subject).unwrap();
                    assert_eq!(serde_json::from_str::<Subject>(&text).unwrap(), subject);
                }
            }
        }
    }

    #[test]
    fn all_changes_are_told() {
        let old = Subject {
            kernel: "6.12".into(),
            commit: "a".into(),
            ..Subject::default()
        };
        let new = Subject {
            version: "1.0".into(),
            commit: "b".into(),
            setup: setup_of(SCENARIO),
            ..Subject::default()
        };
        let wanted = [
            r#"kernel "6.12", now """#,
            r#"version "", now "1.0""#,
            r#"commit "a", now "b""#,
            "its tasks and options are unknown",
        ];
        assert_eq!(new.changes_since(&old), wanted);
        assert!(new.changes_since(&new).is_empty());
    }
}

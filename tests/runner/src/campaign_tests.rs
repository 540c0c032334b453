// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use serde_json::{Value, json};
use tempfile::TempDir;

const TWO_CASES: &str = r#"
    name = "x"
    title = "t"
    cpus = 2
    duration_s = 5
    warmup_s = 1
    repeats = 2
    [[scheduler]]
    name = "kernel"
    program = "eevdf"
    [[case]]
    name = "a"
    schedulers = ["kernel"]
    tasks = [{ name = "h", load = "hog", count = 3 }]
    expect = [{ kind = "shares", median_pct = 1.0, worst_pct = 2.0 }]
    [[case]]
    name = "b"
    schedulers = ["kernel"]
    tasks = [{ name = "h", load = "hog", count = 2 }]
    expect = []
"#;

/// A record as `drfq-exp run --commit new` writes it.
fn record(case: &str, repeat: u32) -> Value {
    let count = if case == "a" { 3 } else { 2 };
    json!({
        "scenario": "x", "case": case, "scheduler": "kernel", "repeat": repeat, "duration_s": 5.0,
        "kernel": kernel_release(), "version": "", "commit": "new", "setup": {
            "cpus": 2, "llcs": 1, "clock": "real", "icount_shift": 2, "disk_mib": 0,
            "warmup_s": 1.0, "program": "eevdf", "args": [], "memory_bandwidth": null,
            "tasks": [{
                "name": "h", "load": "hog", "nice": 0, "count": count, "cpu": null,
                "sleeps": false, "phases_ms": null
            }],
            "inject": null, "follows_vtime": true
        },
        "date": "", "tasks": [], "idle_cpus": 0.0, "agent_cpus": 0.0, "debts": [],
        "events": null, "trouble": []
    })
}

/// `record` with another value of a field.
fn with(mut record: Value, pointer: &str, value: impl Into<Value>) -> Value {
    *record.pointer_mut(pointer).unwrap() = value.into();
    record
}

/// Resumes case `a` where `records` are in results.jsonl; its repeats are in the answer, and what
/// the file has then. No run can succeed, because there is no drfq-load.
fn resume(records: &[Value]) -> (Result<Vec<u32>>, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.jsonl");
    let lines: String = records.iter().map(|r| format!("{r}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let measured = measure_case_a(&dir);
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (measured, parsed.collect())
}

fn measure_case_a(dir: &TempDir) -> Result<Vec<u32>> {
    let scenario: Scenario = toml::from_str(TWO_CASES).unwrap();
    let provenance = Provenance {
        commit: "new".into(),
        date: String::new(),
    };
    let plan = Plan {
        file: "x.toml".into(),
        short: false,
        cases: vec!["a".into()],
        schedulers: Vec::new(),
        resume: true,
        out: dir.path().into(),
        provenance: provenance.clone(),
    };
    let executables = Executables {
        ours: dir.path().into(),
        peers: dir.path().into(),
    };
    let runner = Runner {
        scenario: &scenario,
        extent: scenario.extent,
        executables: &executables,
        dir: dir.path(),
        provenance: &provenance,
    };
    let pairs = pairs(&plan, &scenario, &executables).unwrap();
    let records = measure(&plan, &runner, &pairs)?;
    Ok(records.iter().map(|record| record.subject.repeat).collect())
}

#[test]
fn records_that_are_not_run_again_stay_in_the_file() {
    let all = [
        record("b", 1),
        record("a", 2),
        record("a", 1),
        with(record("b", 2), "/commit", "old"),
        with(record("a", 1), "/scenario", "y"),
        with(record("a", 1), "/duration_s", 60.0),
        record("a", 3),
    ];
    let (measured, file) = resume(&all);
    assert_eq!(measured.unwrap(), [1, 2]);
    assert_eq!(file, all);
}

#[test]
fn records_stay_where_a_run_before_them_is_interrupted() {
    let all = [record("a", 2), record("b", 1)];
    let (measured, file) = resume(&all);
    assert!(measured.is_err());
    assert_eq!(file, all);
}

#[test]
fn what_would_be_measured_otherwise_is_measured_again() {
    for (pointer, value) in [
        ("/commit", json!("old")),
        ("/version", json!("scx_drfq 0.0.1")),
        ("/kernel", json!("6.12.0")),
        ("/setup/args", json!(["--slice-us", "1000"])),
        ("/setup/tasks/0/count", json!(4)),
        ("/setup/warmup_s", json!(2.0)),
        ("/setup", Value::Null),
    ] {
        let changed = with(record("a", 1), pointer, value);
        let (measured, file) = resume(&[changed, record("a", 2)]);
        assert!(measured.is_err(), "{pointer}");
        assert_eq!(file, [record("a", 2)], "{pointer}");
    }
}

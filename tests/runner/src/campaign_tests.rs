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

fn record(case: &str, repeat: u32) -> Value {
    json!({
        "scenario": "x", "case": case, "scheduler": "kernel", "repeat": repeat, "duration_s": 5.0,
        "kernel": kernel_release(), "tasks": [], "idle_cpus": 0.0, "agent_cpus": 0.0, "debts": [],
        "events": null, "trouble": []
    })
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
        commit: String::new(),
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
    Ok(records.iter().map(|record| record.repeat).collect())
}

/// Case and repeat of a record.
fn place(record: &Value) -> (&str, u64) {
    let (case, repeat) = (record["case"].as_str(), record["repeat"].as_u64());
    (case.unwrap(), repeat.unwrap())
}

fn places(records: &[Value]) -> Vec<(&str, u64)> {
    records.iter().map(place).collect()
}

#[test]
fn records_that_are_not_run_again_stay_in_the_file() {
    let mut of_another = record("a", 1);
    of_another["scenario"] = "y".into();
    let all = [record("b", 1), record("a", 2), record("a", 1), of_another];
    let (measured, file) = resume(&all);
    assert_eq!(measured.unwrap(), [1, 2]);
    assert_eq!(places(&file), places(&all));
}

#[test]
fn records_stay_where_a_run_before_them_is_interrupted() {
    let (measured, file) = resume(&[record("a", 2), record("b", 1)]);
    assert!(measured.is_err());
    assert_eq!(places(&file), [("a", 2), ("b", 1)]);
}

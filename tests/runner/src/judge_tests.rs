// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::debt::Debt;
use crate::process::Usage;
use crate::subject::Subject;
use crate::verdict::verdict;
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

fn case(tasks: &str) -> Case {
    let text = format!("name = \"c\"\nschedulers = []\nexpect = []\ntasks = [{tasks}]");
    toml::from_str(&text).unwrap()
}

fn scheduler(more: &str) -> Scheduler {
    toml::from_str(&format!("name = \"s\"\nprogram = \"scx_drfq\"\n{more}")).unwrap()
}

/// One copy of each task, which used so many CPUs for a second.
fn record(cpus: &[f64]) -> Record {
    let task = |(task, cpus): (usize, &f64)| TaskRecord {
        task,
        name: format!("t{task}"),
        used: Usage {
            at_ns: SECOND_NS,
            cpu_ns: (cpus * SECOND_NS as f64) as u64,
            ..Usage::default()
        },
        report: Value::Null,
    };
    Record {
        subject: Subject {
            scenario: "e".into(),
            case: "c".into(),
            scheduler: "s".into(),
            repeat: 1,
            duration_s: 60.0,
            kernel: "k".into(),
            ..Subject::default()
        },
        date: String::new(),
        tasks: cpus.iter().enumerate().map(task).collect(),
        idle_cpus: 0.0,
        agent_cpus: 0.0,
        debts: Vec::new(),
        events: Value::Null,
        trouble: Vec::new(),
    }
}

const LONG: Setting = Setting {
    cpus: 1.0,
    duration_s: 60.0,
    short: false,
};

fn expect(text: &str) -> Expect {
    toml::from_str(text).unwrap()
}

fn shares() -> Expect {
    expect("kind = \"shares\"\nmedian_pct = 1.0\nworst_pct = 2.0")
}

#[test]
fn fair_shares_pass_and_unfair_shares_fail() {
    let case = case("{ name = \"a\", load = \"hog\" }, { name = \"b\", load = \"hog\", nice = 5 }");
    let weights = [1.0, 335.0 / 1024.0];
    let fair = weights.map(|w| w / (weights[0] + weights[1]));
    let judge = |cpus: &[f64]| {
        let measurements = shares()
            .measurements(&case, &scheduler(""), &record(cpus), &LONG)
            .unwrap();
        verdict(&measurements, shares().limit())
    };
    assert_eq!(judge(&fair), Ok(()));
    // A tenth of the CPU for the rest of the system does not matter.
    assert_eq!(judge(&fair.map(|f| 0.9 * f)), Ok(()));
    assert!(judge(&[fair[0] - 0.01, fair[1] + 0.01]).is_err());
}

#[test]
fn a_task_without_cpu_time_fails_the_verdict() {
    let case = case("{ name = \"a\", load = \"hog\" }, { name = \"b\", load = \"hog\" }");
    for cpus in [[0.0, 1.0], [0.0, 0.0]] {
        let measurements = shares()
            .measurements(&case, &scheduler(""), &record(&cpus), &LONG)
            .unwrap();
        assert!(
            verdict(&measurements, shares().limit()).is_err(),
            "{cpus:?}"
        );
    }
    assert!(verdict(&[], shares().limit()).is_err());
}

#[test]
fn shares_by_thesis_weights_have_no_error() {
    let case = case("{ name = \"a\", load = \"hog\" }, { name = \"b\", load = \"hog\", nice = 2 }");
    let thesis = scheduler("weights = \"thesis\"");
    let measurements = shares()
        .measurements(&case, &thesis, &record(&[0.25, 0.75]), &LONG)
        .unwrap();
    assert!(
        measurements.iter().all(|f| f.error_pct.abs() < 1e-9),
        "{measurements:?}"
    );
}

#[test]
fn a_sleeper_within_its_fair_share_passes_and_hogs_share_the_rest() {
    let case = case(
        "{ name = \"s\", load = \"sleeper\", sleeps = true }, { name = \"h\", load = \"hog\" }",
    );
    let measurements = shares()
        .measurements(&case, &scheduler(""), &record(&[0.2, 0.8]), &LONG)
        .unwrap();
    assert_eq!(measurements.len(), 1);
    assert!(measurements[0].error_pct.abs() < 1e-9);
    let most = expect("kind = \"at_most_fair\"\ntask = \"s\"\nworst_pct = 1.0");
    let judge = |cpus: &[f64]| {
        let measurements = most
            .measurements(&case, &scheduler(""), &record(cpus), &LONG)
            .unwrap();
        verdict(&measurements, most.limit())
    };
    assert_eq!(judge(&[0.2, 0.8]), Ok(()));
    assert_eq!(judge(&[0.5, 0.5]), Ok(()));
    assert!(judge(&[0.51, 0.49]).is_err());
}

#[test]
fn a_sleeper_that_wants_more_than_its_share_must_get_it() {
    let case = case(
        "{ name = \"s\", load = \"sleeper\", sleeps = true }, { name = \"h\", load = \"hog\" }",
    );
    let fair = expect("kind = \"fair_share\"\ntask = \"s\"\nmedian_pct = 1.0\nworst_pct = 1.0");
    let judge = |cpus: &[f64]| {
        let measurements = fair
            .measurements(&case, &scheduler(""), &record(cpus), &LONG)
            .unwrap();
        assert_eq!(measurements.len(), 1);
        verdict(&measurements, fair.limit())
    };
    assert_eq!(judge(&[0.499, 0.499]), Ok(()));
    assert!(judge(&[0.49, 0.51]).is_err());
    assert!(judge(&[0.51, 0.49]).is_err());
    assert!(judge(&[0.0, 0.5]).is_err());
}

#[test]
fn an_idle_cpu_or_an_agent_beyond_the_limit_fails() {
    let case = case("{ name = \"h\", load = \"hog\" }");
    let conserving = expect("kind = \"work_conserving\"\nidle_pct = 1.0");
    let judge = |idle_cpus, agent_cpus| {
        let record = Record {
            idle_cpus,
            agent_cpus,
            ..record(&[0.5])
        };
        let measurements = conserving
            .measurements(&case, &scheduler(""), &record, &LONG)
            .unwrap();
        verdict(&measurements, conserving.limit())
    };
    assert_eq!(judge(0.005, 0.005), Ok(()));
    assert!(judge(0.02, 0.0).is_err());
    assert!(judge(0.0, 0.02).is_err());
}

#[test]
fn equal_shares_of_the_larger_resource_pass() {
    let case = case("{ name = \"c\", load = \"hog\" }, { name = \"m\", load = \"faults\" }");
    let scheduler = scheduler("memory_bandwidth = 1e9\nevent_bytes = 1e6");
    let mut record = record(&[0.75, 0.25]);
    // 750 faults of 1 MB in a second, of 1 GB/s.
    record.tasks[1].used.faults = 750;
    let dominant = expect("kind = \"dominant\"\nmedian_pct = 2.0\nworst_pct = 2.0");
    let measurements = dominant
        .measurements(&case, &scheduler, &record, &LONG)
        .unwrap();
    assert_eq!(verdict(&measurements, dominant.limit()), Ok(()));
    record.tasks[1].used.faults = 650;
    let measurements = dominant
        .measurements(&case, &scheduler, &record, &LONG)
        .unwrap();
    assert!(verdict(&measurements, dominant.limit()).is_err());
}

#[test]
fn a_hold_that_ends_as_v_reaches_s_minus_k_passes() {
    let mut case = case("{ name = \"h\", load = \"sleeper\", sleeps = true }");
    case.inject = Some(crate::scenario::Inject {
        task: "h".into(),
        bytes: 1,
    });
    let mut record = record(&[0.1]);
    let ms = |n: u64| n * 1_000_000;
    // V reaches S - K = 50 ms between the readings at 80 and 120 ms. The task wakes at 10 ms.
    let hold = expect("kind = \"hold\"\nrelease = \"vtime\"\nwithin_ms = 10.0");
    record.tasks[0].report = json!({ "wakes": [[ms(10), ms(300)]] });
    for (held, good) in [(71, true), (119, true), (121, false), (69, false)] {
        let v = vec![
            (0, 0),
            (ms(40), ms(20)),
            (ms(80), ms(40)),
            (ms(120), ms(60)),
            (ms(200), ms(100)),
        ];
        let (start_ns, held_ns) = (ms(90), ms(held));
        record.debts = vec![Debt {
            injected_ns: 0,
            start_ns,
            v,
            held_ns,
        }];
        let measurements = hold
            .measurements(&case, &scheduler(""), &record, &LONG)
            .unwrap();
        assert_eq!(verdict(&measurements, hold.limit()).is_ok(), good, "{held}");
    }
    // The task ran before V was there, whatever its account of the hold says.
    record.debts[0].held_ns = ms(100);
    record.tasks[0].report = json!({ "wakes": [[ms(10), ms(79)]] });
    let measurements = hold
        .measurements(&case, &scheduler(""), &record, &LONG)
        .unwrap();
    assert!(verdict(&measurements, hold.limit()).is_err());
    record.tasks[0].report = json!({ "wakes": [[ms(10), ms(300)]] });
    // One debt is judged: no wake-up follows the others. From six on, half must be judged.
    let late = Debt {
        injected_ns: ms(20),
        ..record.debts[0].clone()
    };
    for (more, good) in [(1, true), (4, true), (5, false)] {
        record.debts.truncate(1);
        record.debts.extend(vec![late.clone(); more]);
        let measurements = hold
            .measurements(&case, &scheduler(""), &record, &LONG)
            .unwrap();
        assert_eq!(verdict(&measurements, hold.limit()).is_ok(), good, "{more}");
    }
    record.debts.truncate(1);
    // The readings are too far apart to tell when V was there.
    record.debts[0].v = vec![(0, 0), (ms(200), ms(100))];
    let measured = hold.measurements(&case, &scheduler(""), &record, &LONG);
    assert!(
        measured
            .unwrap_err()
            .to_string()
            .contains("V was not known")
    );
}

#[test]
fn a_short_run_has_an_allowance_and_a_long_one_has_none() {
    assert_eq!(LONG.allowance_pct(0.5), 0.0);
    let short = Setting {
        duration_s: 5.0,
        short: true,
        ..LONG
    };
    assert!((short.allowance_pct(0.5) - 0.64).abs() < 1e-9);
}

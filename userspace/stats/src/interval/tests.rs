// SPDX-License-Identifier: GPL-2.0-only
//! Tests of what happened between two samples.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn facts() -> Facts {
    Facts {
        run_id: 0,
        loaded_at_ns: 0,
        nr_cpus: 2,
        mem_bytes_per_s: Some(1000),
        mem_source: "test".into(),
        mem_stand_in: false,
        mem_measured: true,
        thesis_weights: false,
    }
}

fn task(pid: u32, weight: u32, charged_ns: u64, bytes: u64) -> TaskSample {
    TaskSample {
        pid,
        weight: weight * WEIGHT_ONE,
        charged_ns,
        cpu_ns: charged_ns,
        bytes,
        state: TaskState::Queued,
        ..Default::default()
    }
}

fn sample(at_ns: u64, tasks: Vec<TaskSample>) -> Sample {
    Sample {
        at_ns,
        vtime_ns: at_ns / 2,
        busy_cpus: 2,
        events: vec![7; EVENTS.len()],
        tasks,
        ..Default::default()
    }
}

#[test]
fn shares_and_rates_cover_the_interval() {
    let prev = sample(
        SECOND,
        vec![task(1, 1, 5 * SECOND, 100), task(2, 1, SECOND, 0)],
    );
    let cur = sample(
        3 * SECOND,
        vec![task(1, 1, 6 * SECOND, 1100), task(2, 1, SECOND, 0)],
    );
    let tasks = tasks(&facts(), &prev, &cur, 10);
    assert_eq!(tasks.system.interval_ns, 2 * SECOND);
    assert_eq!(tasks.system.vtime_advance_ns, SECOND);
    let first = &tasks.tasks[0];
    assert_eq!(
        (first.pid, first.cpu_pct, first.mem_bytes_per_s),
        (1, 50.0, 500.0)
    );
    // 50 % of 1000 B/s dominates 25 % of two CPUs.
    assert_eq!(first.dominant_pct, 50.0);
    assert_eq!(tasks.tasks[1].cpu_pct, 0.0);
}

#[test]
fn the_fair_share_of_a_sleeping_task_is_what_it_used() {
    let mut sleeper = task(3, 1, 0, 0);
    let prev = sample(0, vec![task(1, 1, 0, 0), task(2, 3, 0, 0), sleeper.clone()]);
    sleeper.charged_ns = SECOND / 10;
    sleeper.cpu_ns = SECOND / 10;
    sleeper.wait_ns = SECOND / 5;
    let mut hogs = [task(1, 1, SECOND / 4, 0), task(2, 3, SECOND / 2, 0)];
    hogs[0].wait_ns = SECOND - SECOND / 4;
    hogs[1].wait_ns = SECOND - SECOND / 2;
    let cur = sample(SECOND, [hogs.as_slice(), &[sleeper]].concat());
    let facts = Facts {
        nr_cpus: 1,
        ..facts()
    };
    let fair: HashMap<u32, f64> = tasks(&facts, &prev, &cur, 10)
        .tasks
        .iter()
        .map(|task| (task.pid, task.fair_pct))
        .collect();
    for (pid, expected) in [(1, 22.5), (2, 67.5), (3, 10.0)] {
        assert!(
            (fair[&pid] - expected).abs() < 1e-6,
            "{pid}: {}",
            fair[&pid]
        );
    }
}

#[test]
fn a_new_task_is_not_entitled_to_time_before_it_was_born() {
    let prev = sample(0, vec![task(1, 1, 0, 0)]);
    let cur = sample(
        SECOND,
        vec![task(1, 1, SECOND, 0), task(2, 1, SECOND / 4, 0)],
    );
    let tasks = tasks(&facts(), &prev, &cur, 10);
    let new = tasks.tasks.iter().find(|task| task.pid == 2).unwrap();
    assert_eq!((new.backlogged, new.fair_pct), (0, 25.0));
}

#[test]
fn a_task_born_in_the_interval_is_entitled_from_its_birth() {
    let facts = Facts {
        nr_cpus: 1,
        ..facts()
    };
    let prev = sample(SECOND, vec![task(1, 1, 0, 0)]);
    let mut old = task(1, 1, SECOND * 3 / 4, 0);
    old.wait_ns = SECOND / 4;
    // It wants a CPU in the second half, and gets none of it.
    let mut new = task(2, 1, 0, 0);
    new.started_ns = SECOND * 3 / 2;
    new.wait_ns = SECOND / 2;
    let cur = sample(2 * SECOND, vec![old, new]);
    let tasks = tasks(&facts, &prev, &cur, 10);
    let new = tasks.tasks.iter().find(|task| task.pid == 2).unwrap();
    assert_eq!(new.backlogged, 1);
    assert!(
        (new.fair_pct - 100.0 / 3.0).abs() < 1e-6,
        "{}",
        new.fair_pct
    );
}

#[test]
fn a_sample_that_was_read_late_does_not_change_shares() {
    let hog = |at_ns: u64| {
        let mut hog = task(1, 1, at_ns / 4, 0);
        hog.wait_ns = at_ns - at_ns / 4;
        hog.at_ns = at_ns;
        hog
    };
    // The agent lost its CPU for 0.4 s between the clock and the records.
    let prev = sample(SECOND, vec![hog(SECOND * 7 / 5)]);
    let cur = sample(2 * SECOND, vec![hog(2 * SECOND)]);
    let task = &tasks(&facts(), &prev, &cur, 1).tasks[0];
    assert_eq!((task.backlogged, task.fair_pct), (1, 100.0));
    assert!((task.cpu_pct - 25.0).abs() < 1e-6, "{}", task.cpu_pct);
    assert!((task.wait_pct - 75.0).abs() < 1e-6, "{}", task.wait_pct);
}

#[test]
fn waits_holds_and_cpus_cover_the_interval() {
    let mut before = task(1, 1, 0, 0);
    (before.wait_ns, before.held_ns, before.runs) = (SECOND, SECOND, 4);
    let mut now = before.clone();
    (now.wait_ns, now.held_ns, now.runs) = (SECOND * 3 / 2, SECOND * 5 / 4, 14);
    let cpu = |switches| CpuSample {
        cpu: 3,
        llc: 1,
        pid: 1,
        vtime_ns: SECOND,
        switches,
        steals: 2,
    };
    let mut prev = sample(0, vec![before]);
    prev.cpus = vec![cpu(10)];
    let mut cur = sample(SECOND, vec![now]);
    cur.cpus = vec![cpu(60)];
    let report = tasks(&facts(), &prev, &cur, 1);
    let task = &report.tasks[0];
    assert_eq!((task.wait_pct, task.held_pct), (50.0, 25.0));
    assert_eq!(task.wait_per_run_ns, 5e7);
    let cpu = &report.cpus[0];
    assert_eq!((cpu.switches_per_s, cpu.lag_ns), (50.0, 500_000_000));
}

#[test]
fn a_reused_pid_counts_from_zero() {
    let prev = sample(0, vec![task(1, 1, 9 * SECOND, 900)]);
    let mut new = task(1, 1, SECOND / 2, 100);
    new.started_ns = SECOND / 4;
    let cur = sample(SECOND, vec![new]);
    let tasks = tasks(&facts(), &prev, &cur, 10);
    assert_eq!(
        (tasks.tasks[0].cpu_pct, tasks.tasks[0].mem_bytes_per_s),
        (50.0, 100.0)
    );
}

#[test]
fn a_limit_keeps_the_heaviest_tasks() {
    let cur = sample(
        SECOND,
        (1..=9).map(|pid| task(pid, 1, pid.into(), 0)).collect(),
    );
    let tasks = tasks(&facts(), &Sample::default(), &cur, 2);
    let pids: Vec<_> = tasks.tasks.iter().map(|task| task.pid).collect();
    assert_eq!((tasks.nr_tasks, pids), (9, vec![9, 8]));
}

#[test]
fn lag_is_signed_across_a_wrap() {
    let mut sleeper = task(1, 1, 0, 0);
    (sleeper.cpu_vt_ns, sleeper.mem_vt_ns) = (u64::MAX - 4, u64::MAX - 9);
    let cur = Sample {
        vtime_ns: 5,
        ..sample(0, vec![sleeper])
    };
    assert_eq!(
        tasks(&facts(), &Sample::default(), &cur, 1).tasks[0].lag_ns,
        -10
    );
}

#[test]
fn two_samples_of_one_moment_give_finite_shares() {
    let cur = sample(SECOND, vec![task(1, 1, SECOND, 100)]);
    for task in tasks(&facts(), &cur, &cur, 9).tasks {
        assert!(task.cpu_pct.is_finite() && task.fair_pct.is_finite());
    }
}

#[test]
fn every_event_is_described_and_served() {
    let meta = System::described();
    let cur = sample(SECOND, vec![]);
    let json = serde_json::to_value(system(&facts(), &cur, &cur)).unwrap();
    assert_eq!(EVENTS[0].name, "switches");
    for event in EVENTS {
        assert!(!event.text.is_empty());
        assert_eq!(
            meta.fields[event.name].attrs.desc.as_deref(),
            Some(event.text)
        );
        assert_eq!(json[event.name], 7, "{}", event.name);
    }
    let object = json.as_object().unwrap();
    assert!(object.keys().all(|name| meta.fields.contains_key(name)));
}

#[test]
fn controller_rates_use_the_controllers_time() {
    let mut prev = sample(0, vec![task(1, 1, 0, 0), task(2, 1, 0, 0)]);
    prev.controller.traffic.by_pid = [(1, 500)].into();
    let mut cur = prev.clone();
    cur.at_ns = SECOND;
    // 10 ms of simulated time in a second.
    cur.controller.time_ps = 10_000_000_000;
    cur.controller.traffic.by_pid = [(1, 1500), (2, 10)].into();
    cur.shadow.time_ps = 2_000_000_000;
    cur.shadow.traffic.by_pid = [(2, 8)].into();
    cur.shadow.demand_bytes_per_s = [(2, 70)].into();
    let report = tasks(&facts(), &prev, &cur, 10);
    let of = |pid| report.tasks.iter().find(|task| task.pid == pid).unwrap();
    assert_eq!(
        (of(1).controller_bytes_per_s, of(1).controller_bytes),
        (100_000.0, 1500)
    );
    assert_eq!(
        (of(2).shadow_bytes_per_s, of(2).shadow_demand_bytes_per_s),
        (4000.0, 70.0)
    );
    assert_eq!(of(1).shadow_bytes_per_s, 0.0);
    assert_eq!(report.system.controller.bytes_per_s, 101_000.0);
    assert_eq!(report.system.shadow.bytes, 8);
}

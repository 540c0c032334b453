// SPDX-License-Identifier: GPL-2.0-only
//! The order of the queues where tasks may not run on every CPU of an LLC.

mod common;

use common::{cpus_used, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::{Config, CpuSet, MS, Report, Step, TaskSpec, Trace};

/// Hogs of these weights (1/100) that may run on `allowed`.
fn hogs_on(allowed: CpuSet, weights: &[u32]) -> Vec<TaskSpec> {
    let hog = |(i, w): (usize, &u32)| {
        TaskSpec::new(format!("hog{i}"), Trace::hog())
            .allowed(allowed)
            .weight((u64::from(weight_one()) * u64::from(*w) / 100) as u32)
    };
    weights.iter().enumerate().map(hog).collect()
}

/// CPU time of the second task per CPU time of the first.
fn ratio(report: &Report) -> f64 {
    let used = cpus_used(report);
    used[1] / used[0]
}

#[test]
fn weights_hold_behind_any_number_of_tasks_pinned_to_another_cpu() {
    for pinned in [1, 24, 300] {
        let mut specs = hogs_on(CpuSet::one(0), &[100, 305]);
        specs.extend(hogs_on(CpuSet::one(1), &vec![100; pinned]));
        let got = ratio(&run(Config::new(2), specs, 60));
        assert!(
            (got / 3.05 - 1.0).abs() < 0.02,
            "behind {pinned} pinned tasks: 1:{got:.3}"
        );
    }
}

/// CPU 0 has the pinned tasks and the others: all share by weight, in one order of S.
#[test]
fn pinned_tasks_and_others_share_a_cpu_by_weight() {
    let mut specs = hogs_on(CpuSet::ALL, &[100, 300]);
    specs.extend(hogs_on(CpuSet::one(0), &[200, 200]));
    let used = cpus_used(&run(Config::new(1), specs, 60));
    for (got, fair) in used.iter().zip([0.125, 0.375, 0.25, 0.25]) {
        assert!((got / fair - 1.0).abs() < 0.01, "{used:?}");
    }
}

/// Pinned tasks of a CPU do not take more than their share from tasks that may run anywhere.
#[test]
fn tasks_of_all_cpus_pass_pinned_tasks_on_other_cpus() {
    let mut specs = hogs_on(CpuSet::ALL, &[100; 4]);
    specs.extend(hogs_on(CpuSet::one(3), &[100; 40]));
    let used = cpus_used(&run(Config::new(4).llcs(2), specs, 60));
    // The four have three CPUs, or somewhat less while one is on CPU 3.
    for got in &used[..4] {
        assert!((got / 0.75 - 1.0).abs() < 0.05, "{used:?}");
    }
}

/// A pinned task that wakes on an idle CPU, or beside other queues, is found at once.
#[test]
fn a_pinned_sleeper_wakes_its_idle_cpu() {
    let mut specs = hogs_on(CpuSet::one(0), &[100; 3]);
    specs.push(TaskSpec::new("sleeper", Trace::sleeper(MS, 9 * MS)).allowed(CpuSet::one(1)));
    let config = Config::new(2);
    let at_once = config.resched_ns;
    let report = run(config, specs, 10);
    assert!(report.tasks[3].wake_latencies_ns.len() > 900);
    assert!(report.tasks[3].max_wake_ns() <= at_once);
}

/// Two sets of CPUs in one LLC, as two containers have them. The first set has less weight for
/// each CPU, so its tasks are later than all tasks of the second.
fn two_sets(tasks_of_second: usize) -> f64 {
    let mut specs = hogs_on(CpuSet::of(0b0011), &[100, 305]);
    specs.extend(hogs_on(CpuSet::of(0b0011), &[100; 4]));
    specs.extend(hogs_on(CpuSet::of(0b1100), &vec![100; tasks_of_second]));
    ratio(&run(Config::new(4), specs, 60))
}

#[test]
fn weights_hold_in_a_set_of_cpus_behind_the_tasks_of_another_set() {
    for tasks in [8, 24, 60] {
        let got = two_sets(tasks);
        assert!(
            (got / 3.05 - 1.0).abs() < 0.03,
            "behind {tasks} tasks: 1:{got:.3}"
        );
    }
}

/// The search of a partial queue ends at 64 tasks. Behind more, tasks take turns: a larger weight
/// counts for less, but no task waits longer than a round.
#[test]
fn tasks_of_a_set_take_turns_behind_too_many_tasks_of_another_set() {
    let got = two_sets(200);
    println!("behind 200 tasks: 1:{got:.3}");
    assert!(got > 0.99 && got < 3.1, "1:{got:.3}");
}

/// The search gives up in the queue of a set that CPU 0 does not belong to.
#[test]
fn weights_of_pinned_tasks_hold_behind_too_many_tasks_of_a_set() {
    let mut specs = hogs_on(CpuSet::one(0), &[100, 305]);
    specs.extend(hogs_on(CpuSet::of(0b1100), &[100; 200]));
    let got = ratio(&run(Config::new(4), specs, 60));
    assert!((got / 3.05 - 1.0).abs() < 0.02, "1:{got:.3}");
}

/// The search gives up before it finds a task of the first set, which takes turns with the pinned
/// tasks then: neither waits for the other.
#[test]
fn pinned_tasks_take_turns_with_a_set_behind_too_many_tasks_of_another_set() {
    let mut specs = hogs_on(CpuSet::one(0), &[100, 305]);
    specs.extend(hogs_on(CpuSet::of(0b0011), &[100; 6]));
    specs.extend(hogs_on(CpuSet::of(0b1100), &[100; 200]));
    let report = run(Config::new(4), specs, 60);
    let got = ratio(&report);
    assert!((got / 3.05 - 1.0).abs() < 0.02, "1:{got:.3}");
    let pinned: f64 = cpus_used(&report)[..2].iter().sum();
    println!("pinned tasks: {pinned:.3} of a CPU");
    assert!(pinned > 0.3 && pinned < 0.9, "{pinned:.3} of a CPU");
}

/// Affinity changes while tasks wait: no task is left on a queue that no CPU looks at.
#[test]
fn a_task_that_is_pinned_and_unpinned_keeps_running() {
    let hop = |set| {
        [
            Step::Affinity(set),
            Step::Run {
                ns: 20 * MS,
                bytes_per_s: 0,
            },
        ]
    };
    let steps = [
        hop(CpuSet::one(0)),
        hop(CpuSet::of(0b0110)),
        hop(CpuSet::ALL),
        hop(CpuSet::one(3)),
    ];
    let mut specs = hogs_on(CpuSet::ALL, &[100; 6]);
    specs.extend((0..6).map(|i| TaskSpec::new(format!("hops{i}"), Trace::repeat(steps.concat()))));
    let report = run(Config::new(4).llcs(2), specs, 20);
    let used = cpus_used(&report);
    for task in &report.tasks {
        assert!(task.max_wait_ns < 500 * MS, "{} ns", task.max_wait_ns);
    }
    assert!(used.iter().all(|got| *got > 0.2), "{used:?}");
}

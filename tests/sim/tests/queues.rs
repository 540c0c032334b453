// SPDX-License-Identifier: GPL-2.0-only
//! The order of the queues where tasks may not run on every CPU of an LLC.

mod common;

use common::{cpus_used, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::{Place, TaskId};
use drfq_sim::{Config, CpuSet, MS, Report, SEC, Sim, Step, TaskSpec, Trace};

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
fn two_sets(tasks_of_second: usize) -> Report {
    let mut specs = hogs_on(CpuSet::of(0b0011), &[100, 305]);
    specs.extend(hogs_on(CpuSet::of(0b0011), &[100; 4]));
    specs.extend(hogs_on(CpuSet::of(0b1100), &vec![100; tasks_of_second]));
    run(Config::new(4), specs, 60)
}

#[test]
fn weights_hold_in_a_set_of_cpus_behind_the_tasks_of_another_set() {
    for tasks in [8, 24, 60] {
        let got = ratio(&two_sets(tasks));
        assert!(
            (got / 3.05 - 1.0).abs() < 0.03,
            "behind {tasks} tasks: 1:{got:.3}"
        );
    }
}

/// The search of a partial queue ends at 64 tasks. Behind more, tasks take turns: a larger weight
/// counts for less, but no task waits longer than two rounds of the 103 tasks for each CPU.
#[test]
fn tasks_of_a_set_take_turns_behind_too_many_tasks_of_another_set() {
    let report = two_sets(200);
    let got = ratio(&report);
    let longest = report.tasks.iter().map(|task| task.max_wait_ns).max();
    println!("behind 200 tasks: 1:{got:.3}, longest wait {longest:?} ns");
    assert!(got > 0.99 && got < 3.0, "1:{got:.3}");
    assert!(
        longest.is_some_and(|ns| ns < 2 * 103 * 4 * MS),
        "{longest:?} ns"
    );
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

/// A machine of two nodes with two LLCs of two CPUs each, and three of its tasks that wait.
fn two_nodes() -> (Sim, Vec<TaskId>, u64) {
    let mut config = Config::new(8).llcs(4);
    config.nr_nodes = 2;
    let margin_ns = config.steal_margin_ns;
    let mut sim = Sim::new(config, hogs_on(CpuSet::ALL, &[100; 11]));
    sim.run_until(30 * MS);
    let kernel = sim.kernel();
    let waits = |t: &TaskId| kernel.place(*t) == Place::Queued;
    let waiting: Vec<TaskId> = (0..11).filter(waits).collect();
    assert_eq!(waiting.len(), 3);
    (sim, waiting, margin_ns)
}

#[test]
fn a_cpu_without_tasks_takes_from_the_nearest_llc() {
    let (mut sim, waiting, _) = two_nodes();
    let kernel = sim.kernel();
    let v = kernel.v_ns();
    kernel.test_queue(waiting[0], 0, v + 10 * MS);
    kernel.test_queue(waiting[1], 2, v);
    kernel.test_queue(waiting[2], 2, v);
    // The neighbour in the node, though the other node's head is earlier.
    for (cpu, queue) in [(2, 0), (3, 0), (6, 2)] {
        assert_eq!(kernel.test_choice(cpu), Some(queue), "CPU {cpu}");
    }
}

#[test]
fn a_head_far_away_needs_a_larger_lead() {
    let (mut sim, waiting, margin_ns) = two_nodes();
    let kernel = sim.kernel();
    let v = kernel.v_ns();
    // CPU 2 belongs to LLC 1; LLC 0 is in its node, LLC 2 is not.
    for (other, margin_ns) in [(0, margin_ns), (2, 2 * margin_ns)] {
        kernel.test_queue(waiting[1], other, v);
        kernel.test_queue(waiting[2], 3, v + SEC);
        for (lead_ns, expected) in [(margin_ns, false), (margin_ns + 1, true)] {
            kernel.test_queue(waiting[0], 1, v + lead_ns);
            // The LLC that is compared is drawn.
            let taken = (0..100).any(|_| kernel.test_choice(2) == Some(other));
            assert_eq!(taken, expected, "LLC {other}, lead {lead_ns} ns");
        }
    }
}

/// Parts of a large cache are queues of their own, whose heads are compared without a margin.
#[test]
fn a_cache_of_many_cpus_keeps_weights_across_its_queues() {
    let config = Config::new(48);
    assert_eq!(config.queues().count(), 3);
    let weights: Vec<u32> = (0..96).map(|i| 50 + 50 * (i % 4)).collect();
    let used = cpus_used(&run(config, hogs_on(CpuSet::ALL, &weights), 60));
    let sum: u32 = weights.iter().sum();
    for (got, weight) in used.iter().zip(weights) {
        let fair = 48.0 * f64::from(weight) / f64::from(sum);
        assert!((got / fair - 1.0).abs() < 0.01, "{got} of {fair}");
    }
}

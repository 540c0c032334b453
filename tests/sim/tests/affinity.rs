// SPDX-License-Identifier: GPL-2.0-only
//! Groups of tasks that share no CPU. All groups have one V. The group with the larger sum of
//! weights always lies behind V, and must still share its CPU by weight.

mod common;

use common::{cpus_used, nice, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::Place;
use drfq_sim::outside::Outside;
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, Step, TaskReport, TaskSpec, Trace};

/// Hogs of these weights that may run only on `cpu`.
fn pinned(cpu: usize, weights: &[u32]) -> Vec<TaskSpec> {
    let hog = |w: &u32| {
        TaskSpec::new(format!("cpu{cpu}w{w}"), Trace::hog())
            .allowed(CpuSet::one(cpu))
            .weight(w * weight_one())
    };
    weights.iter().map(hog).collect()
}

/// Two groups. The one on CPU 0 has more weight, so its virtual time advances more slowly.
fn slow_and_fast() -> Vec<TaskSpec> {
    let mut specs = pinned(0, &[3, 1]);
    specs.extend(pinned(1, &[1, 1]));
    specs
}

#[test]
fn groups_of_different_total_weight_each_share_by_weight() {
    for (first, second) in [
        (vec![3, 1], vec![1, 1]),
        (vec![3, 1, 1, 1], vec![1, 1]),
        (vec![8, 1], vec![1, 2]),
        (vec![3, 2, 1, 3], vec![2, 1]),
    ] {
        let mut specs = pinned(0, &first);
        specs.extend(pinned(1, &second));
        let used = cpus_used(&run(Config::new(2), specs, 60));
        let (of_first, of_second) = used.split_at(first.len());
        for (weights, used) in [(&first, of_first), (&second, of_second)] {
            let sum: u32 = weights.iter().sum();
            for (w, got) in weights.iter().zip(used) {
                let fair = f64::from(*w) / f64::from(sum);
                assert!(
                    (got / fair - 1.0).abs() < 0.01,
                    "{weights:?}: weight {w} got {got:.4} of its CPU, fair {fair:.4}"
                );
            }
        }
    }
}

#[test]
fn a_sleeper_of_the_slower_group_runs_within_a_slice_and_a_tick() {
    for cpu in [0, 1] {
        let mut specs = slow_and_fast();
        specs.push(
            TaskSpec::new("sleeper", Trace::sleeper(MS / 2, 13 * MS)).allowed(CpuSet::one(cpu)),
        );
        let config = Config::new(2);
        let bound = config.slice_ns + config.tick_ns;
        let report = run(config, specs, 60);
        let sleeper = &report.tasks[4];
        assert!(sleeper.wake_latencies_ns.len() > 3000);
        assert!(
            sleeper.max_wake_ns() <= bound,
            "CPU {cpu}: {} ns",
            sleeper.max_wake_ns()
        );
    }
}

#[test]
fn a_late_arrival_of_the_slower_group_gets_its_share_within_two_seconds() {
    let mut specs = slow_and_fast();
    specs.extend(pinned(0, &[1]));
    specs[4].arrival_ns = 20 * SEC;
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(20 * SEC);
    let report = sim.run_until(22 * SEC);
    let got = report.tasks[4].cpu_ns as f64 / (2 * SEC) as f64;
    assert!(
        (got / 0.2 - 1.0).abs() < 0.05,
        "{got:.4} of its CPU, fair 0.2"
    );
}

#[test]
fn a_busy_kernel_thread_of_the_slower_group_gets_its_share() {
    let mut specs = slow_and_fast();
    let busy = Trace::sleeper(3 * MS, MS / 100);
    let kthread = TaskSpec::new("kthread", busy).allowed(CpuSet::one(0));
    specs.push(kthread.kthread());
    specs[4].arrival_ns = 40 * SEC;
    let mut sim = Sim::new(Config::new(2), specs);
    let before = sim.run_until(41 * SEC).tasks[4].cpu_ns;
    let after = sim.run_until(61 * SEC).tasks[4].cpu_ns;
    let got = (after - before) as f64 / (20 * SEC) as f64;
    assert!(
        (got / 0.2 - 1.0).abs() < 0.05,
        "{got:.4} of its CPU, fair 0.2"
    );
}

/// No rescue could find it in a queue. A light one has just paid for a slice by its weight.
#[test]
fn a_reaped_task_of_the_slower_group_is_first_on_a_cpu_that_a_higher_class_gives_back() {
    for weight in [weight_one(), nice(19)] {
        let mut specs = slow_and_fast();
        specs[1] = specs[1].clone().weight(weight);
        let mut sim = Sim::new(Config::new(2), specs);
        let mut now_ns = 20 * SEC;
        sim.run_until(now_ns);
        while sim.kernel().place(1) != Place::Running {
            now_ns += MS;
            sim.run_until(now_ns);
        }
        sim.run_until(now_ns + 2 * MS);
        sim.act(|kernel, now_ns| {
            kernel.reap(1);
            kernel.take_cpu(now_ns, 0);
            assert_eq!(kernel.place(1), Place::Queued);
            kernel.give_cpu(0);
            assert_eq!(kernel.schedule(now_ns, 0), Some(1), "weight {weight}");
        });
    }
}

#[test]
fn a_task_that_moves_between_groups_gets_its_share_without_long_waits() {
    let hop = |cpu| {
        [
            Step::Affinity(CpuSet::one(cpu)),
            Step::Run {
                ns: 200 * MS,
                bytes_per_s: 0,
            },
        ]
    };
    let mut specs = slow_and_fast();
    specs.push(TaskSpec::new(
        "hopper",
        Trace::repeat([hop(0), hop(1)].concat()),
    ));
    let config = Config::new(2);
    // Two rounds of all other tasks on a CPU, and the cap twice.
    let bound = 2 * 4 * config.slice_ns + 2 * config.conf.cap_ns;
    let report = run(config, specs, 60);
    // It runs 200 ms at a fifth of CPU 0, then 200 ms at a third of CPU 1.
    let fair = 2.0 / (5.0 + 3.0);
    let got = cpus_used(&report)[4];
    assert!(
        (got / fair - 1.0).abs() < 0.05,
        "{got:.4} CPUs, fair {fair:.4}"
    );
    assert!(
        report.tasks.iter().all(|t| t.max_wait_ns <= bound),
        "{:?}",
        report
            .tasks
            .iter()
            .map(|t| t.max_wait_ns)
            .collect::<Vec<_>>()
    );
}

/// CPU 1 lies seconds behind the others. A task that must leave CPU 0 for CPU 1 or 2 goes to CPU 2.
#[test]
fn a_task_that_moves_keeps_its_distance_on_the_cpu_that_it_goes_to() {
    let mut specs = pinned(0, &[1, 1]);
    specs.extend(pinned(1, &[8, 8]));
    specs.extend(pinned(2, &[1, 1]));
    let run = |ns| Step::Run { ns, bytes_per_s: 0 };
    let steps = [
        Step::Affinity(CpuSet::one(0)),
        run(5 * SEC),
        Step::Affinity(CpuSet::of(0b110)),
        run(1000 * SEC),
    ];
    specs.push(TaskSpec::new("mover", Trace::once(steps)));
    let mut sim = Sim::new(Config::new(3), specs);
    let mut now_ns = 5 * SEC;
    sim.run_until(now_ns);
    let mut there_ns = 0;
    while sim.kernel().task_cpu(6) == 0 {
        there_ns = sim.kernel().slot_vtime_ns(2);
        now_ns += MS;
        sim.run_until(now_ns);
    }
    let kernel = sim.kernel();
    assert_eq!(kernel.task_cpu(6), 2);
    let behind = there_ns.wrapping_sub(kernel.slot_vtime_ns(1));
    assert!(behind > SEC / 2, "CPU 1 is behind by {behind} ns");
    let distance = kernel.account(6).start_ns.abs_diff(there_ns);
    assert!(distance < 20 * MS, "{distance} ns");
}

/// A task that moves lies after the packet of the CPU that it comes to by what it used of its own.
/// If it lay after the packet that follows its own instead, 32 of them would starve the others.
#[test]
fn tasks_that_move_all_the_time_gain_nothing() {
    for (movers, us) in [(1, 1000), (4, 1000), (16, 30), (32, 200)] {
        let hop = |cpu| {
            let ns = us * 1000;
            [
                Step::Affinity(CpuSet::one(cpu)),
                Step::Run { ns, bytes_per_s: 0 },
            ]
        };
        let mover = |i| {
            TaskSpec::new(
                format!("mover {i}"),
                Trace::repeat([hop(0), hop(1)].concat()),
            )
        };
        let mut specs: Vec<_> = (0..movers).map(mover).collect();
        specs.extend(pinned(0, &[1, 1]));
        specs.extend(pinned(1, &[1, 1]));
        let used = cpus_used(&run(Config::new(2), specs, 20));
        let fair = 2.0 / used.len() as f64;
        let (moved, stayed) = used.split_at(movers);
        assert!(
            moved.iter().all(|got| *got < 1.01 * fair)
                && stayed.iter().all(|got| *got > 0.99 * fair),
            "{movers} that move every {us} us: {used:.4?}, fair {fair:.4}"
        );
    }
}

/// A crowd on CPU 0, far behind the V of CPU 1, and a task that is not of it. A higher class has
/// CPU 0 from 10 s on for 40 ms. Returns what the task met until 15 s.
fn beside_crowd(task: TaskSpec, affinity: Option<CpuSet>) -> TaskReport {
    let mut specs = pinned(0, &[1; 24]);
    specs.extend(pinned(1, &[1, 1]));
    specs.push(task);
    let mut sim = Sim::new(Config::new(2), specs);
    let (cpu, ns) = (0, 40 * MS);
    sim.plan(10 * SEC, Outside::Take { cpu, ns });
    if let Some(allowed) = affinity {
        let task = 26;
        sim.plan(10 * SEC + 20 * MS, Outside::Affinity { task, allowed });
    }
    sim.run_until(10 * SEC);
    let behind_ns = sim.kernel().v_ns() - sim.kernel().slot_vtime_ns(0);
    assert!(behind_ns > SEC, "CPU 0 is behind by {behind_ns} ns");
    sim.run_until(15 * SEC).tasks.swap_remove(26)
}

/// Then the CPU runs no packet by which the task could be placed.
#[test]
fn a_task_that_comes_to_a_crowd_while_a_higher_class_has_its_cpu_runs_in_its_turn() {
    let config = Config::new(2);
    let round_ns = 25 * (config.slice_ns + config.tick_ns);
    let mover = TaskSpec::new("mover", Trace::hog()).allowed(CpuSet::one(1));
    let wait_ns = beside_crowd(mover, Some(CpuSet::one(0))).max_wait_ns;
    assert!(wait_ns < 2 * round_ns, "{wait_ns} ns");
}

#[test]
fn a_task_that_wakes_in_a_crowd_while_a_higher_class_has_its_cpu_runs_soon() {
    let config = Config::new(2);
    let sleeper = TaskSpec::new("sleeper", Trace::sleeper(MS / 2, 13 * MS)).allowed(CpuSet::one(0));
    let wait_ns = beside_crowd(sleeper, None).max_wake_ns();
    assert!(
        wait_ns < 40 * MS + config.slice_ns + config.tick_ns,
        "{wait_ns} ns"
    );
}

/// 24 hogs on two of four CPUs, four on the others, and a sleeper among the 24. A higher class takes CPUs
/// 0 and 1 after 10 s, for 40 ms. Returns how long the sleeper waits at most, ns.
fn wait_in_a_crowd_of_two_cpus(config: Config) -> u64 {
    let hogs = |count: usize, cpus: u128| {
        (0..count)
            .map(move |_| TaskSpec::new("hog", Trace::hog()).allowed(CpuSet::of(cpus)))
            .collect::<Vec<_>>()
    };
    let mut specs = hogs(24, 0b0011);
    specs.extend(hogs(4, 0b1100));
    let sleeper = Trace::sleeper(MS / 2, 13 * MS);
    specs.push(TaskSpec::new("sleeper", sleeper).allowed(CpuSet::of(0b0011)));
    let mut sim = Sim::new(config, specs);
    for cpu in 0..2 {
        sim.plan(10 * SEC, Outside::Take { cpu, ns: 40 * MS });
    }
    sim.run_until(10 * SEC);
    let behind_ns = sim.kernel().v_ns() - sim.kernel().slot_vtime_ns(0);
    assert!(behind_ns > SEC / 2, "CPU 0 is behind by {behind_ns} ns");
    sim.run_until(15 * SEC).tasks.swap_remove(28).max_wake_ns()
}

/// The crowd waits in another queue than pinned tasks: that of parts of an LLC, or that of its LLC.
#[test]
fn a_task_that_wakes_in_a_crowd_of_two_cpus_while_a_higher_class_has_both_runs_soon() {
    for config in [Config::new(4), Config::new(4).llcs(2)] {
        let most_ns = 40 * MS + config.slice_ns + config.tick_ns;
        let wait_ns = wait_in_a_crowd_of_two_cpus(config);
        assert!(wait_ns < most_ns, "{wait_ns} ns");
    }
}

/// The kernel does not ask where to run a task that is pinned.
#[test]
fn a_blocked_packet_costs_the_same_wherever_its_task_may_run() {
    let memory = 4_000_000_000;
    let charged = [0b10, 0b110].map(|cpus| {
        let trace = Trace::repeat([
            Step::Run {
                ns: MS,
                bytes_per_s: 0,
            },
            Step::Sleep {
                ns: 50 * MS,
                dma_bytes: memory,
            },
        ]);
        let tasks = vec![
            TaskSpec::new("hog", Trace::hog()).allowed(CpuSet::one(0)),
            TaskSpec::new("reader", trace).allowed(CpuSet::of(cpus)),
        ];
        let mut sim = Sim::new(Config::new(3).memory(memory), tasks);
        let group = sim.act(|kernel, _| kernel.cgroup_new(None, 100));
        sim.plan_joins(0, group);
        sim.plan_joins(1, group);
        sim.run_until(40 * MS);
        let before_ns = sim.kernel().account(1).bus_vt_ns;
        sim.run_until(51 * MS + MS / 2);
        sim.kernel().account(1).bus_vt_ns - before_ns
    });
    assert!(charged[0] > SEC / 2, "{charged:?}");
    assert_eq!(charged[0], charged[1]);
}

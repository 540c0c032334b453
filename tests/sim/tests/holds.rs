// SPDX-License-Identifier: GPL-2.0-only
//! Delayed wake-up (4.10): which tasks are held, until when, and for how long at most.

mod common;

use common::{cpus_used, hogs, nice, run};
use drfq_sim::ffi::{Charging, before, weight_one};
use drfq_sim::kernel::Place;
use drfq_sim::{Config, CpuSet, MS, Rng, SEC, Sim, Step, TaskSpec, Trace, US};

/// 1 GB/s, so one byte costs 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;

/// The least time between two searches for holds at their bound.
const SEARCH_NS: u64 = 10 * MS;

/// A device moves `dma_ms` of the full bandwidth in each sleep.
fn reader(dma_ms: u64) -> TaskSpec {
    common::reader(dma_ms * MEM / 1000)
}

#[test]
fn an_indebted_task_is_held_until_v_reaches_s_minus_k() {
    for (cpus, hog_count, dma_ms) in [(2, 1, 100), (2, 1, 41), (4, 2, 200), (2, 4, 100)] {
        let mut config = Config::new(cpus).memory(MEM).charging(Charging::Busy);
        config.hold_max_ns = SEC;
        let (k, max_step) = (config.conf.hold_ns, config.tick_ns + config.slice_ns / 4);
        let mut specs = vec![reader(dma_ms)];
        specs.extend(hogs(&vec![weight_one(); hog_count]));
        let mut sim = Sim::new(config, specs);
        let (mut held_before, mut holds, mut late_ns) = (false, 0, 0);
        for step in 0..100_000 {
            let report = sim.run_until(step * 20 * US);
            assert_eq!(report.violations, Vec::<String>::new());
            let due = !before(sim.v_ns().wrapping_add(k), sim.starts()[0]);
            let held = sim.is_held(0);
            // The task is not released early, and is released once an event of a CPU is due.
            assert!(
                held || !held_before || due,
                "released {} ns early",
                report.now_ns
            );
            late_ns = if held && due { late_ns + 20 * US } else { 0 };
            assert!(late_ns <= max_step, "held although V has caught up");
            holds += u32::from(held && !held_before);
            held_before = held;
        }
        assert!(holds >= 5, "{holds} holds");
        let report = sim.run_until(3 * SEC);
        assert_eq!(
            report.counters.released_vtime as usize,
            report.tasks[0].holds_ns.len()
        );
    }
}

#[test]
fn an_indebted_task_runs_at_once_if_no_other_task_exists() {
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    let at_once = config.resched_ns;
    let report = run(config, vec![reader(500)], 10);
    assert_eq!(report.counters.held, 0);
    assert!(report.tasks[0].wake_latencies_ns.len() > 800);
    assert!(report.tasks[0].max_wake_ns() <= at_once);
}

#[test]
fn a_held_task_is_released_when_all_other_tasks_stop() {
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    let at_once = 2 * config.resched_ns;
    let busy = Trace::once([Step::Run {
        ns: 100 * MS,
        bytes_per_s: 0,
    }]);
    let specs = vec![reader(900), TaskSpec::new("busy", busy)];
    let report = run(config, specs, 2);
    assert_eq!(report.counters.released_idle, 1);
    let first_wake = 11 * MS;
    let hold = report.tasks[0].holds_ns[0];
    // The tolerance covers the microseconds of the first switch.
    assert!(hold.abs_diff(100 * MS - first_wake) <= at_once, "{hold} ns");
}

/// A hog of a large weight hardly advances V. A busy CPU's ticks end the hold, also within a
/// slice of many ticks.
#[test]
fn a_hold_ends_at_its_bound_if_v_hardly_moves() {
    for slice_ns in [4 * MS, 60 * MS] {
        let mut config = Config::new(2).memory(MEM).charging(Charging::Busy);
        config.slice_ns = slice_ns;
        let bound = config.hold_max_ns + SEARCH_NS + config.tick_ns + 2 * config.resched_ns;
        let mut specs = vec![reader(5000)];
        specs.extend(hogs(&[nice(-20)]));
        let report = run(config.clone(), specs, 30);
        assert!(report.counters.released_bound > 10);
        for hold in &report.tasks[0].holds_ns {
            assert!((config.hold_max_ns..=bound).contains(hold), "{hold} ns");
        }
    }
}

#[test]
fn no_hold_exceeds_its_bound_with_many_held_tasks() {
    let mut holds = 0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let cpus = rng.range(2, 6) as usize;
        let config = Config::new(cpus).memory(MEM).charging(Charging::Busy);
        let bound = config.hold_max_ns + SEARCH_NS + config.tick_ns + 2 * config.resched_ns;
        let mut specs = hogs(&vec![nice(-20); rng.range(1, cpus as u64 - 1) as usize]);
        specs.extend((0..rng.range(1, 6)).map(|_| reader(rng.log_below(4000))));
        let report = run(config, specs, 10);
        holds += report.counters.held;
        for task in &report.tasks {
            for hold in &task.holds_ns {
                assert!(*hold <= bound, "seed {seed}: {} held {hold} ns", task.name);
            }
        }
    }
    assert!(holds > 1000, "{holds} holds");
}

/// A task pays for CPU time by its place in the queue. A hold is for DMA traffic only.
#[test]
fn a_task_of_low_weight_is_not_held_for_cpu_time() {
    for dma_bytes in [0, MEM / 1_000_000] {
        let steps = [
            Step::Run {
                ns: 4 * MS,
                bytes_per_s: 0,
            },
            Step::Sleep { ns: MS, dma_bytes },
        ];
        let mut specs = hogs(&[nice(0)]);
        specs.push(TaskSpec::new("low", Trace::repeat(steps)).weight(nice(19)));
        let report = run(
            Config::new(2).memory(MEM).charging(Charging::Busy),
            specs,
            20,
        );
        assert_eq!(report.counters.held, 0);
        let used = cpus_used(&report);
        assert!((used[1] - 0.8).abs() < 0.01, "{used:?}");
    }
}

#[test]
fn a_kernel_thread_is_never_held() {
    let specs = |kthread: bool| {
        let mut specs = vec![reader(300)];
        specs[0].kthread = kthread;
        specs.extend(hogs(&[weight_one()]));
        specs
    };
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    assert!(run(config.clone(), specs(false), 5).counters.held > 0);
    assert_eq!(run(config, specs(true), 5).counters.held, 0);
}

/// Others wait for what it frees.
#[test]
fn a_killed_debtor_is_not_held() {
    let held = [false, true].map(|killed| {
        let mut specs = vec![reader(300)];
        specs.extend(hogs(&[weight_one()]));
        let config = Config::new(2).memory(MEM).charging(Charging::Busy);
        let mut sim = Sim::new(config, specs);
        sim.run_until(5 * MS);
        if killed {
            sim.kernel().kill(0);
        }
        sim.run_until(5 * SEC).counters.held
    });
    assert!(held[0] > 0);
    assert_eq!(held[1], 0);
}

/// The purpose of a hold: one task's DMA traffic and another's CPU time get equal dominant shares,
/// although no CPU is contended.
#[test]
fn a_held_reader_gets_the_dominant_share_of_a_hog() {
    let mut config = Config::new(2).memory(MEM).charging(Charging::Busy);
    config.conf.charging = Charging::Always;
    let mut specs = vec![reader(20)];
    specs.extend(hogs(&[weight_one()]));
    let report = run(config, specs, 100);
    let reader = report.tasks[0].dma_bytes as f64 / MEM as f64 / 100.0;
    let hog = report.tasks[1].cpu_ns as f64 / report.now_ns as f64 / 2.0;
    assert!(
        (reader / hog - 1.0).abs() < 0.02,
        "{reader:.4} of the memory, {hog:.4} of the CPUs"
    );
}

/// A debt may be worth seconds, and V may pass it slowly. It keeps no task from a CPU for longer
/// than that.
#[test]
fn a_hold_and_the_wait_after_it_take_at_most_half_a_second() {
    for (hog_count, hog_weight) in [(4, weight_one()), (24, weight_one()), (4, nice(-20))] {
        for dma_ms in [45, 300, 5000] {
            for charging in [Charging::Busy, Charging::Contended] {
                let config = Config::new(2).memory(MEM).charging(charging);
                let mut specs = vec![reader(dma_ms), reader(dma_ms)];
                specs.extend(hogs(&vec![hog_weight; hog_count]));
                let report = run(config, specs, 60);
                let holds: usize = report.tasks[..2].iter().map(|t| t.holds_ns.len()).sum();
                assert!(holds > 20, "{holds} holds");
                for task in &report.tasks[..2] {
                    let wait = task.max_hold_to_run_ns / MS;
                    assert!(wait <= 500, "{dma_ms} ms beside {hog_count}: {wait} ms");
                }
            }
        }
    }
}

/// The CPU that it comes to must know that an urgent task waits there.
#[test]
fn a_released_task_that_moves_to_another_cpu_runs_within_half_a_second() {
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    let mut specs = vec![reader(5000)];
    specs.extend(hogs(&[nice(-20); 8]));
    for (hog, spec) in specs[1..].iter_mut().enumerate() {
        spec.allowed = CpuSet::of(1 << (hog % 2));
    }
    let mut sim = Sim::new(config, specs);
    let mut moved = false;
    for step in 0..60_000 {
        sim.run_until(step * MS);
        let waits = sim.kernel().place(0) == Place::Queued;
        if waits && !moved {
            // From the CPU where it was released.
            let other = 1 << (1 - sim.kernel().task_cpu(0));
            sim.act(|kernel, now_ns| kernel.set_affinity(now_ns, 0, CpuSet::of(other)));
        }
        moved = waits;
    }
    let report = sim.run_until(60 * SEC);
    assert!(report.tasks[0].holds_ns.len() > 20);
    let wait = report.tasks[0].max_hold_to_run_ns / MS;
    assert!(wait <= 500, "{wait} ms");
}

#[test]
fn the_hold_of_a_task_ends_where_it_is_queued_again_and_not_held() {
    let mut specs = vec![reader(5000)];
    specs.extend(hogs(&[nice(-20); 4]));
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    let mut sim = Sim::new(config, specs);
    sim.run_until(30 * MS);
    assert_eq!(sim.kernel().place(0), Place::Held);
    let waits = sim.act(|kernel, now_ns| {
        kernel.kill(0);
        kernel.renice(now_ns, 0, 0);
        (kernel.place(0), kernel.account(0).held)
    });
    assert_eq!(waits, (Place::Queued, 0));
}

/// A change of nice takes a task from its queue and puts it back.
#[test]
fn a_released_task_that_is_queued_again_is_not_held_again() {
    let config = Config::new(2).memory(MEM).charging(Charging::Busy);
    let mut specs = vec![reader(5000)];
    specs.extend(hogs(&[nice(-20); 4]));
    let mut sim = Sim::new(config, specs);
    for step in 0..60_000 {
        sim.run_until(step * MS);
        if step % 5 == 0 && sim.kernel().place(0) == Place::Queued {
            sim.act(|kernel, now_ns| kernel.renice(now_ns, 0, (step % 2) as i32));
        }
    }
    let report = sim.run_until(60 * SEC);
    assert!(report.tasks[0].holds_ns.len() > 20);
    let wait = report.tasks[0].max_hold_to_run_ns / MS;
    assert!(wait <= 500, "{wait} ms");
}

/// Tasks that other pinned tasks keep waiting stay held. One with a larger debt, whose CPUs idle, is
/// released nevertheless.
#[test]
fn a_held_task_does_not_keep_back_one_whose_cpus_are_free() {
    let config = Config::new(4).memory(MEM);
    let (first, rest) = (CpuSet::one(0), CpuSet::of(0b1110));
    let mut specs = vec![reader(300).allowed(rest)];
    specs.extend((0..12).map(|_| reader(100).allowed(first)));
    specs.extend(
        hogs(&[nice(-20); 2])
            .into_iter()
            .map(|hog| hog.allowed(first)),
    );
    let busy = Trace::once([Step::Run {
        ns: 100 * MS,
        bytes_per_s: 0,
    }]);
    specs.extend((0..3).map(|_| TaskSpec::new("busy", busy.clone()).allowed(rest)));
    let bound = 2 * config.resched_ns + config.tick_ns;
    let mut sim = Sim::new(config, specs);
    sim.run_until(50 * MS);
    assert_eq!(
        [0, 1].map(|task| sim.kernel().place(task)),
        [Place::Held; 2]
    );
    let mut now_ns = 50 * MS;
    while (1..4).all(|cpu| !sim.kernel().cpu_is_idle(cpu)) {
        now_ns += 10 * US;
        sim.run_until(now_ns);
    }
    sim.run_until(now_ns + bound);
    assert_ne!(sim.kernel().place(0), Place::Held);
}

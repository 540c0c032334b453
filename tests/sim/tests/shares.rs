// SPDX-License-Identifier: GPL-2.0-only
//! Fair shares of CPU time among tasks that always want to run.

mod common;

use common::{assert_fair, cpus_used, hogs, nice, run};
use drfq_sim::ffi::{self, Charging, weight_one, weight_thesis};
use drfq_sim::reference::fair_cpus;
use drfq_sim::{Config, CpuSet, MS, Rng, SEC, Sim, Step, TaskSpec, Trace, US};

#[test]
fn hogs_share_the_cpus_by_weight() {
    let one = weight_one();
    for cpus in [1, 2, 4] {
        for weights in [vec![1, 1], vec![1, 2], vec![1, 3], vec![1, 2, 3]] {
            let weights: Vec<u32> = weights.iter().map(|w| w * one).collect();
            assert_fair(Config::new(cpus), &weights, 60, 0.01);
        }
        assert_fair(Config::new(cpus), &[nice(-5), nice(0), nice(5)], 60, 0.01);
    }
}

#[test]
fn twelve_equal_hogs_share_four_cpus_equally() {
    assert_fair(Config::new(4), &[weight_one(); 12], 60, 0.01);
}

#[test]
fn hogs_share_by_the_weights_of_4_9() {
    for cpus in [1, 2] {
        let weights = [-2, -1, 0, 1, 2].map(weight_thesis);
        assert_fair(Config::new(cpus), &weights, 60, 0.01);
    }
}

#[test]
fn hogs_of_nice_19_get_their_small_share() {
    // The smallest share, 1.4 %, is 290 slices in 80 s, so one slice is 0.3 % of it.
    assert_fair(Config::new(1), &[nice(0), nice(19)], 80, 0.01);
    assert_fair(Config::new(2), &[nice(0), nice(0), nice(19)], 80, 0.01);
    assert_fair(
        Config::new(2),
        &[nice(0), nice(0), nice(19), nice(19)],
        80,
        0.01,
    );
}

/// A task that is due more than one CPU holds V back. The others must still be ordered by S, not by
/// the cap.
#[test]
fn the_rest_share_by_weight_if_one_task_is_due_more_than_a_cpu() {
    let one = weight_one();
    assert_fair(Config::new(2), &[10 * one, 2 * one, one], 60, 0.01);
    assert_fair(
        Config::new(4),
        &[nice(-20), nice(-20), nice(0), nice(5), nice(5)],
        60,
        0.01,
    );
}

#[test]
fn a_task_due_more_than_a_cpu_saves_up_no_credit() {
    let one = weight_one();
    let mut specs = hogs(&[4 * one, one, one, 4 * one, 4 * one]);
    for late in &mut specs[3..] {
        late.arrival_ns = 60 * SEC;
    }
    let mut sim = Sim::new(Config::new(2), specs);
    let before = sim.run_until(60 * SEC);
    assert!((cpus_used(&before)[0] - 1.0).abs() < 0.01);
    // Now its fair share is 4 of 14 parts of two CPUs.
    let shares = sim.run_until(120 * SEC).shares_since(&before);
    assert!((shares[0] * 14.0 / 4.0 - 1.0).abs() < 0.02, "{shares:?}");
}

#[test]
fn a_packet_lasts_one_slice_if_a_slice_is_one_tick() {
    let config = Config::new(1);
    let slices = 20 * SEC / config.slice_ns;
    let counters = run(config, hogs(&[weight_one(); 2]), 20).counters;
    assert!((counters.switches + counters.continued).abs_diff(slices) <= slices / 100);
}

/// 4.5.2: best effort divides running time by the number of busy CPUs, otherwise by c.
#[test]
fn v_advances_by_c_or_by_the_busy_cpus() {
    for charging in [Charging::Always, Charging::Busy] {
        for busy in 1..=4 {
            let mut config = Config::new(4);
            config.conf.charging = charging;
            let origin = config.v_origin_ns;
            let report = run(config, hogs(&vec![weight_one(); busy]), 20);
            let rate = (report.v_ns - origin) as f64 / report.now_ns as f64;
            let divisor = if charging == Charging::Busy { busy } else { 4 };
            assert!(
                (rate * divisor as f64 - 1.0).abs() < 0.01,
                "{rate:.4} with {busy} of 4"
            );
        }
    }
}

#[test]
fn hogs_of_random_weights_share_by_weight_on_random_machines() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let cpus = rng.range(1, 8) as usize;
        let tasks = rng.range(1, 3 * cpus as u64) as usize;
        let mut config = Config::new(cpus);
        config.exact_slices = rng.below(2) == 0;
        config.conf.charging =
            [Charging::Always, Charging::Busy, Charging::Contended][rng.below(3) as usize];
        config.conf.delta_ns = [0, 40 * MS, ffi::delta_none_ns()][rng.below(3) as usize];
        config.v_origin_ns = [0, 1 << 40, 1 << 63, u64::MAX - 3][rng.below(4) as usize];
        let weights: Vec<u32> = (0..tasks)
            .map(|_| rng.range(weight_one() as u64 / 4, weight_one() as u64 * 4) as u32)
            .collect();
        assert_fair(config, &weights, 30, 0.01);
    }
}

#[test]
fn pinned_hogs_share_their_cpu_by_weight() {
    let one = weight_one();
    let pinned = |name, cpu, w| {
        TaskSpec::new(name, Trace::hog())
            .allowed(CpuSet::one(cpu))
            .weight(w)
    };
    let mut specs = vec![pinned("three", 1, 3 * one), pinned("one", 1, one)];
    specs.extend((0..6).map(|_| pinned("other", 0, one)));
    let used = cpus_used(&run(Config::new(2), specs, 60));
    assert!((used[0] - 0.75).abs() < 0.01, "{used:?}");
    assert!((used[1] - 0.25).abs() < 0.01, "{used:?}");
    for other in &used[2..] {
        assert!((other * 6.0 - 1.0).abs() < 0.01, "{used:?}");
    }
}

#[test]
fn queues_of_llcs_are_as_fair_as_one_queue() {
    let one = weight_one();
    for llcs in [2, 4] {
        assert_fair(Config::new(4).llcs(llcs), &[one; 12], 60, 0.01);
        assert_fair(Config::new(8).llcs(llcs), &[one; 13], 60, 0.01);
        assert_fair(
            Config::new(4).llcs(llcs),
            &[one, one, one, 2 * one, 2 * one, 3 * one],
            60,
            0.01,
        );
    }
}

#[test]
fn random_affinities_get_equal_shares_from_llc_queues_and_one_queue() {
    let mut worst: f64 = 0.0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let llcs = rng.range(2, 4) as usize;
        let cpus = llcs * rng.range(1, 3) as usize;
        let all = (1u64 << cpus) - 1;
        let specs: Vec<TaskSpec> = (0..rng.range(2, 3 * cpus as u64))
            .map(|i| {
                let set = if rng.below(2) == 0 {
                    all
                } else {
                    rng.range(1, all)
                };
                TaskSpec::new(format!("t{i}"), Trace::hog()).allowed(CpuSet::of(set.into()))
            })
            .collect();
        let one = cpus_used(&run(Config::new(cpus), specs.clone(), 30));
        let many = cpus_used(&run(Config::new(cpus).llcs(llcs), specs, 30));
        for (a, b) in one.iter().zip(&many) {
            worst = worst.max((a - b).abs());
        }
    }
    assert!(worst < 0.02, "shares differ by up to {worst:.4} CPUs");
}

/// Each task forks the next one and exits, so all of them together are one flow.
#[test]
fn a_chain_of_forks_gets_one_share() {
    for run_ns in [MS, 3_900_000, 8 * MS] {
        let mut specs = hogs(&[weight_one(); 2]);
        let step = Step::Run {
            ns: run_ns,
            bytes_per_s: 0,
        };
        specs.push(TaskSpec::new("chain", Trace::once([step, Step::Spawn(2)])));
        let used = cpus_used(&run(Config::new(1), specs, 30));
        for hog in &used[..2] {
            assert!(
                (hog * 3.0 - 1.0).abs() < 0.01,
                "a hog has {hog:.4} at {run_ns} ns"
            );
        }
    }
}

/// A parent sleeps while its child runs, then forks the next child. The family is at most one flow.
#[test]
fn a_shell_loop_gets_no_more_than_one_share() {
    for run_ns in [200 * US, MS, 3_900_000] {
        let mut specs = hogs(&[weight_one(); 2]);
        let run_step = |ns| Step::Run { ns, bytes_per_s: 0 };
        // The parent sleeps a little longer than the child runs.
        let wait = Step::Sleep {
            ns: run_ns + run_ns / 10,
            dma_bytes: 0,
        };
        let shell = Trace::repeat([run_step(100 * US), Step::Spawn(3), wait]);
        specs.push(TaskSpec::new("shell", shell));
        let child = TaskSpec::new("child", Trace::once([run_step(run_ns)]));
        specs.push(child.arrival(u64::MAX));
        let used = cpus_used(&run(Config::new(1), specs, 30));
        for hog in &used[..2] {
            assert!(*hog > 0.99 / 3.0, "a hog has {hog:.4} at {run_ns} ns");
        }
        let family: f64 = used[2..].iter().sum();
        assert!(family > 0.05, "the family has {family:.4}");
    }
}

#[test]
fn the_other_task_runs_after_a_yield() {
    let step = Step::Run {
        ns: MS,
        bytes_per_s: 0,
    };
    let specs = vec![
        TaskSpec::new("yields", Trace::repeat([step, Step::Yield])),
        TaskSpec::new("hog", Trace::hog()),
    ];
    let mut sim = Sim::new(Config::new(1), specs);
    sim.run_until(MS / 2);
    assert_eq!(sim.cpu_of(0), Some(0));
    let report = sim.run_until(MS + MS / 2);
    assert_eq!((sim.cpu_of(1), report.counters.yields), (Some(0), 1));
    // Each yield gives the hog one packet. It lasts between half a slice and one and a half.
    let used = cpus_used(&sim.run_until(60_000 * MS));
    assert!((1.0 / 7.0..1.0 / 3.0).contains(&used[0]), "{used:?}");
}

#[test]
fn fair_cpus_is_weighted_max_min() {
    assert_eq!(fair_cpus(&[1, 1], 4), [1.0, 1.0]);
    assert_eq!(fair_cpus(&[1, 2, 3], 1), [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]);
    assert_eq!(fair_cpus(&[10, 2, 1], 2), [1.0, 2.0 / 3.0, 1.0 / 3.0]);
}

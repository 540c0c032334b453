// SPDX-License-Identifier: GPL-2.0-only
//! Invariants on random machines with random workloads. The engine checks them after every event.
//! V has not gone back. No CPU is idle beside a queued task that may use it. Each task runs where
//! it may. No hold exceeds its bound.

mod common;

use common::nice;
use drfq_sim::ffi::{Charging, delta_none_ns, weight_min, weight_one};
use drfq_sim::{Config, CpuSet, MS, Report, Rng, SEC, Sim, Step, TaskSpec, Trace, US};

const MEM: u64 = 5_000_000_000;

fn random_step(rng: &mut Rng, cpus: usize) -> Step {
    match rng.below(12) {
        0 => Step::Yield,
        1 => Step::Affinity(CpuSet::of(rng.range(1, (1 << cpus) - 1).into())),
        2..=6 => Step::Run {
            ns: 20 * US + rng.log_below(50 * MS),
            bytes_per_s: rng.below(2) * rng.log_below(2 * MEM),
        },
        _ => Step::Sleep {
            ns: 200 * US + rng.log_below(100 * MS),
            dma_bytes: rng.below(2) * rng.log_below(MEM / 4),
        },
    }
}

fn random_task(rng: &mut Rng, i: u64, cpus: usize) -> TaskSpec {
    let mut steps: Vec<Step> = (0..rng.range(1, 12))
        .map(|_| random_step(rng, cpus))
        .collect();
    steps.push(Step::Run {
        ns: 20 * US + rng.log_below(20 * MS),
        bytes_per_s: 0,
    });
    let weights = [
        weight_min(),
        nice(19),
        nice(5),
        weight_one(),
        weight_one(),
        nice(-5),
        nice(-20),
    ];
    let trace = Trace {
        steps,
        repeat: rng.below(8) != 0,
    };
    let mut spec = TaskSpec::new(format!("t{i}"), trace)
        .weight(weights[rng.below(weights.len() as u64) as usize])
        .arrival(rng.below(SEC));
    spec.kthread = rng.below(6) == 0;
    if rng.below(3) == 0 {
        spec.allowed = CpuSet::of(rng.range(1, (1 << cpus) - 1).into());
    }
    spec
}

fn random_sim(seed: u64) -> Sim {
    let mut rng = Rng::new(seed);
    let cpus = rng.range(1, 12) as usize;
    let mut config = Config::new(cpus).llcs(rng.range(1, 4.min(cpus as u64)) as usize);
    if rng.below(2) == 0 {
        config = config.memory(MEM);
    }
    config.conf.delta_ns = [0, 40 * MS, delta_none_ns()][rng.below(3) as usize];
    config.conf.charging =
        [Charging::Always, Charging::Busy, Charging::Contended][rng.below(3) as usize];
    config.exact_slices = rng.below(3) == 0;
    config.resched_ns = [0, 2 * US, 50 * US][rng.below(3) as usize];
    config.v_origin_ns = [0, 1 << 40, 1 << 63, 0u64.wrapping_sub(SEC)][rng.below(4) as usize];
    let specs = (0..rng.range(1, 4 * cpus as u64)).map(|i| random_task(&mut rng, i, cpus));
    Sim::new(config, specs.collect())
}

#[test]
fn random_runs_break_no_invariant() {
    let mut seen = Report::default();
    for seed in 0..100 {
        let report = random_sim(seed).run_until(3 * SEC);
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        seen.counters.held += report.counters.held;
        seen.counters.preempts += report.counters.preempts;
        seen.counters.steals += report.counters.steals;
        seen.counters.capped += report.counters.capped;
        seen.counters.yields += report.counters.yields;
        seen.counters.local_kthreads += report.counters.local_kthreads;
        seen.counters.rescued += report.counters.rescued;
        seen.counters.released_idle += report.counters.released_idle;
        seen.counters.released_bound += report.counters.released_bound;
    }
    // Each rule has acted at least once.
    let c = &seen.counters;
    let least = [
        c.held,
        c.preempts,
        c.steals,
        c.capped,
        c.yields,
        c.local_kthreads,
    ]
    .into_iter()
    .chain([c.rescued, c.released_idle, c.released_bound])
    .min();
    assert!(least > Some(0), "{c:?}");
}

/// No task waits for ever, at any weight: a rescue ends it.
#[test]
fn every_wait_in_random_runs_ends_by_a_rescue() {
    for seed in 0..40 {
        let report = random_sim(5000 + seed).run_until(8 * SEC);
        // Tasks that are rescued together run one after the other.
        let bound = 3 * SEC + report.tasks.len() as u64 * 8 * MS;
        for task in &report.tasks {
            assert!(
                task.max_wait_ns <= bound,
                "seed {seed}: {} waited {} ns",
                task.name,
                task.max_wait_ns
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..25 {
        let whole = random_sim(seed).run_until(2 * SEC);
        assert_eq!(whole, random_sim(seed).run_until(2 * SEC));
        // Pausing the simulation does not change its results.
        let mut sim = random_sim(seed);
        for ms in (0..2000).step_by(7) {
            sim.run_until(ms * MS);
        }
        assert_eq!(whole, sim.run_until(2 * SEC), "seed {seed}");
    }
}

/// Virtual time is cyclic, so no result depends on its origin.
#[test]
fn results_do_not_depend_on_where_virtual_time_starts() {
    for seed in 0..20 {
        let from = |v_origin_ns: u64| {
            let mut rng = Rng::new(9000 + seed);
            let cpus = rng.range(1, 4) as usize;
            let mut config = Config::new(cpus).memory(MEM);
            config.v_origin_ns = v_origin_ns;
            let specs = (0..rng.range(1, 8))
                .map(|i| random_task(&mut rng, i, cpus))
                .collect();
            Report {
                v_ns: 0,
                ..Sim::new(config, specs).run_until(3 * SEC)
            }
        };
        let usual = from(1 << 40);
        for v_origin_ns in [0, 1 << 63, (1 << 63) - SEC, 0u64.wrapping_sub(SEC / 2)] {
            assert_eq!(usual, from(v_origin_ns), "seed {seed}");
        }
    }
}

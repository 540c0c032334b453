// SPDX-License-Identifier: GPL-2.0-only
//! Two resources: dominant shares, and the three variants of DRFQ. `drfq_sim::memory` stands in for
//! the memory.

mod common;

use common::{cpus_used, hogs, run};
use drfq_sim::ffi::{delta_none_ns, weight_one};
use drfq_sim::{Config, MS, Report, SEC, Step, TaskSpec, Trace};

/// 10 GB/s.
const MEM: u64 = 10_000_000_000;

/// Each task's dominant share over the whole run: the larger of its shares of the CPUs and of the
/// memory.
fn dominant_shares(report: &Report, cpus: usize) -> Vec<f64> {
    let seconds = report.now_ns as f64 / SEC as f64;
    let share = |t: &drfq_sim::TaskReport| {
        let cpu = t.cpu_ns as f64 / report.now_ns as f64 / cpus as f64;
        cpu.max((t.bytes + t.dma_bytes) as f64 / MEM as f64 / seconds)
    };
    report.tasks.iter().map(share).collect()
}

#[test]
fn memory_heavy_and_cpu_heavy_get_equal_dominant_shares() {
    for cpus in [2, 4] {
        for delta in [0, 40 * MS, delta_none_ns()] {
            // The memory task uses most of the bandwidth while it runs.
            let mut specs = hogs(&vec![weight_one(); 2 * cpus - 1]);
            specs.push(TaskSpec::new("memory", Trace::memory_hog(MEM * 9 / 10)));
            let report = run(Config::new(cpus).memory(MEM).delta(delta), specs, 60);
            let shares = dominant_shares(&report, cpus);
            for share in &shares {
                assert!((share / shares[0] - 1.0).abs() < 0.02, "{shares:?}");
            }
            let memory = report.tasks[2 * cpus - 1].cpu_ns as f64;
            assert!(
                memory < 0.8 * report.tasks[0].cpu_ns as f64,
                "its dominant share is memory"
            );
        }
    }
}

#[test]
fn dominant_shares_follow_the_weights() {
    let mut specs = hogs(&[weight_one(), weight_one(), weight_one()]);
    let memory = TaskSpec::new("memory", Trace::memory_hog(MEM * 9 / 10));
    specs.push(memory.weight(weight_one() / 2));
    let report = run(Config::new(2).memory(MEM), specs, 60);
    let shares = dominant_shares(&report, 2);
    assert!((shares[3] / shares[0] - 0.5).abs() < 0.01, "{shares:?}");
}

/// Returns the CPU time of a task that alternates between phases, relative to a hog's. Each phase
/// is 100 ms of CPU time; every second one moves 95 % of the memory's bandwidth. With c = 2, a cycle
/// is 100 ms of CPU resource time and 95 ms of memory time. The maxima of its phases are 50 and
/// 95 ms.
fn phase_changer(delta_ns: u64) -> f64 {
    let phases = [
        Step::Run {
            ns: 100 * MS,
            bytes_per_s: 0,
        },
        Step::Run {
            ns: 100 * MS,
            bytes_per_s: MEM * 95 / 100,
        },
    ];
    let mut specs = hogs(&[weight_one(); 3]);
    specs.push(TaskSpec::new("phases", Trace::repeat(phases)));
    let used = cpus_used(&run(Config::new(2).memory(MEM).delta(delta_ns), specs, 200));
    used[3] / used[0]
}

#[test]
fn alternating_phases_cost_a_sum_of_maxima_only_in_memoryless() {
    let (memoryless, bounded, dovetailing) = (
        phase_changer(0),
        phase_changer(20 * MS),
        phase_changer(delta_none_ns()),
    );
    // A cycle costs the sum of maxima, 145 ms, or the maximum of sums, 100 ms (Ghodsi et al.).
    assert!(
        (memoryless * 1.45 - 1.0).abs() < 0.02,
        "memoryless {memoryless:.4}"
    );
    assert!(
        (dovetailing - 1.0).abs() < 0.02,
        "dovetailing {dovetailing:.4}"
    );
    // Bounded by 20 ms, a cycle costs 105 ms. In the CPU phase S grows by 30 ms, because memory's
    // virtual time was 20 ms ahead. In the memory phase it grows by 75 ms.
    assert!((bounded * 1.05 - 1.0).abs() < 0.01, "bounded {bounded:.4}");
    assert!(memoryless < bounded && bounded < dovetailing);
}

#[test]
fn without_a_capacity_memory_is_not_charged() {
    let mut specs = hogs(&[weight_one()]);
    specs.push(TaskSpec::new("memory", Trace::memory_hog(MEM)));
    let used = cpus_used(&run(Config::new(1), specs, 20));
    assert!((used[0] - 0.5).abs() < 0.005, "{used:?}");
}

#[test]
fn the_stand_in_memory_never_exceeds_its_capacity() {
    let memory = |i| TaskSpec::new(format!("m{i}"), Trace::memory_hog(MEM));
    let report = run(Config::new(4).memory(MEM), (0..6).map(memory).collect(), 10);
    let bytes: u64 = report.tasks.iter().map(|t| t.bytes).sum();
    let most = MEM * 10;
    assert!(
        (most * 99 / 100..=most).contains(&bytes),
        "{bytes} bytes of {most}"
    );
}

// SPDX-License-Identifier: GPL-2.0-only
//! What the tests of the simulator share.
#![allow(dead_code)] // each test file uses a part

use drfq_sim::reference::{fair_cpus, weight};
use drfq_sim::{Config, MS, Report, SEC, Sim, Step, TaskSpec, Trace};

/// The kernel's weight of a nice value, as `task.bpf.h` converts it.
pub fn nice(value: i32) -> u32 {
    let kernel = match value {
        -20 => 88761,
        -5 => 3121,
        0 => 1024,
        5 => 335,
        19 => 15,
        _ => panic!("not in the part of the table that the tests need"),
    };
    weight(f64::from(kernel) / 1024.0)
}

/// Hogs of these weights.
pub fn hogs(weights: &[u32]) -> Vec<TaskSpec> {
    let hog = |(i, w): (usize, &u32)| TaskSpec::new(format!("hog{i}"), Trace::hog()).weight(*w);
    weights.iter().enumerate().map(hog).collect()
}

/// Runs for `seconds`; nothing that must hold always may have been broken.
pub fn run(config: Config, specs: Vec<TaskSpec>, seconds: u64) -> Report {
    let report = Sim::new(config, specs).run_until(seconds * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    report
}

/// CPUs that each task had on average.
pub fn cpus_used(report: &Report) -> Vec<f64> {
    let used = |t: &drfq_sim::TaskReport| t.cpu_ns as f64 / report.now_ns as f64;
    report.tasks.iter().map(used).collect()
}

/// Hogs get their fair part, each within `tolerance` of it (0.01 is 1 %).
pub fn assert_fair(config: Config, weights: &[u32], seconds: u64, tolerance: f64) {
    let fair = fair_cpus(weights, config.nr_cpus());
    let got = cpus_used(&run(config, hogs(weights), seconds));
    for (i, (got, fair)) in got.iter().zip(&fair).enumerate() {
        let off = (got / fair - 1.0).abs();
        assert!(
            off <= tolerance,
            "hog {i} of {weights:?}: {got:.4} CPUs, fair {fair:.4}"
        );
    }
}

/// Runs for 1 ms, then sleeps for 10 ms, while a device moves `dma_bytes`.
pub fn reader(dma_bytes: u64) -> TaskSpec {
    let steps = [
        Step::Run {
            ns: MS,
            bytes_per_s: 0,
        },
        Step::Sleep {
            ns: 10 * MS,
            dma_bytes,
        },
    ];
    TaskSpec::new("reader", Trace::repeat(steps))
}

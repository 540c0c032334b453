// SPDX-License-Identifier: GPL-2.0-only
//! The three variants of DRFQ with a memory controller that serves the lowest virtual time first:
//! the table of docs/results/controller-agent.md. `drfq_sim::memory` stands in for the memory; its
//! registers are written every ms.

mod common;

use common::run;
use drfq_sim::ffi::{Charging, delta_none_ns, weight_one};
use drfq_sim::{Config, CpuSet, MS, TaskSpec, Trace};

/// 4 GB/s, the thesis' memory.
const MEM: u64 = 4_000_000_000;

/// Runs two streams, each on one CPU of four and each with a demand of `part` of the memory's
/// bandwidth. Packets are charged at each tick. Returns the relative error of the traffic's ratio
/// against the ratio of the weights.
fn ratio_error(delta_ns: u64, weights: (u32, u32), part: f64, tick_ns: u64) -> f64 {
    let mut config = Config::new(4).memory(MEM).delta(delta_ns).controller(MS);
    config.tick_ns = tick_ns;
    // A packet is charged at least R / c, as in the thesis, however many CPUs are idle.
    config.conf.charging = Charging::Always;
    let demand = (MEM as f64 * part) as u64;
    let stream = |name: &str, cpu, weight| {
        TaskSpec::new(name, Trace::memory_hog(demand))
            .weight(weight * weight_one())
            .allowed(CpuSet::one(cpu))
    };
    let specs = vec![stream("a", 0, weights.0), stream("b", 1, weights.1)];
    let report = run(config, specs, 20);
    let bytes = |task: usize| report.tasks[task].bytes as f64;
    bytes(0) / bytes(1) / (f64::from(weights.0) / f64::from(weights.1)) - 1.0
}

const WEIGHTS: [(u32, u32); 4] = [(1, 1), (1, 2), (2, 3), (3, 4)];

#[test]
fn only_memoryless_breaks_weighted_shares() {
    println!("| tick | a stream alone | weights | memoryless | dovetailing | delta-bounded |");
    println!("|---:|---:|---|---:|---:|---:|");
    for (tick_ms, part) in [(1, 0.68), (1, 0.95), (4, 0.68), (4, 0.95)] {
        for weights in WEIGHTS {
            let errors = [0, delta_none_ns(), 40 * MS]
                .map(|delta_ns| ratio_error(delta_ns, weights, part, tick_ms * MS));
            let percent = errors.map(|error| format!("{:.2} %", 100.0 * error));
            let (light, heavy) = weights;
            let percent = percent.join(" | ");
            println!("| {tick_ms} ms | {part} m | {light}:{heavy} | {percent} |");
            let [memoryless, dovetailing, bounded] = errors;
            assert!(dovetailing.abs() < 0.01 && bounded.abs() < 0.01);
            if part > 0.75 && light != heavy {
                // In each update one stream gets little traffic, but is charged R / c.
                assert!(memoryless < -0.02, "{memoryless}");
            }
        }
    }
}

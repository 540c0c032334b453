// SPDX-License-Identifier: GPL-2.0-only
//! The system virtual time V (4.6), which the scheduler finds without a scan at each switch.

mod common;

use common::hogs;
use drfq_sim::ffi::{before, weight_one};
use drfq_sim::{Config, MS, Sim};

/// V may be late by two packets: the one whose end makes a scan due, and the one before, which ended
/// too early for a scan. The offset of the ticks does not matter.
#[test]
fn v_is_at_most_two_packets_behind_the_running_ones() {
    for nr_cpus in [1, 2, 4, 16, 64, 256] {
        for skewed_ticks in [false, true] {
            let mut config = Config::new(nr_cpus);
            config.skewed_ticks = skewed_ticks;
            let packet_ns = config.slice_ns / nr_cpus as u64;
            let mut sim = Sim::new(config, hogs(&vec![weight_one(); 3 * nr_cpus]));
            let mut worst_ns = 0;
            for step in 10..2000 {
                sim.run_until(step * MS + MS / 2);
                let starts = sim.starts();
                let running = (0..starts.len()).filter(|task| sim.cpu_of(*task).is_some());
                let least = running
                    .map(|task| starts[task])
                    .reduce(|a, b| if before(a, b) { a } else { b })
                    .expect("hogs leave no CPU idle");
                worst_ns = worst_ns.max(least.wrapping_sub(sim.v_ns()) as i64);
            }
            assert!(
                worst_ns <= 2 * packet_ns as i64,
                "{nr_cpus} CPUs, skewed: {skewed_ticks}: V is {worst_ns} ns behind"
            );
        }
    }
}

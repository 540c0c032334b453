// SPDX-License-Identifier: GPL-2.0-only
//! Requests through stacked block devices, and traffic counters that die.

use drfq_sim::devices::Way;
use drfq_sim::{Config, MS, Sim, TaskSpec, Trace};

/// One CPU. The engine does not know of these requests and counters, so it checks nothing.
fn config() -> Config {
    Config {
        checked: false,
        ..Config::new(1).memory(4_000_000_000)
    }
}

/// A hog on one CPU submits 64 KiB in this way. Returns what it is charged for, bytes.
fn charged(way: Way) -> u64 {
    charged_to(TaskSpec::new("hog", Trace::hog()), way)
}

/// The same of another task that runs on one CPU.
fn charged_to(hog: TaskSpec, way: Way) -> u64 {
    let mut sim = Sim::new(config(), vec![hog]);
    sim.run_until(10 * MS);
    sim.kernel().submit(0, 65536, way);
    sim.run_until(30 * MS).tasks[0].dma_bytes
}

#[test]
fn a_request_is_charged_once_however_devices_are_stacked() {
    for layers in 0..3 {
        for in_place in [false, true] {
            for partition in [false, true] {
                let way = Way {
                    layers,
                    in_place,
                    partition,
                };
                assert_eq!(charged(way), 65536, "{way:?}");
            }
        }
    }
}

#[test]
fn a_command_of_a_programs_own_making_is_charged_to_its_submitter() {
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", Trace::hog())]);
    sim.run_until(10 * MS);
    sim.kernel().pass_through(0, 65536);
    assert_eq!(sim.run_until(30 * MS).tasks[0].dma_bytes, 65536);
}

/// It submits them for other tasks.
#[test]
fn a_kernel_thread_is_not_charged_for_the_requests_that_it_submits() {
    let hog = TaskSpec::new("kthread", Trace::hog()).kthread();
    assert_eq!(charged_to(hog, Way::default()), 0);
}

#[test]
fn a_counter_that_takes_a_dead_ones_place_charges_only_what_it_counts() {
    let hog = TaskSpec::new("hog", Trace::memory_hog(1_000_000_000));
    let mut sim = Sim::new(config(), vec![hog]);
    sim.run_until(100 * MS);
    sim.kernel().counter_dies(0);
    let before = sim.run_until(200 * MS);
    let charged = |sim: &mut Sim| sim.kernel().account(0).bytes;
    let dead = charged(&mut sim);
    let now_ns = before.now_ns;
    sim.kernel().counter_opens(now_ns, 0);
    sim.run_until(300 * MS);
    let gained = charged(&mut sim) - dead;
    // 100 ms at 1 GB/s; the ticks at both ends may be charged outside.
    assert!((90_000_000..=105_000_000).contains(&gained), "{gained}");
    assert!(sim.kernel().event_count("PMU_READ_ERRORS") > 10);
}

/// What a hog is charged for that reads 1 GB/s for 100 ms while the second counter counts `writes`.
fn charged_with(pmu_events: u32, writes: u64) -> u64 {
    let config = Config {
        pmu_events,
        ..config()
    };
    let hog = TaskSpec::new("hog", Trace::memory_hog(1_000_000_000));
    let mut sim = Sim::new(config, vec![hog]);
    sim.run_until(50 * MS);
    sim.kernel().count_writes(0, writes);
    sim.run_until(100 * MS);
    sim.kernel().account(0).bytes
}

#[test]
fn what_both_counters_count_is_charged() {
    let reads = charged_with(1, 7_000_000);
    assert!((90_000_000..=101_000_000).contains(&reads), "{reads}");
    assert_eq!(charged_with(2, 0), reads);
    assert_eq!(charged_with(2, 7_000_000), reads + 7_000_000);
    assert_eq!(charged_with(0, 7_000_000), 0);
}

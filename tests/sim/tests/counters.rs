// SPDX-License-Identifier: GPL-2.0-only
//! Traffic counters that die, that others take the place of, and that have no hardware.

use drfq_sim::kernel::Kernel;
use drfq_sim::{Config, CpuSet, MS, Sim, Step, TaskSpec, Trace};

/// One CPU. The engine does not know of these counters, so it checks nothing.
fn config() -> Config {
    Config {
        checked: false,
        ..Config::new(1).memory(4_000_000_000)
    }
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

/// The next one is older, when it is read, than the first one was when it died, and has counted less.
#[test]
fn a_counter_that_takes_the_place_of_one_that_died_young_charges_only_what_it_counts() {
    let run = |ns, bytes_per_s| Step::Run { ns, bytes_per_s };
    let trace = Trace::repeat([run(4 * MS + MS / 2, 1_000_000_000), run(100 * MS, 0)]);
    let mut sim = Sim::new(config(), vec![TaskSpec::new("hog", trace)]);
    for (at_us, opens) in [(2_000, false), (3_000, true), (4_200, false), (4_600, true)] {
        sim.run_until(at_us * MS / 1000);
        sim.act(|kernel, now_ns| {
            if opens {
                kernel.counter_opens(now_ns, 0);
            } else {
                kernel.counter_dies(0);
            }
        });
    }
    let moved = sim.run_until(100 * MS).tasks[0].bytes;
    let charged = sim.kernel().account(0).bytes;
    assert!(charged <= moved, "{charged} charged, {moved} moved");
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

/// Others have had the hardware of the counter for a minute but for 1 ms, in which it counted 1 MB.
#[test]
fn a_counter_that_had_no_hardware_for_long_charges_little_of_that_time() {
    let mut kernel = Kernel::new(&Config::new(1).memory(1_000_000_000));
    kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, 0);
    assert_eq!(kernel.schedule(0, 0), Some(0));
    kernel.tick(MS, 0, 0);
    let before = kernel.account(0).bytes;
    kernel.count_traffic(0, 1_000_000);
    kernel.counter_waits(0, 60_000 * MS);
    kernel.tick(60_002 * MS, 0, 0);
    assert_eq!(kernel.account(0).bytes - before, 8_000_000);
}

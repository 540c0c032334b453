// SPDX-License-Identifier: GPL-2.0-only
//! The fuzzer's short form, and every case that it found. `cargo run --release -p drfq-sim --example
//! fuzz` is the long form.

use std::fs;
use std::path::Path;

use drfq_sim::ffi::weight_one;
use drfq_sim::fuzz::{Case, generate, judge};
use drfq_sim::{Config, MS, Sim, TaskSpec, Trace, US};

/// Cases of the short form.
const SEEDS: u64 = 50;

#[test]
fn random_events_break_no_invariant() {
    for seed in 0..SEEDS {
        let finding = judge(&generate(seed));
        assert_eq!(finding, None, "seed {seed}");
    }
}

#[test]
fn some_cases_last_for_longer_than_a_task_may_wait() {
    let long = |case: &Case| !case.fair && case.duration_ns > case.config().wait_bound_ns;
    assert!((0..SEEDS).map(generate).any(|case| long(&case)));
}

#[test]
fn cases_that_were_found_break_no_invariant_any_more() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    for entry in fs::read_dir(cases).expect("tests/sim/cases exists") {
        let path = entry.expect("a directory can be read").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a case can be read");
        let case = Case::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(case.is_valid(), "{}", path.display());
        assert_eq!(judge(&case), None, "{}", path.display());
    }
}

#[test]
fn a_case_survives_its_text() {
    for seed in 0..50 {
        let case = generate(seed);
        assert_eq!(Case::parse(&case.text()), Ok(case), "seed {seed}");
    }
}

/// Two hogs whose packets all begin `used_ns` after a tick, because a heavy sleeper gets the CPU for so
/// long at each second one. The hogs' weights are the golden ratio, so packets start at all
/// differences of S. No task is preempted in vain, so a packet lasts one and a half slices at most.
/// Returns how much of the bound of shares the hogs reach.
fn part_of_bound(used_ns: u64) -> f64 {
    let ratio = f64::midpoint(1.0, 5.0_f64.sqrt());
    let golden = (f64::from(weight_one()) * ratio) as u32;
    let sleeper = Trace::sleeper(used_ns, 8 * MS + US - used_ns);
    let specs = vec![
        TaskSpec::new("a", Trace::hog()),
        TaskSpec::new("b", Trace::hog()).weight(golden),
        TaskSpec::new("sleeper", sleeper).weight(20 * weight_one()),
    ];
    let config = Config::new(1);
    let packet_ns = (config.slice_ns / 2 + config.tick_ns + config.resched_ns) as f64;
    let mut sim = Sim::new(config, specs);
    let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
    for at in 200..20_000 {
        let tasks = sim.run_until(at * MS / 10).tasks;
        let lead = tasks[0].cpu_ns as f64 - tasks[1].cpu_ns as f64 / ratio;
        least = least.min(lead);
        greatest = greatest.max(lead);
    }
    (greatest - least) / (packet_ns + packet_ns / ratio)
}

#[test]
fn a_packet_ends_at_the_tick_nearest_to_its_end() {
    for used_us in [100, 510, 1000, 1500, 1900, 2100, 3000, 3900] {
        let part = part_of_bound(used_us * US);
        assert!(part <= 1.0, "{part:.3} of the bound after {used_us} us");
    }
}

#[test]
fn the_bound_of_shares_is_nearly_reached() {
    let part = part_of_bound(2010 * US);
    assert!(part > 0.9 && part <= 1.0, "{part:.3} of the bound");
}

// SPDX-License-Identifier: GPL-2.0-only
//! The work of a switch, a wake-up and a tick, where it must not grow with the machine or with what
//! runs on it. `cargo run --release -p drfq-sim --example scale` prints all of it.

use drfq_sim::count::Kind;
use drfq_sim::scale::{Load, Operations, measure, worst_share_error};
use drfq_sim::{MS, SEC};

/// Counted for so long: at least 200 switches on the smallest machine.
const WINDOW_NS: u64 = 300 * MS;

/// Fails if the operations of `large` exceed those of `small` by more than a fifth and 0.3. The
/// latter covers operations so rare that their mean depends on chance.
fn assert_flat(what: &str, kinds: &[Kind], small: &Operations, large: &Operations) {
    assert_within(what, kinds, small, large, (1.2, 0.3));
}

/// Fails if the operations of `large` exceed those of `small` times `factor` and `more`.
fn assert_within(
    what: &str,
    kinds: &[Kind],
    small: &Operations,
    large: &Operations,
    (factor, more): (f64, f64),
) {
    for kind in kinds {
        let per = |o: &Operations| {
            let all = [&o.per_switch, &o.per_wakeup, &o.per_tick];
            all.map(|values| values[*kind as usize])
        };
        for (small, large) in per(small).into_iter().zip(per(large)) {
            assert!(
                large <= factor * small + more,
                "{what}: {kind:?} grew from {small:.2} to {large:.2}"
            );
        }
    }
}

/// Line moves and the kernel's steps in queues are left out: they grow, as docs/results/scale.md
/// shows.
#[test]
fn no_work_grows_with_the_cpus() {
    let kinds = [
        Kind::Calls,
        Kind::RemoteLoads,
        Kind::RemoteStores,
        Kind::SharedLoads,
        Kind::SharedStores,
        Kind::Atomics,
        Kind::ListSteps,
        Kind::Lookups,
        Kind::Kfuncs,
    ];
    let small = measure(&Load::new(4, 1), WINDOW_NS);
    let large = measure(&Load::new(128, 1), WINDOW_NS);
    assert_flat("4 to 128 CPUs", &kinds, &small, &large);
    // A CPU compares its queue with one other, however many there are.
    let small = measure(&Load::new(32, 2), WINDOW_NS);
    let large = measure(&Load::new(128, 16), WINDOW_NS);
    assert_flat("2 to 16 LLCs", &kinds, &small, &large);
}

/// A CPU that becomes idle, or busy, looks for tasks that wait elsewhere.
#[test]
fn no_work_grows_with_cpus_of_which_half_idle() {
    let kinds = [
        Kind::Calls,
        Kind::RemoteLoads,
        Kind::RemoteStores,
        Kind::Atomics,
        Kind::ListSteps,
        Kind::Lookups,
        Kind::Kfuncs,
    ];
    let half_idle = |cpus, llcs| {
        let load = Load {
            tasks: cpus,
            ..Load::new(cpus, llcs)
        };
        measure(&load, WINDOW_NS)
    };
    let small = half_idle(16, 2);
    assert_flat("2 to 16 LLCs", &kinds, &small, &half_idle(256, 16));
    // A cache that 256 CPUs share has several queues.
    assert_flat("16 to 256 CPUs", &kinds, &small, &half_idle(256, 1));
}

#[test]
fn no_work_grows_with_the_waiting_tasks() {
    let load = |tasks| Load {
        tasks,
        ..Load::new(8, 2)
    };
    // Shared stores are left out. The scan for V follows the time, so its part of a switch depends
    // on how often CPUs switch.
    let kinds = [
        Kind::Calls,
        Kind::RemoteStores,
        Kind::Atomics,
        Kind::ListSteps,
        Kind::Lookups,
        Kind::Kfuncs,
    ];
    let small = measure(&load(50), WINDOW_NS);
    let large = measure(&load(3000), WINDOW_NS);
    assert_flat("50 to 3000 tasks", &kinds, &small, &large);
}

/// Where tasks wait for more than 0.4 s, urgent ones are rescued. Here is none, or none that waits
/// for long.
#[test]
fn no_work_grows_where_tasks_wait_for_long() {
    for kthreads in [0, 20] {
        no_work_grows_beside(kthreads);
    }
}

fn no_work_grows_beside(kthreads: usize) {
    let load = |tasks| Load {
        tasks,
        kthreads,
        ..Load::new(2, 1)
    };
    let kinds = [Kind::Calls, Kind::ListSteps, Kind::Lookups];
    let small = measure(&load(20), 2 * SEC);
    let large = measure(&load(1000), 2 * SEC);
    let what = format!("20 to 1000 tasks beside {kthreads} kernel threads");
    assert_flat(&what, &kinds, &small, &large);
    if kthreads == 0 {
        // A switch has 18.3 kfuncs among 20 tasks, and 20.4 among 1000. A search for an urgent task
        // in each would make them 21.3.
        assert_within(&what, &[Kind::Kfuncs], &small, &large, (1.14, 0.0));
    } else {
        // Beside kernel threads a switch has 16.4 kfuncs among 20 tasks, and 21.1 among 1000.
        assert_within(&what, &[Kind::Kfuncs], &small, &large, (1.25, 1.0));
    }
}

#[test]
fn no_work_grows_with_the_cgroups() {
    let load = |cgroups| Load {
        cgroups,
        tasks: 300,
        ..Load::new(8, 2)
    };
    let kinds = [
        Kind::Calls,
        Kind::Atomics,
        Kind::Lookups,
        Kind::Kfuncs,
        Kind::ListSteps,
    ];
    let small = measure(&load(10), WINDOW_NS);
    let large = measure(&load(300), WINDOW_NS);
    assert_flat("10 to 300 cgroups", &kinds, &small, &large);
}

/// A charge looks up each level of the task's groups, so those look-ups grow, and nothing else.
#[test]
fn a_level_of_cgroups_costs_one_lookup() {
    const LEVELS: usize = 12;
    let load = |levels| Load {
        cgroups: 30,
        levels,
        ..Load::new(8, 2)
    };
    let kinds = [
        Kind::Calls,
        Kind::RemoteLoads,
        Kind::RemoteStores,
        Kind::SharedLoads,
        Kind::SharedStores,
        Kind::Atomics,
        Kind::ListSteps,
        Kind::Kfuncs,
    ];
    let flat = measure(&load(0), WINDOW_NS);
    let deep = measure(&load(LEVELS), WINDOW_NS);
    let what = "12 more levels of cgroups";
    assert_flat(what, &kinds, &flat, &deep);
    assert_within(
        what,
        &[Kind::Lookups],
        &flat,
        &deep,
        (1.0, LEVELS as f64 + 0.1),
    );
    let lookups = |o: &Operations| o.per_wakeup[Kind::Lookups as usize];
    assert!(lookups(&deep) >= lookups(&flat) + LEVELS as f64 - 0.1);
}

/// With its first debtor, a switch looks at the queue of held tasks: one step, and up to eight calls.
/// Pinned tasks wait for the last CPU.
#[test]
fn no_work_grows_with_the_held_and_pinned_tasks() {
    let kinds = [
        Kind::Calls,
        Kind::Atomics,
        Kind::Lookups,
        Kind::Kfuncs,
        Kind::ListSteps,
        Kind::SharedLoads,
    ];
    for (what, held, pinned) in [("held", 1_usize, 0), ("pinned", 0, 1_usize)] {
        let measured = |tasks: usize| {
            let load = Load {
                held: held * tasks,
                pinned: pinned * tasks,
                ..Load::new(8, 2)
            };
            measure(&load, WINDOW_NS)
        };
        let what = format!("10 to 1,000 {what} tasks");
        let (small, large) = (measured(10), measured(1000));
        assert_flat(&what, &kinds, &small, &large);
        // The kernel keeps a queue as a balanced tree: 100 times the tasks, seven levels more.
        assert_within(&what, &[Kind::KernelSteps], &small, &large, (1.0, 7.0));
    }
}

/// A change of the count of busy CPUs moves one line, and a switch moves a few others.
#[test]
fn the_lines_that_a_switch_moves_grow_by_less_than_half_from_16_to_128_cpus() {
    let small = measure(&Load::new(16, 1), WINDOW_NS);
    let large = measure(&Load::new(128, 8), WINDOW_NS);
    let kinds = [Kind::LineMoves];
    assert_within("16 to 128 CPUs", &kinds, &small, &large, (1.5, 0.3));
}

#[test]
fn shares_of_192_weighted_hogs_on_64_cpus_are_within_one_percent() {
    let worst = worst_share_error(64, 4, 10);
    assert!(worst <= 0.01, "{:.2} %", 100.0 * worst);
}

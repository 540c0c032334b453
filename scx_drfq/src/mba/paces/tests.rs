// SPDX-License-Identifier: GPL-2.0-only
//! The loop with paces, on a model of a scheduler and a memory.

use std::time::Duration;

use super::{
    model::{Fake, Machine, NOW, Want, Want::*, clock},
    *,
};
use crate::mba::PERIOD;

/// Tasks that want so much, by weight.
fn steady(tasks: &[(f64, u32)]) -> Vec<(Want, u32)> {
    tasks
        .iter()
        .map(|&(rate, weight)| (Steady(rate), weight))
        .collect()
}

#[test]
fn groups_get_what_their_weights_are_worth() {
    for (tasks, expected) in [
        (&[(0.9e9, 1), (0.9e9, 1)][..], &[0.5e9, 0.5e9][..]),
        (&[(0.9e9, 1), (0.6e9, 1)], &[0.5e9, 0.5e9]),
        (&[(0.9e9, 3), (0.9e9, 1)], &[0.75e9, 0.25e9]),
        (
            &[(0.9e9, 1), (0.9e9, 1), (0.1e9, 1)],
            &[0.45e9, 0.45e9, 0.1e9],
        ),
    ] {
        let mut machine = Machine::new(&steady(tasks));
        machine.run(100);
        let got = machine.run(50);
        let total: f64 = got.iter().sum();
        assert!(total > 0.95e9, "{tasks:?}: {got:?}");
        for ((got_one, expected), (want, _)) in got.iter().zip(expected).zip(tasks) {
            // The law tests no claim of less than a tenth.
            let bound = if want > expected { 0.05 } else { 0.1 };
            let error = got_one / total / (expected / 1e9) - 1.0;
            assert!(error.abs() < bound, "{tasks:?}: {got:?}");
        }
    }
}

#[test]
fn a_memory_with_room_sets_no_pace() {
    let mut machine = Machine::new(&steady(&[(0.5e9, 1), (0.2e9, 3)]));
    machine.run(50);
    assert_eq!(machine.fake.paces(), 0);
}

#[test]
fn all_paces_end_soon_after_contention() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 3)]));
    machine.run(100);
    assert!(machine.fake.paces() > 0);
    machine.fake.0.lock().unwrap().tasks[1].want = Steady(0.0);
    machine.run(10);
    assert_eq!(machine.fake.paces(), 0);
}

#[test]
fn every_thread_is_in_the_group_in_which_it_was_placed() {
    let fake = Fake::default();
    let mut paces = Paces::new(fake.clone(), clock);
    assert!(paces.monitor(1) && paces.monitor(2));
    paces.place(1, &[10, 11]);
    paces.place(2, &[12]);
    // 11 is new, 12 came from the other group, 13 belongs to no group any more.
    let tasks = [(10, 1), (11, 0), (12, 1), (13, 1), (14, 0)].map(|(pid, pace)| TaskSample {
        pid,
        pace,
        ..TaskSample::default()
    });
    paces.settle(&tasks);
    let groups = fake.0.lock().unwrap().groups.clone();
    assert_eq!(groups, [(11, 1), (12, 2), (13, 0)].into());
}

#[test]
fn what_ended_tasks_moved_counts_for_their_group_and_no_task_counts_twice() {
    NOW.set(Duration::ZERO);
    let fake = Fake::new(&steady(&[(0.2e9, 1), (0.1e9, 1)]));
    fake.0.lock().unwrap().group_bytes.insert(1, 5e9);
    let mut paces = Paces::new(fake.clone(), clock);
    assert!(paces.monitor(1));
    let mut period = |group: u32, ended_bytes: f64| {
        fake.0.lock().unwrap().groups.insert(1, group);
        paces.begin();
        NOW.set(NOW.get() + PERIOD);
        fake.serve(PERIOD.as_secs_f64());
        let mut inner = fake.0.lock().unwrap();
        *inner.group_bytes.entry(1).or_default() += ended_bytes;
        drop(inner);
        paces.begin();
        let rest = paces.rest()[0];
        let mb = |rate: f64| (rate / 1e6).round() as u64;
        (mb(paces.traffic(1)[0]), mb(rest), paces.bytes(1))
    };
    assert_eq!(period(1, 0.0), (0, 100, 20_000_000));
    assert_eq!(period(1, 30e6), (500, 100, 70_000_000));
    assert_eq!(period(0, 0.0), (0, 300, 70_000_000));
}

#[test]
fn a_pace_that_could_not_be_set_is_set_later() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 1)]));
    machine.fake.0.lock().unwrap().refuses = true;
    machine.run(50);
    assert_eq!(machine.running.setup.throttle.failure(), Some("refused"));
    machine.fake.0.lock().unwrap().refuses = false;
    machine.run(50);
    assert!(machine.fake.paces() > 0);
}

#[test]
fn a_pace_that_could_not_be_cleared_ends_with_the_next_group_of_its_index() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 3)]));
    machine.run(100);
    let paced = machine.fake.paces();
    assert!(paced > 0);
    let throttle = &mut machine.running.setup.throttle;
    machine.fake.0.lock().unwrap().refuses = true;
    machine
        .running
        .members
        .values()
        .for_each(|member| throttle.forget(member.id));
    assert_eq!(machine.fake.paces(), paced);
    // A group that would keep the last one's pace is not monitored.
    assert!(!throttle.monitor(100));
    machine.fake.0.lock().unwrap().refuses = false;
    assert!(throttle.monitor(100) && throttle.monitor(101));
    assert_eq!(machine.fake.paces(), 0);
}

#[test]
fn the_loop_leaves_no_pace_behind() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 3)]));
    machine.run(100);
    assert!(machine.fake.paces() > 0);
    let fake = machine.fake.clone();
    drop(machine);
    assert_eq!(fake.paces(), 0);
}

#[test]
fn unreadable_tasks_are_a_failure_and_no_panic() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 3)]));
    machine.run(20);
    machine.fake.0.lock().unwrap().broken = true;
    machine.run(1);
    assert_eq!(machine.running.setup.throttle.failure(), Some("broken"));
}

#[test]
fn rates_that_are_too_old_are_none() {
    let mut machine = Machine::new(&steady(&[(0.9e9, 1), (0.6e9, 3)]));
    machine.run(21);
    let rates = |machine: &mut Machine| {
        let running = &mut machine.running;
        let ids = running.members.values().map(|member| member.id);
        let traffic = |id| running.setup.throttle.traffic(id)[0];
        let rates: Vec<f64> = ids.collect::<Vec<_>>().into_iter().map(traffic).collect();
        let withheld = running.setup.throttle.withheld()[0];
        (rates, withheld)
    };
    let known = rates(&mut machine);
    assert!(known.0.iter().all(|&rate| rate > 0.0), "{known:?}");
    machine.fake.0.lock().unwrap().broken = true;
    machine.run(3);
    assert_eq!(rates(&mut machine), known);
    machine.run(1);
    assert_eq!(rates(&mut machine), (vec![0.0; 2], 0.0));
}

/// max / min - 1 of what the tasks get by weight, in ten windows of 2 s after 4 s: the worst. Only
/// the first `unsatisfied` tasks count.
fn worst_spread(tasks: &[(Want, u32)], unsatisfied: usize) -> f64 {
    let mut machine = Machine::new(tasks);
    machine.run(40);
    let spread = |got: Vec<f64>| {
        let levels = got
            .iter()
            .zip(tasks)
            .map(|(got, task)| got / f64::from(task.1));
        let levels: Vec<f64> = levels.take(unsatisfied).collect();
        let most = levels.iter().copied().fold(0.0, f64::max);
        most / levels.iter().copied().fold(f64::INFINITY, f64::min) - 1.0
    };
    (0..10).map(|_| spread(machine.run(20))).fold(0.0, f64::max)
}

#[test]
fn weights_hold_whatever_a_disk_reads_at_once() {
    // Of 8 MB, the lightest reader begins a request in every other period at most.
    for request in [0.5e6, 1e6, 2e6, 4e6, 8e6] {
        for (stream, most) in [
            (Stream(0.65e9, 0.45), 0.5e9),
            (Stream(0.6e9, 0.3), 0.45e9),
            (Stream(0.7e9, 0.6), 0.6e9),
            (Stream(0.8e9, 0.8), 0.6e9),
        ] {
            for weight in 1..=5 {
                let tasks = [(stream, weight), (Reader(most, request), 1)];
                let worst = worst_spread(&tasks, 2);
                assert!(worst < 0.05, "{tasks:?}: {worst}");
            }
        }
    }
}

#[test]
fn weights_hold_between_three_and_four_groups() {
    let light = (Steady(0.03e9), 1);
    let reader = |request| Reader(0.5e9, request);
    for (tasks, unsatisfied) in [
        (vec![(Stream(0.6e9, 0.4), 4), (reader(4e6), 1), light], 2),
        (
            vec![
                (Steady(0.9e9), 5),
                (reader(4e6), 1),
                (Steady(0.6e9), 2),
                light,
            ],
            3,
        ),
        (
            vec![(Steady(0.9e9), 5), (Steady(0.6e9), 1), (reader(2e6), 2)],
            3,
        ),
    ] {
        let worst = worst_spread(&tasks, unsatisfied);
        assert!(worst < 0.05, "{tasks:?}: {worst}");
    }
}

#[test]
fn a_reader_that_begins_slowly_gets_its_part_later() {
    for weight in 1..=5 {
        let reader = |rate| Reader(rate, 4e6);
        let mut machine = Machine::new(&[(Stream(0.65e9, 0.45), weight), (reader(0.25e9), 1)]);
        machine.run(15);
        machine.fake.0.lock().unwrap().tasks[1].want = reader(0.5e9);
        machine.run(40);
        let got = machine.run(50);
        let error = got[0] / got[1] / f64::from(weight) - 1.0;
        assert!(error.abs() < 0.05, "{weight}:1: {got:?}");
    }
}

#[test]
fn what_groups_moved_first_does_not_decide_what_they_get() {
    for (tasks, fair) in [
        (
            &[(0.9e9, 1), (0.9e9, 1), (0.1e9, 1)][..],
            &[0.45, 0.45, 0.1][..],
        ),
        (&[(0.9e9, 2), (0.9e9, 1), (0.1e9, 1)], &[0.6, 0.3, 0.1]),
        (
            &[(0.9e9, 1), (0.9e9, 1), (0.9e9, 1), (0.1e9, 1)],
            &[0.3, 0.3, 0.3, 0.1],
        ),
        (&[(0.9e9, 1), (0.6e9, 1), (0.2e9, 1)], &[0.4, 0.4, 0.2]),
    ] {
        for first in [0.0, 0.2, 1.0] {
            let mut machine = Machine::new(&steady(tasks));
            let scale = |machine: &mut Machine, by: f64| {
                let inner = &mut *machine.fake.0.lock().unwrap();
                for (task, (rate, _)) in inner.tasks.iter_mut().zip(tasks) {
                    task.want = Steady(rate * by);
                }
            };
            // The groups are found while they move little, and then move so much for a period.
            scale(&mut machine, 0.01);
            machine.run(9);
            scale(&mut machine, first);
            machine.run(1);
            scale(&mut machine, 1.0);
            // Five seconds of the first ten.
            let early: f64 = machine.run(50).iter().sum();
            assert!(early > 0.85e9, "{tasks:?}, {first}: {early}");
            machine.run(150);
            let got = machine.run(100);
            for (got_one, fair) in got.iter().zip(fair) {
                let error = got_one / 1e9 / fair - 1.0;
                assert!(error.abs() < 0.12, "{tasks:?}, {first}: {got:?}");
            }
        }
    }
}

/// What a disk of 0.55e9 moves in the mean of 50 s, ten seconds after the begin, beside four tasks and a
/// light one that moves `burst` in one period of 2 s, which is `phase` after the looks at the tasks.
fn beside_disk(alone: f64, slowed: f64, burst: f64, phase: u32) -> f64 {
    let mut tasks = vec![(Stream(alone, slowed), 1); 4];
    tasks.extend([(Reader(0.55e9, 2e6), 1), (Steady(0.0), 1)]);
    let mut machine = Machine::new(&tasks);
    let mut disk = 0.0;
    for period in 0..600 {
        let light = if period % 20 == phase {
            burst
        } else {
            burst / 20.0
        };
        machine.fake.0.lock().unwrap().tasks[5].want = Steady(light);
        let got = machine.run(1);
        if period >= 100 {
            disk += got[4] / 500.0;
        }
    }
    disk
}

#[test]
fn a_disk_keeps_its_rate_beside_tasks_that_gain_little() {
    for (alone, slowed) in [(0.12e9, 0.0), (0.12e9, 0.02), (0.1e9, 0.03), (0.16e9, 0.04)] {
        let disk = beside_disk(alone, slowed, 0.0, 0);
        assert!(disk > 0.35e9, "{alone}, {slowed}: {disk}");
    }
    // With bursts it comes down to what the tasks move in some phases, the more the tasks gain.
    for (slowed, least) in [(0.0, 0.35e9), (0.02, 0.25e9)] {
        let phases = (0..20).step_by(2);
        let mean = phases.map(|phase| beside_disk(0.12e9, slowed, 0.15e9, phase) / 10.0);
        let mean: f64 = mean.sum();
        assert!(mean > least, "{slowed}: {mean}");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The loop with paces, on a model of a scheduler and a memory.

use std::{
    cell::Cell,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    config::Entity,
    mba::{Loop, PERIOD, Running, SLOT, entities::Hierarchy},
};

thread_local! {
    /// Time of the machine since an arbitrary moment.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn clock() -> Instant {
    *START + NOW.get()
}

struct NoCgroups;

impl Hierarchy for NoCgroups {
    fn cgroup_of(&self, _: u32) -> Option<String> {
        None
    }
    fn weight_of(&self, _: &str) -> Option<f64> {
        None
    }
}

/// Tasks that want `demand` of a memory of 1 GB/s, and what the loop told the scheduler.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    demands: Vec<f64>,
    weights: Vec<u32>,
    bytes: Vec<f64>,
    groups: HashMap<u32, u32>,
    group_bytes: HashMap<u32, f64>,
    paces: HashMap<u32, u64>,
    broken: bool,
    refuses: bool,
}

impl Fake {
    fn new(tasks: &[(f64, u32)]) -> Self {
        let inner = Inner {
            demands: tasks.iter().map(|task| task.0).collect(),
            weights: tasks.iter().map(|task| task.1).collect(),
            bytes: vec![0.0; tasks.len()],
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// The memory serves all tasks for a while, in proportion to their demands where these
    /// exceed it. Returns what each one gets (bytes per second).
    fn serve(&self, seconds: f64) -> Vec<f64> {
        let inner = &mut *self.0.lock().unwrap();
        let limit = |tid: u32| {
            let index = inner.groups.get(&tid).copied().unwrap_or(0);
            let pace = inner.paces.get(&index).copied().unwrap_or(0);
            if pace > 0 {
                1e9 * 2f64.powi(32) / pace as f64
            } else {
                f64::INFINITY
            }
        };
        let demands = (1..).zip(&inner.demands);
        let wanted: Vec<f64> = demands
            .map(|(tid, demand)| demand.min(limit(tid)))
            .collect();
        let full = wanted.iter().sum::<f64>().max(1e9) / 1e9;
        let got: Vec<f64> = wanted.iter().map(|wanted| wanted / full).collect();
        for ((tid, bytes), rate) in (1..).zip(&mut inner.bytes).zip(&got) {
            *bytes += rate * seconds;
            if let Some(&index) = inner.groups.get(&tid) {
                *inner.group_bytes.entry(index).or_default() += rate * seconds;
            }
        }
        got
    }
}

impl Scheduler for Fake {
    fn tasks(&self) -> Result<Vec<TaskSample>, String> {
        let inner = self.0.lock().unwrap();
        if inner.broken {
            return Err("broken".into());
        }
        let tasks = (1..).zip(inner.bytes.iter().zip(&inner.weights));
        let sample = |(pid, (bytes, weight)): (u32, (&f64, &u32))| TaskSample {
            pid,
            tgid: pid,
            weight: weight * drfq_stats::interval::WEIGHT_ONE,
            bytes: *bytes as u64,
            cpu_ns: NOW.get().as_nanos() as u64,
            pace: inner.groups.get(&pid).copied().unwrap_or(0),
            ..TaskSample::default()
        };
        Ok(tasks.map(sample).collect())
    }

    fn bytes(&self, index: u32) -> u64 {
        let inner = self.0.lock().unwrap();
        inner.group_bytes.get(&index).copied().unwrap_or(0.0) as u64
    }

    fn set_group(&self, tid: u32, index: u32) -> Result<(), String> {
        self.0.lock().unwrap().groups.insert(tid, index);
        Ok(())
    }

    fn set_pace(&self, index: u32, pace: u64) -> Result<(), String> {
        assert!((1..DRFQ_PACES).contains(&index), "{index}");
        let mut inner = self.0.lock().unwrap();
        if inner.refuses {
            return Err("refused".into());
        }
        inner.paces.insert(index, pace);
        Ok(())
    }
}

/// The loop on a machine of eight CPUs.
struct Machine<'a> {
    fake: Fake,
    running: Running<'a, NoCgroups>,
}

impl Machine<'_> {
    fn new(tasks: &[(f64, u32)]) -> Self {
        NOW.set(Duration::ZERO);
        let fake = Fake::new(tasks);
        let ready = Loop {
            throttle: Box::new(Paces::new(fake.clone(), clock)),
            curve: Some(curve()),
            capacity: Some(1e9),
            cpus: 8.0,
            entity: Entity::Process,
            state: "hold".into(),
            trace: None,
            point: None,
        };
        let running = Running::new(ready, NoCgroups);
        Self { fake, running }
    }

    /// Runs for some periods. Returns what each task got in the last one (bytes per second).
    fn run(&mut self, periods: u32) -> Vec<f64> {
        let mut got = Vec::new();
        let report = Mutex::default();
        for period in 0..periods {
            if period % 5 == 0 {
                let tasks = self.fake.tasks().unwrap_or_default();
                self.running.look(tasks, clock());
            }
            let plan = self.running.step(PERIOD, &report);
            for slot in 0..plan.classes.first().map_or(0, |class| class.slots.len()) {
                self.running.throttle.apply(&plan.classes, slot);
                got = self.fake.serve(SLOT.as_secs_f64());
                NOW.set(NOW.get() + SLOT);
            }
        }
        got
    }

    fn paces(&self) -> usize {
        let inner = self.fake.0.lock().unwrap();
        inner.paces.values().filter(|&&pace| pace > 0).count()
    }
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
        let mut machine = Machine::new(tasks);
        machine.run(100);
        let mut sums = vec![0.0; tasks.len()];
        for _ in 0..50 {
            let got = machine.run(1);
            sums.iter_mut()
                .zip(got)
                .for_each(|(sum, got)| *sum += got / 50.0);
        }
        let total: f64 = sums.iter().sum();
        assert!(total > 0.9e9, "{tasks:?}: {sums:?}");
        for (sum, expected) in sums.iter().zip(expected) {
            let error = sum / total / (expected / 1e9) - 1.0;
            assert!(error.abs() < 0.05, "{tasks:?}: {sums:?}");
        }
    }
}

#[test]
fn a_memory_with_room_sets_no_pace() {
    let mut machine = Machine::new(&[(0.5e9, 1), (0.2e9, 3)]);
    machine.run(50);
    assert_eq!(machine.paces(), 0);
}

#[test]
fn all_paces_end_soon_after_contention() {
    let mut machine = Machine::new(&[(0.9e9, 1), (0.6e9, 3)]);
    machine.run(100);
    assert!(machine.paces() > 0);
    machine.fake.0.lock().unwrap().demands[1] = 0.0;
    machine.run(10);
    assert_eq!(machine.paces(), 0);
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
    let fake = Fake::new(&[(0.2e9, 1), (0.1e9, 1)]);
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
        let rest = paces.rest(&BTreeMap::new())[0];
        let mb = |rate: f64| (rate / 1e6).round() as u64;
        (mb(paces.traffic(1)[0]), mb(rest), paces.bytes(1))
    };
    assert_eq!(period(1, 0.0), (0, 100, 20_000_000));
    assert_eq!(period(1, 30e6), (500, 100, 70_000_000));
    assert_eq!(period(0, 0.0), (0, 300, 70_000_000));
}

#[test]
fn a_pace_that_could_not_be_set_is_set_later() {
    let mut machine = Machine::new(&[(0.9e9, 1), (0.6e9, 1)]);
    machine.fake.0.lock().unwrap().refuses = true;
    machine.run(50);
    assert_eq!(machine.running.throttle.failure(), Some("refused"));
    machine.fake.0.lock().unwrap().refuses = false;
    machine.run(50);
    assert!(machine.paces() > 0);
}

#[test]
fn the_loop_leaves_no_pace_behind() {
    let mut machine = Machine::new(&[(0.9e9, 1), (0.6e9, 3)]);
    machine.run(100);
    assert!(machine.paces() > 0);
    let fake = machine.fake.clone();
    drop(machine);
    assert!(fake.0.lock().unwrap().paces.values().all(|&pace| pace == 0));
}

#[test]
fn unreadable_tasks_are_a_failure_and_no_panic() {
    let mut machine = Machine::new(&[(0.9e9, 1), (0.6e9, 3)]);
    machine.run(20);
    machine.fake.0.lock().unwrap().broken = true;
    machine.run(1);
    assert_eq!(machine.running.throttle.failure(), Some("broken"));
}

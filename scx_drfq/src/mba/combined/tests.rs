// SPDX-License-Identifier: GPL-2.0-only
//! Both throttles on a model of the kernel's resctrl and of the scheduler's paces.

use std::collections::HashMap;

use drfq_policy::drf::{SLOTS, curve::Curve};
use drfq_resctrl::{
    fake::FakeKernel,
    info::{Info, Vendor},
    reading::{Event, Reading},
};

use super::*;
use crate::{
    config::Entity,
    mba::{
        Loop, Running, SLOT,
        actuator::{self, Actuator},
        paces::model::{Fake, NOW, NoCgroups, Want, clock},
        tests::modelled::{level, place, shape},
    },
};

/// What each task would move alone (bytes per second), in a memory of 1 GB/s, and what it loses of
/// that for what others want.
const WANTED: f64 = 0.6e9;
const SLOWED: f64 = 0.2;

struct Machine<'a> {
    kernel: &'a FakeKernel,
    fake: Fake,
    running: Running<'a, NoCgroups>,
    moved: HashMap<u32, f64>,
    periods: u32,
    /// What resctrl had before the loop began.
    before: String,
}

impl<'a> Machine<'a> {
    fn new(kernel: &'a FakeKernel, weights: &[u32]) -> Self {
        NOW.set(Default::default());
        let tasks: Vec<_> = weights
            .iter()
            .map(|&w| (Want::Stream(WANTED, SLOWED), w))
            .collect();
        let fake = Fake::new(&tasks);
        for tid in 1..=tasks.len() as u32 {
            kernel.start_task(tid, None);
        }
        let before = kernel.snapshot(|_| true);
        let info = Info::read(&kernel, Vendor::Intel).unwrap();
        let classes = info.num_closids as usize - 1;
        let actuator = Actuator::open(kernel, &info, classes, clock).unwrap();
        let curve: Curve = actuator::curve(&info, None).unwrap();
        let paces = Paces::new(fake.clone(), clock);
        let ready = Loop {
            charge: None,
            throttle: Box::new(Combined::new(actuator, paces, curve.min_setting())),
            curve: Some(curve.continued()),
            capacity: vec![1e9],
            cpus: 8.0,
            entity: Entity::Process,
            state: "on".into(),
            hindrance: None,
            caveat: None,
            most: f64::INFINITY,
            trace: None,
            point: None,
            cleaner: None,
        };
        Self {
            kernel,
            fake,
            running: Running::new(ready, NoCgroups),
            moved: HashMap::new(),
            periods: 0,
            before,
        }
    }

    fn level(&self, tid: u32) -> f64 {
        level(self.kernel, tid)
    }

    /// The tasks move for a slot what their levels and paces leave them.
    fn serve(&mut self) -> Vec<f64> {
        let levels: Vec<f64> = (1..=self.count()).map(|tid| self.level(tid)).collect();
        for (task, level) in self.fake.0.lock().unwrap().tasks.iter_mut().zip(levels) {
            task.want = Want::Stream(WANTED * level, SLOWED * level);
        }
        let got = self.fake.serve(SLOT.as_secs_f64());
        for (tid, rate) in (1..).zip(&got) {
            let (class, mon) = place(self.kernel, tid);
            let Some(rmid) = self.kernel.rmid(&format!("{class}/mon_groups/{mon}")) else {
                continue;
            };
            let moved = self.moved.entry(rmid).or_default();
            *moved += rate * SLOT.as_secs_f64();
            let reading = Reading::Bytes(*moved as u64);
            self.kernel.set_reading(rmid, 0, Event::MbmTotal, reading);
        }
        got
    }

    fn count(&self) -> u32 {
        self.fake.0.lock().unwrap().tasks.len() as u32
    }

    /// Runs for some periods. Returns what each task got on average (bytes per second).
    fn run(&mut self, periods: u32) -> Vec<f64> {
        let mut means = vec![0.0; self.count() as usize];
        for _ in 0..periods {
            let tasks = self.periods.is_multiple_of(5).then(|| self.fake.tasks());
            self.periods += 1;
            let look = tasks.map(|tasks| (tasks.unwrap().into(), clock()));
            let plan = self.running.turn(look, &Default::default());
            for slot in 0..SLOTS {
                self.running.apply(&plan, slot);
                for (mean, got) in means.iter_mut().zip(self.serve()) {
                    *mean += got / f64::from(periods) / SLOTS as f64;
                }
                NOW.set(NOW.get() + SLOT);
            }
        }
        means
    }

    fn set_weight(&self, tid: u32, weight: u32) {
        self.fake.0.lock().unwrap().tasks[tid as usize - 1].weight = weight;
    }

    /// The tasks that are in a group of the scheduler.
    fn grouped(&self) -> usize {
        let inner = self.fake.0.lock().unwrap();
        inner.groups.values().filter(|&&index| index > 0).count()
    }
}

#[test]
fn a_share_below_the_lowest_level_is_kept_and_all_is_given_back() {
    for light in [24, 40, 100] {
        let kernel = FakeKernel::new(shape(8, 32));
        let mut machine = Machine::new(&kernel, &[1, light, light, light]);
        machine.run(80);
        let got = machine.run(40);
        // The lowest level leaves the first one a fourteenth of what the others get.
        let ratio = got[1..].iter().sum::<f64>() / 3.0 / got[0] / f64::from(light);
        assert!((0.95..1.05).contains(&ratio), "{light}: {got:?}");
        assert!((machine.level(1) - 0.1).abs() < 1e-9);
        assert_eq!((machine.fake.paces(), machine.grouped()), (1, 1));
        let (fake, before) = (machine.fake.clone(), machine.before.clone());
        drop(machine);
        assert_eq!(fake.paces(), 0);
        assert_eq!(kernel.snapshot(|_| true), before);
    }
}

#[test]
fn paces_below_the_lowest_level_need_no_look_at_all_tasks() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, &[1, 24, 24, 24]);
    machine.run(80);
    let reads = |machine: &Machine| machine.fake.0.lock().unwrap().task_reads;
    let before = reads(&machine);
    machine.run(40);
    assert_eq!(machine.fake.paces(), 1);
    // Those of the loop, each fifth period.
    assert_eq!(reads(&machine) - before, 8);
}

#[test]
fn levels_that_suffice_need_no_group_of_the_scheduler() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, &[1, 2, 3, 4]);
    for _ in 0..20 {
        machine.run(4);
        assert_eq!((machine.fake.paces(), machine.grouped()), (0, 0));
    }
}

#[test]
fn a_pace_ends_when_the_part_grows() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, &[1, 30, 30, 30]);
    machine.run(80);
    assert_eq!(machine.fake.paces(), 1);
    machine.set_weight(1, 30);
    machine.run(KEEP_PERIODS + 60);
    assert_eq!((machine.fake.paces(), machine.grouped()), (0, 0));
    let got = machine.run(20);
    assert!(
        got.iter().all(|rate| (rate / got[1] - 1.0).abs() < 0.05),
        "{got:?}"
    );
}

#[test]
fn what_hinders_mba_ends_the_paces_too() {
    let kernel = FakeKernel::new(shape(8, 32));
    let mut machine = Machine::new(&kernel, &[1, 30, 30, 30]);
    machine.run(80);
    assert_eq!(machine.fake.paces(), 1);
    machine.running.setup.throttle.release();
    assert_eq!(machine.fake.paces(), 0);
    assert!((machine.level(1) - 1.0).abs() < 1e-9);
}

#[test]
fn the_highest_setting_of_the_domains_in_use_is_the_pace() {
    let kernel = FakeKernel::new(shape(8, 32));
    let info = Info::read(&&kernel, Vendor::Intel).unwrap();
    let actuator = Actuator::open(&kernel, &info, 7, clock).unwrap();
    let mut both = Combined::new(actuator, Paces::new(Fake::new(&[]), clock), 10);
    let member = |rates: &[f64]| Member {
        rates: rates.to_vec(),
        ..Member::default()
    };
    both.members.insert(1, member(&[3.0, 1.0]));
    both.members.insert(2, member(&[0.0, 0.0]));
    both.members.insert(3, member(&[0.01, 1.0]));
    for (id, settings, expected) in [
        (1, [100, 100], 100),
        (1, [10, 10], 100),
        (1, [5, 100], 100),
        (1, [5, 2], 50),
        (2, [5, 2], 50),
        (2, [1, 100], 100),
        (3, [100, 2], 20),
        (9, [1, 1], 10),
    ] {
        let pace = both.pace(both.setting(id, &settings));
        assert_eq!(pace, expected, "{id} {settings:?}");
    }
}

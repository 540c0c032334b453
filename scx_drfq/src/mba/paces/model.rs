// SPDX-License-Identifier: GPL-2.0-only
//! A model of a scheduler with paces and of a memory of 1 GB/s, to try the loop on. It is no
//! hardware evidence: it has no banks, no caches and no CPUs.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use drfq_stats::sample::TaskSample;

use super::{Paces, Scheduler, curve};
use crate::{
    bpf_intf::DRFQ_PACES,
    config::Entity,
    mba::{Loop, Running, SLOT, hierarchy::Hierarchy},
};

thread_local! {
    /// Time of the machine since an arbitrary moment.
    pub static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Resolution of the model (s).
const TICK_S: f64 = 1e-3;

/// What a pace saves up, and how long a task waits for it at most (s).
const BURST_S: f64 = 0.02;
const WAIT_MAX_S: f64 = 0.3;

/// Bytes per second that the memory moves at most.
const FULL: f64 = 1e9;

pub fn clock() -> Instant {
    *START + NOW.get()
}

pub struct NoCgroups;

impl Hierarchy for NoCgroups {
    fn cgroup_of(&self, _: u32) -> Option<String> {
        None
    }
    fn weight_of(&self, _: &str) -> Option<f64> {
        None
    }
}

/// What a task would move (bytes per second).
#[derive(Clone, Copy, Debug)]
pub enum Want {
    /// So much, in such small pieces that a pace is a rate. A full memory serves such tasks in
    /// proportion.
    Steady(f64),
    /// The first alone, and less by the second times what the others move: each access waits
    /// for the last one.
    Stream(f64, f64),
    /// A disk moves so much, two requests of so many bytes at a time. A request is charged when
    /// it begins.
    Reader(f64, f64),
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub want: Want,
    pub weight: u32,
    bytes: f64,
    /// What a disk has yet to move for it (bytes).
    pending: f64,
}

/// A group's pace.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    ns_per_byte_q32: u64,
    due_s: f64,
}

impl Pace {
    /// Infinite where there is none.
    fn bytes_per_s(&self) -> f64 {
        1e9 * 2f64.powi(32) / self.ns_per_byte_q32 as f64
    }

    fn waits(&self, now_s: f64) -> bool {
        self.ns_per_byte_q32 > 0 && self.due_s > now_s
    }

    /// What was moved ahead of it (bytes).
    fn ahead(&self, now_s: f64) -> f64 {
        if self.waits(now_s) {
            (self.due_s - now_s) * self.bytes_per_s()
        } else {
            0.0
        }
    }

    fn charge(&mut self, bytes: f64, now_s: f64) {
        let due = self.due_s.max(now_s - BURST_S) + bytes / self.bytes_per_s();
        self.due_s = due.min(now_s + WAIT_MAX_S);
    }

    fn set(&mut self, ns_per_byte_q32: u64, now_s: f64) {
        let ratio = ns_per_byte_q32 as f64 / self.ns_per_byte_q32.max(1) as f64;
        if ns_per_byte_q32 == 0 || self.ns_per_byte_q32 == 0 {
            self.due_s = now_s;
        } else if self.due_s > now_s {
            self.due_s = now_s + (self.due_s - now_s) * ratio;
        }
        self.ns_per_byte_q32 = ns_per_byte_q32;
    }
}

/// Tasks, and what the loop told their scheduler.
#[derive(Clone, Default)]
pub struct Fake(pub Arc<Mutex<Inner>>);

#[derive(Default)]
pub struct Inner {
    pub tasks: Vec<Task>,
    /// How often all tasks were read.
    pub task_reads: u32,
    pub groups: HashMap<u32, u32>,
    pub group_bytes: HashMap<u32, f64>,
    /// What groups had paid for when it was last asked for.
    paid: HashMap<u32, u64>,
    paces: HashMap<u32, Pace>,
    pub broken: bool,
    pub refuses: bool,
}

impl Inner {
    fn pace(&self, tid: u32) -> Pace {
        let index = self.groups.get(&tid).copied().unwrap_or(0);
        self.paces.get(&index).copied().unwrap_or_default()
    }

    /// What each task could move now (bytes per second) if it were alone; 0: it waits.
    fn wanted(&self, now_s: f64) -> Vec<f64> {
        (1..)
            .zip(&self.tasks)
            .map(|(tid, task)| match task.want {
                Want::Steady(rate) => rate.min(self.pace(tid).bytes_per_s()),
                Want::Stream(rate, _) if !self.pace(tid).waits(now_s) => rate,
                Want::Reader(most, _) => most.min(task.pending / TICK_S),
                _ => 0.0,
            })
            .collect()
    }

    /// What each task gets (bytes per second).
    fn share(&self, wanted: &[f64]) -> Vec<f64> {
        let steady = |i: usize| matches!(self.tasks[i].want, Want::Steady(_));
        let sum = |of: bool| -> f64 {
            let all = (0..wanted.len()).filter(|&i| steady(i) == of);
            all.map(|i| wanted[i]).sum()
        };
        let crowd = (sum(true) / (FULL - sum(false)).max(0.1 * FULL)).max(1.0);
        let all: f64 = sum(true) / crowd + sum(false);
        let got = |i: usize| match self.tasks[i].want {
            Want::Stream(_, slowed) if wanted[i] > 0.0 => {
                (wanted[i] - slowed * (all - wanted[i])).max(0.0)
            }
            Want::Steady(_) => wanted[i] / crowd,
            _ => wanted[i],
        };
        (0..wanted.len()).map(got).collect()
    }

    /// Charges what a task has moved or begun to move.
    fn charge(&mut self, tid: u32, bytes: f64, now_s: f64) {
        self.tasks[tid as usize - 1].bytes += bytes;
        let Some(&index) = self.groups.get(&tid).filter(|&&index| index > 0) else {
            return;
        };
        *self.group_bytes.entry(index).or_default() += bytes;
        let steady = matches!(self.tasks[tid as usize - 1].want, Want::Steady(_));
        if let Some(pace) = self.paces.get_mut(&index)
            && !steady
            && pace.ns_per_byte_q32 > 0
        {
            pace.charge(bytes, now_s);
        }
    }

    fn begin_requests(&mut self, now_s: f64) {
        for tid in 1..=self.tasks.len() as u32 {
            let task = self.tasks[tid as usize - 1];
            let Want::Reader(_, request) = task.want else {
                continue;
            };
            let mut pending = task.pending;
            while !self.pace(tid).waits(now_s) && pending <= request {
                pending += request;
                self.tasks[tid as usize - 1].pending = pending;
                self.charge(tid, request, now_s);
            }
        }
    }

    fn tick(&mut self, now_s: f64) -> Vec<f64> {
        self.begin_requests(now_s);
        let got = self.share(&self.wanted(now_s));
        for (tid, rate) in (1..).zip(&got) {
            let task = &mut self.tasks[tid as usize - 1];
            if let Want::Reader(..) = task.want {
                task.pending = (task.pending - rate * TICK_S).max(0.0);
            } else {
                self.charge(tid, rate * TICK_S, now_s);
            }
        }
        got
    }
}

impl Fake {
    /// Tasks by what they want, and their weights.
    pub fn new(tasks: &[(Want, u32)]) -> Self {
        let task = |&(want, weight): &(Want, u32)| Task {
            want,
            weight,
            bytes: 0.0,
            pending: 0.0,
        };
        let inner = Inner {
            tasks: tasks.iter().map(task).collect(),
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// The memory serves all tasks for a while. Returns what each one gets (bytes per second).
    pub fn serve(&self, seconds: f64) -> Vec<f64> {
        let inner = &mut *self.0.lock().unwrap();
        let ticks = (seconds / TICK_S).round() as u32;
        let mut sums = vec![0.0; inner.tasks.len()];
        for tick in 0..ticks {
            let now_s = NOW.get().as_secs_f64() + f64::from(tick) * TICK_S;
            let got = inner.tick(now_s);
            sums.iter_mut()
                .zip(got)
                .for_each(|(sum, got)| *sum += got / f64::from(ticks));
        }
        sums
    }

    /// Groups that have a pace.
    pub fn paces(&self) -> usize {
        let inner = self.0.lock().unwrap();
        let paced = inner.paces.values();
        paced.filter(|pace| pace.ns_per_byte_q32 > 0).count()
    }
}

impl Scheduler for Fake {
    fn tasks(&self) -> Result<Vec<TaskSample>, String> {
        let mut inner = self.0.lock().unwrap();
        if inner.broken {
            return Err("broken".into());
        }
        inner.task_reads += 1;
        let sample = |(pid, task): (u32, &Task)| TaskSample {
            pid,
            tgid: pid,
            weight: task.weight * drfq_stats::interval::WEIGHT_ONE,
            bytes: task.bytes as u64,
            cpu_ns: NOW.get().as_nanos() as u64,
            pace: inner.groups.get(&pid).copied().unwrap_or(0),
            ..TaskSample::default()
        };
        Ok((1..).zip(&inner.tasks).map(sample).collect())
    }

    fn bytes(&self, index: u32) -> u64 {
        let inner = self.0.lock().unwrap();
        inner.group_bytes.get(&index).copied().unwrap_or(0.0) as u64
    }

    fn read_paces(&self) -> Result<(), String> {
        let inner = &mut *self.0.lock().unwrap();
        let now_s = NOW.get().as_secs_f64();
        inner.paid.clear();
        for (&index, &bytes) in &inner.group_bytes {
            let pace = inner.paces.get(&index).copied().unwrap_or_default();
            inner.paid.insert(index, (bytes - pace.ahead(now_s)) as u64);
        }
        Ok(())
    }

    fn paid(&self, index: u32) -> u64 {
        let inner = self.0.lock().unwrap();
        inner.paid.get(&index).copied().unwrap_or(0)
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
        let now_s = NOW.get().as_secs_f64();
        inner.paces.entry(index).or_default().set(pace, now_s);
        Ok(())
    }
}

/// The loop on a machine of eight CPUs.
pub struct Machine<'a> {
    pub fake: Fake,
    pub running: Running<'a, NoCgroups>,
    periods: u32,
}

impl Machine<'_> {
    pub fn new(tasks: &[(Want, u32)]) -> Self {
        NOW.set(Duration::ZERO);
        let fake = Fake::new(tasks);
        let ready = Loop {
            charge: None,
            throttle: Box::new(Paces::new(fake.clone(), clock)),
            curve: Some(curve()),
            capacity: vec![FULL],
            cpus: 8.0,
            entity: Entity::Process,
            state: "hold".into(),
            hindrance: None,
            caveat: None,
            most: f64::INFINITY,
            trace: None,
            point: None,
            cleaner: None,
        };
        let running = Running::new(ready, NoCgroups);
        Self {
            fake,
            running,
            periods: 0,
        }
    }

    /// Runs for some periods. Returns what each task got on average (bytes per second).
    pub fn run(&mut self, periods: u32) -> Vec<f64> {
        let mut sums = vec![0.0; self.fake.0.lock().unwrap().tasks.len()];
        let report = Default::default();
        for _ in 0..periods {
            let tasks = self.periods.is_multiple_of(5).then(|| self.fake.tasks());
            self.periods += 1;
            let look = tasks.map(|tasks| (tasks.unwrap_or_default().into(), clock()));
            let plan = self.running.turn(look, &report);
            for slot in 0..2 {
                if !plan.classes.is_empty() {
                    self.running.setup.throttle.apply(&plan.classes, slot);
                }
                let got = self.fake.serve(SLOT.as_secs_f64());
                NOW.set(NOW.get() + SLOT);
                sums.iter_mut()
                    .zip(got)
                    .for_each(|(sum, got)| *sum += got / 2.0 / f64::from(periods));
            }
        }
        sums
    }
}

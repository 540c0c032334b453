// SPDX-License-Identifier: GPL-2.0-only
//! Throttling without hardware (`--throttle hold`): the scheduler makes the tasks of a group
//! wait that moves more than its pace (bpf/pace.bpf.h). Groups are measured by what their tasks
//! are charged, so they include the traffic of devices. All memory is one domain.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use drfq_policy::drf::{Class, GroupId, curve::Curve};
use drfq_stats::sample::TaskSample;

use super::throttle::{Counts, Throttle};
use crate::{bpf_intf::DRFQ_PACES, charge, loader::Window, tasks};

/// The level that does not throttle (%), and the distance of levels.
const WHOLE: u32 = 100;
const STEP: u32 = 5;

/// Weight of the newest reading in the rate of a group that has no pace.
const NEWEST: f64 = 0.5;

/// A group that moves at least this part of its pace would move more without it.
const LIMITED: f64 = 0.8;

/// What the running scheduler does for the groups.
pub trait Scheduler {
    /// All tasks with their accounts.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn tasks(&self) -> Result<Vec<TaskSample>, String>;

    /// Puts a thread into a group; 0: into none. One that has ended is no error.
    ///
    /// # Errors
    /// Why it cannot.
    fn set_group(&self, tid: u32, index: u32) -> Result<(), String>;

    /// Sets the pace of a group (ns per byte, 32.32 fixed point); 0: it has none.
    ///
    /// # Errors
    /// Why it cannot.
    fn set_pace(&self, index: u32, ns_per_byte_q32: u64) -> Result<(), String>;
}

impl Scheduler for Window<'_> {
    fn tasks(&self) -> Result<Vec<TaskSample>, String> {
        tasks::read(self.tasks).map_err(|error| format!("{error:#}"))
    }

    fn set_group(&self, tid: u32, index: u32) -> Result<(), String> {
        let set = charge::set_pace_group(self.set_pace_group, tid, index);
        set.map(drop)
            .map_err(|error| format!("cannot put task {tid} into a group: {error}"))
    }

    fn set_pace(&self, index: u32, ns_per_byte_q32: u64) -> Result<(), String> {
        let set = charge::set_pace(self.set_pace, index, ns_per_byte_q32);
        set.map(drop)
            .map_err(|error| format!("cannot set a pace: {error}"))
    }
}

/// A group of the scheduler.
#[derive(Default)]
struct Group {
    index: u32,
    tids: BTreeSet<u32>,
    /// Since it is monitored.
    bytes: u64,
    bytes_per_s: f64,
    /// What it moved lately without a pace (bytes per second); none: it was not read yet.
    free: Option<f64>,
    ns_per_byte_q32: u64,
}

impl Group {
    /// What its pace keeps it from (bytes per second).
    fn withheld(&self) -> f64 {
        let limited = self.ns_per_byte_q32 > 0
            && self.bytes_per_s * self.ns_per_byte_q32 as f64 >= LIMITED * 1e9 * 2f64.powi(32);
        if limited {
            (self.free.unwrap_or(0.0) - self.bytes_per_s).max(0.0)
        } else {
            0.0
        }
    }
}

/// The groups of the loop.
pub struct Paces<S: Scheduler> {
    scheduler: S,
    groups: BTreeMap<GroupId, Group>,
    /// What each thread was charged at the begin of the period; none: in the first one.
    charged: Option<(Instant, HashMap<u32, u64>)>,
    rest: f64,
    clock: fn() -> Instant,
    counts: Counts,
    failure: Option<String>,
}

/// The levels of a pace: parts of what a group moves without one.
pub fn curve() -> Curve {
    Curve::linear(STEP, STEP, WHOLE)
}

impl<S: Scheduler> Paces<S> {
    /// No group has a pace yet. `clock`: the time. Tests have their own.
    pub fn new(scheduler: S, clock: fn() -> Instant) -> Self {
        Self {
            scheduler,
            groups: BTreeMap::new(),
            charged: None,
            rest: 0.0,
            clock,
            counts: Counts::default(),
            failure: None,
        }
    }

    fn check(&mut self, done: Result<(), String>) {
        if let Err(reason) = done {
            self.fail(reason);
        }
    }

    /// Adds up what the tasks were charged in `seconds`.
    fn measure(&mut self, tasks: &[TaskSample], before: &HashMap<u32, u64>, seconds: f64) {
        let members = self.groups.iter();
        let group_of: HashMap<u32, GroupId> = members
            .flat_map(|(&id, group)| group.tids.iter().map(move |&tid| (tid, id)))
            .collect();
        let mut moved: BTreeMap<GroupId, u64> = BTreeMap::new();
        let mut rest = 0;
        for task in tasks {
            let before = before.get(&task.pid).copied().unwrap_or(0);
            // A count that went back belongs to another task with the same thread id.
            let bytes = task.bytes.checked_sub(before).unwrap_or(task.bytes);
            match group_of.get(&task.pid) {
                Some(&id) => *moved.entry(id).or_default() += bytes,
                None => rest += bytes,
            }
        }
        self.rest = rest as f64 / seconds;
        for (id, group) in &mut self.groups {
            let bytes = moved.get(id).copied().unwrap_or(0);
            group.bytes += bytes;
            group.bytes_per_s = bytes as f64 / seconds;
            let free = group.free.unwrap_or(group.bytes_per_s);
            let newest = free + NEWEST * (group.bytes_per_s - free);
            if group.ns_per_byte_q32 == 0 {
                group.free = Some(newest);
            }
        }
    }

    /// Gives a group the pace `setting` (% of what it moves without one).
    fn set(&mut self, id: GroupId, setting: u32) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let pace = ns_per_byte_q32(group.free.unwrap_or(0.0), setting);
        if pace == group.ns_per_byte_q32 {
            return;
        }
        group.ns_per_byte_q32 = pace;
        let done = self.scheduler.set_pace(group.index, pace);
        self.counts.writes += 1;
        self.check(done);
    }
}

/// The pace `setting` (%) of a group that moves `free` without one (bytes per second); 0: none.
fn ns_per_byte_q32(free: f64, setting: u32) -> u64 {
    let rate = free * f64::from(setting) / f64::from(WHOLE);
    if setting >= WHOLE || rate <= 0.0 {
        return 0;
    }
    // At least one byte per second.
    (1e9 / rate.max(1.0) * 2f64.powi(32)) as u64
}

impl<S: Scheduler> Throttle for Paces<S> {
    fn begin(&mut self) {
        let tasks = match self.scheduler.tasks() {
            Ok(tasks) => tasks,
            Err(reason) => return self.fail(reason),
        };
        let now = (self.clock)();
        let charged = tasks.iter().map(|task| (task.pid, task.bytes)).collect();
        let before = self.charged.replace((now, charged));
        if let Some((then, before)) = before {
            let seconds = (now - then).as_secs_f64().max(1e-3);
            self.measure(&tasks, &before, seconds);
        }
    }

    fn nr_classes(&self) -> usize {
        DRFQ_PACES as usize - 1
    }

    fn monitor(&mut self, id: GroupId) -> bool {
        let used: BTreeSet<u32> = self.groups.values().map(|group| group.index).collect();
        let Some(index) = (1..DRFQ_PACES).find(|index| !used.contains(index)) else {
            return false;
        };
        let group = Group {
            index,
            ..Group::default()
        };
        self.groups.insert(id, group);
        true
    }

    fn forget(&mut self, id: GroupId) {
        self.set(id, WHOLE);
        for tid in self.groups.remove(&id).map_or(BTreeSet::new(), |g| g.tids) {
            let done = self.scheduler.set_group(tid, 0);
            self.check(done);
        }
    }

    fn place(&mut self, id: GroupId, tids: &[u32]) -> u64 {
        let Some(group) = self.groups.get_mut(&id) else {
            return 0;
        };
        let wanted: BTreeSet<u32> = tids.iter().copied().collect();
        let new: Vec<u32> = wanted.difference(&group.tids).copied().collect();
        let left: Vec<u32> = group.tids.difference(&wanted).copied().collect();
        let index = group.index;
        group.tids = wanted;
        // One that has gone to another group is there already, or will be.
        let elsewhere = |tid: &u32| self.groups.values().any(|group| group.tids.contains(tid));
        let gone: Vec<u32> = left.into_iter().filter(|tid| !elsewhere(tid)).collect();
        let moves = new.into_iter().map(|tid| (tid, index));
        for (tid, index) in moves.chain(gone.into_iter().map(|tid| (tid, 0))) {
            let done = self.scheduler.set_group(tid, index);
            self.check(done);
        }
        0
    }

    fn traffic(&mut self, id: GroupId) -> Vec<f64> {
        vec![self.groups.get(&id).map_or(0.0, |group| group.bytes_per_s)]
    }

    fn rest(&mut self, _: &BTreeMap<GroupId, Vec<f64>>) -> Vec<f64> {
        vec![self.rest]
    }

    fn withheld(&self) -> Vec<f64> {
        vec![self.groups.values().map(Group::withheld).sum()]
    }

    fn bytes(&self, id: GroupId) -> u64 {
        self.groups.get(&id).map_or(0, |group| group.bytes)
    }

    fn apply(&mut self, classes: &[Class], slot: usize) {
        let settings: BTreeMap<GroupId, u32> = classes
            .iter()
            .flat_map(|class| class.groups.iter().map(|&id| (id, class.slots[slot][0])))
            .collect();
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in ids {
            self.set(id, settings.get(&id).copied().unwrap_or(WHOLE));
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn fail(&mut self, reason: String) {
        self.counts.errors += 1;
        self.failure = Some(reason);
    }
}

impl<S: Scheduler> Drop for Paces<S> {
    fn drop(&mut self) {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in ids {
            self.forget(id);
        }
    }
}

#[cfg(test)]
mod tests;

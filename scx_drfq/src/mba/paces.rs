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

use super::{
    gauge::{GAP_PERIODS, INTERVAL_MIN},
    throttle::{Counts, Throttle},
};
use crate::{bpf_intf::DRFQ_PACES, bpf_memory::volatile, charge, loader::Window, tasks};

/// The level that does not throttle (%), and the distance of levels.
pub const WHOLE: u32 = 100;
const STEP: u32 = 1;

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

    /// What the tasks of a group were charged since the scheduler was loaded (bytes), those
    /// that have ended included.
    fn bytes(&self, index: u32) -> u64;

    /// Updates `paid`.
    ///
    /// # Errors
    /// Why it cannot.
    fn read_paces(&self) -> Result<(), String>;

    /// The same as `bytes`, at the last `read_paces`, without what the group had moved ahead
    /// of its pace.
    fn paid(&self, index: u32) -> u64;

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

    fn bytes(&self, index: u32) -> u64 {
        self.paces
            .get(index as usize)
            .map_or(0, |pace| volatile(&pace.bytes))
    }

    fn read_paces(&self) -> Result<(), String> {
        charge::read_paces(self.read_paces).map_err(|error| format!("cannot read paces: {error}"))
    }

    fn paid(&self, index: u32) -> u64 {
        self.paces
            .get(index as usize)
            .map_or(0, |pace| volatile(&pace.paid_bytes))
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
    /// What its index had when it was first monitored (bytes).
    first_bytes: u64,
    /// What it had paid for and been charged at the begin of the period (bytes); none: in its
    /// first one.
    last: Option<(u64, u64)>,
    bytes_per_s: f64,
    /// What it moved lately without a pace (bytes per second); none: it was not read yet.
    free: Option<f64>,
    ns_per_byte_q32: u64,
    /// The slowest pace that it had in this period; 0: none.
    slowest_q32: u64,
    /// What its paces kept it from in the last period (bytes per second).
    withheld: f64,
}

impl Group {
    /// Takes in what it paid for and what it was charged in the period that ends.
    fn measure(&mut self, bytes_per_s: f64, charged: f64) {
        self.bytes_per_s = bytes_per_s;
        let slowest = std::mem::take(&mut self.slowest_q32) as f64;
        if slowest == 0.0 {
            // Where a pace has ended, what was ahead of it counts as paid for at once.
            let free = self.free.unwrap_or(charged);
            // A group that begins moves more and more.
            self.free = Some(charged.max(free + NEWEST * (charged - free)));
        }
        let limited = slowest > 0.0 && bytes_per_s * slowest >= LIMITED * 1e9 * 2f64.powi(32);
        let more = self.free.unwrap_or(0.0) - bytes_per_s;
        self.withheld = if limited { more.max(0.0) } else { 0.0 };
    }
}

/// The groups of the loop.
pub struct Paces<S: Scheduler> {
    scheduler: S,
    groups: BTreeMap<GroupId, Group>,
    /// Each thread at the begin of the period; none: in the first one.
    before: Option<(Instant, HashMap<u32, TaskSample>)>,
    rest: f64,
    /// How many periods the rates are old.
    unknown: u32,
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
            before: None,
            rest: 0.0,
            unknown: 0,
            clock,
            counts: Counts::default(),
            failure: None,
        }
    }

    /// Whether an entity has a group.
    pub fn has(&self, id: GroupId) -> bool {
        self.groups.contains_key(&id)
    }

    /// The entities that have a group.
    pub fn ids(&self) -> Vec<GroupId> {
        self.groups.keys().copied().collect()
    }

    /// What its pace kept an entity from in the last period (bytes per second).
    pub fn withheld_from(&self, id: GroupId) -> f64 {
        self.groups.get(&id).map_or(0.0, |group| group.withheld)
    }

    /// Starts to monitor an entity with these threads at once, without a look at all tasks.
    /// Returns whether it could.
    pub fn admit(&mut self, id: GroupId, tids: &[u32]) -> bool {
        if !self.monitor(id) {
            return false;
        }
        self.place(id, tids);
        let index = self.groups[&id].index;
        for &tid in tids {
            if let Err(reason) = self.scheduler.set_group(tid, index) {
                self.fail(reason);
            }
        }
        true
    }

    /// Ends monitoring, and takes the threads out of the group at once: the next entity may get it.
    pub fn dismiss(&mut self, id: GroupId) {
        let tids = self.groups.get(&id).map(|group| group.tids.clone());
        for tid in tids.unwrap_or_default() {
            if let Err(reason) = self.scheduler.set_group(tid, 0) {
                self.fail(reason);
            }
        }
        self.forget(id);
    }

    /// What an entity moves without a pace is to be measured anew.
    pub fn unlearn(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.free = None;
        }
    }

    /// A period begins, without a look at all tasks. The rest stays unknown, and so does what a
    /// group moved in the period in which it was made.
    pub fn begin_groups(&mut self) {
        let read = self.scheduler.read_paces();
        if read.is_ok() && self.before.is_none() {
            for group in self.groups.values_mut() {
                group.last = Some(counts(&self.scheduler, group.index));
            }
        }
        self.turn(read.map(|()| Vec::new()));
    }

    /// The last period ends, and one begins with these tasks.
    fn turn(&mut self, read: Result<Vec<TaskSample>, String>) {
        let tasks = match read {
            Ok(tasks) => tasks,
            Err(reason) => {
                self.miss();
                return self.fail(reason);
            }
        };
        self.unknown = 0;
        let now = (self.clock)();
        let before = self.before.take();
        if let Some((then, before)) = before {
            let seconds = (now - then).max(INTERVAL_MIN).as_secs_f64();
            self.measure(&tasks, &before, seconds);
        }
        let tasks = tasks.into_iter().map(|task| (task.pid, task));
        self.before = Some((now, tasks.collect()));
    }

    /// No period goes on: the next one begins anew.
    pub fn pause(&mut self) {
        self.before = None;
    }

    /// Takes in what groups and the other tasks were charged in `seconds`. `before`: each task at
    /// their begin.
    fn measure(&mut self, tasks: &[TaskSample], before: &HashMap<u32, TaskSample>, seconds: f64) {
        let moved = |task: &TaskSample| task.rise(before.get(&task.pid), |task| task.bytes);
        let sum = |belongs: &dyn Fn(&TaskSample) -> bool| -> u64 {
            let those = tasks.iter().filter(|task| belongs(task));
            those.map(moved).sum()
        };
        self.rest = sum(&|task| task.pace == 0) as f64 / seconds;
        for group in self.groups.values_mut() {
            let now = counts(&self.scheduler, group.index);
            let (paid, charged) = match group.last.replace(now) {
                Some(then) => (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1)),
                None if tasks.is_empty() => continue,
                // A group that is new has no count of its own of the last period.
                None => [sum(&|task| group.tids.contains(&task.pid)); 2].into(),
            };
            group.measure(paid as f64 / seconds, charged as f64 / seconds);
        }
    }

    /// Notes a period of which nothing is known. Rates that are too old are 0, which ends all paces.
    fn miss(&mut self) {
        self.unknown = self.unknown.saturating_add(1);
        if self.unknown > GAP_PERIODS {
            self.rest = 0.0;
            for group in self.groups.values_mut() {
                (group.bytes_per_s, group.withheld) = (0.0, 0.0);
            }
        }
    }

    /// Gives a group the pace `setting` (% of what it moves without one).
    fn set(&mut self, id: GroupId, setting: u32) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let pace = ns_per_byte_q32(group.free.unwrap_or(0.0), setting);
        let mut set = Ok(());
        if pace != group.ns_per_byte_q32 {
            // What fails is tried again in the next period.
            set = self.scheduler.set_pace(group.index, pace);
            self.counts.writes += 1;
        }
        if set.is_ok() {
            group.ns_per_byte_q32 = pace;
        }
        group.slowest_q32 = group.slowest_q32.max(group.ns_per_byte_q32);
        if let Err(reason) = set {
            self.fail(reason);
        }
    }
}

/// What a group of the scheduler has paid for and been charged (bytes).
fn counts(scheduler: &impl Scheduler, index: u32) -> (u64, u64) {
    (scheduler.paid(index), scheduler.bytes(index))
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
        let read = self.scheduler.tasks();
        let read = read.and_then(|tasks| self.scheduler.read_paces().map(|()| tasks));
        self.turn(read);
    }

    fn nr_classes(&self) -> usize {
        self.room()
    }

    fn room(&self) -> usize {
        DRFQ_PACES as usize - 1
    }

    fn monitor(&mut self, id: GroupId) -> bool {
        let used: BTreeSet<u32> = self.groups.values().map(|group| group.index).collect();
        let Some(index) = (1..DRFQ_PACES).find(|index| !used.contains(index)) else {
            return false;
        };
        // The last group's pace remains if it could not be ended.
        if let Err(reason) = self.scheduler.set_pace(index, 0) {
            self.fail(reason);
            return false;
        }
        let group = Group {
            index,
            first_bytes: self.scheduler.bytes(index),
            ..Group::default()
        };
        self.groups.insert(id, group);
        true
    }

    fn forget(&mut self, id: GroupId) {
        self.set(id, WHOLE);
        self.groups.remove(&id);
    }

    fn place(&mut self, id: GroupId, tids: &[u32]) -> u64 {
        if let Some(group) = self.groups.get_mut(&id) {
            group.tids = tids.iter().copied().collect();
        }
        0
    }

    fn settle(&mut self, tasks: &[TaskSample]) {
        let index_of: HashMap<u32, u32> = self
            .groups
            .values()
            .flat_map(|group| group.tids.iter().map(|&tid| (tid, group.index)))
            .collect();
        for task in tasks {
            let index = index_of.get(&task.pid).copied().unwrap_or(0);
            if index != task.pace
                && let Err(reason) = self.scheduler.set_group(task.pid, index)
            {
                self.fail(reason);
            }
        }
    }

    fn traffic(&mut self, id: GroupId) -> Vec<f64> {
        vec![self.groups.get(&id).map_or(0.0, |group| group.bytes_per_s)]
    }

    fn rest(&mut self) -> Vec<f64> {
        vec![self.rest]
    }

    fn withheld(&self) -> Vec<f64> {
        vec![self.groups.values().map(|group| group.withheld).sum()]
    }

    fn bytes(&self, id: GroupId) -> u64 {
        let moved = |group: &Group| Some(group.last?.1 - group.first_bytes);
        self.groups.get(&id).and_then(moved).unwrap_or(0)
    }

    fn apply(&mut self, classes: &[Class], slot: usize) {
        let settings: BTreeMap<GroupId, u32> = classes
            .iter()
            .flat_map(|class| class.groups.iter().map(|&id| (id, class.slots[slot][0])))
            .collect();
        for id in self.ids() {
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
        for id in self.ids() {
            self.set(id, WHOLE);
        }
    }
}

#[cfg(test)]
pub mod model;
#[cfg(test)]
mod tests;

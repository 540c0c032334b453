// SPDX-License-Identifier: GPL-2.0-only
//! What the loop does to resctrl: a MON group for each monitored entity, and classes
//! into which the throttled ones move.

mod audit;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
    time::Instant,
};

use drfq_policy::drf::{Class, GroupId, curve::Curve};
use drfq_resctrl::{
    error::{Error, Kind, Result},
    fs::ResctrlFs,
    groups::{Ctrl, Group, Groups, Mon, Placed},
    info::{Info, Unit},
    reading::{Event, Reading},
    schemata::{Domain, Resource},
};
use drfq_stats::sample::TaskSample;

use super::{
    gauge::Gauge,
    hidden::{Ended, HIDDEN},
    ids::{foreign_groups, foreign_in_ours, limits},
    memories::Memories,
    rest::{Ours, Rest},
    throttle::{Counts, Throttle},
};

/// AMD's unit of bandwidth (bytes per second).
const EIGHTH_GB: f64 = 125e6;

/// After so many failures to move a thread, the others of an entity wait for the next look: where
/// resctrl is read-only, each of thousands would fail.
const FAILURES_MOST: u32 = 16;

/// The most entities that are monitored, whatever the hardware has. Only entities with 1 % of the
/// traffic, or 2 % of a CPU, matter.
const ROOM_MAX: usize = 128;

/// The most counters that are read in a period: one for each entity and domain.
const READS_MAX: usize = 512;

/// An entity's MON group.
struct Monitored {
    mon: Mon,
    gauges: HashMap<Domain, Gauge>,
    bytes: u64,
    /// Threads that were put into it, or belong to another program's group.
    placed: BTreeMap<u32, bool>,
    /// Another program removed it.
    gone: bool,
}

/// A class of service: our CTRL group, and the settings that it has.
struct Rung {
    ctrl: Ctrl,
    settings: Vec<u32>,
    /// Audits since it held a group.
    unused: u32,
}

/// The groups and classes of the loop. Dropping it removes all of them.
pub struct Actuator<F: ResctrlFs> {
    groups: Groups<F>,
    domains: Vec<Domain>,
    memories: Memories,
    unthrottled: u32,
    /// Classes by number, made when they are first needed.
    classes: Vec<Option<Rung>>,
    monitored: BTreeMap<GroupId, Monitored>,
    /// Threads in our groups that were put into none of them, at the last audit.
    strays: Vec<u32>,
    ended: Ended,
    audits: u32,
    /// Groups that can be monitored, as far as it is known.
    room: usize,
    info: Info,
    /// The most classes that may be used.
    classes_most: usize,
    /// Traffic of the default group without our groups, by domain.
    rest: Vec<Rest>,
    /// The time. Tests have their own.
    clock: fn() -> Instant,
    counts: Counts,
    failure: Option<String>,
}

impl<F: ResctrlFs> Actuator<F> {
    /// Takes over resctrl. `classes`: the most that may be used.
    ///
    /// # Errors
    /// As [`Groups::open`].
    pub fn open(fs: F, info: &Info, classes: usize, clock: fn() -> Instant) -> Result<Self> {
        let classes_most = classes;
        let (classes, room) = limits(&fs, info, classes_most);
        let groups = Groups::open(fs)?;
        let bandwidth = info.bandwidth.as_ref();
        let monitoring = info.monitoring.as_ref();
        let mut domains = monitoring.map_or_else(Vec::new, |found| found.domains.clone());
        if let Some(bandwidth) = bandwidth {
            domains.retain(|domain| bandwidth.domains.contains(domain));
        }
        Ok(Self {
            groups,
            unthrottled: bandwidth.map_or(100, |found| found.max),
            rest: domains.iter().map(|_| Rest::default()).collect(),
            memories: Memories::apart(domains.len()),
            domains,
            classes: (0..classes).map(|_| None).collect(),
            monitored: BTreeMap::new(),
            strays: Vec::new(),
            ended: Ended::default(),
            audits: 0,
            room,
            info: info.clone(),
            classes_most,
            clock,
            counts: Counts::default(),
            failure: None,
        })
    }

    /// The same with one memory for domains that share NUMA nodes. `nodes`: those of each domain.
    pub fn sharing(mut self, nodes: &BTreeMap<Domain, BTreeSet<u32>>) -> Self {
        self.memories = Memories::new(&self.domains, nodes);
        self
    }

    /// The memories, in the order of all vectors.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    fn move_group(&mut self, id: GroupId, class: Option<usize>) {
        let to = match class {
            None => Ctrl::DEFAULT,
            Some(number) => match self.classes.get(number).and_then(Option::as_ref) {
                Some(rung) => rung.ctrl.clone(),
                None => return,
            },
        };
        let Some(monitored) = self.monitored.get_mut(&id) else {
            return;
        };
        if *monitored.mon.parent() != to {
            let moved = self.groups.move_mon(&mut monitored.mon, &to);
            self.counts.moves += 1;
            self.check(moved);
        }
    }

    /// Writes the levels of a class if they differ from what it has. `settings`: of each memory.
    fn set_levels(&mut self, number: usize, settings: &[u32]) {
        let Some(rung) = self.classes.get(number) else {
            return;
        };
        if rung.is_none() {
            let name = format!("c{number}");
            let made = self.groups.create_ctrl(&name);
            match replaced(made, || self.groups.replace_ctrl(&name)) {
                Ok(ctrl) => {
                    self.release_counters(&ctrl, &[Event::MbmTotal, Event::MbmLocal]);
                    let settings = vec![self.unthrottled; self.domains.len()];
                    self.classes[number] = Some(Rung {
                        ctrl,
                        settings,
                        unused: 0,
                    });
                }
                Err(error) => {
                    if error.kind == Kind::NoIds {
                        // Other programs took the classes. An audit tries for more again.
                        self.give_back(number.max(1));
                        self.classes.truncate(number.max(1));
                    }
                    return self.check_made(error);
                }
            }
        }
        let Some(rung) = self.classes[number].as_mut() else {
            return;
        };
        let settings = self.memories.settings(settings);
        let changes = self.domains.iter().zip(&settings).zip(&rung.settings);
        let changes: Vec<(Domain, u32)> = changes
            .filter(|((_, setting), now)| setting != now)
            .map(|((&domain, &setting), _)| (domain, setting))
            .collect();
        if changes.is_empty() {
            return;
        }
        let written = self.groups.set(&rung.ctrl, Resource::Mb, &changes);
        if written.is_ok() {
            rung.settings = settings;
        }
        self.counts.writes += 1;
        self.check(written);
    }

    /// Removes the classes from number `first` on. Their groups return to the default class.
    fn give_back(&mut self, first: usize) {
        for number in first..self.classes.len() {
            let Some(rung) = self.classes[number].take() else {
                continue;
            };
            let inside = self.monitored.iter();
            let inside = inside.filter(|(_, found)| *found.mon.parent() == rung.ctrl);
            for id in inside.map(|(&id, _)| id).collect::<Vec<_>>() {
                self.move_group(id, None);
            }
            let removed = self.groups.remove_ctrl(rung.ctrl);
            self.check(removed);
        }
    }

    /// Returns those to the default group that have left the entity, as to a cgroup that is not
    /// monitored. Most have ended. `tids`: the entity's.
    fn let_go(&mut self, id: GroupId, tids: &[u32]) -> Result<()> {
        let Some(monitored) = self.monitored.get_mut(&id) else {
            return Ok(());
        };
        let stay: HashSet<u32> = tids.iter().copied().collect();
        let left = monitored
            .placed
            .extract_if(.., |tid, _| !stay.contains(tid));
        let ours: Vec<u32> = left.filter(|left| left.1).map(|left| left.0).collect();
        let strays = ours.into_iter().filter(|tid| !self.is_placed(*tid));
        self.put_back(strays)
    }

    fn is_placed(&self, tid: u32) -> bool {
        let mut all = self.monitored.values();
        all.any(|monitored| monitored.placed.contains_key(&tid))
    }

    /// Returns threads to the default group.
    fn put_back(&self, tids: impl Iterator<Item = u32>) -> Result<()> {
        let moved = tids.map(|tid| self.groups.add_task(&Ctrl::DEFAULT, tid).map(drop));
        // One that cannot be moved keeps none of the others.
        moved.fold(Ok(()), Result::and)
    }

    /// Whether a counter is assigned to a group. AMD's ABMC has fewer counters than ids.
    fn is_counted(&self, group: &impl Group) -> bool {
        let reading = |&domain| self.groups.reading(group, domain, Event::MbmTotal);
        let unassigned = |reading| matches!(reading, Ok(Reading::Unassigned));
        !self.domains.iter().map(reading).any(unassigned)
    }

    /// Gives counters back that the kernel assigned to a new group, and that nobody reads: entities
    /// need them.
    fn release_counters(&self, group: &impl Group, events: &[Event]) {
        let monitoring = self.info.monitoring.as_ref();
        if monitoring.is_some_and(|found| found.assignable.is_some()) {
            for &event in events {
                // Without this, fewer entities are monitored.
                let _ = self.groups.release_counters(group, event);
            }
        }
    }

    /// Counts that a group could not be made. Ids in limbo become usable by themselves.
    fn check_made(&mut self, error: Error) {
        if error.kind != Kind::Limbo {
            self.check::<()>(Err(error));
        }
    }

    /// Counts a failure, unless a group has vanished.
    fn check<T>(&mut self, result: Result<T>) {
        if let Err(error) = result
            && error.kind != Kind::Gone
        {
            self.counts.errors += 1;
            self.failure = Some(error.to_string());
        }
    }
}

impl<F: ResctrlFs> Throttle for Actuator<F> {
    fn nr_classes(&self) -> usize {
        self.classes.len()
    }

    fn room(&self) -> usize {
        let readable = READS_MAX / self.domains.len().max(1);
        self.room.min(ROOM_MAX).min(readable)
    }

    fn monitor(&mut self, id: GroupId) -> bool {
        let name = format!("g{id}");
        let made = self.groups.create_mon(&Ctrl::DEFAULT, &name);
        match replaced(made, || self.groups.replace_mon(&Ctrl::DEFAULT, &name)) {
            Ok(mon) => {
                self.release_counters(&mon, &[Event::MbmLocal]);
                if !self.count_again(&mon) {
                    self.room = self.monitored.len();
                    self.failure = Some(format!(
                        "all counters of memory traffic are assigned, so {} groups are monitored",
                        self.room
                    ));
                    let removed = self.groups.remove_mon(mon);
                    self.check(removed);
                    return false;
                }
                let monitored = Monitored {
                    mon,
                    gauges: HashMap::new(),
                    bytes: 0,
                    placed: BTreeMap::new(),
                    gone: false,
                };
                self.monitored.insert(id, monitored);
                true
            }
            Err(error) => {
                if error.kind == Kind::NoIds {
                    // Other programs took ids.
                    self.room = self.monitored.len();
                }
                self.check_made(error);
                false
            }
        }
    }

    fn forget(&mut self, id: GroupId) {
        if let Some(monitored) = self.monitored.remove(&id) {
            // Its class would keep the tasks when its MON group goes.
            let list = || self.groups.tasks(&monitored.mon).unwrap_or_default();
            let left = self.groups.add_tasks(&Ctrl::DEFAULT, list);
            self.check(left);
            let removed = self.groups.remove_mon(monitored.mon);
            self.check(removed);
        }
    }

    fn place(&mut self, id: GroupId, tids: &[u32]) -> u64 {
        let mut failed = self.let_go(id, tids).err();
        let mut failures = 0;
        let Some(monitored) = self.monitored.get_mut(&id) else {
            return 0;
        };
        for &tid in tids {
            if monitored.placed.contains_key(&tid) {
                continue;
            }
            if failures == FAILURES_MOST {
                break;
            }
            match self.groups.add_task(&monitored.mon, tid) {
                Ok(Placed::Foreign) => {
                    monitored.placed.insert(tid, false);
                }
                Ok(Placed::Moved | Placed::Already) => {
                    monitored.placed.insert(tid, true);
                }
                Ok(Placed::Ended) => self.ended.note(tid),
                Err(error) => {
                    failures += 1;
                    failed = Some(error);
                }
            }
        }
        let foreign = monitored.placed.values().filter(|&&ours| !ours).count() as u64;
        if let Some(error) = failed {
            self.check::<()>(Err(error));
        }
        foreign
    }

    /// A new thread begins in the group of the one that started it. If it goes to another cgroup
    /// before a look, only an audit of the group's tasks finds it.
    fn settle(&mut self, tasks: &[TaskSample]) {
        let strays = mem::take(&mut self.strays);
        let strays = strays.into_iter().filter(|tid| !self.is_placed(*tid));
        let back = self.put_back(strays);
        self.check(back);
        let placed = self.monitored.values().map(|found| found.placed.len());
        if self.ended.hidden(tasks) > placed.sum() {
            self.fail(HIDDEN.into());
        }
    }

    fn audit(&mut self) -> Vec<GroupId> {
        self.strays.clear();
        self.audits = self.audits.wrapping_add(1);
        self.audit_ids();
        for number in 0..self.classes.len() {
            self.audit_class(number);
            self.audit_use(number);
        }
        for id in self.monitored.keys().copied().collect::<Vec<_>>() {
            self.audit_tasks(id);
        }
        self.audit_strays();
        let uncounted = self.audit_counters();
        let gone = self.monitored.extract_if(.., |_, found| found.gone);
        gone.map(|(id, _)| id).chain(uncounted).collect()
    }

    fn hindrance(&self) -> Option<String> {
        let fs = self.groups.fs();
        for (found, words) in [
            (
                foreign_groups(fs, ""),
                "another program has classes in resctrl",
            ),
            // Our levels would throttle what it monitors.
            (
                foreign_in_ours(fs),
                "another program monitors groups in our classes of resctrl",
            ),
        ] {
            match found {
                Ok(foreign) if foreign.is_empty() => {}
                Ok(foreign) => return Some(format!("{words}: {}", foreign.len())),
                Err(error) => {
                    return Some(format!("the groups in resctrl cannot be listed: {error}"));
                }
            }
        }
        // A task that we move to a class would escape them.
        let schemata = match self.groups.schemata(&Ctrl::DEFAULT) {
            Ok(schemata) => schemata,
            Err(error) => return Some(error.to_string()),
        };
        let limits = self.info.limits(&schemata)?;
        Some(format!("the default group of resctrl has limits: {limits}"))
    }

    fn release(&mut self) {
        self.give_back(0);
    }

    fn traffic(&mut self, id: GroupId) -> Vec<f64> {
        let Some(monitored) = self.monitored.get_mut(&id) else {
            return vec![0.0; self.memories.count()];
        };
        let (mut rates, mut failed) = (Vec::new(), None);
        for (index, &domain) in self.domains.iter().enumerate() {
            let gauge = monitored.gauges.entry(domain);
            let gauge = gauge.or_insert_with(|| Gauge::new((self.clock)()));
            let was_readable = gauge.is_readable();
            let mut has_gone = false;
            let reading = match self.groups.reading(&monitored.mon, domain, Event::MbmTotal) {
                Ok(reading) => reading,
                Err(error) => {
                    has_gone = vanished(&error);
                    failed = Some(error);
                    Reading::Error
                }
            };
            let moved = gauge.take(reading, (self.clock)());
            monitored.bytes += moved.map_or(0, |moved| moved.bytes);
            if has_gone {
                // The last rate would count a second time: its tasks are in the default group.
                gauge.end();
                monitored.gone = true;
            }
            rates.push(gauge.rate());
            if gauge.is_readable() != was_readable {
                // The kernel's count of the default group leaves out what it cannot read, perhaps
                // from another moment on.
                self.rest[index].restart();
            }
        }
        if let Some(error) = failed {
            self.check::<()>(Err(error));
        }
        self.memories.sums(&rates)
    }

    fn bytes(&self, id: GroupId) -> u64 {
        self.monitored.get(&id).map_or(0, |found| found.bytes)
    }

    fn apply(&mut self, classes: &[Class], slot: usize) {
        for (number, class) in classes.iter().enumerate() {
            if !class.groups.is_empty() {
                self.set_levels(number, &class.slots[slot]);
            }
        }
        let class_of: HashMap<GroupId, usize> = classes
            .iter()
            .enumerate()
            .flat_map(|(number, class)| class.groups.iter().map(move |&id| (id, number)))
            .collect();
        let ids: Vec<GroupId> = self.monitored.keys().copied().collect();
        for id in ids {
            self.move_group(id, class_of.get(&id).copied());
        }
    }

    fn unplaced(&self, classes: &[Class]) -> Vec<GroupId> {
        let mut unplaced = Vec::new();
        for (number, class) in classes.iter().enumerate() {
            let rung = self.classes.get(number).and_then(Option::as_ref);
            let is_in = |id: &&GroupId| {
                let parent = self.monitored.get(id).map(|found| found.mon.parent());
                parent.is_some() && parent == rung.map(|rung| &rung.ctrl)
            };
            unplaced.extend(class.groups.iter().filter(|id| !is_in(id)));
        }
        unplaced
    }

    fn rest(&mut self) -> Vec<f64> {
        for (rest, &domain) in self.rest.iter_mut().zip(&self.domains) {
            let reading = self.groups.reading(&Ctrl::DEFAULT, domain, Event::MbmTotal);
            let now = (self.clock)();
            let ours = ours(self.monitored.values(), domain, now);
            rest.take(reading.unwrap_or(Reading::Error), ours, now);
        }
        let rates: Vec<f64> = self.rest.iter().map(Rest::rate).collect();
        self.memories.sums(&rates)
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn fail(&mut self, reason: String) {
        self.failure = Some(reason);
    }
}

/// Our groups in a domain.
fn ours<'a>(groups: impl Iterator<Item = &'a Monitored>, domain: Domain, now: Instant) -> Ours {
    let mut ours = Ours::default();
    for monitored in groups {
        let Some(gauge) = monitored.gauges.get(&domain) else {
            continue;
        };
        ours.bytes_per_s += gauge.rate();
        if *monitored.mon.parent() == Ctrl::DEFAULT {
            ours.in_default += gauge.count_at(now).unwrap_or(0.0);
        }
    }
    ours
}

/// A group that was made, or `again` in place of one of its name that could not be removed before.
/// The lock of resctrl keeps other processes of scx_drfq away.
fn replaced<T>(made: Result<T>, again: impl FnOnce() -> Result<T>) -> Result<T> {
    match made {
        Err(error) if error.kind == Kind::Exists => again(),
        made => made,
    }
}

/// Whether a group has gone, by itself or with all of resctrl.
fn vanished(error: &Error) -> bool {
    matches!(error.kind, Kind::Gone | Kind::Unmounted)
}

/// The levels of this machine's throttles; none if it cannot throttle. `capacity`: of
/// one domain (bytes per second), if it is known.
pub fn curve(info: &Info, capacity: Option<f64>) -> Option<Curve> {
    let bandwidth = info.bandwidth.as_ref()?;
    match bandwidth.unit {
        Unit::Percent => Some(Curve::linear(bandwidth.min, bandwidth.step, bandwidth.max)),
        Unit::EighthGbPerS => {
            let capacity = capacity?;
            let points: Vec<(u32, f64)> = bandwidth
                .steps()
                .map(|setting| (setting, f64::from(setting) * EIGHTH_GB / capacity))
                .take_while(|(_, fraction)| *fraction < 1.0)
                .collect();
            Some(Curve::new(&points, bandwidth.max))
        }
        Unit::MibPerS => None,
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The policy `drf`: weighted max-min shares of memory bandwidth by throttling
//! (MBA). `plan` is a pure function from what was measured in one period, and from
//! the state of the last, to the levels of the next.
//!
//! It acts only while memory is saturated and no more tasks are runnable than there
//! are CPUs. Then memory is the only scarce resource, so that max-min over its
//! traffic is dominant resource fairness. Otherwise virtual time enforces shares,
//! and a second loop would fight with it.
//!
//! A throttled group's traffic does not follow its CPU time: its instructions wait
//! longer. So the law never computes traffic from CPU time.

mod claims;
pub mod classes;
pub mod curve;
pub mod filling;
pub mod law;
mod noise;
pub mod response;

use std::collections::BTreeMap;

use self::{
    classes::{Classes, Wanted},
    curve::Curve,
    law::{Learnt, Memory, Record},
};
use crate::saturation::Saturation;

/// Slots of a period. Each class gets at most one new set of levels in each.
pub const SLOTS: usize = 2;

/// More runnable tasks than CPUs by this number mean that virtual time enforces
/// shares. Short wake-ups of other tasks stay below it.
const WAITING: f64 = 0.5;

/// Weight of the newest reading in the mean number of runnable tasks.
const NEWEST_RUNNABLE: f64 = 0.5;

/// A reading of more than this multiple of what memory is known to move is wrong.
const CREDIBLE: f64 = 4.0;

/// Name of a group, chosen by the caller.
pub type GroupId = u64;

/// What was measured in one period.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Length of the period (s).
    pub period_s: f64,
    /// CPUs that the scheduler manages.
    pub cpus: f64,
    /// Mean number of tasks that ran or waited for a CPU, those of the system left out.
    pub runnable: f64,
    /// The throttles, which are alike in all domains.
    pub curve: Option<Curve>,
    /// Classes of service that may be used besides the one that is not throttled.
    pub classes: usize,
    /// The domains of memory bandwidth.
    pub domains: Vec<Domain>,
    /// The groups that may be throttled.
    pub groups: Vec<Group>,
}

/// A domain of memory bandwidth: a memory, and the CPUs of the last-level caches before it.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// All traffic, that of tasks without a group included (bytes per second).
    pub bytes_per_s: f64,
    /// What throttled groups would move besides, where the throttle tells it (bytes per
    /// second).
    pub withheld: f64,
    /// m, if it is known (bytes per second).
    pub capacity: Option<f64>,
}

/// A group of tasks that is shared to as one.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its name.
    pub id: GroupId,
    /// w; 1 is nice 0.
    pub weight: f64,
    /// It gets at least this much where it wants it (bytes per second and domain).
    pub min: f64,
    /// It never gets more (bytes per second and domain).
    pub max: f64,
    /// Its traffic in each domain (bytes per second).
    pub bytes_per_s: Vec<f64>,
}

/// What the policy remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The saturation of each domain.
    domains: Vec<Saturation>,
    /// What the law has learnt of each domain.
    learnt: Vec<Learnt>,
    /// The law's record of each group, by domain.
    groups: BTreeMap<GroupId, Vec<Record>>,
    runnable: Option<f64>,
    classes: Classes,
}

impl State {
    /// Notes that a group has not been throttled, whatever was planned, since its throttle is
    /// missing. The next plan begins from there. Else its fraction would sink to the floor while
    /// nothing follows it.
    pub fn unthrottled(&mut self, id: GroupId) {
        for record in self.groups.get_mut(&id).into_iter().flatten() {
            record.fraction = 1.0;
        }
    }
}

/// What shall be done in the next period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The classes of service by number. A group in no class is not throttled.
    pub classes: Vec<Class>,
    /// The domains, for the statistics.
    pub domains: Vec<DomainReport>,
    /// The groups in the order of the snapshot, for the statistics.
    pub groups: Vec<GroupReport>,
}

/// A class of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Its groups; empty if the class is unused.
    pub groups: Vec<GroupId>,
    /// The setting of each domain, by slot.
    pub slots: [Vec<u32>; SLOTS],
}

/// The state of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DomainReport {
    /// Memory is saturated.
    pub saturated: bool,
    /// The policy moves levels.
    pub acts: bool,
    /// The capacity that traffic is compared with (bytes per second).
    pub capacity: f64,
}

/// What a group is meant to get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReport {
    /// Its name.
    pub id: GroupId,
    /// Its part in each domain (bytes per second); infinite if it is not limited.
    pub parts: Vec<f64>,
    /// The fraction of its unthrottled bandwidth that it keeps, by domain.
    pub fractions: Vec<f64>,
}

/// The plan for the next period, and what to remember.
pub fn plan(snapshot: &Snapshot, state: &State) -> (Plan, State) {
    let mut next = state.clone();
    let runnable = usable(snapshot.runnable);
    let before = state.runnable.unwrap_or(runnable);
    let mean = before + NEWEST_RUNNABLE * (runnable - before);
    next.runnable = Some(mean);
    let uncontended = mean <= usable(snapshot.cpus) + WAITING;

    let unthrottled = Curve::linear(100, 100, 100);
    let curve = snapshot.curve.as_ref().unwrap_or(&unthrottled);
    next.domains
        .resize(snapshot.domains.len(), Default::default());
    next.learnt
        .resize(snapshot.domains.len(), Default::default());
    next.groups = records(snapshot, state, curve.floor());

    let mut plan = Plan {
        groups: snapshot.groups.iter().map(report).collect(),
        ..Plan::default()
    };
    for index in 0..snapshot.domains.len() {
        step(
            snapshot,
            index,
            uncontended,
            curve.floor(),
            &mut next,
            &mut plan,
        );
    }
    let mut wanted = BTreeMap::new();
    for (group, report) in snapshot.groups.iter().zip(&mut plan.groups) {
        let records = next.groups[&group.id].iter();
        report.fractions = records.map(|record| record.fraction).collect();
        let moved = group.bytes_per_s.iter().copied().map(usable);
        let moved: Vec<f64> = moved.collect();
        wanted.insert(group.id, Wanted::new(report.fractions.clone(), &moved));
    }
    plan.classes = next.classes.assign(&wanted, snapshot.classes, curve);
    (plan, next)
}

/// One period of a domain. `uncontended`: no more tasks are runnable than there are CPUs. `floor`:
/// of the curve.
fn step(
    snapshot: &Snapshot,
    index: usize,
    uncontended: bool,
    floor: f64,
    next: &mut State,
    plan: &mut Plan,
) {
    let mut inputs = inputs(snapshot, index, floor);
    let own: f64 = inputs.iter().map(|input| input.bytes_per_s).sum();
    let domain = credible(
        &snapshot.domains[index],
        own,
        next.domains[index].best_bytes_per_s(),
    );
    let period_s = usable(snapshot.period_s).min(10.0);
    let saturation = next.domains[index].observe(&domain, period_s);
    next.domains[index] = saturation;
    let acts = saturation.is_saturated() && uncontended;
    let known = domain.capacity.map(usable).filter(|&known| known > 0.0);
    let best = saturation.best_bytes_per_s();
    let capacity = known.unwrap_or(best);
    plan.domains.push(DomainReport {
        saturated: saturation.is_saturated(),
        acts,
        capacity,
    });
    let ids = snapshot.groups.iter().map(|group| group.id);
    let mut records: Vec<Record> = ids.clone().map(|id| next.groups[&id][index]).collect();
    let others = (usable(domain.bytes_per_s) - own).max(0.0);
    let most = CREDIBLE * capacity.max(best);
    for (input, record) in inputs.iter_mut().zip(&records) {
        if most > 0.0 && input.bytes_per_s > most {
            input.bytes_per_s = record.mean();
        }
    }
    let memory = Memory {
        acts,
        full: (best - others).max(0.0),
        capacity: (capacity - others).max(0.0),
        withheld: usable(domain.withheld),
        period_s,
    };
    let parts = law::step(&inputs, &mut records, &mut next.learnt[index], &memory);
    for (((id, record), part), report) in ids.zip(records).zip(parts).zip(&mut plan.groups) {
        if let Some(all) = next.groups.get_mut(&id) {
            all[index] = record;
        }
        report.parts.push(part);
    }
}

/// A domain in which the traffic without a group is at most what memory can move as far as it is
/// known. `own`: the groups' traffic. `best`: the best traffic so far (bytes per second).
fn credible(domain: &Domain, own: f64, best: f64) -> Domain {
    let most = CREDIBLE * domain.capacity.map_or(0.0, usable).max(best);
    let bytes_per_s = usable(domain.bytes_per_s);
    Domain {
        bytes_per_s: match most > 0.0 {
            true => bytes_per_s.min(own + most),
            false => bytes_per_s,
        },
        ..domain.clone()
    }
}

/// The records of the groups of `snapshot`, by group and domain.
fn records(snapshot: &Snapshot, state: &State, floor: f64) -> BTreeMap<GroupId, Vec<Record>> {
    let mut all = BTreeMap::new();
    for group in &snapshot.groups {
        let mut records = state.groups.get(&group.id).cloned().unwrap_or_default();
        records.resize(snapshot.domains.len(), Record::default());
        // The curve may have changed since the fraction was chosen.
        for record in &mut records {
            record.fraction = record.fraction.clamp(floor, 1.0);
        }
        all.insert(group.id, records);
    }
    all
}

fn report(group: &Group) -> GroupReport {
    GroupReport {
        id: group.id,
        ..GroupReport::default()
    }
}

/// The groups in one domain, as the law takes them.
fn inputs(snapshot: &Snapshot, domain: usize, floor: f64) -> Vec<law::Input> {
    let input = |group: &Group| law::Input {
        weight: usable(group.weight).clamp(1e-6, 1e6),
        bytes_per_s: usable(group.bytes_per_s.get(domain).copied().unwrap_or(0.0)),
        min: usable(group.min),
        max: if group.max > 0.0 {
            group.max
        } else {
            f64::INFINITY
        },
        floor,
    };
    snapshot.groups.iter().map(input).collect()
}

/// A number that may be computed with: not negative, finite.
fn usable(value: f64) -> f64 {
    if value.is_finite() {
        // More than any memory moves, so that sums stay finite.
        value.clamp(0.0, 1e18)
    } else {
        0.0
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! MBA, and paces below its lowest level. A group whose part needs a smaller fraction gets the
//! lowest level, and its tasks wait besides (`paces`). MBA's own counters measure all groups.

use std::{array::from_fn, collections::BTreeMap};

use drfq_policy::drf::{Class, GroupId};
use drfq_stats::sample::TaskSample;

use super::{
    paces::{Paces, Scheduler, WHOLE},
    throttle::{Counts, Throttle},
};

/// An entity keeps its group of the scheduler for this many periods after it last had the lowest
/// level. What it moves without a pace is then known when it needs one.
const KEEP_PERIODS: u32 = 20;

/// A domain with less than this part of an entity's traffic does not count.
const SMALL: f64 = 0.05;

/// An entity that MBA monitors.
#[derive(Default)]
struct Member {
    tids: Vec<u32>,
    /// What it moved in the last period, by domain (bytes per second).
    rates: Vec<f64>,
    /// Periods since it last had the lowest level, or less.
    free_periods: u32,
}

/// Both throttles. `lowest`: the lowest setting that MBA has; smaller ones are for paces.
pub struct Combined<M: Throttle, S: Scheduler> {
    mba: M,
    paces: Paces<S>,
    lowest: u32,
    members: BTreeMap<GroupId, Member>,
}

impl<M: Throttle, S: Scheduler> Combined<M, S> {
    /// Continues `mba` with `paces`. `lowest`: its lowest setting, not 0.
    pub fn new(mba: M, paces: Paces<S>, lowest: u32) -> Self {
        Self {
            mba,
            paces,
            lowest,
            members: BTreeMap::new(),
        }
    }

    /// The setting of an entity, of those for each domain. Its tasks have one pace for all domains,
    /// so it is the highest of the domains that the entity uses: it throttles in none too much.
    fn setting(&self, id: GroupId, settings: &[u32]) -> u32 {
        let rates = self
            .members
            .get(&id)
            .map_or(&[][..], |member| &member.rates);
        let least = SMALL * rates.iter().sum::<f64>();
        let rate = |index: usize| rates.get(index).copied().unwrap_or(0.0);
        let used = settings
            .iter()
            .enumerate()
            .filter(|(index, _)| rate(*index) >= least);
        used.map(|(_, &setting)| setting)
            .max()
            .unwrap_or(self.lowest)
    }

    /// The pace for a setting (% of what the entity moves at the lowest level).
    fn pace(&self, setting: u32) -> u32 {
        let part = f64::from(setting.min(self.lowest)) / f64::from(self.lowest);
        ((f64::from(WHOLE) * part).round() as u32).clamp(1, WHOLE)
    }

    /// Sets the paces of a slot.
    fn apply_paces(&mut self, classes: &[Class], slot: usize) {
        let groups = classes
            .iter()
            .flat_map(|class| class.groups.iter().map(|&id| (id, &class.slots[slot])));
        let settings: BTreeMap<GroupId, u32> = groups
            .map(|(id, settings)| (id, self.setting(id, settings)))
            .collect();
        for (&id, member) in &mut self.members {
            let setting = settings.get(&id).copied();
            if setting.is_none_or(|setting| setting > self.lowest) {
                self.paces.unlearn(id);
                continue;
            }
            member.free_periods = 0;
            // Without a group that is free, the lowest level of MBA has to do.
            let _ = self.paces.has(id) || self.paces.admit(id, &member.tids);
        }
        let paced: Vec<Class> = settings
            .iter()
            .map(|(&id, &setting)| Class {
                groups: vec![id],
                slots: from_fn(|_| vec![self.pace(setting)]),
            })
            .collect();
        self.paces.apply(&paced, slot);
    }

    fn end_paces(&mut self) {
        for id in self.paces.ids() {
            self.paces.dismiss(id);
        }
    }
}

impl<M: Throttle, S: Scheduler> Throttle for Combined<M, S> {
    fn begin(&mut self) {
        self.mba.begin();
        for (&id, member) in &mut self.members {
            member.free_periods = member.free_periods.saturating_add(1);
            if member.free_periods > KEEP_PERIODS && self.paces.has(id) {
                self.paces.dismiss(id);
            }
        }
        // MBA measures all else, and a look at all tasks would cost most of the period.
        match self.paces.ids().is_empty() {
            true => self.paces.pause(),
            false => self.paces.begin_groups(),
        }
    }

    fn nr_classes(&self) -> usize {
        self.mba.nr_classes()
    }

    fn room(&self) -> usize {
        self.mba.room()
    }

    fn monitor(&mut self, id: GroupId) -> bool {
        let could = self.mba.monitor(id);
        if could {
            self.members.insert(id, Member::default());
        }
        could
    }

    fn forget(&mut self, id: GroupId) {
        self.members.remove(&id);
        self.paces.dismiss(id);
        self.mba.forget(id);
    }

    fn place(&mut self, id: GroupId, tids: &[u32]) -> u64 {
        if let Some(member) = self.members.get_mut(&id) {
            member.tids = tids.to_vec();
        }
        self.paces.place(id, tids);
        self.mba.place(id, tids)
    }

    fn settle(&mut self, tasks: &[TaskSample]) {
        self.paces.settle(tasks);
        self.mba.settle(tasks);
    }

    fn audit(&mut self) -> Vec<GroupId> {
        let lost = self.mba.audit();
        for id in &lost {
            self.members.remove(id);
            self.paces.dismiss(*id);
        }
        lost
    }

    fn hindrance(&self) -> Option<String> {
        self.mba.hindrance()
    }

    fn release(&mut self) {
        self.end_paces();
        self.mba.release();
    }

    fn traffic(&mut self, id: GroupId) -> Vec<f64> {
        let rates = self.mba.traffic(id);
        if let Some(member) = self.members.get_mut(&id) {
            member.rates.clone_from(&rates);
        }
        rates
    }

    fn rest(&mut self) -> Vec<f64> {
        self.mba.rest()
    }

    fn withheld(&self) -> Vec<f64> {
        let mut sums = Vec::new();
        for (&id, member) in &self.members {
            let total: f64 = member.rates.iter().sum();
            sums.resize(member.rates.len().max(sums.len()), 0.0);
            for (sum, rate) in sums.iter_mut().zip(&member.rates).filter(|_| total > 0.0) {
                *sum += self.paces.withheld_from(id) * rate / total;
            }
        }
        sums
    }

    fn is_paced(&self, id: GroupId) -> bool {
        self.paces.has(id)
    }

    fn bytes(&self, id: GroupId) -> u64 {
        self.mba.bytes(id)
    }

    fn apply(&mut self, classes: &[Class], slot: usize) {
        let mut levels = classes.to_vec();
        for setting in levels
            .iter_mut()
            .flat_map(|class| &mut class.slots)
            .flatten()
        {
            *setting = self.lowest.max(*setting);
        }
        self.mba.apply(&levels, slot);
        self.apply_paces(classes, slot);
    }

    fn unplaced(&self, classes: &[Class]) -> Vec<GroupId> {
        self.mba.unplaced(classes)
    }

    fn counts(&self) -> Counts {
        let (mba, paces) = (self.mba.counts(), self.paces.counts());
        Counts {
            writes: mba.writes + paces.writes,
            moves: mba.moves + paces.moves,
            errors: mba.errors + paces.errors,
        }
    }

    fn failure(&self) -> Option<&str> {
        self.mba.failure().or(self.paces.failure())
    }

    fn fail(&mut self, reason: String) {
        self.mba.fail(reason);
    }
}

#[cfg(test)]
mod tests;

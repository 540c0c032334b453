// SPDX-License-Identifier: GPL-2.0-only
//! From fractions to classes of service (CLOSes) and their levels in each slot.
//!
//! While there are enough classes, each throttled group has one, and the levels of
//! its class alternate. Otherwise the classes form a ladder of fixed levels, and
//! the groups alternate between its rungs. A group may move in each period: the law
//! corrects what it measures in one, and would swing if a group stayed for several.

use std::{array::from_fn, collections::BTreeMap};

use super::{
    Class, GroupId,
    curve::{Curve, Level, dither},
};

/// A group keeps its class for this many periods after its release, because to move
/// a group costs more than to write a level.
const KEEP_PERIODS: u32 = 20;

/// A domain with less than this part of a group's traffic does not count for its rung.
const USED: f64 = 0.05;

/// What the law leaves a group of its unthrottled bandwidth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// By domain.
    pub fractions: Vec<f64>,
    /// One for all domains: the highest of those that the group uses, so that it is throttled
    /// nowhere too much.
    pub single: f64,
}

impl Wanted {
    /// `bytes_per_s`: the group's traffic, by domain.
    pub fn new(fractions: Vec<f64>, bytes_per_s: &[f64]) -> Self {
        let least = USED * bytes_per_s.iter().sum::<f64>();
        let used = fractions.iter().zip(bytes_per_s);
        let used = used.filter(|&(_, &moved)| moved > 0.0 && moved >= least);
        let single = used.map(|(&fraction, _)| fraction).reduce(f64::max);
        Self {
            single: single.unwrap_or(1.0),
            fractions,
        }
    }
}

/// The assignment of classes in the last period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    groups: BTreeMap<GroupId, Member>,
    /// The ladder's levels, ascending; empty while each group has its class.
    rungs: Vec<Level>,
}

/// A group that has a class, or had one.
#[derive(Clone, Debug, Default, PartialEq)]
struct Member {
    class: Option<usize>,
    free_periods: u32,
    /// What the slots owe, by domain; the ladder uses the first.
    errors: Vec<f64>,
}

impl Classes {
    /// Assigns at most `limit` classes.
    pub fn assign(
        &mut self,
        wanted: &BTreeMap<GroupId, Wanted>,
        limit: usize,
        curve: &Curve,
    ) -> Vec<Class> {
        self.groups.retain(|id, _| wanted.contains_key(id));
        for (&id, Wanted { fractions, .. }) in wanted {
            let member = self.groups.entry(id).or_default();
            member.errors.resize(fractions.len().max(1), 0.0);
            let throttled = fractions.iter().any(|&fraction| fraction < 1.0);
            member.free_periods = match throttled {
                true => 0,
                false => member.free_periods.saturating_add(1),
            };
        }
        let throttled = self.groups.values().filter(|m| m.free_periods == 0);
        if throttled.count() <= limit {
            self.rungs.clear();
            self.one_each(wanted, limit, curve)
        } else {
            self.ladder(wanted, limit, curve)
        }
    }

    fn one_each(
        &mut self,
        wanted: &BTreeMap<GroupId, Wanted>,
        limit: usize,
        curve: &Curve,
    ) -> Vec<Class> {
        self.drop_surplus(limit);
        let mut used = vec![false; limit];
        for class in self.groups.values().filter_map(|member| member.class) {
            used[class] = true;
        }
        let mut classes = vec![Class::default(); limit];
        for (&id, member) in &mut self.groups {
            if member.free_periods == 0 && member.class.is_none() {
                member.class = used.iter().position(|used| !used);
                member.errors.fill(0.0);
            }
            let Some(number) = member.class else {
                continue;
            };
            used[number] = true;
            let class = &mut classes[number];
            class.groups.push(id);
            for slot in &mut class.slots {
                let levels = wanted[&id].fractions.iter().zip(&mut member.errors);
                let settings = levels
                    .map(|(&fraction, error)| dither(curve.levels(), fraction, error).setting);
                slot.extend(settings);
            }
        }
        classes
    }

    /// Takes classes from groups that do not need them: from those that share one,
    /// and from released ones, the longest released first, until the others fit.
    fn drop_surplus(&mut self, limit: usize) {
        let mut taken = vec![false; limit];
        for member in self.groups.values_mut() {
            let free = member
                .class
                .filter(|&class| class < limit && !taken[class])
                .filter(|_| member.free_periods < KEEP_PERIODS);
            member.class = free;
            if let Some(class) = free {
                taken[class] = true;
            }
        }
        let waiting = |member: &&Member| member.free_periods == 0 && member.class.is_none();
        let needed = self.groups.values().filter(waiting).count();
        let spare = limit - taken.iter().filter(|&&taken| taken).count();
        for _ in spare..needed {
            let released = self.groups.values_mut().filter(|m| m.class.is_some());
            if let Some(longest) = released.max_by_key(|member| member.free_periods) {
                longest.class = None;
            }
        }
    }

    fn ladder(
        &mut self,
        wanted: &BTreeMap<GroupId, Wanted>,
        limit: usize,
        curve: &Curve,
    ) -> Vec<Class> {
        let first = wanted.values().next();
        let nr_domains = first.map_or(0, |wanted| wanted.fractions.len());
        let throttled: Vec<f64> = wanted
            .values()
            .map(|wanted| wanted.single)
            .filter(|&f| f < 1.0)
            .collect();
        if !spans(&self.rungs, limit, &throttled, curve) {
            self.rungs = rungs(&throttled, limit, curve);
        }
        let mut classes: Vec<Class> = self
            .rungs
            .iter()
            .map(|rung| Class {
                groups: Vec::new(),
                slots: from_fn(|_| vec![rung.setting; nr_domains]),
            })
            .collect();
        let mut levels = self.rungs.clone();
        levels.push(Level {
            setting: curve.max_setting(),
            fraction: 1.0,
        });
        for (id, member) in &mut self.groups {
            let level = dither(&levels, wanted[id].single, &mut member.errors[0]);
            member.class = self.rungs.iter().position(|rung| *rung == level);
            if let Some(class) = member.class {
                classes[class].groups.push(*id);
            }
        }
        classes.resize(limit, Class::default());
        classes
    }
}

/// Whether the rungs still fit: they are levels of the curve, and the lowest fraction
/// is not far from the lowest rung.
fn spans(rungs: &[Level], limit: usize, wanted: &[f64], curve: &Curve) -> bool {
    let lowest = wanted.iter().copied().fold(1.0, f64::min);
    let fits = |rung: &Level| (0.6..=1.1).contains(&(rung.fraction / lowest));
    let known = rungs.iter().all(|rung| curve.levels().contains(rung));
    known && rungs.len() <= limit && rungs.first().is_some_and(fits)
}

/// At most `limit` levels of the curve at equal ratios, from the lowest fraction up.
fn rungs(wanted: &[f64], limit: usize, curve: &Curve) -> Vec<Level> {
    let lowest = wanted.iter().copied().fold(1.0, f64::min).max(1e-6);
    let mut rungs: Vec<Level> = Vec::new();
    for rung in 0..limit {
        let target = lowest.powf(1.0 - rung as f64 / limit as f64);
        let below = curve.levels().iter().rev();
        let level = below
            .copied()
            .find(|level| level.fraction <= target * 1.000_001)
            .unwrap_or(curve.levels()[0]);
        if level.fraction < 1.0 && !rungs.contains(&level) {
            rungs.push(level);
        }
    }
    rungs
}

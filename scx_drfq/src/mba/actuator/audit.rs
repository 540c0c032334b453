// SPDX-License-Identifier: GPL-2.0-only
//! What other programs changed in resctrl, and what has become useless.

use std::collections::HashSet;

use drfq_policy::drf::GroupId;
use drfq_resctrl::{
    fs::ResctrlFs,
    groups::{Ctrl, Group},
    reading::Event,
    schemata::Resource,
};

use super::{
    super::{gauge::Gauge, ids::limits, throttle::Throttle},
    Actuator, Monitored, vanished,
};

/// A class that held no group at so many audits is removed: other programs may want it.
const UNUSED_AUDITS: u32 = 5;

/// So many threads of other programs' groups are asked for again at each audit, of each entity. A
/// question takes the kernel's lock of resctrl.
const ASKED_AGAIN: usize = 256;

impl<F: ResctrlFs> Actuator<F> {
    /// Other programs may have given ids back, or have taken some.
    pub(super) fn audit_ids(&mut self) {
        let (classes, room) = limits(self.groups.fs(), &self.info, self.classes_most);
        self.room = room.min(self.room.saturating_add(1));
        if self.classes.len() < classes {
            self.classes.push(None);
        }
    }

    /// Removes a class that has held no group for long.
    pub(super) fn audit_use(&mut self, number: usize) {
        let Some(rung) = self.classes[number].as_mut() else {
            return;
        };
        let mut groups = self.monitored.values();
        if groups.any(|monitored| *monitored.mon.parent() == rung.ctrl) {
            rung.unused = 0;
            return;
        }
        rung.unused += 1;
        if rung.unused >= UNUSED_AUDITS
            && let Some(rung) = self.classes[number].take()
        {
            let removed = self.groups.remove_ctrl(rung.ctrl);
            self.check(removed);
        }
    }

    /// Counters may have been taken from groups: a change of `mbm_assign_mode` takes all of them, and
    /// the kernel gives none back. Groups that get none are removed and returned, for their place.
    pub(super) fn audit_counters(&mut self) -> Vec<GroupId> {
        // The default group reads so only while no group in it is counted, so it comes first.
        if !self.monitored.is_empty() && !self.count_again(&Ctrl::DEFAULT) {
            self.failure = Some("the default group has no counter of memory traffic".into());
        }
        let unread = |monitored: &Monitored| !monitored.gauges.values().all(Gauge::is_readable);
        let silent = self.monitored.iter().filter(|(_, found)| unread(found));
        let lost = silent.filter(|(_, found)| !self.count_again(&found.mon));
        let lost: Vec<GroupId> = lost.map(|(&id, _)| id).collect();
        for &id in &lost {
            self.forget(id);
            self.failure = Some("a group has lost its counter of memory traffic".into());
        }
        lost
    }

    /// Whether a group is counted, with a new counter if it has none. The kernel gives it one when it is
    /// made only while `mbm_assign_on_mkdir` says so.
    pub(super) fn count_again(&self, group: &impl Group) -> bool {
        let assign = || self.groups.assign_counter(group, Event::MbmTotal).is_ok();
        self.is_counted(group) || (assign() && self.is_counted(group))
    }

    /// The levels that the kernel has for a class may be those of another program, or the class
    /// may have gone with all that it held.
    pub(super) fn audit_class(&mut self, number: usize) {
        let Some(rung) = self.classes[number].as_mut() else {
            return;
        };
        let schemata = match self.groups.schemata(&rung.ctrl) {
            Ok(schemata) => schemata,
            Err(error) => {
                if vanished(&error) {
                    self.failure = Some(format!("another program removed {}", rung.ctrl.name()));
                    self.classes[number] = None;
                }
                return;
            }
        };
        let setting = |&domain| schemata.get(Resource::Mb, domain);
        let Some(now) = self.domains.iter().map(setting).collect::<Option<Vec<_>>>() else {
            return;
        };
        if now != rung.settings {
            rung.settings = now;
            self.failure = Some(format!(
                "another program changed the levels of {}",
                rung.ctrl.name()
            ));
        }
    }

    /// Notes the threads of a class that nobody placed there: the kernel puts those of a group that
    /// another program removes into its class. Call it after [`Actuator::audit_tasks`].
    pub(super) fn audit_strays(&mut self) {
        let placed = self.monitored.values().filter(|monitored| !monitored.gone);
        let placed: HashSet<u32> = placed
            .flat_map(|monitored| monitored.placed.keys().copied())
            .collect();
        for rung in self.classes.iter().flatten() {
            // A class that has vanished has no threads.
            let tasks = self.groups.tasks(&rung.ctrl).unwrap_or_default();
            let strays = tasks.into_iter().filter(|tid| !placed.contains(tid));
            self.strays.extend(strays);
        }
    }

    /// Forgets the threads that another program took out of a group, so that they are put back, and
    /// those that were in its groups, so that they are asked for again. Notes who came by itself.
    pub(super) fn audit_tasks(&mut self, id: GroupId) {
        let Some(monitored) = self.monitored.get_mut(&id) else {
            return;
        };
        match self.groups.tasks(&monitored.mon) {
            Ok(tasks) => {
                let there: HashSet<u32> = tasks.into_iter().collect();
                let foreign = monitored.placed.values().filter(|&&ours| !ours).count();
                let turns = (foreign / ASKED_AGAIN + 1) as u32;
                let turn = self.audits % turns;
                monitored.placed.retain(|tid, ours| match ours {
                    true => there.contains(tid),
                    false => tid % turns != turn,
                });
                let unknown = there
                    .iter()
                    .filter(|tid| !monitored.placed.contains_key(tid));
                self.strays.extend(unknown);
            }
            Err(error) => monitored.gone |= vanished(&error),
        }
    }
}

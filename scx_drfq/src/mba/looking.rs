// SPDX-License-Identifier: GPL-2.0-only
//! How the loop looks at the tasks: which entities it monitors, and with what weights and threads.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use drfq_stats::sample::TaskSample;

use super::{
    Measured, Member, Running,
    entities::{self, Key, Usage},
    hidden::HIDDEN,
    hierarchy::{Hierarchy, Ruled},
    runnable::Look,
    uncounted::Seen,
};
use crate::settings::rules::{Bounds, Rule};

impl<H: Hierarchy> Running<'_, H> {
    /// Looks at the tasks if it is time to. What each group moved is measured just before, so that a look
    /// at what has come is in time for the plan.
    pub(super) fn look_if_due(
        &mut self,
        measured: &Measured,
        read: &impl Fn() -> Result<Look, String>,
        rules: &Mutex<Vec<Rule>>,
    ) {
        if !self
            .arrivals
            .is_due(self.periods, &measured.rest, &self.full)
        {
            return;
        }
        let rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
        self.rules.clone_from(&rules);
        drop(rules);
        let known = self.next_id;
        match read() {
            Ok(look) => self.look(look, Instant::now()),
            Err(reason) => self.setup.throttle.fail(reason),
        }
        self.arrivals.looked(self.periods, self.next_id > known);
    }

    /// Looks at the tasks that share bandwidth: which entities to monitor, their weights and threads.
    pub(super) fn look(&mut self, look: Look, now: Instant) {
        let interval = self.looked.map(|looked| now - looked);
        let before = std::mem::replace(&mut self.last_look, look);
        self.looked = Some(now);
        let Some(interval) = interval else {
            return;
        };
        self.runnable = self.last_look.runnable(&before, interval);
        let usages = entities::usages(
            self.setup.entity,
            &before.tasks,
            &self.last_look.tasks,
            interval.as_secs_f64(),
            &self.hierarchy,
        );
        if entities::are_hidden(&usages, &before.tasks, &self.last_look.tasks) {
            self.setup.throttle.fail(HIDDEN.into());
        }
        let monitored: BTreeSet<Key> = self.members.keys().cloned().collect();
        let stay = self.members.iter().filter(|(key, member)| {
            // A burst after a pause shall not exceed a maximum until it is found.
            member.bounds != Bounds::default() || self.competition.keeps(key)
        });
        let stay = stay.map(|(key, _)| key.clone()).collect();
        let chosen = entities::choose(&usages, &stay, self.setup.throttle.room());
        for key in monitored.difference(&chosen) {
            if let Some(member) = self.members.remove(key) {
                self.setup.throttle.forget(member.id);
            }
        }
        let ruled = Ruled {
            hierarchy: &self.hierarchy,
            rules: &self.rules,
        };
        let weights = self.competition.weights(&usages, &chosen, &ruled);
        self.foreign = 0;
        for key in chosen {
            let Some(usage) = usages.get(&key).cloned() else {
                continue;
            };
            if !self.members.contains_key(&key) && !self.monitor(&key) {
                continue;
            }
            if let Some(member) = self.members.get_mut(&key) {
                member.foreign = self.setup.throttle.place(member.id, &usage.tids);
                self.foreign += member.foreign;
                member.weight = weights.get(&key).copied().unwrap_or(1.0);
                member.bounds = entities::bounds(&self.rules, &key, &usage.comm);
                member.usage = usage;
            }
        }
        self.setup.throttle.settle(&self.last_look.tasks);
        self.see(&before.tasks, interval);
    }

    /// Starts to monitor an entity. Returns whether it could.
    fn monitor(&mut self, key: &Key) -> bool {
        let id = self.next_id;
        if !self.setup.throttle.monitor(id) {
            return false;
        }
        self.next_id += 1;
        // The first reading, which the next one is compared with.
        self.setup.throttle.traffic(id);
        let member = Member {
            id,
            weight: 1.0,
            bounds: Bounds::default(),
            usage: Usage::default(),
            foreign: 0,
            bytes_per_s: None,
        };
        self.members.insert(key.clone(), member);
        true
    }

    /// Notes what MBM is to be asked about, once the throttle has measured the next period. A pace
    /// follows what is charged at once, and MBM does not count threads elsewhere.
    fn see(&mut self, before: &[TaskSample], interval: Duration) {
        if self.setup.charge.is_none() {
            return;
        }
        let (members, throttle) = (self.members.values(), &self.setup.throttle);
        let told = members.filter(|m| m.foreign == 0 && !throttle.is_paced(m.id));
        let told = told.map(|member| (member.id, member.usage.tids.as_slice()));
        self.seen = Some(Seen::new(interval, before, &self.last_look.tasks, told));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The statistics of the loop.

use drfq_policy::{
    drf::{DomainReport, Plan, Snapshot},
    fair_share::Capacity,
};
use drfq_stats::mba_report::{Mba, MbaGroup};

use super::{
    Running,
    entities::{Key, Usage},
    hierarchy::Hierarchy,
};

impl<H: Hierarchy> Running<'_, H> {
    /// What happened in a period that measured `snapshot` and planned `plan`.
    pub(super) fn report(&self, snapshot: &Snapshot, plan: &Plan) -> Mba {
        let total: f64 = snapshot
            .domains
            .iter()
            .map(|domain| domain.bytes_per_s)
            .sum();
        // While nothing is throttled, the best traffic so far tells no limit of the memory.
        let known = !self.setup.capacity.is_empty() || snapshot.curve.is_some();
        let full = plan.domains.iter().map(|domain| domain.capacity);
        let full = if known { full.sum() } else { 0.0 };
        let capacity = Capacity {
            cpus: self.setup.cpus,
            bytes_per_s: (full > 0.0).then_some(full),
        };
        let members = self.measured().zip(&snapshot.groups).zip(&plan.groups);
        let mut groups: Vec<MbaGroup> = members
            .map(|(((key, member), group), planned)| {
                let bytes_per_s = group.bytes_per_s.iter().sum();
                let lowest = planned.fractions.iter().copied().fold(1.0, f64::min);
                MbaGroup {
                    name: name(key, &member.usage),
                    weight: member.weight,
                    bytes_per_s,
                    bytes: self.setup.throttle.bytes(member.id),
                    dominant_pct: 100.0 * capacity.dominant_share(member.usage.cpus, bytes_per_s),
                    level_pct: 100.0 * lowest,
                    tasks: member.usage.tids.len() as u64,
                }
            })
            .collect();
        groups.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
        let count = |of: fn(&DomainReport) -> bool| {
            plan.domains.iter().filter(|domain| of(domain)).count() as u32
        };
        let mut state = self.setup.state();
        if let Some(failure) = self.setup.throttle.failure() {
            state = format!("{state}; last failure: {failure}");
        }
        Mba {
            state,
            domains: plan.domains.len() as u32,
            saturated: if known {
                count(|domain| domain.saturated)
            } else {
                0
            },
            acting: if snapshot.curve.is_some() {
                count(|domain| domain.acts)
            } else {
                0
            },
            bytes_per_s: total,
            capacity_bytes_per_s: full,
            runnable: self.runnable,
            groups,
            periods: self.periods,
            writes: self.setup.throttle.counts().writes,
            moves: self.setup.throttle.counts().moves,
            errors: self.setup.throttle.counts().errors,
            foreign: self.foreign,
        }
    }
}

/// The name of an entity for users.
pub(super) fn name(key: &Key, usage: &Usage) -> String {
    match key {
        Key::Task(id) | Key::Process(id) => format!("{} {id}", usage.comm),
        Key::Cgroup(path) => path.clone(),
    }
}

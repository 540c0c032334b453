// SPDX-License-Identifier: GPL-2.0-only
//! The last snapshots, as many as fit.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use drfq_stats::report::System;

use crate::{entity::Entity, snapshot::Snapshot};

/// The most snapshots that are kept.
pub const SNAPSHOTS_MAX: usize = 600;

/// The most tasks in all snapshots together; a task takes some 400 bytes.
pub const TASKS_MAX: usize = 150_000;

/// Snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    snapshots: VecDeque<Arc<Snapshot>>,
    /// What the machine did in each: CPU time and traffic, as in [`Series`].
    totals: VecDeque<(f64, f64)>,
    tasks: usize,
}

/// What the machine did in each snapshot, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// CPU time (percent of the machine, or of one CPU for an entity).
    pub cpu_pct: Vec<f64>,
    /// Memory traffic (bytes per second).
    pub mem_bytes_per_s: Vec<f64>,
}

impl History {
    /// Adds the newest snapshot and drops the oldest ones that no longer fit.
    pub fn push(&mut self, snapshot: Snapshot) {
        self.tasks += snapshot.report.tasks.len();
        let cpus = snapshot.cpus.len().max(1) as f64;
        let busy: f64 = snapshot.cpus.iter().map(|cpu| cpu.busy_pct).sum();
        self.totals.push_back((busy / cpus, traffic(&snapshot)));
        self.snapshots.push_back(Arc::new(snapshot));
        while self.snapshots.len() > SNAPSHOTS_MAX
            || (self.tasks > TASKS_MAX && self.snapshots.len() > 2)
        {
            self.totals.pop_front();
            if let Some(old) = self.snapshots.pop_front() {
                self.tasks -= old.report.tasks.len();
            }
        }
    }

    /// Forgets all snapshots.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Number of snapshots.
    pub fn len(&self) -> usize {
        self.snapshots.len()
    }

    /// Whether there is no snapshot.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// A snapshot, `back` steps before the newest.
    pub fn back(&self, back: usize) -> Option<&Arc<Snapshot>> {
        let at = self.snapshots.len().checked_sub(back + 1)?;
        self.snapshots.get(at)
    }

    /// At most `length` snapshots up to `back` steps before the newest, oldest first.
    pub fn until(&self, back: usize, length: usize) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.snapshots.range(self.places(back, length))
    }

    fn places(&self, back: usize, length: usize) -> Range<usize> {
        let end = self.snapshots.len().saturating_sub(back);
        end.saturating_sub(length)..end
    }

    /// What the machine did.
    pub fn machine(&self, back: usize, length: usize) -> Series {
        let (cpu_pct, mem_bytes_per_s) = self
            .totals
            .range(self.places(back, length))
            .copied()
            .unzip();
        Series {
            cpu_pct,
            mem_bytes_per_s,
        }
    }

    /// What an entity did; nothing while it did not exist.
    pub fn entity(&self, entity: &Entity, back: usize, length: usize) -> Series {
        let mut series = Series::default();
        for snapshot in self.until(back, length) {
            let (mut cpu, mut memory) = (0.0, 0.0);
            for task in entity.tasks(snapshot) {
                cpu += task.cpu_pct;
                memory += task.mem_bytes_per_s;
            }
            series.cpu_pct.push(cpu);
            series.mem_bytes_per_s.push(memory);
        }
        series
    }
}

/// What the memory can move (bytes per second); 0 if unknown.
pub fn capacity(system: &System) -> f64 {
    if system.mba.capacity_bytes_per_s > 0.0 {
        system.mba.capacity_bytes_per_s
    } else {
        system.mem_bytes_per_s as f64
    }
}

/// All memory traffic that is known (bytes per second): what resctrl counts, else what a
/// controller counts, else what tasks were charged.
pub fn traffic(snapshot: &Snapshot) -> f64 {
    let system = &snapshot.report.system;
    let tasks = || {
        let tasks = snapshot.report.tasks.iter();
        tasks.map(|task| task.mem_bytes_per_s).sum()
    };
    if system.mba.domains > 0 {
        system.mba.bytes_per_s
    } else if system.controller.connected != 0 {
        system.controller.bytes_per_s
    } else {
        tasks()
    }
}

#[cfg(test)]
mod tests {
    use drfq_stats::report::Task;

    use super::*;
    use crate::fixture;

    fn of(tasks: usize, at_unix_ns: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            at_unix_ns,
            ..Snapshot::default()
        };
        snapshot.report.tasks = vec![Task::default(); tasks];
        snapshot
    }

    #[test]
    fn the_oldest_snapshots_are_dropped_by_number_and_by_tasks() {
        let mut history = History::default();
        for at in 0..SNAPSHOTS_MAX as u64 + 5 {
            history.push(of(1, at));
        }
        assert_eq!(history.len(), SNAPSHOTS_MAX);
        assert_eq!(history.back(SNAPSHOTS_MAX - 1).unwrap().at_unix_ns, 5);
        assert!(history.back(SNAPSHOTS_MAX).is_none());
        for at in 0..40 {
            history.push(of(TASKS_MAX / 10, at));
        }
        assert!(history.len() <= 10, "{}", history.len());
        history.push(of(TASKS_MAX * 2, 99));
        assert_eq!(history.back(0).unwrap().at_unix_ns, 99);
    }

    #[test]
    fn a_series_ends_where_the_user_looks() {
        let mut history = History::default();
        (0..20).for_each(|second| history.push(fixture::snapshot(second)));
        let machine = history.machine(0, 100);
        assert_eq!(machine.cpu_pct.len(), 20);
        let back = history.machine(5, 100);
        assert_eq!(back.cpu_pct, machine.cpu_pct[..15]);
        let hog = history.entity(&Entity::Process(901), 0, 10);
        assert_eq!(hog.cpu_pct.len(), 10);
        assert!(hog.cpu_pct.iter().all(|&cpu| cpu > 250.0), "{hog:?}");
        assert!(hog.mem_bytes_per_s[0] > 2e10);
        let gone = history.entity(&Entity::Task(5), 0, 10);
        assert!(gone.cpu_pct.iter().all(|&cpu| cpu == 0.0));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups used since the first scrape. The statistics count tasks, which end; a
//! cgroup's counters must not go back, so they are added up here from scrape to scrape.
//! What a task used after the last scrape before its end is missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use drfq_stats::{report::Task, sample::most_ran_ns};
use drfq_view::snapshot::Snapshot;

/// Cgroups that are told apart. A task of any other counts as `OTHER`.
pub const CGROUPS_MAX: usize = 400;

/// Tasks of cgroups beyond `CGROUPS_MAX`. Paths begin with `/`, so it is none.
pub const OTHER: &str = "other";

/// Kernel threads, and tasks whose cgroup is not known.
pub const KERNEL: &str = "kernel";

/// Counters of a cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU time, waiting for a CPU, held by delayed wake-up (ns).
    pub cpu_ns: u64,
    pub wait_ns: u64,
    pub held_ns: u64,
    /// Memory traffic, and the part of it by devices (bytes).
    pub bytes: u64,
    pub dma_bytes: u64,
    /// Tasks now.
    pub tasks: u64,
    /// CPUs in the ideal fair allocation, over the last interval.
    pub fair_cpus: f64,
}

impl Used {
    fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.wait_ns += other.wait_ns;
        self.held_ns += other.held_ns;
        self.bytes += other.bytes;
        self.dma_bytes += other.dma_bytes;
        self.tasks += other.tasks;
        self.fair_cpus += other.fair_cpus;
    }
}

/// Counters of all cgroups.
#[derive(Debug, Default)]
pub struct Totals {
    /// By path.
    pub cgroups: BTreeMap<String, Used>,
    /// The counts of each task at the last scrape, by thread id.
    before: HashMap<u32, [u64; 5]>,
    /// When that was, CLOCK_MONOTONIC (ns); 0: not known.
    at_ns: u64,
    scraped: bool,
}

impl Totals {
    /// Adds what was used since the last call.
    pub fn add(&mut self, snapshot: &Snapshot) {
        for used in self.cgroups.values_mut() {
            (used.tasks, used.fair_cpus) = (0, 0.0);
        }
        let present: BTreeSet<&str> = snapshot
            .report
            .tasks
            .iter()
            .map(|task| cgroup(snapshot, task))
            .collect();
        let mut before = HashMap::with_capacity(snapshot.report.tasks.len());
        let at_ns = snapshot.report.system.at_ns;
        let since_ns = at_ns.checked_sub(self.at_ns).filter(|_| self.at_ns > 0);
        for task in &snapshot.report.tasks {
            let used = self.since_last(task, since_ns);
            before.insert(task.pid, counts(task));
            let name = self.slot(cgroup(snapshot, task), &present);
            self.cgroups.entry(name).or_default().add(&used);
        }
        (self.before, self.at_ns) = (before, at_ns);
        self.scraped = true;
    }

    /// What a task used. `since_ns`: the time since the last scrape, if it is known.
    fn since_last(&self, task: &Task, since_ns: Option<u64>) -> Used {
        let now = counts(task);
        let known = self.before.get(&task.pid);
        // Counts that went back belong to another task with the same thread id, or to a
        // scheduler that was loaded again. A wait may go back by microseconds, for the kernel's
        // parts of it are read while they change.
        let went_on = |before: &&[u64; 5]| [0, 2, 3, 4].iter().all(|&i| before[i] <= now[i]);
        let same = known.filter(went_on);
        let mut before = same.copied().unwrap_or_default();
        // Accounts outlive a restart of the agent. A monitoring system takes counters that fall for
        // ones that began anew, so what they held would count twice. Waiting counts since the task
        // was created.
        if !self.scraped {
            before = now;
        } else if let (None, Some(known)) = (same, known.filter(|known| known[1] <= now[1])) {
            before[1] = known[1];
        }
        // A thread that takes the place of its process's main thread by execve(2) has that one's id and
        // its own counts, which were told already.
        let ran_ns = now[0].saturating_sub(before[0]);
        if since_ns.is_some_and(|since_ns| ran_ns > most_ran_ns(since_ns)) {
            before = now;
        }
        let since = |at: usize| now[at].saturating_sub(before[at]);
        Used {
            cpu_ns: since(0),
            wait_ns: since(1),
            held_ns: since(2),
            bytes: since(3),
            dma_bytes: since(4),
            tasks: 1,
            fair_cpus: task.fair_pct / 100.0,
        }
    }

    /// The name under which a cgroup counts. If there is no room, one that has no tasks
    /// any more makes room. What it used was told under its own name.
    fn slot(&mut self, name: &str, present: &BTreeSet<&str>) -> String {
        let special = [OTHER, KERNEL].contains(&name);
        if special || self.cgroups.contains_key(name) {
            return name.to_owned();
        }
        let named = |name: &&String| ![OTHER, KERNEL].contains(&name.as_str());
        if self.cgroups.keys().filter(named).count() < CGROUPS_MAX {
            return name.to_owned();
        }
        let mut gone = self.cgroups.keys().filter(named);
        let gone = gone.find(|name| !present.contains(name.as_str())).cloned();
        match gone.and_then(|gone| self.cgroups.remove(&gone)) {
            Some(_) => name.to_owned(),
            None => OTHER.to_owned(),
        }
    }
}

fn counts(task: &Task) -> [u64; 5] {
    [
        task.charged_ns,
        task.wait_ns,
        task.held_ns,
        task.bytes,
        task.dma_bytes,
    ]
}

fn cgroup<'a>(snapshot: &'a Snapshot, task: &Task) -> &'a str {
    let process = snapshot.processes.get(&task.tgid);
    let path = process.map_or("", |process| process.cgroup.as_str());
    if path.is_empty() { KERNEL } else { path }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use drfq_view::snapshot::Process;

    use super::*;

    /// A snapshot of tasks: (thread id, cgroup, CPU time).
    pub fn snapshot(tasks: &[(u32, &str, u64)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for &(pid, cgroup, charged_ns) in tasks {
            let process = Process {
                cgroup: cgroup.into(),
                ..Process::default()
            };
            snapshot.processes.insert(pid, Arc::new(process));
            snapshot.report.tasks.push(Task {
                pid,
                tgid: pid,
                charged_ns,
                wait_ns: charged_ns,
                ..Task::default()
            });
        }
        snapshot
    }

    #[test]
    fn counters_never_go_back() {
        let mut totals = Totals::default();
        totals.add(&snapshot(&[(1, "/a", 100), (2, "/a", 50)]));
        let used = &totals.cgroups["/a"];
        assert_eq!((used.cpu_ns, used.wait_ns), (0, 0));
        // Task 2 has ended, and 3 is new.
        totals.add(&snapshot(&[(1, "/a", 110), (3, "/a", 5)]));
        assert_eq!(totals.cgroups["/a"].cpu_ns, 15);
        assert_eq!(
            (totals.cgroups["/a"].wait_ns, totals.cgroups["/a"].tasks),
            (15, 2)
        );
        // Thread id 1 belongs to another task.
        totals.add(&snapshot(&[(1, "/a", 7)]));
        assert_eq!(totals.cgroups["/a"].cpu_ns, 22);
        totals.add(&snapshot(&[]));
        assert_eq!(
            (totals.cgroups["/a"].cpu_ns, totals.cgroups["/a"].tasks),
            (22, 0)
        );
    }

    #[test]
    fn no_count_that_goes_back_adds_what_was_told_before() {
        for (what, charged_ns, wait_ns, added) in [
            ("a wait, by a little", 110, 99, (10, 0)),
            ("of a scheduler that was loaded again", 5, 130, (5, 30)),
        ] {
            let mut totals = Totals::default();
            totals.add(&snapshot(&[(1, "/a", 100)]));
            let mut later = snapshot(&[(1, "/a", charged_ns)]);
            later.report.tasks[0].wait_ns = wait_ns;
            totals.add(&later);
            let used = &totals.cgroups["/a"];
            assert_eq!((used.cpu_ns, used.wait_ns), added, "{what}");
        }
    }

    #[test]
    fn a_thread_that_takes_the_main_threads_place_does_not_count_twice() {
        let second = 1_000_000_000;
        let at = |at_s: u64, charged_s: u64| {
            let mut found = snapshot(&[(1, "/a", charged_s * second)]);
            found.report.system.at_ns = at_s * second;
            found.report.tasks[0].bytes = charged_s;
            found
        };
        let mut totals = Totals::default();
        totals.add(&at(5000, 10));
        // An hour old.
        totals.add(&at(5015, 3600));
        assert_eq!(totals.cgroups["/a"].cpu_ns, 0);
        assert_eq!(totals.cgroups["/a"].bytes, 0);
        totals.add(&at(5030, 3615));
        assert_eq!(totals.cgroups["/a"].cpu_ns, 15 * second);
        assert_eq!(totals.cgroups["/a"].bytes, 15);
    }

    #[test]
    fn cgroups_beyond_the_bound_are_one() {
        let paths: Vec<String> = (0..CGROUPS_MAX + 50).map(|i| format!("/g{i:04}")).collect();
        let all: Vec<_> = (1u32..)
            .zip(&paths)
            .map(|(pid, path)| (pid, path.as_str(), 10))
            .collect();
        let mut totals = Totals::default();
        totals.add(&snapshot(&[]));
        totals.add(&snapshot(&all));
        assert_eq!(totals.cgroups.len(), CGROUPS_MAX + 1);
        assert_eq!(totals.cgroups[OTHER].cpu_ns, 50 * 10);
        // One that is gone makes room for a new one.
        let mut later: Vec<_> = all[1..]
            .iter()
            .map(|&(pid, path, _)| (pid, path, 20))
            .collect();
        later.push((9999, "/new", 5));
        totals.add(&snapshot(&later));
        assert_eq!(totals.cgroups.len(), CGROUPS_MAX + 1);
        let of_next = totals.cgroups[&paths[CGROUPS_MAX]].cpu_ns;
        assert_eq!(
            (totals.cgroups[OTHER].cpu_ns, of_next),
            (50 * 10 + 49 * 10 + 5, 10)
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks share memory bandwidth as one, and with what weight.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use drfq_stats::{interval::WEIGHT_ONE, sample::TaskSample};

use super::{gauge::INTERVAL_MIN, hierarchy::Hierarchy};
use crate::{
    config::Entity,
    settings::rules::{self, Bounds, Rule},
};

/// The name of an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A thread id.
    Task(u32),
    /// A process id.
    Process(u32),
    /// A path in the cgroup hierarchy, which begins with `/`.
    Cgroup(String),
}

/// An entity over an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The name of its first task.
    pub comm: String,
    /// Its threads.
    pub tids: Vec<u32>,
    /// The largest weight of its threads that ran, or of all if none did; 1 is nice 0.
    pub weight: f64,
    /// Whether one of its threads ran.
    pub ran: bool,
    /// CPUs that it used.
    pub cpus: f64,
    /// What the scheduler charged it (bytes per second); 0 if nothing is measured.
    pub bytes_per_s: f64,
    /// The same without traffic of devices; 0 if no event counts that of CPUs.
    pub cpu_bytes_per_s: f64,
}

impl Usage {
    /// Takes in the weight of a thread. One that sleeps has the weight of when it last ran, and
    /// threads that began since may have most of that now.
    fn weigh(&mut self, weight: f64, ran: bool) {
        if ran && !self.ran {
            self.ran = true;
            self.weight = 0.0;
        }
        if ran == self.ran {
            self.weight = self.weight.max(weight);
        }
    }

    /// Whether the entity moves or computes enough to matter. `traffic`: of all entities.
    pub fn matters(&self, traffic: f64) -> bool {
        /// Less than this many CPUs is too little to matter.
        const CPUS_MIN: f64 = 0.02;
        /// So is less than this part of all traffic.
        const TRAFFIC_MIN: f64 = 0.01;
        let moves = traffic > 0.0 && self.bytes_per_s >= TRAFFIC_MIN * traffic;
        self.cpus >= CPUS_MIN || moves
    }
}

/// What all entities were charged (bytes per second); 0 if nothing is measured.
pub fn traffic(usages: &BTreeMap<Key, Usage>) -> f64 {
    usages.values().map(|usage| usage.bytes_per_s).sum()
}

/// What rules allow an entity to move. `comm`: the name of its first task.
pub fn bounds(rules: &[Rule], key: &Key, comm: &str) -> Bounds {
    let rule = match key {
        Key::Cgroup(path) => rules::for_cgroup(rules, path),
        Key::Task(_) | Key::Process(_) => rules::for_command(rules, comm),
    };
    rule.map(|rule| rule.memory).unwrap_or_default()
}

/// Divides tasks into those that share bandwidth, and kernel threads and those of the agent's
/// processes. These take little, and a task that waits for them counts anyway.
pub fn sharing(tasks: Vec<TaskSample>, agent: &[u32]) -> (Vec<TaskSample>, Vec<TaskSample>) {
    let shares = |task: &TaskSample| !task.kthread && !agent.contains(&task.tgid);
    tasks.into_iter().partition(shares)
}

/// The entities of two samples of the tasks that share bandwidth, `interval_s` apart.
pub fn usages(
    entity: Entity,
    prev: &[TaskSample],
    cur: &[TaskSample],
    interval_s: f64,
    hierarchy: &impl Hierarchy,
) -> BTreeMap<Key, Usage> {
    let before: HashMap<u32, &TaskSample> = prev.iter().map(|task| (task.pid, task)).collect();
    // Most processes sleep, and to ask for the cgroup of each at each look costs more than all else.
    let ran = |task: &&TaskSample| {
        let before = before.get(&task.pid).copied();
        entity == Entity::Cgroup && task.rise(before, |task| task.cpu_ns) > 0
    };
    let awake: HashSet<u32> = cur.iter().filter(ran).map(|task| task.tgid).collect();
    let mut cgroups = HashMap::new();
    let mut usages: BTreeMap<Key, Usage> = BTreeMap::new();
    for task in cur {
        let key = match entity {
            Entity::Task => Some(Key::Task(task.pid)),
            Entity::Process => Some(Key::Process(task.tgid)),
            Entity::Cgroup => cgroups
                .entry(task.tgid)
                .or_insert_with(|| cgroup_key(task.tgid, awake.contains(&task.tgid), hierarchy))
                .clone(),
        };
        let Some(key) = key else {
            continue;
        };
        let usage = usages.entry(key).or_default();
        let before = before.get(&task.pid);
        let per_s = |count: fn(&TaskSample) -> u64| {
            task.rise(before.copied(), count) as f64 / interval_s.max(INTERVAL_MIN.as_secs_f64())
        };
        if usage.tids.is_empty() {
            usage.comm.clone_from(&task.comm);
        }
        usage.tids.push(task.pid);
        usage.cpus += per_s(|task| task.cpu_ns) / 1e9;
        usage.bytes_per_s += per_s(|task| task.bytes);
        usage.cpu_bytes_per_s += per_s(|task| task.bytes.saturating_sub(task.dma_bytes));
        let weight = f64::from(task.weight) / f64::from(WEIGHT_ONE);
        usage.weigh(weight, task.rise(before.copied(), |task| task.cpu_ns) > 0);
    }
    usages
}

/// Whether no entity is known of most tasks of `cur` that were in `prev`, too. Of many short ones, most
/// have ended before their cgroups are read, which tells nothing.
pub fn are_hidden(usages: &BTreeMap<Key, Usage>, prev: &[TaskSample], cur: &[TaskSample]) -> bool {
    let known: usize = usages.values().map(|usage| usage.tids.len()).sum();
    if 2 * known >= cur.len() {
        return false;
    }
    let known: HashSet<u32> = usages
        .values()
        .flat_map(|usage| &usage.tids)
        .copied()
        .collect();
    let before: HashSet<(u32, u64)> = prev
        .iter()
        .map(|task| (task.pid, task.started_ns))
        .collect();
    let stayed = cur
        .iter()
        .filter(|task| before.contains(&(task.pid, task.started_ns)));
    let (seen, hidden): (Vec<_>, Vec<_>) = stayed.partition(|task| known.contains(&task.pid));
    hidden.len() > seen.len()
}

fn cgroup_key(pid: u32, awake: bool, hierarchy: &impl Hierarchy) -> Option<Key> {
    let cgroup = match awake {
        true => hierarchy.cgroup_of(pid),
        false => hierarchy.cgroup_of_sleeper(pid),
    };
    Some(match cgroup?.as_str() {
        "/" => Key::Process(pid),
        path => Key::Cgroup(path.to_owned()),
    })
}

/// Chooses what to monitor: at most `limit`, by memory traffic. Where only that of devices is
/// charged, an entity's part of all CPU time counts if it is larger. A monitored entity stays until
/// another uses twice as much. A reader of a disk uses little CPU time.
pub fn choose(usages: &BTreeMap<Key, Usage>, now: &BTreeSet<Key>, limit: usize) -> BTreeSet<Key> {
    let traffic = traffic(usages);
    let cpus: f64 = usages.values().map(|usage| usage.cpus).sum();
    let counted = usages.values().any(|usage| usage.cpu_bytes_per_s > 0.0);
    let matters = |usage: &Usage| usage.matters(traffic);
    let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
    let size = |usage: &Usage| {
        let moved = part(usage.bytes_per_s, traffic);
        if counted {
            moved
        } else {
            moved.max(part(usage.cpus, cpus))
        }
    };
    let mut ranked: Vec<(f64, &Key)> = usages
        .iter()
        .filter(|(key, usage)| matters(usage) || now.contains(*key))
        .map(|(key, usage)| {
            let stays = if now.contains(key) { 2.0 } else { 1.0 };
            (size(usage) * stays, key)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.truncate(limit);
    ranked.into_iter().map(|(_, key)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::mba::hierarchy::{Kernel, Ruled};

    struct Fake(Vec<(u32, &'static str)>, Vec<(&'static str, f64)>);

    impl Hierarchy for Fake {
        fn cgroup_of(&self, pid: u32) -> Option<String> {
            let found = self.0.iter().find(|(known, _)| *known == pid);
            found.map(|(_, path)| (*path).to_owned())
        }
        fn weight_of(&self, cgroup: &str) -> Option<f64> {
            let found = self.1.iter().find(|(path, _)| *path == cgroup);
            found.map(|(_, weight)| *weight)
        }
    }

    fn task(pid: u32, tgid: u32, cpu_ms: u64, bytes: u64) -> TaskSample {
        TaskSample {
            pid,
            tgid,
            comm: format!("t{pid}"),
            weight: WEIGHT_ONE,
            cpu_ns: cpu_ms * 1_000_000,
            bytes,
            ..TaskSample::default()
        }
    }

    fn names(keys: impl IntoIterator<Item = Key>) -> String {
        let names = keys.into_iter().map(|key| match key {
            Key::Task(id) => format!("t{id}"),
            Key::Process(id) => format!("p{id}"),
            Key::Cgroup(path) => path,
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_entity_has_its_tasks_without_kernel_threads_and_the_agent() {
        let fake = Fake(vec![(1, "/"), (2, "/a/b"), (4, "/a/b"), (5, "/a")], vec![]);
        let mut kthread = task(9, 9, 5, 0);
        kthread.kthread = true;
        let tasks = [
            task(1, 1, 5, 0),
            task(2, 2, 5, 0),
            task(3, 2, 5, 0),
            task(4, 4, 5, 0),
            task(5, 5, 5, 0),
            task(6, 6, 5, 0), // ended before its cgroup was read
            task(7, 7, 5, 0), // the agent
            task(8, 8, 5, 0), // its process of the statistics
            kthread,
        ];
        let (tasks, others) = sharing(tasks.into(), &[7, 8]);
        assert_eq!(others.len(), 3);
        for (entity, expected) in [
            (Entity::Task, "t1 t2 t3 t4 t5 t6"),
            (Entity::Process, "p1 p2 p4 p5 p6"),
            (Entity::Cgroup, "p1 /a /a/b"),
        ] {
            let usages = usages(entity, &[], &tasks, 1.0, &fake);
            assert_eq!(names(usages.keys().cloned()), expected);
        }
        let usages = usages(Entity::Cgroup, &[], &tasks, 1.0, &fake);
        assert_eq!(usages[&Key::Cgroup("/a/b".into())].tids, [2, 3, 4]);
    }

    #[test]
    fn the_cgroup_of_a_process_that_sleeps_is_not_read_at_each_look() {
        let root = tempfile::tempdir().unwrap();
        let moves = |pid: u32, to: &str| {
            let dir = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("cgroup"), format!("0::{to}\n")).unwrap();
        };
        let kernel = Kernel::new(root.path());
        let look = |prev: &[TaskSample], cur: &[TaskSample]| {
            names(usages(Entity::Cgroup, prev, cur, 0.5, &kernel).into_keys())
        };
        (1..=2).for_each(|pid| moves(pid, "/a"));
        let first = [task(1, 1, 5, 0), task(2, 2, 5, 0)];
        assert_eq!(look(&[], &first), "/a");
        moves(1, "/sleeper");
        moves(2, "/worker");
        let second = [task(1, 1, 5, 0), task(2, 2, 9, 0)];
        assert_eq!(look(&first, &second), "/a /worker");
        let third = [task(1, 1, 6, 0), task(2, 2, 9, 0)];
        assert_eq!(look(&second, &third), "/sleeper /worker");
    }

    #[test]
    fn a_cgroup_whose_name_is_no_text_is_an_entity() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/1");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cgroup"), b"0::/user/\xff\n").unwrap();
        let kernel = Kernel::new(root.path());
        let usages = usages(Entity::Cgroup, &[], &[task(1, 1, 5, 0)], 0.5, &kernel);
        assert_eq!(names(usages.into_keys()), "/user/\u{fffd}");
    }

    #[test]
    fn short_tasks_that_have_ended_are_not_hidden() {
        let fake = Fake(vec![(1, "/a")], vec![]);
        let (stays, ended) = (task(1, 1, 5, 0), (2..9).map(|pid| task(pid, pid, 5, 0)));
        let cur: Vec<_> = [stays.clone()].into_iter().chain(ended).collect();
        let usages = usages(Entity::Cgroup, &[], &cur, 0.5, &fake);
        assert!(!are_hidden(&usages, &[stays], &cur));
        assert!(are_hidden(&usages, &cur, &cur));
    }

    #[test]
    fn usage_is_what_happened_between_the_samples() {
        let fake = Fake(vec![], vec![]);
        let prev = [task(1, 1, 100, 1000), task(2, 1, 900, 9000)];
        // Thread 2 is another one than before.
        let mut new = task(2, 1, 100, 500);
        new.started_ns = 1;
        let cur = [task(1, 1, 300, 3000), new];
        let usages = usages(Entity::Process, &prev, &cur, 0.5, &fake);
        let usage = &usages[&Key::Process(1)];
        assert!((usage.cpus - 0.6).abs() < 1e-9);
        assert!((usage.bytes_per_s - 5000.0).abs() < 1e-6);
    }

    #[test]
    fn a_thread_that_sleeps_gives_its_process_no_weight_while_others_run() {
        let fake = Fake(vec![], vec![]);
        let weighed = |quarters: u32, task: TaskSample| TaskSample {
            weight: quarters * WEIGHT_ONE / 4,
            ..task
        };
        // The first one had all of its cgroup's weight before the others began.
        let at = |ms: u64| -> Vec<TaskSample> {
            let workers = (2..=5).map(|pid| weighed(1, task(pid, 1, ms, 0)));
            let main = weighed(4, task(1, 1, 70, 0));
            [main].into_iter().chain(workers).collect()
        };
        let weight = |prev: &[TaskSample], cur: &[TaskSample]| {
            let usages = usages(Entity::Process, prev, cur, 0.5, &fake);
            usages[&Key::Process(1)].weight
        };
        assert!((weight(&at(100), &at(200)) - 0.25).abs() < 1e-6);
        let mut reversed = at(200);
        reversed.reverse();
        assert!((weight(&at(100), &reversed) - 0.25).abs() < 1e-6);
        assert!((weight(&at(200), &at(200)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn rules_replace_the_weights_of_cgroups_and_bound_what_is_moved() {
        let rule = |cgroup, pattern, weight, max: Option<&str>| Rule {
            target: rules::Target::new(cgroup, pattern).unwrap(),
            weight,
            memory: Bounds {
                min: None,
                max: max.map(|max| max.parse().unwrap()),
            },
        };
        let rules = [
            rule(true, "/a", Some(3.0), Some("2G")),
            rule(true, "/b", None, Some("1G")),
            rule(false, "mbw", None, Some("3G")),
        ];
        let fake = Fake(vec![], vec![("/a", 100.0), ("/b", 200.0)]);
        let ruled = Ruled {
            hierarchy: &fake,
            rules: &rules,
        };
        let weight = |path: &str| ruled.weight_of(path);
        assert_eq!([weight("/a"), weight("/b")], [Some(300.0), Some(200.0)]);
        let max = |key, comm| bounds(&rules, &key, comm).max.map(|max| max.bytes_per_s());
        let cgroup = |path: &str| Key::Cgroup(path.into());
        assert_eq!(max(cgroup("/a"), "mbw"), Some(2_000_000_000));
        assert_eq!(max(cgroup("/b"), ""), Some(1_000_000_000));
        assert_eq!(max(cgroup("/a/c"), "mbw"), None);
        assert_eq!(max(Key::Process(1), "mbw"), Some(3_000_000_000));
        assert_eq!(max(Key::Task(1), "sh"), None);
    }

    #[test]
    fn the_heaviest_are_monitored_and_stay_until_another_is_twice_as_heavy() {
        let usage = |bytes_per_s, cpus| Usage {
            bytes_per_s,
            cpu_bytes_per_s: bytes_per_s,
            cpus,
            ..Usage::default()
        };
        let all: BTreeMap<Key, Usage> = [
            (Key::Process(1), usage(10.0, 1.0)),
            (Key::Process(2), usage(15.0, 1.0)),
            (Key::Process(3), usage(25.0, 1.0)),
            (Key::Process(4), usage(0.5, 0.001)),
        ]
        .into();
        assert_eq!(names(choose(&all, &BTreeSet::new(), 9)), "p1 p2 p3");
        assert_eq!(names(choose(&all, &BTreeSet::new(), 2)), "p2 p3");
        assert_eq!(names(choose(&all, &[Key::Process(1)].into(), 2)), "p1 p3");
        let reader = [(Key::Process(5), usage(99.0, 0.001))];
        let all = all.into_iter().chain(reader).collect();
        assert_eq!(names(choose(&all, &BTreeSet::new(), 2)), "p3 p5");
        let by_cpu: BTreeMap<Key, Usage> = [
            (Key::Process(1), usage(0.0, 1.0)),
            (Key::Process(2), usage(0.0, 0.1)),
        ]
        .into();
        assert_eq!(names(choose(&by_cpu, &BTreeSet::new(), 1)), "p1");
    }

    #[test]
    fn devices_traffic_alone_does_not_hide_who_computes() {
        let fake = Fake(vec![], vec![]);
        let hogs = (1..=2).map(|pid| task(pid, pid, 1000, 0));
        let writers = (3..=6).map(|pid| TaskSample {
            dma_bytes: 1_000_000,
            ..task(pid, pid, 30, 1_000_000)
        });
        let tasks: Vec<_> = hogs.chain(writers).collect();
        let all = usages(Entity::Process, &[], &tasks, 1.0, &fake);
        assert_eq!(names(choose(&all, &BTreeSet::new(), 2)), "p1 p2");
        // An event counts that the writers' CPUs move more.
        let counted = tasks.into_iter().map(|task| TaskSample {
            bytes: task.bytes + 1000 * u64::from(task.pid),
            ..task
        });
        let all = usages(
            Entity::Process,
            &[],
            &counted.collect::<Vec<_>>(),
            1.0,
            &fake,
        );
        assert_eq!(names(choose(&all, &BTreeSet::new(), 2)), "p5 p6");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The weights of the entities that compete for memory bandwidth.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    entities::{Key, Usage, traffic},
    hierarchy::{Hierarchy, WEIGHT_DEFAULT},
};

/// After so many looks in which an entity has not mattered, it no longer competes: 2 s, and less where new
/// load makes looks more frequent.
const IDLE_LOOKS: u32 = 4;

/// After so many, it gives its group back unless a rule bounds it: 60 s. Other programs may want the
/// ids, which few machines have many of.
const FORGET_LOOKS: u32 = 120;

/// Which entities compete. The scheduler's order counts active tasks alone, so an idle cgroup must
/// take nothing from its siblings here either.
#[derive(Debug, Default)]
pub struct Competition {
    /// Looks since each entity mattered.
    idle: BTreeMap<Key, u32>,
}

impl Competition {
    /// Whether an entity that has a group keeps it.
    pub fn keeps(&self, key: &Key) -> bool {
        self.idle.get(key).is_none_or(|&looks| looks < FORGET_LOOKS)
    }

    /// The weights of the entities `chosen`, at this look.
    pub fn weights(
        &mut self,
        usages: &BTreeMap<Key, Usage>,
        chosen: &BTreeSet<Key>,
        hierarchy: &impl Hierarchy,
    ) -> BTreeMap<Key, f64> {
        let traffic = traffic(usages);
        self.idle.retain(|key, _| chosen.contains(key));
        for key in chosen {
            let matters = usages.get(key).is_some_and(|usage| usage.matters(traffic));
            let idle = self.idle.entry(key.clone()).or_default();
            *idle = if matters { 0 } else { idle.saturating_add(1) };
        }
        let competes = |key: &&Key| self.idle[*key] < IDLE_LOOKS;
        let competing = chosen.iter().filter(competes).cloned().collect();
        weights(usages, chosen, &competing, hierarchy)
    }
}

/// The weights of the entities `of`, among those that compete. Those of cgroups follow the
/// hierarchy: at each level, what the parent has is divided by cpu.weight among the cgroups that
/// hold entities, and the parent's own tasks, which count as one cgroup of weight 100. With
/// `Entity::Cgroup`, the weights of those that compete add up to 1. One that does not compete has
/// the weight that it would have if it did.
fn weights(
    usages: &BTreeMap<Key, Usage>,
    of: &BTreeSet<Key>,
    competing: &BTreeSet<Key>,
    hierarchy: &impl Hierarchy,
) -> BTreeMap<Key, f64> {
    let weight_of = |path: &str| hierarchy.weight_of(path).unwrap_or(WEIGHT_DEFAULT);
    let mut known: HashMap<String, f64> = HashMap::new();
    let mut sums: HashMap<String, f64> = HashMap::new();
    for key in competing {
        match key {
            Key::Cgroup(path) => {
                for (parent, path) in levels(path) {
                    if !known.contains_key(path) {
                        let weight = weight_of(path);
                        known.insert(path.to_owned(), weight);
                        *sums.entry(parent.to_owned()).or_default() += weight;
                    }
                }
            }
            // A process of the root cgroup competes with the cgroups of the top level.
            _ => *sums.entry(String::new()).or_default() += task_weight(usages, key),
        }
    }
    for key in competing {
        if let Key::Cgroup(path) = key
            && let Some(sum) = sums.get_mut(path)
        {
            *sum += WEIGHT_DEFAULT;
        }
    }
    let part = |parent: &str, weight: f64, counts: bool| {
        let sum = sums.get(parent).copied().unwrap_or(0.0);
        weight / if counts { sum } else { sum + weight }
    };
    let flat = |key: &Key| match key {
        Key::Cgroup(path) => {
            let above: f64 = levels(path)
                .map(|(parent, path)| match known.get(path) {
                    Some(&weight) => part(parent, weight, true),
                    None => part(parent, weight_of(path), false),
                })
                .product();
            let own = if sums.contains_key(path) {
                part(path, WEIGHT_DEFAULT, competing.contains(key))
            } else {
                1.0
            };
            above * own
        }
        _ => part("", task_weight(usages, key), competing.contains(key)),
    };
    of.iter().map(|key| (key.clone(), flat(key))).collect()
}

fn task_weight(usages: &BTreeMap<Key, Usage>, key: &Key) -> f64 {
    let weight = usages.get(key).map_or(1.0, |usage| usage.weight);
    WEIGHT_DEFAULT * weight.max(1e-6)
}

/// The levels of a path, from the top down: (path of the parent, path). The parent of
/// the top level is empty.
fn levels(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
    let mut parent = "";
    ends.chain(std::iter::once(path.len())).map(move |end| {
        let level = (parent, &path[..end]);
        parent = &path[..end];
        level
    })
}

#[cfg(test)]
mod tests {
    use drfq_stats::{interval::WEIGHT_ONE, sample::TaskSample};

    use super::*;
    use crate::{config::Entity, mba::entities::usages};

    struct Fake(Vec<(&'static str, f64)>);

    impl Hierarchy for Fake {
        fn cgroup_of(&self, _: u32) -> Option<String> {
            None
        }
        fn weight_of(&self, cgroup: &str) -> Option<f64> {
            let found = self.0.iter().find(|(path, _)| *path == cgroup);
            found.map(|(_, weight)| *weight)
        }
    }

    fn cgroup(path: &str) -> Key {
        Key::Cgroup(path.into())
    }

    fn fake() -> Fake {
        Fake(vec![
            ("/a", 100.0),
            ("/b", 300.0),
            ("/a/x", 50.0),
            ("/a/y", 150.0),
        ])
    }

    fn of(keys: &[Key]) -> Vec<f64> {
        let competing = keys.iter().cloned().collect();
        let weights = weights(&BTreeMap::new(), &competing, &competing, &fake());
        keys.iter().map(|key| weights[key]).collect()
    }

    #[test]
    fn weights_follow_the_hierarchy() {
        assert_eq!(
            of(&[cgroup("/a/x"), cgroup("/a/y"), cgroup("/b")]),
            [0.0625, 0.1875, 0.75]
        );
        // Only what competes counts.
        assert_eq!(of(&[cgroup("/a/x"), cgroup("/b")]), [0.25, 0.75]);
        // A process of the root cgroup counts as cpu.weight 100.
        assert_eq!(of(&[Key::Process(1), cgroup("/b")]), [0.25, 0.75]);
        // A cgroup without the cpu controller counts as 100, too.
        assert_eq!(of(&[cgroup("/c/d"), cgroup("/b")]), [0.25, 0.75]);
    }

    /// Threads with their processes and the weights of their nice values, in a cgroup whose weight
    /// is `cgroup` times the default. As in bpf/cgroup.bpf.h, active threads divide the cgroup's share.
    fn threads(cgroup: f64, of: &[(u32, u32, f64)]) -> Vec<TaskSample> {
        let active: f64 = of.iter().map(|(_, _, nice)| nice).sum();
        let thread = |&(pid, tgid, nice): &(u32, u32, f64)| TaskSample {
            pid,
            tgid,
            weight: (f64::from(WEIGHT_ONE) * cgroup * nice / active).round() as u32,
            cpu_ns: 1_000_000_000,
            ..TaskSample::default()
        };
        of.iter().map(thread).collect()
    }

    /// What each process gets of all, with `--entity process`.
    fn of_processes(tasks: &[TaskSample]) -> Vec<f64> {
        let usages = usages(Entity::Process, &[], tasks, 1.0, &fake());
        let all: BTreeSet<Key> = usages.keys().cloned().collect();
        let weights = Competition::default().weights(&usages, &all, &fake());
        weights.into_values().collect()
    }

    #[test]
    fn a_process_weighs_what_its_heaviest_thread_has_of_the_cgroups_share() {
        // Nice -5, 0 and 5 of one process, nice 0 of another one, in a cgroup of weight 300.
        let nice = [3.05, 1.0, 0.327, 1.0];
        let busy = [(1, 1), (2, 1), (3, 1), (4, 4)];
        let busy: Vec<_> = busy
            .iter()
            .zip(nice)
            .map(|(&(pid, tgid), w)| (pid, tgid, w))
            .collect();
        let mut tasks = threads(3.0, &busy);
        // A process of the root cgroup at nice 0.
        tasks.extend(threads(1.0, &[(9, 9, 1.0)]));
        let active: f64 = nice.iter().sum();
        let (first, second) = (3.0 * 3.05 / active, 3.0 / active);
        let sum = first + second + 1.0;
        let expected = [first / sum, second / sum, 1.0 / sum];
        for (got, expected) in of_processes(&tasks).into_iter().zip(expected) {
            assert!((got - expected).abs() < 1e-5, "{got}, not {expected}");
        }
    }

    #[test]
    fn a_process_whose_threads_divide_their_cgroup_weighs_as_one_of_them() {
        let four: Vec<_> = (1..=4).map(|pid| (pid, 1, 1.0)).collect();
        let mut tasks = threads(1.0, &four);
        tasks.extend(threads(1.0, &[(9, 9, 1.0)]));
        for (got, expected) in of_processes(&tasks).into_iter().zip([0.2, 0.8]) {
            assert!((got - expected).abs() < 1e-5, "{got}, not {expected}");
        }
    }

    #[test]
    fn tasks_beside_groups_in_their_group_share_with_them() {
        let got = of(&[cgroup("/a"), cgroup("/a/y"), cgroup("/b")]);
        assert_eq!(got, [0.25 * 0.4, 0.25 * 0.6, 0.75]);
    }

    #[test]
    fn an_idle_entity_takes_nothing_from_its_siblings() {
        let usage = |cpus| Usage {
            cpus,
            ..Usage::default()
        };
        let keys = [cgroup("/a/x"), cgroup("/a/y"), cgroup("/b")];
        let chosen: BTreeSet<Key> = keys.iter().cloned().collect();
        let usages = |idle: f64| -> BTreeMap<Key, Usage> {
            let cpus = [idle, 1.0, 1.0];
            keys.iter().cloned().zip(cpus.map(usage)).collect()
        };
        let mut competition = Competition::default();
        let mut look = |idle| {
            let weights = competition.weights(&usages(idle), &chosen, &fake());
            keys.each_ref().map(|key| weights[key])
        };
        assert_eq!(look(1.0), [0.0625, 0.1875, 0.75]);
        for _ in 1..IDLE_LOOKS {
            assert_eq!(look(0.0), [0.0625, 0.1875, 0.75]);
        }
        // It keeps the weight that it would have.
        assert_eq!(look(0.0), [0.0625, 0.25, 0.75]);
        assert_eq!(look(1.0), [0.0625, 0.1875, 0.75]);
    }
}

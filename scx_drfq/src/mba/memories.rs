// SPDX-License-Identifier: GPL-2.0-only
//! Which domains of resctrl use the same memory. A domain is a last-level cache, and several caches
//! may be before the memory of one NUMA node.

use std::collections::{BTreeMap, BTreeSet};

use drfq_resctrl::schemata::Domain;

/// The memories of some domains, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memories {
    /// The memory of each domain.
    of_domain: Vec<usize>,
    count: usize,
}

impl Memories {
    /// A memory for each of so many domains.
    pub fn apart(domains: usize) -> Self {
        Self {
            of_domain: (0..domains).collect(),
            count: domains,
        }
    }

    /// One memory for domains that have a NUMA node in common, directly or by others. `nodes`: those
    /// of each domain. A domain whose nodes are not known has a memory of its own.
    pub fn new(domains: &[Domain], nodes: &BTreeMap<Domain, BTreeSet<u32>>) -> Self {
        let mut memories: Vec<(BTreeSet<usize>, BTreeSet<u32>)> = Vec::new();
        for (index, domain) in domains.iter().enumerate() {
            let mut inside = BTreeSet::from([index]);
            let mut all = nodes.get(domain).cloned().unwrap_or_default();
            let shared = memories.extract_if(.., |(_, other)| !other.is_disjoint(&all));
            for (domains, nodes) in shared.collect::<Vec<_>>() {
                inside.extend(domains);
                all.extend(nodes);
            }
            memories.push((inside, all));
        }
        memories.sort();
        let memory = |index| {
            memories
                .iter()
                .position(|(inside, _)| inside.contains(&index))
        };
        Self {
            of_domain: (0..domains.len()).filter_map(memory).collect(),
            count: memories.len(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many domains each has.
    pub fn sizes(&self) -> Vec<usize> {
        let size = |memory| self.of_domain.iter().filter(|of| **of == memory).count();
        (0..self.count).map(size).collect()
    }

    /// What each memory has, of what each domain has.
    pub fn sums(&self, of_domains: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for (&memory, value) in self.of_domain.iter().zip(of_domains) {
            sums[memory] += value;
        }
        sums
    }

    /// The setting of each domain, of that for each memory.
    pub fn settings(&self, of_memories: &[u32]) -> Vec<u32> {
        let of_domain = self.of_domain.iter();
        of_domain
            .filter_map(|&memory| of_memories.get(memory).copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memories(nodes: &[&[u32]]) -> Vec<usize> {
        // Ids of caches may have gaps.
        let domains: Vec<Domain> = (0..nodes.len() as u32).map(|index| 2 * index).collect();
        let nodes = domains.iter().zip(nodes);
        let nodes = nodes.map(|(&domain, nodes)| (domain, nodes.iter().copied().collect()));
        let found = Memories::new(&domains, &nodes.collect());
        assert_eq!(found.sizes().iter().sum::<usize>(), domains.len());
        found.of_domain
    }

    #[test]
    fn domains_with_a_node_in_common_share_a_memory() {
        assert_eq!(memories(&[&[0], &[1]]), [0, 1]);
        assert_eq!(memories(&[&[0], &[0], &[1], &[1]]), [0, 0, 1, 1]);
        assert_eq!(memories(&[&[0], &[1], &[0]]), [0, 1, 0]);
        // Sub-NUMA clustering divides a domain, and another one joins two.
        assert_eq!(memories(&[&[0, 1], &[2, 3]]), [0, 1]);
        assert_eq!(memories(&[&[0], &[1], &[0, 1], &[2]]), [0, 0, 0, 1]);
        assert_eq!(memories(&[&[], &[]]), [0, 1]);
        assert_eq!(Memories::new(&[3, 5], &BTreeMap::new()), Memories::apart(2));
    }

    #[test]
    fn traffic_is_added_up_and_settings_are_spread() {
        let nodes = [(0, [0].into()), (1, [1].into()), (2, [0].into())];
        let found = Memories::new(&[0, 1, 2], &nodes.into());
        assert_eq!((found.count(), found.sizes()), (2, vec![2, 1]));
        assert_eq!(found.sums(&[1.0, 2.0, 4.0]), [5.0, 2.0]);
        assert_eq!(found.settings(&[30, 70]), [30, 70, 30]);
    }
}

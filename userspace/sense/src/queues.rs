// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a queue of runnable tasks, and how far queues are from each other.

use serde::Serialize;

/// Queues that the BPF program has room for (DRFQ_MAX_LLCS).
pub const MAX_QUEUES: usize = 64;

/// CPUs that share a queue and its lock, if there are queues enough. A last-level cache with more
/// CPUs has several queues.
pub const CPUS_PER_QUEUE: usize = 16;

/// The distance of a NUMA node from itself (ACPI 6.5, 5.2.17: System Locality Information Table).
pub const LOCAL: u8 = 10;

/// Where a CPU is. Numbers of cores and of caches are those of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its NUMA node.
    pub node: u32,
    /// Its last-level cache.
    pub cache: u32,
    /// Its core.
    pub core: u32,
    /// Its number.
    pub cpu: u32,
}

/// The queues of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queues {
    /// The queue of each CPU. A CPU without a place has 0.
    pub of_cpu: Vec<u32>,
    /// Row after row, the distance of each queue from each: 0 in one last-level cache, otherwise that
    /// of their nodes, at least [`LOCAL`].
    distances: Vec<u8>,
    count: usize,
}

impl Queues {
    /// One queue for CPUs with numbers below `cpu_ids`.
    pub fn single(cpu_ids: usize) -> Self {
        Self {
            of_cpu: vec![0; cpu_ids],
            distances: vec![0],
            count: 1,
        }
    }

    /// Divides the CPUs at these places, at least one, among queues. `distance` is that of two nodes.
    /// CPUs of a core share a queue, and CPUs of different caches do only beyond [`MAX_QUEUES`] caches.
    pub fn divide(places: &[Place], cpu_ids: usize, distance: impl Fn(u32, u32) -> u8) -> Self {
        let mut places = places.to_vec();
        places.sort_unstable();
        let caches: Vec<&[Place]> = places.chunk_by(|a, b| a.cache == b.cache).collect();
        let parts = |cpus: &[Place], most: usize| cpus.len().div_ceil(most);
        let fits =
            |most: &usize| caches.iter().map(|c| parts(c, *most)).sum::<usize>() <= MAX_QUEUES;
        let doubled = |most: &usize| Some(2 * most);
        let most = std::iter::successors(Some(CPUS_PER_QUEUE), doubled)
            .find(|most| fits(most) || *most > places.len())
            .unwrap_or(CPUS_PER_QUEUE);

        let mut of_cpu = vec![0; cpu_ids];
        let mut homes: Vec<Place> = Vec::new();
        for cpus in caches {
            let (first, parts) = (homes.len(), parts(cpus, most));
            let cores: Vec<&[Place]> = cpus.chunk_by(|a, b| a.core == b.core).collect();
            for (number, core) in cores.iter().enumerate() {
                let queue = first + number * parts.min(cores.len()) / cores.len();
                homes.truncate(queue + 1);
                homes.resize(queue + 1, core[0]);
                for place in *core {
                    of_cpu[place.cpu as usize] = (queue % MAX_QUEUES) as u32;
                }
            }
        }
        homes.truncate(MAX_QUEUES);
        let from_to = |a: &Place, b: &Place| match a.cache == b.cache {
            true => 0,
            false => distance(a.node, b.node).max(LOCAL),
        };
        let row = |a: &Place| homes.iter().map(|b| from_to(a, b)).collect::<Vec<_>>();
        Self {
            of_cpu,
            distances: homes.iter().flat_map(row).collect(),
            count: homes.len(),
        }
    }

    /// How many there are, 1 to [`MAX_QUEUES`].
    pub fn count(&self) -> usize {
        self.count
    }

    /// The distance of queue `to` from queue `from`.
    pub fn distance(&self, from: usize, to: usize) -> u8 {
        self.distances[from * self.count + to]
    }

    /// The tables of the BPF program, with a row of [`MAX_QUEUES`] for each queue: all queues, the
    /// nearest first, and the lead (ns) of a head by which a CPU takes it from another queue.
    /// `margin_ns` is that of another cache of the same node; it grows in proportion to the distance.
    pub fn tables(&self, margin_ns: u64) -> (Vec<u8>, Vec<u64>) {
        let mut near = vec![0; MAX_QUEUES * MAX_QUEUES];
        let mut margins_ns = vec![0; MAX_QUEUES * MAX_QUEUES];
        for from in 0..self.count {
            let row = from * MAX_QUEUES;
            for (place, to) in self.nearest(from).into_iter().enumerate() {
                near[row + place] = to as u8;
                margins_ns[row + to] =
                    margin_ns * u64::from(self.distance(from, to)) / u64::from(LOCAL);
            }
        }
        (near, margins_ns)
    }

    /// All queues, the nearest to `from` first: itself. Of equally far ones those with higher numbers
    /// come first, so that not all queues have the same neighbour.
    pub fn nearest(&self, from: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count).map(|i| (from + i) % self.count).collect();
        order.sort_by_key(|&to| (to != from, self.distance(from, to)));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs, each with its own core, in caches of so many CPUs; two caches for each node.
    fn machine(caches: &[usize]) -> Vec<Place> {
        let cpus = caches
            .iter()
            .enumerate()
            .flat_map(|(cache, count)| vec![cache as u32; *count]);
        cpus.enumerate()
            .map(|(cpu, cache)| Place {
                node: cache / 2,
                cache,
                core: cpu as u32,
                cpu: cpu as u32,
            })
            .collect()
    }

    fn divide(places: &[Place]) -> Queues {
        let distance = |a, b| if a == b { LOCAL } else { 21 };
        Queues::divide(places, places.len(), distance)
    }

    #[test]
    fn a_cache_with_many_cpus_has_several_queues() {
        for (cpus, queues) in [(1, 1), (16, 1), (17, 2), (112, 7), (1024, 64)] {
            let divided = divide(&machine(&[cpus]));
            assert_eq!(divided.count(), queues, "{cpus} CPUs");
            let size = |queue| divided.of_cpu.iter().filter(|q| **q == queue).count();
            let sizes: Vec<usize> = (0..queues as u32).map(size).collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{sizes:?}");
            assert!((0..queues).all(|to| divided.distance(0, to) == 0));
        }
    }

    #[test]
    fn caches_and_nodes_make_a_distance() {
        let divided = divide(&machine(&[20, 4, 4]));
        assert_eq!(divided.count(), 4);
        let from_first: Vec<u8> = (0..4).map(|to| divided.distance(0, to)).collect();
        assert_eq!(from_first, [0, 0, 10, 21]);
        assert_eq!(divided.nearest(0), [0, 1, 2, 3]);
        assert_eq!(divided.nearest(1), [1, 0, 2, 3]);
        assert_eq!(divided.nearest(3), [3, 0, 1, 2]);
    }

    #[test]
    fn the_nearest_one_differs_among_equally_far_ones() {
        let divided = divide(&machine(&[2, 2]));
        assert_eq!((divided.nearest(0)[1], divided.nearest(1)[1]), (1, 0));
        let divided = divide(&machine(&[64]));
        let nearest: Vec<usize> = (0..4).map(|from| divided.nearest(from)[1]).collect();
        assert_eq!(nearest, [1, 2, 3, 0]);
    }

    #[test]
    fn threads_of_a_core_share_a_queue() {
        // CPUs i and i + 16 are threads of a core.
        let place = |cpu| Place {
            node: 0,
            cache: 0,
            core: cpu % 16,
            cpu,
        };
        let places: Vec<Place> = (0..32).map(place).collect();
        let of_cpu = divide(&places).of_cpu;
        assert!((0..16).all(|cpu| of_cpu[cpu] == of_cpu[cpu + 16]));
        assert_eq!((of_cpu[7], of_cpu[8]), (0, 1));
    }

    #[test]
    fn more_caches_than_queues_share_queues() {
        let divided = divide(&machine(&[2; 70]));
        assert_eq!(divided.count(), 64);
        assert_eq!(divided.of_cpu[126..130], [63, 63, 0, 0]);
        let divided = divide(&machine(&[40; 30]));
        assert_eq!(divided.count(), 60);
    }

    #[test]
    fn margins_follow_the_distance() {
        let (near, margins_ns) = divide(&machine(&[20, 4, 4])).tables(1000);
        assert_eq!(near[3 * MAX_QUEUES..3 * MAX_QUEUES + 4], [3, 0, 1, 2]);
        assert_eq!(margins_ns[..4], [0, 0, 1000, 2100]);
        assert_eq!(
            margins_ns[3 * MAX_QUEUES..3 * MAX_QUEUES + 4],
            [2100, 2100, 2100, 0]
        );
    }

    #[test]
    fn a_bad_distance_is_a_local_one() {
        let divided = Queues::divide(&machine(&[1, 1]), 2, |_, _| 0);
        assert_eq!(divided.distance(0, 1), LOCAL);
        assert_eq!(Queues::single(3).of_cpu, [0; 3]);
        assert_eq!(Queues::single(3).nearest(0), [0]);
    }
}

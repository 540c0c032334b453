// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, and the last-level caches and NUMA nodes that they share, from sysfs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::queues::{LOCAL, Place, Queues};

/// CPUs that the tables of the BPF program have room for (DRFQ_MAX_CPUS).
pub const MAX_CPUS: u32 = 1024;

/// No list names a CPU from here on. Linux has far fewer.
const LIST_MAX: u32 = 1 << 16;

const CPU_DIR: &str = "sys/devices/system/cpu";
const NODE_DIR: &str = "sys/devices/system/node";

/// The CPUs of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// CPUs that are online, ascending, at least one.
    pub online: Vec<u32>,
    /// Number of the last-level cache of each possible CPU, counted from 0. An
    /// offline CPU has 0.
    pub cpu_llc: Vec<u32>,
    /// Last-level caches of the CPUs that are online, at least 1.
    pub nr_llcs: u32,
    /// How the CPUs that are online share queues of runnable tasks.
    pub queues: Queues,
}

impl Topology {
    /// Reads the topology of the machine whose `/` is `root`.
    ///
    /// # Errors
    /// sysfs is not readable, or numbers more CPUs than the scheduler takes.
    pub fn read(root: &Path) -> Result<Self> {
        let dir = root.join(CPU_DIR);
        let online = read_cpu_list(&dir.join("online"))?;
        let possible = read_cpu_list(&dir.join("possible"))?;
        let last = possible
            .iter()
            .chain(&online)
            .max()
            .context("sysfs lists no CPU")?;
        ensure!(!online.is_empty(), "sysfs lists no CPU that is online");
        ensure!(
            *last < MAX_CPUS,
            "this machine numbers {} CPUs, but scx_drfq manages at most {MAX_CPUS}; limit them \
             with the kernel parameter nr_cpus",
            last + 1
        );

        let mut cpu_llc = vec![0; *last as usize + 1];
        let mut caches = BTreeMap::new();
        let mut places = Vec::new();
        for &cpu in &online {
            let of_cpu = dir.join(format!("cpu{cpu}"));
            // Two CPUs have the same cache if the same CPUs share it.
            let cache = shared_cpus(&of_cpu.join("cache"));
            let next = caches.len() as u32;
            let cache = *caches.entry(cache).or_insert(next);
            cpu_llc[cpu as usize] = cache;
            let (node, core) = (
                node_of(&of_cpu).unwrap_or(0),
                core_of(&of_cpu).unwrap_or(cpu),
            );
            places.push(Place {
                node,
                cache,
                core,
                cpu,
            });
        }
        let distances = Distances::read(&root.join(NODE_DIR));
        Ok(Self {
            queues: Queues::divide(&places, cpu_llc.len(), |a, b| distances.between(a, b)),
            online,
            cpu_llc,
            nr_llcs: caches.len() as u32,
        })
    }

    /// One more than the highest CPU number.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.cpu_llc.len() as u32
    }
}

/// Distances of NUMA nodes, as the firmware tells them.
struct Distances {
    nodes: Vec<u32>,
    rows: Vec<Vec<u8>>,
}

impl Distances {
    /// Reads them from sysfs. What it does not tell is [`LOCAL`].
    fn read(dir: &Path) -> Self {
        let nodes = read_cpu_list(&dir.join("online")).unwrap_or_default();
        let row = |node: &u32| {
            let text = fs::read_to_string(dir.join(format!("node{node}/distance")));
            let words = text.unwrap_or_default();
            let number = |word: &str| word.parse().unwrap_or(LOCAL);
            words.split_whitespace().map(number).collect()
        };
        Self {
            rows: nodes.iter().map(row).collect(),
            nodes,
        }
    }

    fn between(&self, from: u32, to: u32) -> u8 {
        let place = |node| self.nodes.iter().position(|&other| other == node);
        let told = place(from).zip(place(to));
        let distance = told.and_then(|(from, to)| self.rows[from].get(to));
        distance.copied().unwrap_or(LOCAL)
    }
}

/// The NUMA node of the CPU whose directory is `dir`; none without nodes.
fn node_of(dir: &Path) -> Option<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("node")?.parse().ok();
    entries.filter_map(|entry| number(entry.file_name())).next()
}

/// The NUMA nodes of the CPUs of each third-level cache, by the cache's id. resctrl names its domains
/// by these ids. Caches that sysfs does not tell are left out, and without nodes they have none.
pub fn nodes_of_caches(root: &Path) -> BTreeMap<u32, BTreeSet<u32>> {
    let dir = root.join(CPU_DIR);
    let mut nodes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for cpu in read_cpu_list(&dir.join("online")).unwrap_or_default() {
        let of_cpu = dir.join(format!("cpu{cpu}"));
        let caches = caches(&of_cpu.join("cache"));
        let third = caches.iter().find(|(level, _)| *level == 3);
        if let Some(id) = third.and_then(|(_, index)| number(&index.join("id"))) {
            nodes.entry(id).or_default().extend(node_of(&of_cpu));
        }
    }
    nodes
}

/// The first thread of the CPU's core.
fn core_of(dir: &Path) -> Option<u32> {
    let threads = read_cpu_list(&dir.join("topology/thread_siblings_list")).ok()?;
    threads.first().copied()
}

/// The CPUs that share the last cache under `dir`. Without a cache, as in many
/// virtual machines, the list is empty, so all CPUs share one queue.
fn shared_cpus(dir: &Path) -> String {
    let last = caches(dir).into_iter().max();
    last.and_then(|(_, index)| fs::read_to_string(index.join("shared_cpu_list")).ok())
        .unwrap_or_default()
}

/// The levels and the directories of the caches under `dir`.
fn caches(dir: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let indices = entries.map(|entry| entry.path());
    indices
        .filter_map(|index| Some((number(&index.join("level"))?, index)))
        .collect()
}

/// A file of one number.
fn number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read_cpu_list(path: &Path) -> Result<Vec<u32>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_cpu_list(&text)
        .with_context(|| format!("{}: not a list of CPUs: {:?}", path.display(), text.trim()))
}

/// A list as sysfs writes it, such as `0-3,8,10-11`, ascending.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
        // The kernel's lists ascend. Others could ask for any amount of memory.
        let ascends = cpus.last().is_none_or(|&before| before < first);
        ensure!(
            ascends && first <= last && last < LIST_MAX,
            "not a range of CPUs: {range}"
        );
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// CPUs as sysfs writes them, such as `0-3,8`. They must ascend.
pub fn cpu_list(cpus: impl Iterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sysfs with these lists and, for each CPU, (level, shared_cpu_list) of
    /// its caches.
    fn sysfs(online: &str, possible: &str, caches: &[&[(u32, &str)]]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(CPU_DIR);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("online"), online).unwrap();
        fs::write(dir.join("possible"), possible).unwrap();
        for (cpu, indices) in caches.iter().enumerate() {
            for (number, (level, shared)) in indices.iter().enumerate() {
                let index = dir.join(format!("cpu{cpu}/cache/index{number}"));
                fs::create_dir_all(&index).unwrap();
                fs::write(index.join("level"), format!("{level}\n")).unwrap();
                fs::write(index.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
            }
        }
        root
    }

    #[test]
    fn cpus_of_one_last_cache_share_a_queue() {
        let low: &[(u32, &str)] = &[(1, "0"), (3, "0-1"), (2, "0")];
        let high: &[(u32, &str)] = &[(1, "2"), (2, "2"), (3, "2-3")];
        let root = sysfs("0-3\n", "0-7\n", &[low, low, high, high]);
        let topology = Topology::read(root.path()).unwrap();
        assert_eq!(topology.online, [0, 1, 2, 3]);
        assert_eq!(topology.cpu_llc, [0, 0, 1, 1, 0, 0, 0, 0]);
        assert_eq!((topology.nr_llcs, topology.nr_cpu_ids()), (2, 8));
        assert_eq!(topology.queues.of_cpu, [0, 0, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn caches_are_told_with_the_nodes_of_their_cpus() {
        let root = sysfs("0-3\n", "0-3\n", &[&[(2, "0")], &[], &[], &[]]);
        for (cpu, cache, node) in [(0, 4, 0), (1, 7, 0), (2, 7, 1), (3, 9, 1)] {
            let of_cpu = root.path().join(format!("{CPU_DIR}/cpu{cpu}"));
            fs::create_dir_all(of_cpu.join(format!("node{node}"))).unwrap();
            let index = of_cpu.join("cache/index3");
            fs::create_dir_all(&index).unwrap();
            fs::write(index.join("level"), "3\n").unwrap();
            fs::write(index.join("id"), format!("{cache}\n")).unwrap();
        }
        let expected = [(4, [0].into()), (7, [0, 1].into()), (9, [1].into())];
        assert_eq!(nodes_of_caches(root.path()), expected.into());
        // A kernel without CONFIG_NUMA.
        for (cpu, node) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            fs::remove_dir(root.path().join(format!("{CPU_DIR}/cpu{cpu}/node{node}"))).unwrap();
        }
        let expected = [4, 7, 9].map(|cache| (cache, BTreeSet::new()));
        assert_eq!(nodes_of_caches(root.path()), expected.into());
        assert_eq!(nodes_of_caches(Path::new("/nonexistent")), [].into());
    }

    #[test]
    fn a_list_of_cpus_is_written_as_it_is_read() {
        for text in ["", "0", "0-3", "0-3,8,10-11"] {
            let cpus = parse_cpu_list(text).unwrap();
            assert_eq!(cpu_list(cpus.into_iter()), text);
        }
    }

    #[test]
    fn a_list_that_does_not_ascend_is_refused() {
        for text in ["1-0", "3,3", "0-3,3", "0-65535,0-65535", "65536", "0-65536"] {
            assert!(parse_cpu_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn without_caches_all_cpus_share_one_queue() {
        let root = sysfs("0-1,3\n", "0-3\n", &[]);
        let topology = Topology::read(root.path()).unwrap();
        assert_eq!(topology.online, [0, 1, 3]);
        assert_eq!((topology.nr_llcs, topology.nr_cpu_ids()), (1, 4));
    }

    #[test]
    fn queues_of_other_nodes_are_far() {
        let low: &[(u32, &str)] = &[(3, "0-1")];
        let high: &[(u32, &str)] = &[(3, "2-3")];
        let root = sysfs("0-3\n", "0-3\n", &[low, low, high, high]);
        let nodes = root.path().join(NODE_DIR);
        for (node, distances) in [(0, "10 32\n"), (2, "32 10\n")] {
            let dir = nodes.join(format!("node{node}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("distance"), distances).unwrap();
        }
        fs::write(nodes.join("online"), "0,2\n").unwrap();
        for (cpu, node) in [(0, 0), (1, 0), (2, 2), (3, 2)] {
            fs::create_dir_all(root.path().join(format!("{CPU_DIR}/cpu{cpu}/node{node}"))).unwrap();
        }
        let queues = Topology::read(root.path()).unwrap().queues;
        assert_eq!((queues.distance(0, 0), queues.distance(0, 1)), (0, 32));
    }

    #[test]
    fn threads_of_a_core_share_a_queue() {
        let root = sysfs("0-31\n", "0-31\n", &[]);
        for cpu in 0..32 {
            let dir = root.path().join(format!("{CPU_DIR}/cpu{cpu}/topology"));
            fs::create_dir_all(&dir).unwrap();
            let core = cpu % 16;
            let threads = format!("{core},{}\n", core + 16);
            fs::write(dir.join("thread_siblings_list"), threads).unwrap();
        }
        let queues = Topology::read(root.path()).unwrap().queues;
        assert_eq!(queues.count(), 2);
        assert_eq!((queues.of_cpu[7], queues.of_cpu[23]), (0, 0));
        assert_eq!((queues.of_cpu[8], queues.of_cpu[24]), (1, 1));
    }

    #[test]
    fn a_bad_sysfs_is_an_error_of_one_line() {
        let error = format!(
            "{:#}",
            Topology::read(Path::new("/nonexistent")).unwrap_err()
        );
        assert!(error.starts_with("cannot read /nonexistent/sys/devices/system/cpu/online"));
        for (online, possible, reason) in [
            ("many\n", "0-3\n", "not a list of CPUs"),
            ("3-1\n", "0-3\n", "not a list of CPUs"),
            ("0-4294967295\n", "0-3\n", "not a list of CPUs"),
            ("\n", "0-3\n", "no CPU"),
            ("0-3\n", "0-2047\n", "numbers 2048 CPUs"),
        ] {
            let root = sysfs(online, possible, &[]);
            let error = format!("{:#}", Topology::read(root.path()).unwrap_err());
            assert!(error.contains(reason) && !error.contains('\n'), "{error}");
        }
    }
}

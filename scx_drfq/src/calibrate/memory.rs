// SPDX-License-Identifier: GPL-2.0-only
//! How much memory the loads of a calibration touch: more than the caches hold, and no more than the
//! machine can give without taking it from other programs.

use std::{fs, path::Path};

use drfq_sense::topology::Topology;

use super::cpus_of;

/// The loads of all CPUs touch so many times the size of their cache.
const CACHES: usize = 4;

/// Below so many times that size, much of what they touch stays in the cache.
const CACHES_LEAST: usize = 2;

/// Each thread touches at least so much (bytes), where there is room.
pub const LEAST: usize = 4 << 20;

/// What the loads that run at once may touch: half of the memory that is available, to the machine and
/// to the cgroup of this process, as far as that is known (bytes).
pub fn room(root: &Path) -> usize {
    let available = available(root).min(left_to_cgroup(root));
    (available / 2).max(LEAST)
}

/// The machine's available memory (bytes).
fn available(root: &Path) -> usize {
    let text = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = value.and_then(|value| value.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(usize::MAX, |kib: usize| kib.saturating_mul(1 << 10))
}

/// What the cgroup of this process and those above it may still take (bytes). Beyond it the kernel
/// would end the loads, or let them wait.
fn left_to_cgroup(root: &Path) -> usize {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let mount = root.join("sys/fs/cgroup");
    let below = mount.join(path.unwrap_or_default());
    let cgroups = below
        .ancestors()
        .take_while(|path| path.starts_with(&mount));
    cgroups.map(left_to).min().unwrap_or(usize::MAX)
}

/// What a cgroup may still take (bytes), whatever those above it may.
fn left_to(cgroup: &Path) -> usize {
    let read = |file| fs::read_to_string(cgroup.join(file)).ok();
    let number = |file| read(file)?.trim().parse().ok();
    let limits = ["memory.max", "memory.high"].into_iter().filter_map(number);
    let taken = number("memory.current").unwrap_or(0);
    limits
        .min()
        .map_or(usize::MAX, |limit: usize| limit.saturating_sub(taken))
}

/// Memory that does not stay in the caches of a CPU, as far as there is room for it (bytes).
pub fn beyond_cache(cpu: u32, root: &Path) -> usize {
    (CACHES * cache_bytes(cpu, root)).max(LEAST).min(room(root))
}

/// A thread on each CPU of each of these last-level caches, and the bytes of its memory.
pub fn threads(llcs: &[u32], topology: &Topology, root: &Path) -> Vec<(u32, usize)> {
    let of_llc = |&llc| {
        let cpus = cpus_of(llc, topology);
        let wanted = cpus
            .first()
            .map_or(0, |&cpu| CACHES * cache_bytes(cpu, root));
        let each = (wanted / cpus.len().max(1)).max(LEAST);
        cpus.into_iter().map(move |cpu| (cpu, each))
    };
    let mut threads: Vec<_> = llcs.iter().flat_map(of_llc).collect();
    let (all, room) = (threads.iter().map(|one| one.1).sum::<usize>(), room(root));
    if all > room {
        let part = room as f64 / all as f64;
        threads
            .iter_mut()
            .for_each(|(_, bytes)| *bytes = (*bytes as f64 * part) as usize);
    }
    threads
}

/// Why what the loads measure may not be the memory; none if there is room enough.
pub fn shortage(topology: &Topology, root: &Path) -> Option<String> {
    let llcs = (0..topology.nr_llcs).filter_map(|llc| cpus_of(llc, topology).first().copied());
    let caches: usize = llcs.map(|cpu| cache_bytes(cpu, root)).sum();
    let room = room(root);
    (room < CACHES_LEAST * caches).then(|| {
        format!(
            "caches of {} MiB may serve a part of what is measured, since the loads get {} MiB only, \
             half of the available memory of the machine and of their cgroup",
            caches >> 20,
            room >> 20
        )
    })
}

/// Size of the last cache of a CPU (bytes); 32 MiB if it is not known.
fn cache_bytes(cpu: u32, root: &Path) -> usize {
    let dir = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    let size = |index: u32| -> Option<usize> {
        let text = fs::read_to_string(dir.join(format!("index{index}/size"))).ok()?;
        Some(text.trim().strip_suffix('K')?.parse::<usize>().ok()? << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
}

#[cfg(test)]
mod tests {
    use drfq_sense::queues::Queues;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Four CPUs at two caches of 64 MiB, on a machine with so much available memory.
    fn machine(available: Option<usize>) -> (tempfile::TempDir, Topology) {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..4 {
            let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            fs::create_dir_all(root.path().join(&cache)).unwrap();
            fs::write(root.path().join(cache).join("size"), "65536K\n").unwrap();
        }
        if let Some(available) = available {
            let kib = available >> 10;
            let text = format!("MemTotal: 99999999 kB\nMemAvailable:   {kib} kB\nBuffers: 1 kB\n");
            fs::create_dir_all(root.path().join("proc")).unwrap();
            fs::write(root.path().join("proc/meminfo"), text).unwrap();
        }
        let topology = Topology {
            online: vec![0, 1, 2, 3],
            cpu_llc: vec![0, 0, 1, 1],
            nr_llcs: 2,
            queues: Queues::single(4),
        };
        (root, topology)
    }

    #[test]
    fn loads_touch_at_most_half_of_the_available_memory() {
        for (available, one, domain, all, short) in [
            (None, 256, 256, 512, false),
            (Some(8192), 256, 256, 512, false),
            (Some(640), 256, 256, 320, false),
            (Some(400), 200, 200, 200, true),
            (Some(0), 4, 4, 4, true),
        ] {
            let (root, topology) = machine(available.map(|available| available * MIB));
            let sum = |llcs: &[u32]| -> usize {
                let threads = threads(llcs, &topology, root.path());
                assert_eq!(threads.len(), 2 * llcs.len());
                threads.iter().map(|thread| thread.1).sum::<usize>() / MIB
            };
            let found = (beyond_cache(0, root.path()) / MIB, sum(&[1]), sum(&[0, 1]));
            assert_eq!(found, (one, domain, all), "{available:?}");
            let shortage = shortage(&topology, root.path());
            assert_eq!(shortage.is_some(), short, "{available:?}: {shortage:?}");
        }
    }

    #[test]
    fn loads_touch_at_most_half_of_what_their_cgroups_may_still_take() {
        let (root, _) = machine(Some(8192 * MIB));
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), "0::/a/b\n").unwrap();
        let write = |file: &str, mib: Option<usize>| {
            let path = root.path().join("sys/fs/cgroup").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = mib.map_or_else(|| "max".into(), |mib| (mib * MIB).to_string());
            fs::write(path, text + "\n").unwrap();
        };
        write("a/b/memory.max", None);
        write("a/b/memory.current", Some(100));
        assert_eq!(room(root.path()) / MIB, 4096);
        write("a/memory.max", Some(1000));
        write("a/memory.current", Some(200));
        assert_eq!(room(root.path()) / MIB, 400);
        write("a/b/memory.high", Some(300));
        assert_eq!(room(root.path()) / MIB, 100);
        write("a/memory.max", Some(150));
        assert_eq!(room(root.path()), LEAST);
    }

    #[test]
    fn a_shortage_names_both_sizes() {
        let (root, topology) = machine(Some(400 * MIB));
        let text = shortage(&topology, root.path()).unwrap();
        assert!(
            text.contains("128 MiB") && text.contains("200 MiB"),
            "{text}"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The cgroups of processes, and their weights.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::settings::rules::{self, Rule};

/// cpu.weight of a cgroup that has no such file.
pub const WEIGHT_DEFAULT: f64 = 100.0;

/// That of a cgroup with cpu.idle, of which cpu.weight tells nothing: as for CPU time
/// (bpf/cgroup_ops.bpf.h).
const WEIGHT_IDLE: f64 = WEIGHT_DEFAULT * 3.0 / 1024.0;

/// A cgroup at this depth stands for all that is below it, as for CPU time (bpf/cgroup.bpf.h). A user
/// may nest thousands.
pub const DEPTH_MAX: usize = 16;

/// Stands for all cgroups whose paths the kernel cannot tell (`proc_cgroup_show()` of
/// kernel/cgroup/cgroup.c): they are longer than a page. Nobody gains by such a path, since it has the
/// weight of a cgroup with cpu.idle.
const TOO_LONG: &str = "/(path too long)";

/// What is known of processes and cgroups.
pub trait Hierarchy {
    /// The cgroup of a process; none if it has ended.
    fn cgroup_of(&self, pid: u32) -> Option<String>;
    /// The same of one that has slept since the last look. It may be some seconds old.
    fn cgroup_of_sleeper(&self, pid: u32) -> Option<String> {
        self.cgroup_of(pid)
    }
    /// The cpu.weight of a cgroup.
    fn weight_of(&self, cgroup: &str) -> Option<f64>;
}

/// The kernel's.
pub struct Kernel {
    /// Where the cgroup hierarchy (version 2) is mounted.
    cgroups: PathBuf,
    proc: PathBuf,
    /// The cgroups of processes, and when each was read.
    known: RefCell<HashMap<u32, (Instant, Option<String>)>>,
}

/// The cgroup of a process that sleeps is read again after this time.
const SLEEPER_AGE: Duration = Duration::from_secs(5);

/// Processes that were read at the same look are read again at several.
const SLEEPER_SPREAD: Duration = Duration::from_millis(100);

/// Fewer processes than this are remembered without a look for those that have ended.
const KNOWN_MIN: usize = 1024;

impl Kernel {
    /// The kernel's, on the machine whose `/` is `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            cgroups: root.join("sys/fs/cgroup"),
            proc: root.join("proc"),
            known: RefCell::default(),
        }
    }

    fn read_cgroup(&self, pid: u32) -> Option<String> {
        cgroup_in(fs::read(self.proc.join(format!("{pid}/cgroup"))))
    }
}

impl Hierarchy for Kernel {
    fn cgroup_of(&self, pid: u32) -> Option<String> {
        let (path, now) = (self.read_cgroup(pid), Instant::now());
        let mut known = self.known.borrow_mut();
        if known.len() >= KNOWN_MIN && known.len() == known.capacity() {
            // Each process that lives was read since.
            known.retain(|_, (read, _)| now.duration_since(*read) < 2 * SLEEPER_AGE);
        }
        known.insert(pid, (now, path.clone()));
        path
    }

    fn cgroup_of_sleeper(&self, pid: u32) -> Option<String> {
        let age = SLEEPER_AGE - SLEEPER_SPREAD * (pid % 32);
        match self.known.borrow().get(&pid) {
            Some((read, path)) if read.elapsed() < age => return path.clone(),
            _ => {}
        }
        self.cgroup_of(pid)
    }

    fn weight_of(&self, cgroup: &str) -> Option<f64> {
        if cgroup == TOO_LONG {
            return Some(WEIGHT_IDLE);
        }
        weight_in(&self.cgroups.join(cgroup.trim_start_matches('/')))
    }
}

/// The cgroup that a file `/proc/PID/cgroup` names; none if the process has ended, or is hidden.
fn cgroup_in(file: io::Result<Vec<u8>>) -> Option<String> {
    let text = match file {
        Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
            return Some(TOO_LONG.into());
        }
        read => read.ok()?,
    };
    // Any user may name a cgroup of theirs by bytes that are not UTF-8.
    let text = String::from_utf8_lossy(&text);
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let end = path.match_indices('/').nth(DEPTH_MAX);
    Some(path[..end.map_or(path.len(), |(at, _)| at)].to_owned())
}

/// The weight that the kernel has for the cgroup with this directory, as its cpu.weight gives it; none
/// if it is gone.
pub fn weight_in(directory: &Path) -> Option<f64> {
    let read = |file| fs::read_to_string(directory.join(file));
    if read("cpu.idle").is_ok_and(|idle| idle.trim() == "1") {
        return Some(WEIGHT_IDLE);
    }
    let text = read("cpu.weight").ok()?;
    text.trim()
        .parse()
        .ok()
        .filter(|&weight: &f64| weight > 0.0)
}

/// The cgroups of another hierarchy with the weights of rules.
pub struct Ruled<'a, H> {
    pub hierarchy: &'a H,
    pub rules: &'a [Rule],
}

impl<H: Hierarchy> Hierarchy for Ruled<'_, H> {
    fn cgroup_of(&self, pid: u32) -> Option<String> {
        self.hierarchy.cgroup_of(pid)
    }

    fn cgroup_of_sleeper(&self, pid: u32) -> Option<String> {
        self.hierarchy.cgroup_of_sleeper(pid)
    }

    fn weight_of(&self, cgroup: &str) -> Option<f64> {
        let rule = rules::for_cgroup(self.rules, cgroup);
        match rule.and_then(|rule| rule.weight) {
            Some(weight) => Some(WEIGHT_DEFAULT * weight),
            None => self.hierarchy.weight_of(cgroup),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_has_no_cgroup_and_one_with_a_long_path_has() {
        let told = |text: &str| cgroup_in(Ok(text.into()));
        let failed = |code| cgroup_in(Err(io::Error::from_raw_os_error(code)));
        assert_eq!(told("0::/a/b\n").as_deref(), Some("/a/b"));
        assert_eq!(told("0::/\n").as_deref(), Some("/"));
        assert_eq!(told("4:memory:/a\n"), None);
        for code in [libc::ENOENT, libc::ESRCH, libc::EPERM] {
            assert_eq!(failed(code), None);
        }
        let kernel = Kernel::new(Path::new("/none"));
        let long = failed(libc::ENAMETOOLONG).unwrap();
        assert_eq!(kernel.weight_of(&long), Some(WEIGHT_IDLE));
    }

    #[test]
    fn a_deep_cgroup_counts_as_one_above_it() {
        let nested = |depth: usize| "/x".repeat(depth);
        for (depth, kept) in [(1, 1), (16, 16), (17, 16), (2000, 16)] {
            let text = format!("0::{}\n", nested(depth));
            assert_eq!(cgroup_in(Ok(text.into())), Some(nested(kept)));
        }
    }

    #[test]
    fn a_cgroup_with_cpu_idle_weighs_as_little_as_for_cpus() {
        let root = tempfile::tempdir().unwrap();
        for (cgroup, weight, idle) in [("a", "300", "0"), ("b", "0", "1"), ("c", "100", "1")] {
            let directory = root.path().join("sys/fs/cgroup").join(cgroup);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cpu.weight"), format!("{weight}\n")).unwrap();
            fs::write(directory.join("cpu.idle"), format!("{idle}\n")).unwrap();
        }
        let old = root.path().join("sys/fs/cgroup/old");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("cpu.weight"), "200\n").unwrap();
        let kernel = Kernel::new(root.path());
        let weights = ["/a", "/b", "/c", "/old", "/gone"].map(|path| kernel.weight_of(path));
        let idle = Some(300.0 / 1024.0);
        assert_eq!(weights, [Some(300.0), idle, idle, Some(200.0), None]);
    }
}

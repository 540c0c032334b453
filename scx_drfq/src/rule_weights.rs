// SPDX-License-Identifier: GPL-2.0-only
//! Gives tasks and cgroups the weights of the rules, once a second. The kernel and the
//! programs forget nothing if the agent ends: the weights live in the scheduler alone.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Result;
use drfq_stats::sample::TaskSample;

use crate::{
    bpf_intf::drfq_task_flags_DRFQ_TASK_RULED as RULED,
    charge,
    loader::Window,
    mba::entities::{WEIGHT_DEFAULT, weight_in},
    settings::rules::{self, Rule},
    tasks,
};

/// How often the agent looks for new tasks and cgroups.
const PERIOD: Duration = Duration::from_secs(1);

/// The deepest cgroup that is looked at; the scheduler stops there, too.
const DEPTH_MAX: usize = 16;

/// Applies rules to the running scheduler.
pub struct RuleWeights<'a> {
    window: Window<'a>,
    /// Where the cgroup hierarchy (version 2) is mounted.
    cgroups: PathBuf,
    next: Instant,
    /// The cgroups with a weight by a rule, and their directories.
    ruled: BTreeMap<u64, PathBuf>,
    /// Whether tasks may still have a weight by a rule that is gone.
    tasks_ruled: bool,
    /// The last problem, which is told once.
    problem: String,
}

impl<'a> RuleWeights<'a> {
    /// For the scheduler that `window` shows, on the machine whose `/` is `root`.
    pub fn new(window: Window<'a>, root: &Path) -> Self {
        Self {
            window,
            cgroups: root.join("sys/fs/cgroup"),
            next: Instant::now(),
            ruled: BTreeMap::new(),
            tasks_ruled: false,
            problem: String::new(),
        }
    }

    /// Makes the next call look at once.
    pub fn hurry(&mut self) {
        self.next = Instant::now();
    }

    /// Looks for what the rules concern, if it is time. `say` gets a problem once.
    pub fn follow(&mut self, rules: &[Rule], say: impl Fn(&str)) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PERIOD;
        let done = self
            .follow_tasks(rules)
            .and_then(|()| Ok(self.follow_cgroups(rules)?));
        let problem = done
            .err()
            .map_or(String::new(), |error| format!("{error:#}"));
        if !problem.is_empty() && problem != self.problem {
            say(&format!("a rule has no effect: {problem}"));
        }
        self.problem = problem;
    }

    fn follow_tasks(&mut self, rules: &[Rule]) -> Result<()> {
        let wanted = rules
            .iter()
            .any(|rule| matches!(rule.target, rules::Target::Command(_)));
        if !wanted && !self.tasks_ruled {
            return Ok(());
        }
        for (pid, weight) in changes(rules, &tasks::read(self.window.tasks)?) {
            // A task that has ended meanwhile is no problem.
            charge::set_task_weight(self.window.set_task_weight, pid, weight)?;
        }
        self.tasks_ruled = wanted;
        Ok(())
    }

    fn follow_cgroups(&mut self, rules: &[Rule]) -> io::Result<()> {
        let mut wanted = BTreeMap::new();
        let any = rules
            .iter()
            .any(|rule| matches!(rule.target, rules::Target::Cgroup(_)));
        if any {
            find(&self.cgroups, "", rules, DEPTH_MAX, &mut wanted);
        }
        let set = |id, weight| charge::set_cgroup_weight(self.window.set_cgroup_weight, id, weight);
        for (&id, (_, weight)) in &wanted {
            set(id, *weight)?;
        }
        for (&id, directory) in &self.ruled {
            if !wanted.contains_key(&id)
                && let Some(weight) = kernel_weight(directory)
            {
                set(id, weight)?;
            }
        }
        self.ruled = wanted
            .into_iter()
            .map(|(id, (directory, _))| (id, directory))
            .collect();
        Ok(())
    }
}

/// The tasks whose weights must change, and the weights (1/WEIGHT_ONE); 0: that of the
/// nice value. Rules leave kernel threads alone.
fn changes(rules: &[Rule], tasks: &[TaskSample]) -> Vec<(u32, u32)> {
    let users = tasks.iter().filter(|task| !task.kthread);
    users
        .filter_map(|task| {
            let rule = rules::for_command(rules, &task.comm);
            match rule.and_then(Rule::fixed_weight) {
                Some(weight) => Some((task.pid, weight)),
                None if task.flags & RULED != 0 => Some((task.pid, 0)),
                None => None,
            }
        })
        .collect()
}

/// Adds the cgroups at and below `path` that rules concern: id, directory, weight.
fn find(
    mount: &Path,
    path: &str,
    rules: &[Rule],
    depth: usize,
    found: &mut BTreeMap<u64, (PathBuf, u32)>,
) {
    let directory = mount.join(path.trim_start_matches('/'));
    // It may have been removed since its parent was read.
    let Ok(entries) = fs::read_dir(&directory) else {
        return;
    };
    if let Some(weight) = rules::for_cgroup(rules, path).and_then(Rule::fixed_weight)
        && let Ok(metadata) = fs::metadata(&directory)
    {
        found.insert(metadata.ino(), (directory, weight));
    }
    for entry in entries.flatten() {
        let is_group = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        if let (true, Some(name), true) = (is_group, name.to_str(), depth > 0) {
            find(mount, &format!("{path}/{name}"), rules, depth - 1, found);
        }
    }
}

/// The kernel's weight of a cgroup in the unit of the scheduler; none if it is gone.
fn kernel_weight(directory: &Path) -> Option<u32> {
    weight_in(directory).map(|weight| rules::fixed(weight / WEIGHT_DEFAULT))
}

#[cfg(test)]
mod tests {
    use drfq_stats::interval::WEIGHT_ONE;

    use super::*;
    use crate::settings::rules::{Bounds, Target};

    fn rule(cgroup: bool, pattern: &str, weight: f64) -> Rule {
        Rule {
            target: Target::new(cgroup, pattern).unwrap(),
            weight: Some(weight),
            memory: Bounds::default(),
        }
    }

    #[test]
    fn tasks_get_and_lose_weights_and_kernel_threads_keep_theirs() {
        let task = |pid, comm: &str, flags, kthread| TaskSample {
            pid,
            comm: comm.into(),
            flags,
            kthread,
            ..TaskSample::default()
        };
        let tasks = [
            task(1, "mbw", 0, false),
            task(2, "sh", 0, false),
            task(3, "sh", RULED, false),
            task(4, "mbw", 0, true),
        ];
        let rules = [rule(false, "mb?", 2.0)];
        assert_eq!(changes(&rules, &tasks), [(1, 2 * WEIGHT_ONE), (3, 0)]);
        assert_eq!(changes(&[], &tasks), [(3, 0)]);
    }

    #[test]
    fn cgroups_are_found_by_their_paths() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/b.service", "a/c.scope", "b.service"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join("cpu.weight"), "250\n").unwrap();
        }
        let mut found = BTreeMap::new();
        let rules = [rule(true, "/a/*.service", 3.0)];
        find(root.path(), "", &rules, DEPTH_MAX, &mut found);
        let found: Vec<_> = found.into_values().collect();
        let directory = root.path().join("a/b.service");
        assert_eq!(found, [(directory.clone(), 3 * WEIGHT_ONE)]);
        assert_eq!(kernel_weight(&directory), Some(WEIGHT_ONE * 5 / 2));
        assert_eq!(kernel_weight(root.path()), None);
        // That of bpf/cgroup_ops.bpf.h for a group with cpu.idle.
        fs::write(directory.join("cpu.idle"), "1\n").unwrap();
        fs::write(directory.join("cpu.weight"), "0\n").unwrap();
        assert_eq!(kernel_weight(&directory), Some(WEIGHT_ONE * 3 / 1024));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Gives tasks and cgroups the weights of the rules, once a second. The kernel and the
//! programs forget nothing if the agent ends: the weights live in the scheduler alone.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
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
    group_limits::GROUPS_MAX,
    loader::Window,
    mba::hierarchy::{DEPTH_MAX, WEIGHT_DEFAULT, weight_in},
    settings::rules::{self, Rule},
    tasks,
};

/// How often the agent looks for new tasks and cgroups.
const PERIOD: Duration = Duration::from_secs(1);

/// How many times the agent reads all tasks after the last rule for commands is gone, at most. A task
/// that keeps its weight must not cost that for ever.
const LAST_LOOKS: u32 = 60;

/// Applies rules to the running scheduler.
pub struct RuleWeights<'a> {
    window: Window<'a>,
    /// Where the cgroup hierarchy (version 2) is mounted.
    cgroups: PathBuf,
    next: Instant,
    /// The cgroups with a weight by a rule, and their directories.
    ruled: BTreeMap<u64, PathBuf>,
    /// The tasks with a weight by a rule.
    given: Given,
    /// How many times to look for tasks with a weight by a rule that is gone.
    last_looks: u32,
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
            given: Given::new(),
            last_looks: 0,
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
        if !wanted && self.last_looks == 0 {
            return Ok(());
        }
        let tasks = tasks::read(self.window.tasks)?;
        self.last_looks = looks_left(wanted, &tasks, self.last_looks);
        // After an error, all are set again.
        let given = std::mem::take(&mut self.given);
        for (pid, weight) in changes(rules, &tasks, &given) {
            // A task that has ended meanwhile is no problem.
            charge::set_task_weight(self.window.set_task_weight, pid, weight)?;
        }
        self.given = wanted_weights(rules, &tasks).collect();
        Ok(())
    }

    fn follow_cgroups(&mut self, rules: &[Rule]) -> io::Result<()> {
        let any = rules
            .iter()
            .any(|rule| matches!(rule.target, rules::Target::Cgroup(_)));
        let (wanted, all) = match any {
            true => find(&self.cgroups, rules, GROUPS_MAX),
            false => (Found::new(), true),
        };
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
        if !all {
            let words = "cgroups; it concerns more, which keep their weights";
            return Err(io::Error::other(format!(
                "the agent looks at {GROUPS_MAX} {words}"
            )));
        }
        Ok(())
    }
}

/// Tasks by thread id: when each was started, and its weight by a rule (1/WEIGHT_ONE).
type Given = HashMap<u32, (u64, u32)>;

/// The weight of a task by the rules, which leave kernel threads alone.
fn wanted_weight(rules: &[Rule], task: &TaskSample) -> Option<u32> {
    let rule = rules::for_command(rules, &task.comm).filter(|_| !task.kthread);
    rule.and_then(Rule::fixed_weight)
}

/// The tasks with a weight by the rules.
fn wanted_weights<'a>(
    rules: &'a [Rule],
    tasks: &'a [TaskSample],
) -> impl Iterator<Item = (u32, (u64, u32))> + 'a {
    let wanted = |task: &TaskSample| {
        let weight = wanted_weight(rules, task)?;
        Some((task.pid, (task.started_ns, weight)))
    };
    tasks.iter().filter_map(wanted)
}

/// The tasks whose weights must change, and the weights (1/WEIGHT_ONE); 0: that of the
/// nice value. `given`: what was set before. The scheduler tells only that a task has a weight by some
/// rule.
fn changes(rules: &[Rule], tasks: &[TaskSample], given: &Given) -> Vec<(u32, u32)> {
    let change = |task: &TaskSample| {
        let ruled = task.flags & RULED != 0;
        let before = given.get(&task.pid).filter(|_| ruled);
        match wanted_weight(rules, task) {
            Some(weight) if before == Some(&(task.started_ns, weight)) => None,
            Some(weight) => Some((task.pid, weight)),
            None => is_ruled(task).then_some((task.pid, 0)),
        }
    };
    tasks.iter().filter_map(change).collect()
}

/// Whether a rule has given the task a weight that the agent may take back.
fn is_ruled(task: &TaskSample) -> bool {
    task.flags & RULED != 0 && !task.kthread
}

/// How many times to look after the rules for commands are gone. A task that was forked while its
/// parent's weight was taken back inherits it, so the agent looks until no task has one. `wanted`:
/// there are such rules; `left`: how many times were left.
fn looks_left(wanted: bool, tasks: &[TaskSample], left: u32) -> u32 {
    match wanted {
        true => LAST_LOOKS,
        false if tasks.iter().any(is_ruled) => left.saturating_sub(1),
        false => 0,
    }
}

/// Whether a rule may concern a cgroup below `path`.
fn concerns_below(rules: &[Rule], path: &str) -> bool {
    let below = format!("{path}/");
    rules.iter().any(|rule| {
        let rules::Target::Cgroup(pattern) = &rule.target else {
            return false;
        };
        let literal = pattern.split(['*', '?']).next().unwrap_or_default();
        let open = literal.len() < pattern.len();
        literal.starts_with(&below) || (open && below.starts_with(literal))
    })
}

/// The cgroups that rules give a weight: by id, the directory and the weight.
type Found = BTreeMap<u64, (PathBuf, u32)>;

/// Finds the cgroups that rules give a weight, the highest of the hierarchy first. Users make cgroups
/// of their own, so no more than `most` are looked at. Returns whether that was all.
fn find(mount: &Path, rules: &[Rule], most: usize) -> (Found, bool) {
    let mut found = Found::new();
    let mut pending = VecDeque::from([(String::new(), 0)]);
    let mut looked_at = 0;
    while let Some((path, depth)) = pending.pop_front() {
        if looked_at == most {
            return (found, false);
        }
        looked_at += 1;
        let directory = mount.join(path.trim_start_matches('/'));
        if let Some(weight) = rules::for_cgroup(rules, &path).and_then(Rule::fixed_weight)
            && let Ok(metadata) = fs::metadata(&directory)
        {
            found.insert(metadata.ino(), (directory.clone(), weight));
        }
        if depth == DEPTH_MAX || !concerns_below(rules, &path) {
            continue;
        }
        // It may have been removed since its parent was read.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let is_group = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Some(name)) = (is_group, entry.file_name().to_str()) {
                pending.push_back((format!("{path}/{name}"), depth + 1));
            }
        }
    }
    (found, true)
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
        let none = Given::new();
        assert_eq!(
            changes(&rules, &tasks, &none),
            [(1, 2 * WEIGHT_ONE), (3, 0)]
        );
        assert_eq!(changes(&[], &tasks, &none), [(3, 0)]);
    }

    #[test]
    fn a_task_that_has_its_weight_is_left_alone() {
        let task = |started_ns, flags| TaskSample {
            pid: 1,
            comm: "mbw".into(),
            started_ns,
            flags,
            ..TaskSample::default()
        };
        let rules = [rule(false, "mbw", 2.0)];
        let given: Given = wanted_weights(&rules, &[task(5, 0)]).collect();
        let twice = [(1, 2 * WEIGHT_ONE)];
        assert_eq!(changes(&rules, &[task(5, RULED)], &given), []);
        // The weight was lost, the id was used again, or the rule has another weight.
        assert_eq!(changes(&rules, &[task(5, 0)], &given), twice);
        assert_eq!(changes(&rules, &[task(6, RULED)], &given), twice);
        let other = [rule(false, "mbw", 3.0)];
        assert_eq!(
            changes(&other, &[task(5, RULED)], &given),
            [(1, 3 * WEIGHT_ONE)]
        );
    }

    #[test]
    fn tasks_are_followed_until_none_has_a_weight_by_a_rule_that_is_gone() {
        let task = |flags, kthread| TaskSample {
            flags,
            kthread,
            ..TaskSample::default()
        };
        let (plain, forked, kthread) = (task(0, false), task(RULED, false), task(RULED, true));
        let with_rules = looks_left(true, std::slice::from_ref(&plain), 0);
        let all = [plain.clone(), forked];
        let after = looks_left(false, &all, with_rules);
        assert!(after > 0);
        assert_eq!(looks_left(false, &[plain, kthread], after), 0);
        // A task that keeps its weight is not looked for without end.
        assert_eq!(
            (0..1000).fold(after, |left, _| looks_left(false, &all, left)),
            0
        );
    }

    #[test]
    fn only_cgroups_that_a_pattern_may_match_are_looked_at() {
        for (pattern, path, expected) in [
            ("/a/b", "", true),
            ("/a/b", "/a", true),
            ("/a/b", "/a/b", false),
            ("/a/b", "/ab", false),
            ("/a/*.service", "/a", true),
            ("/a/*.service", "/a/x", true),
            ("/a/*.service", "/b", false),
            ("/a*", "/ab/c", true),
            ("/?/b", "/x", true),
            ("/*", "/x/y", true),
        ] {
            let rules = [rule(true, pattern, 2.0)];
            assert_eq!(concerns_below(&rules, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn cgroups_are_found_by_their_paths() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/b.service", "a/c.scope", "b.service"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join("cpu.weight"), "250\n").unwrap();
        }
        let rules = [rule(true, "/a/*.service", 3.0)];
        // The root, what is in it, and what is in a.
        let (found, all) = find(root.path(), &rules, 5);
        assert!(all);
        let (some, all) = find(root.path(), &rules, 4);
        assert!(!all && some.len() <= 1);
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

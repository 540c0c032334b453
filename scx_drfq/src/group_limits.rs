// SPDX-License-Identifier: GPL-2.0-only
//! Limits of cgroups that the kernel does not report, so that the scheduler cannot keep them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use scx_utils::compat::struct_has_field;

/// How many groups are looked at.
pub const GROUPS_MAX: usize = 10_000;

/// The limits that a kernel reports to a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// `cpu.weight`, and which group a task is in.
    pub weights: bool,
    /// `cpu.max`.
    pub quotas: bool,
    /// `cpu.idle`.
    pub idle: bool,
}

impl Reported {
    /// Looks at the running kernel.
    pub fn detect() -> Self {
        let has = |name: &str| struct_has_field("sched_ext_ops", name).unwrap_or(false);
        Self {
            weights: has("cgroup_set_weight"),
            quotas: has("cgroup_set_bandwidth"),
            idle: has("cgroup_set_idle"),
        }
    }
}

/// Groups with limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Groups with a quota in `cpu.max`.
    pub quotas: usize,
    /// Groups with `cpu.idle`.
    pub idle: usize,
}

impl GroupLimits {
    /// Looks at the groups below `root`'s cgroup file system. Groups that end meanwhile are left
    /// out.
    pub fn detect(root: &Path) -> Self {
        let mut limits = Self::default();
        let mut pending: Vec<PathBuf> = vec![root.join("sys/fs/cgroup")];
        let mut looked_at = 0;
        while let Some(group) = pending.pop() {
            looked_at += 1;
            if looked_at > GROUPS_MAX {
                break;
            }
            let says = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
            let quota = says("cpu.max");
            limits.quotas += usize::from(!quota.is_empty() && !quota.starts_with("max"));
            limits.idle += usize::from(says("cpu.idle").trim() == "1");
            let entries = fs::read_dir(&group).into_iter().flatten().flatten();
            pending.extend(
                entries
                    .map(|entry| entry.path())
                    .filter(|path| path.is_dir()),
            );
        }
        limits
    }

    /// What the user should know; none if every limit is kept.
    pub fn warning(&self, reported: Reported) -> Option<String> {
        let part = |count: usize, kept: bool, file: &str| {
            (count > 0 && !kept).then(|| format!("{file} of {count} groups"))
        };
        let parts: Vec<String> = [
            part(self.quotas, reported.quotas, "cpu.max"),
            part(self.idle, reported.idle, "cpu.idle"),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "{} has no effect while the scheduler is loaded, because this kernel does not \
                 report it; use cpu.weight",
                parts.join(" and ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Reported = Reported {
        weights: true,
        quotas: false,
        idle: false,
    };

    /// A root with groups, by path, and a file of each.
    fn groups(files: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (group, file, text) in files {
            let dir = root.path().join("sys/fs/cgroup").join(group);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), text).unwrap();
        }
        root
    }

    #[test]
    fn limits_of_nested_groups_are_counted() {
        let root = groups(&[
            ("a", "cpu.max", "50000 100000\n"),
            ("a/b", "cpu.max", "max 100000\n"),
            ("a/b/c", "cpu.max", "10000 100000\n"),
            ("d", "cpu.idle", "1\n"),
            ("e", "cpu.idle", "0\n"),
        ]);
        let limits = GroupLimits::detect(root.path());
        assert_eq!(limits, GroupLimits { quotas: 2, idle: 1 });
        let warning = limits.warning(NONE).unwrap();
        assert!(warning.contains("cpu.max of 2 groups and cpu.idle of 1 groups"));
        let quotas = Reported {
            quotas: true,
            ..NONE
        };
        let warning = limits.warning(quotas).unwrap();
        assert!(warning.starts_with("cpu.idle of 1 groups"), "{warning}");
        let all = Reported {
            idle: true,
            ..quotas
        };
        assert_eq!(limits.warning(all), None);
    }

    #[test]
    fn groups_without_limits_cause_no_warning() {
        let root = groups(&[("a", "cpu.max", "max 100000\n"), ("a", "cpu.idle", "0\n")]);
        assert_eq!(GroupLimits::detect(root.path()).warning(NONE), None);
        assert_eq!(
            GroupLimits::detect(Path::new("/nonexistent")).warning(NONE),
            None
        );
    }
}

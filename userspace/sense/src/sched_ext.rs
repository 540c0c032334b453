// SPDX-License-Identifier: GPL-2.0-only
//! Whether the running kernel has sched_ext, and which scheduler is loaded.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// sched_ext in the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedExt {
    /// The kernel has it.
    Available {
        /// Name of the loaded scheduler, if one is loaded.
        loaded: Option<String>,
    },
    /// The kernel was built without it.
    Missing {
        /// The line about CONFIG_SCHED_CLASS_EXT, if the kernel's configuration is
        /// readable.
        config: Option<String>,
    },
}

impl SchedExt {
    /// Reads its state on the machine whose `/` is `root`.
    pub fn detect(root: &Path) -> Self {
        let dir = root.join("sys/kernel/sched_ext");
        let Ok(state) = fs::read_to_string(dir.join("state")) else {
            return Self::Missing {
                config: config_line(root, "CONFIG_SCHED_CLASS_EXT"),
            };
        };
        if state.trim() == "disabled" {
            return Self::Available { loaded: None };
        }
        let ops = fs::read_to_string(dir.join("root/ops")).unwrap_or_default();
        let name = match ops.trim() {
            "" => format!("unnamed, {}", state.trim()),
            name => name.into(),
        };
        Self::Available { loaded: Some(name) }
    }
}

/// The release of the running kernel.
pub fn release(root: &Path) -> String {
    let text = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    if text.is_empty() {
        "unknown".into()
    } else {
        text.trim().into()
    }
}

/// The kernel parameter `isolcpus=`, if it takes CPUs out of the scheduling domains. The kernel then
/// refuses every sched_ext scheduler (scx_enable in kernel/sched/ext.c). Words before the list of
/// CPUs choose what they are isolated from, and without words it is the domains
/// (Documentation/admin-guide/kernel-parameters.txt).
pub fn isolated_domains(root: &Path) -> Option<String> {
    let isolated = fs::read_to_string(root.join("sys/devices/system/cpu/isolated"));
    if isolated.is_ok_and(|list| list.trim().is_empty()) {
        // The parameter names CPUs that this machine does not have.
        return None;
    }
    let line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let isolates = |value: &str| {
        let mut words = value.split(',').take_while(|word| {
            let first = word.chars().next();
            first.is_some_and(|first| first.is_ascii_alphabetic())
        });
        let named = words.next();
        !value.is_empty()
            && named.is_none_or(|first| first == "domain" || words.any(|word| word == "domain"))
    };
    let mut words = line.split_ascii_whitespace();
    let found = words.find(|word| word.strip_prefix("isolcpus=").is_some_and(isolates));
    found.map(str::to_owned)
}

/// The line about an option in the kernel's configuration, `CONFIG_X=y` or
/// `# CONFIG_X is not set`.
fn config_line(root: &Path, option: &str) -> Option<String> {
    let config = config_gz(root)
        .or_else(|| fs::read_to_string(root.join(format!("boot/config-{}", release(root)))).ok())?;
    let (set, unset) = (format!("{option}="), format!("# {option} is not set"));
    let line = config
        .lines()
        .find(|line| line.starts_with(&set) || *line == unset);
    Some(line.map_or(unset, str::to_owned))
}

/// The configuration that the kernel itself carries, unpacked by gzip(1).
fn config_gz(root: &Path) -> Option<String> {
    let file = fs::File::open(root.join("proc/config.gz")).ok()?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc").stdin(file).stderr(Stdio::null());
    let unpacked = gzip.output().ok()?;
    unpacked.status.success().then_some(())?;
    String::from_utf8(unpacked.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_root::fake_root;

    /// `CONFIG_SCHED_CLASS_EXT=y` and a line feed, packed by `gzip -n`.
    const GZIPPED: &[u8] =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03s\xf6\xf7s\xf3t\x8f\x0fv\xf6pu\x89w\xf6q\x0c\
        \x0e\x8ew\x8d\x08\xb1\xad\xe4\x02\x00\xb9\xb2\xd4Y\x19\x00\x00\x00";

    fn available(loaded: Option<&str>) -> SchedExt {
        SchedExt::Available {
            loaded: loaded.map(str::to_owned),
        }
    }

    #[test]
    fn cpus_outside_the_scheduling_domains_are_found() {
        for (line, expected) in [
            ("quiet isolcpus=1 ro\n", Some("isolcpus=1")),
            (
                "isolcpus=domain,managed_irq,2-3",
                Some("isolcpus=domain,managed_irq,2-3"),
            ),
            ("isolcpus=nohz,domain,1", Some("isolcpus=nohz,domain,1")),
            ("isolcpus=nohz,managed_irq,1", None),
            ("nohz_full=1 rcu_nocbs=1", None),
            ("", None),
        ] {
            let root = fake_root(&[("proc/cmdline", line)]);
            let found = isolated_domains(root.path());
            assert_eq!(found.as_deref(), expected, "{line}");
        }
        let root = fake_root(&[
            ("proc/cmdline", "isolcpus=64"),
            ("sys/devices/system/cpu/isolated", "\n"),
        ]);
        assert_eq!(isolated_domains(root.path()), None);
    }

    #[test]
    fn the_loaded_scheduler_is_named() {
        let state = "sys/kernel/sched_ext/state";
        let ops = "sys/kernel/sched_ext/root/ops";
        let root = fake_root(&[(state, "disabled\n")]);
        assert_eq!(SchedExt::detect(root.path()), available(None));
        let root = fake_root(&[(state, "enabled\n"), (ops, "rusty_1.1.4\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            available(Some("rusty_1.1.4"))
        );
        let root = fake_root(&[(state, "enabling\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            available(Some("unnamed, enabling"))
        );
    }

    #[test]
    fn a_missing_sched_ext_comes_with_its_line_of_the_configuration() {
        let missing = |line: &str| SchedExt::Missing {
            config: Some(line.into()),
        };
        assert_eq!(
            SchedExt::detect(fake_root(&[]).path()),
            SchedExt::Missing { config: None }
        );

        let release = ("proc/sys/kernel/osrelease", "6.12.1\n");
        let text = "CONFIG_A=y\n# CONFIG_SCHED_CLASS_EXT is not set\n";
        let root = fake_root(&[release, ("boot/config-6.12.1", text)]);
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("# CONFIG_SCHED_CLASS_EXT is not set")
        );

        let root = fake_root(&[("proc/config.gz", "")]);
        fs::write(root.path().join("proc/config.gz"), GZIPPED).unwrap();
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("CONFIG_SCHED_CLASS_EXT=y")
        );

        // Neither set nor unset: the kernel is older than the option.
        let root = fake_root(&[release, ("boot/config-6.12.1", "CONFIG_A=y\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("# CONFIG_SCHED_CLASS_EXT is not set")
        );
        let root = fake_root(&[("proc/config.gz", "not gzip")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            SchedExt::Missing { config: None }
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Whether the running kernel can take a sched_ext scheduler, and why not.

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;

/// Kernels that work, for the advice of a diagnosis.
pub const GOOD_KERNELS: &str = "boot a kernel with CONFIG_SCHED_CLASS_EXT=y and sane BTF (of Debian's: 6.16 to 7.0, 7.2.13 and later)";

/// sched_ext in the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedExt {
    /// It is there; the name of the scheduler that is loaded, if one is.
    Available {
        /// What /sys/kernel/sched_ext/root/ops says.
        loaded: Option<String>,
    },
    /// It is not built in; what the kernel's configuration says about it.
    Missing {
        /// The line of CONFIG_SCHED_CLASS_EXT, if the configuration is readable.
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

/// What the kernel's configuration says about an option: `CONFIG_X=y` or
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

fn config_gz(root: &Path) -> Option<String> {
    let file = fs::File::open(root.join("proc/config.gz")).ok()?;
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).ok()?;
    Some(text)
}

/// BTF of the running kernel, which the loader resolves types and kernel
/// functions in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelBtf {
    /// As it must be.
    Sane,
    /// The kernel was built without it.
    Missing,
    /// Prototypes of these kernel functions have an argument too many, so that
    /// no sched_ext scheduler loads: pahole was too old for the kernel.
    Malformed(Vec<String>),
}

impl KernelBtf {
    /// Examines the BTF of the running kernel (takes some tens of ms).
    pub fn detect() -> Self {
        // The scan below panics without it.
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Self::Missing;
        }
        match scx_utils::compat::malformed_scx_kfuncs() {
            names if names.is_empty() => Self::Sane,
            names => Self::Malformed(names),
        }
    }
}

/// Why no sched_ext scheduler can be loaded on this kernel, in one line that
/// says what to do; none if nothing is known against it.
pub fn obstacle(root: &Path) -> Option<String> {
    if let SchedExt::Missing { config } = SchedExt::detect(root) {
        return Some(missing(&release(root), config.as_deref()));
    }
    broken_btf(&release(root), &KernelBtf::detect())
}

/// The diagnosis of a kernel without sched_ext.
pub fn missing(release: &str, config: Option<&str>) -> String {
    let reason = match config {
        Some(line) => format!(" ({line})"),
        None => " (CONFIG_SCHED_CLASS_EXT)".into(),
    };
    format!("kernel {release} has no sched_ext{reason}: {GOOD_KERNELS}")
}

/// The diagnosis of unusable BTF, if it is that.
pub fn broken_btf(release: &str, btf: &KernelBtf) -> Option<String> {
    match btf {
        KernelBtf::Sane => None,
        KernelBtf::Missing => Some(format!(
            "kernel {release} has no BTF (CONFIG_DEBUG_INFO_BTF): {GOOD_KERNELS}"
        )),
        KernelBtf::Malformed(names) => Some(format!(
            "kernel {release} was built with a pahole too old for it: the prototypes of {} kernel \
             functions ({}, ...) are malformed and no sched_ext scheduler loads: {GOOD_KERNELS}",
            names.len(),
            names.first().map_or("", String::as_str),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn machine(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        root
    }

    fn available(loaded: Option<&str>) -> SchedExt {
        SchedExt::Available {
            loaded: loaded.map(str::to_owned),
        }
    }

    #[test]
    fn the_loaded_scheduler_is_named() {
        let state = "sys/kernel/sched_ext/state";
        let ops = "sys/kernel/sched_ext/root/ops";
        let root = machine(&[(state, b"disabled\n")]);
        assert_eq!(SchedExt::detect(root.path()), available(None));
        let root = machine(&[(state, b"enabled\n"), (ops, b"rusty_1.1.4\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            available(Some("rusty_1.1.4"))
        );
        let root = machine(&[(state, b"enabling\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            available(Some("unnamed, enabling"))
        );
    }

    #[test]
    fn the_configuration_tells_why_it_is_missing() {
        let missing = |line: &str| SchedExt::Missing {
            config: Some(line.into()),
        };
        assert_eq!(
            SchedExt::detect(machine(&[]).path()),
            SchedExt::Missing { config: None }
        );

        let release = ("proc/sys/kernel/osrelease", b"6.12.1\n".as_slice());
        let text = b"CONFIG_A=y\n# CONFIG_SCHED_CLASS_EXT is not set\n".as_slice();
        let root = machine(&[release, ("boot/config-6.12.1", text)]);
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("# CONFIG_SCHED_CLASS_EXT is not set")
        );

        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(b"CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        let root = machine(&[("proc/config.gz", &gz.finish().unwrap())]);
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("CONFIG_SCHED_CLASS_EXT=y")
        );

        // Neither set nor unset: the kernel is older than the option.
        let root = machine(&[release, ("boot/config-6.12.1", b"CONFIG_A=y\n")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            missing("# CONFIG_SCHED_CLASS_EXT is not set")
        );
        let root = machine(&[("proc/config.gz", b"not gzip")]);
        assert_eq!(
            SchedExt::detect(root.path()),
            SchedExt::Missing { config: None }
        );
    }

    #[test]
    fn diagnoses_are_one_line_and_say_what_to_do() {
        let malformed = KernelBtf::Malformed(vec!["scx_bpf_a".into(), "scx_bpf_b".into()]);
        for (text, reason) in [
            (
                missing("6.12.1", Some("# CONFIG_X is not set")),
                "kernel 6.12.1 has no sched_ext",
            ),
            (broken_btf("7.2.12", &malformed).unwrap(), "pahole too old"),
            (
                broken_btf("7.2.12", &malformed).unwrap(),
                "2 kernel functions (scx_bpf_a, ...)",
            ),
            (
                broken_btf("6.16.1", &KernelBtf::Missing).unwrap(),
                "CONFIG_DEBUG_INFO_BTF",
            ),
        ] {
            assert!(
                text.contains(reason) && text.contains("boot a kernel"),
                "{text}"
            );
            assert!(!text.contains('\n'), "{text}");
        }
        assert_eq!(broken_btf("7.2.13", &KernelBtf::Sane), None);
    }
}

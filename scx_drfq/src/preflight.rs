// SPDX-License-Identifier: GPL-2.0-only
//! Why the scheduler cannot be loaded, and what to do about it. `check` runs at
//! the start; `doctor` reports everything.

use std::path::Path;

use anyhow::{Result, bail};
use drfq_sense::sched_ext::{SchedExt, isolated_domains, release};

use crate::{kernel_btf::KernelBtf, privileges};

/// What to do about an unfit kernel.
const GOOD_KERNELS: &str = "boot a kernel with CONFIG_SCHED_CLASS_EXT=y and valid BTF \
     (Debian kernels 6.16 to 7.0, or 7.3 and later)";

/// How the name of our scheduler begins in sched_ext, before its version.
pub const NAME: &str = "drfq";

/// Checks quickly whether the scheduler can be loaded.
///
/// # Errors
/// Why it cannot be loaded here, in one line that says what to do.
pub fn check(root: &Path) -> Result<()> {
    match SchedExt::detect(root) {
        SchedExt::Missing { config } => {
            bail!("{}", no_sched_ext(&release(root), config.as_deref()))
        }
        SchedExt::Available { loaded: Some(name) } => bail!("{}", occupied(&name)),
        SchedExt::Available { loaded: None } => {}
    }
    if let Some(parameter) = isolated_domains(root) {
        bail!("{}", isolated(&parameter));
    }
    let missing = privileges::missing()?;
    if !missing.is_empty() {
        bail!("{}", unprivileged(&missing));
    }
    Ok(())
}

/// Checks that no scx_drfq runs. Its loop would move the loads of `scx_drfq COMMAND` to the default
/// class, and would lose its own groups. Other schedulers leave resctrl alone.
///
/// # Errors
/// One runs.
pub fn check_stopped(root: &Path, command: &str) -> Result<()> {
    if is_ours_loaded(root) {
        bail!(
            "scx_drfq is running, and its throttling and `scx_drfq {command}` disturb each other; \
             stop scx_drfq, run `scx_drfq {command}`, and start scx_drfq again"
        );
    }
    Ok(())
}

/// Whether the loaded scheduler is scx_drfq.
pub fn is_ours_loaded(root: &Path) -> bool {
    let found = SchedExt::detect(root);
    matches!(found, SchedExt::Available { loaded: Some(name) } if name.starts_with(NAME))
}

/// Checks that no `sched_ext` scheduler is loaded.
///
/// # Errors
/// One is.
pub fn check_unoccupied(root: &Path) -> Result<()> {
    match SchedExt::detect(root) {
        SchedExt::Available { loaded: Some(name) } => bail!("{}", occupied(&name)),
        _ => Ok(()),
    }
}

/// The diagnosis if another scheduler is loaded.
pub fn occupied(name: &str) -> String {
    format!("the sched_ext scheduler {name:?} is already loaded; stop it first")
}

/// The diagnosis if the kernel isolates CPUs by this parameter.
pub fn isolated(parameter: &str) -> String {
    format!(
        "the kernel was booted with {parameter:?}, and then refuses every sched_ext scheduler; boot \
         without it, and isolate CPUs by cpuset.cpus.partition of a cgroup"
    )
}

/// The diagnosis if capabilities are missing.
pub fn unprivileged(missing: &[String]) -> String {
    format!(
        "missing privileges: {}; run scx_drfq with sudo",
        missing.join(" and ")
    )
}

/// Why the kernel refused to load the scheduler, if the reason is known.
pub fn explain_refusal(root: &Path) -> Option<String> {
    if let SchedExt::Available { loaded: Some(name) } = SchedExt::detect(root) {
        return Some(occupied(&name));
    }
    broken_btf(&release(root), &KernelBtf::detect())
}

/// The diagnosis if the kernel has no sched_ext.
pub fn no_sched_ext(release: &str, config: Option<&str>) -> String {
    let reason = match config {
        Some(line) => format!(" ({line})"),
        None => " (CONFIG_SCHED_CLASS_EXT)".into(),
    };
    format!("kernel {release} has no sched_ext{reason}; {GOOD_KERNELS}")
}

/// The diagnosis if the kernel's BTF is unfit; none if it is valid.
pub fn broken_btf(release: &str, btf: &KernelBtf) -> Option<String> {
    match btf {
        KernelBtf::Valid => None,
        KernelBtf::Missing => Some(format!(
            "kernel {release} has no BTF (CONFIG_DEBUG_INFO_BTF); {GOOD_KERNELS}"
        )),
        KernelBtf::Malformed(names) => Some(format!(
            "kernel {release} was built with a pahole too old for it, so the prototypes of {} \
             kernel functions ({}, ...) are malformed and no sched_ext scheduler loads; \
             {GOOD_KERNELS}",
            names.len(),
            names.first().map_or("", String::as_str),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn beside_a_running_scx_drfq_nothing_is_measured() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/kernel/sched_ext");
        fs::create_dir_all(dir.join("root")).unwrap();
        let refused = |state: &str, ops: &str| {
            fs::write(dir.join("state"), state).unwrap();
            fs::write(dir.join("root/ops"), ops).unwrap();
            check_stopped(root.path(), "calibrate")
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(refused("disabled\n", ""), None);
        assert_eq!(refused("enabled\n", "rusty_1.1.4\n"), None);
        let text = refused("enabled\n", "drfq_0.1.0_x86_64\n").unwrap();
        for part in ["is running", "stop scx_drfq", "scx_drfq calibrate", "again"] {
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn every_diagnosis_is_one_line_that_says_what_to_do() {
        let malformed = KernelBtf::Malformed(vec!["scx_bpf_a".into(), "scx_bpf_b".into()]);
        for (text, reason) in [
            (
                no_sched_ext("6.12.1", Some("# CONFIG_X is not set")),
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
            (isolated("isolcpus=1"), "\"isolcpus=1\""),
        ] {
            assert!(text.contains(reason) && text.contains("boot "), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
        assert_eq!(broken_btf("7.2.13", &KernelBtf::Valid), None);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel's BTF is fit for sched_ext programs.

use std::path::Path;

/// BTF (type information) of the running kernel, in which the loader looks up
/// types and kernel functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelBtf {
    /// Fit for use.
    Valid,
    /// The kernel was built without it.
    Missing,
    /// The prototypes of these kernel functions have an argument too many, because
    /// pahole was too old for the kernel. No sched_ext scheduler loads.
    Malformed(Vec<String>),
}

impl KernelBtf {
    /// Examines the BTF of the running kernel (takes some tens of ms).
    pub fn detect() -> Self {
        // Without this file the scan below panics.
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Self::Missing;
        }
        match scx_utils::compat::malformed_scx_kfuncs() {
            names if names.is_empty() => Self::Valid,
            names => Self::Malformed(names),
        }
    }
}

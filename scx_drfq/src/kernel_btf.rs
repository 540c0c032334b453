// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel's BTF is fit for sched_ext programs.

use std::path::Path;

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

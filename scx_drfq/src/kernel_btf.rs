// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel's BTF is fit for sched_ext programs.

use std::path::Path;

use libbpf_rs::btf::{
    Btf,
    types::{Enum, Func, Typedef},
};

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

/// Types and functions of the running kernel. To read them takes long beside hogs, so it is done once
/// for all questions.
pub struct KernelTypes(Option<Btf<'static>>);

impl KernelTypes {
    /// Reads the kernel's BTF. Where it cannot be read, the kernel seems to have nothing.
    pub fn read() -> Self {
        Self(Btf::from_vmlinux().ok())
    }

    /// The flag of a block request whose queueing the kernel has traced. Its number differs between
    /// kernels, and its enum has no name, so BPF cannot find it by itself.
    pub fn bio_traced_flag(&self) -> Option<u32> {
        let values = self
            .0
            .as_ref()?
            .type_by_kind::<Enum<'_>>()
            .find_map(|found| {
                let mut members = found.iter();
                let flag =
                    members.find(|member| member.name.is_some_and(|n| n == "BIO_TRACE_COMPLETION"));
                flag.map(|member| member.value)
            });
        1u32.checked_shl(values?.try_into().ok()?)
    }

    /// Whether the kernel has this tracepoint for BPF programs that read its arguments (`tp_btf`).
    pub fn has_tracepoint(&self, name: &str) -> bool {
        let name = format!("btf_trace_{name}");
        self.0
            .as_ref()
            .is_some_and(|btf| btf.type_by_name::<Typedef<'_>>(&name).is_some())
    }

    /// Whether the kernel has this function for BPF programs that read its arguments (`fentry`,
    /// `fexit`).
    pub fn has_function(&self, name: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! BPF programs that are loaded, as the kernel tells of them.

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use std::collections::BTreeMap;

/// One program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// The kernel's number of it.
    pub id: u32,
    /// Name, at most 15 characters.
    pub name: String,
    /// Instructions that the verifier processed, all paths counted.
    pub verified_insns: u32,
    /// Instructions of the program after the verifier's rewriting.
    pub xlated_insns: usize,
    /// Time it ran since it was loaded, ns; 0 unless kernel.bpf_stats_enabled.
    pub run_time_ns: u64,
    /// Times it ran; 0 unless kernel.bpf_stats_enabled.
    pub run_count: u64,
}

/// Bytes of one BPF instruction.
const INSN_BYTES: usize = 8;

/// All programs that are loaded, by number.
pub fn loaded() -> BTreeMap<u32, BpfProgram> {
    let options = ProgInfoQueryOptions::default().include_xlated_prog_insns(true);
    ProgInfoIter::with_query_opts(options)
        .map(|info| {
            let program = BpfProgram {
                id: info.id,
                name: info.name.to_string_lossy().into_owned(),
                verified_insns: info.verified_insns,
                xlated_insns: info.xlated_prog_insns.len() / INSN_BYTES,
                run_time_ns: info.run_time_ns,
                run_count: info.run_cnt,
            };
            (info.id, program)
        })
        .collect()
}

/// The programs that were loaded since `before`.
pub fn since(before: &BTreeMap<u32, BpfProgram>) -> Vec<BpfProgram> {
    loaded()
        .into_values()
        .filter(|program| !before.contains_key(&program.id))
        .collect()
}

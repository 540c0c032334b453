// SPDX-License-Identifier: GPL-2.0-only
//! What bpf/intf.h declares, as generated at build time.

#![allow(
    non_upper_case_globals,
    non_camel_case_types,
    non_snake_case,
    dead_code,
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));

// SPDX-License-Identifier: GPL-2.0-only
//! The skeleton of bpf/main.bpf.c, as generated at build time.

#![allow(
    missing_docs,
    clippy::all,
    clippy::too_many_lines,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));

// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler on the host: its arithmetic ([`ffi`], the header that BPF
//! runs) and a deterministic simulator of the dispatch rules around it.
//!
//! The simulator runs `bpf/main.bpf.c` itself, compiled for the host (`native/scheduler.c`).
//! `native/` models the kernel around its callbacks, [`engine`] what tasks do and when. Nothing
//! of a scheduling rule is written here.
//!
//! What it is not: it has no cache, no lock, no cost of a switch, and its memory ([`memory`]) is a
//! stand-in. It says what the rules do, not how fast.

mod checks;
pub mod config;
pub mod count;
pub mod cpuset;
pub mod devices;
mod endings;
pub mod engine;
pub mod ffi;
pub mod fuzz;
pub mod kernel;
mod kernel_hooks;
pub mod memory;
pub mod network;
mod options;
pub mod outside;
mod quotas;
pub mod races;
pub mod reference;
pub mod replay;
pub mod report;
mod restart;
mod rules;
pub mod scale;
pub mod task;
pub mod trace;

pub use config::Config;
pub use cpuset::CpuSet;
pub use engine::Sim;
pub use report::{Report, TaskReport};
pub use task::TaskSpec;
pub use trace::{Rng, Step, Trace};

/// One microsecond in ns.
pub const US: u64 = 1_000;
/// One millisecond in ns.
pub const MS: u64 = 1_000_000;
/// One second in ns.
pub const SEC: u64 = 1_000_000_000;

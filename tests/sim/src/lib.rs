// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler on the host: its arithmetic ([`ffi`], the header that BPF
//! runs) and a deterministic simulator of the dispatch rules around it.
//!
//! The simulator plays two parts. [`engine`] is the kernel: time, ticks, slices,
//! blocking, and the order in which `sched_ext` calls its scheduler. The other
//! modules are the scheduler and mirror `bpf/` file by file: [`vtime`] is
//! `cpu.bpf.h`, [`queue`] `queue.bpf.h`, [`hold`] `hold.bpf.h`, [`idle`]
//! `idle.bpf.h`, [`preempt`] `preempt.bpf.h`, [`fork`] `fork.bpf.h`, [`timer`]
//! `timer.bpf.h`, and [`dispatch`] the callbacks of `main.bpf.c`. A change of a
//! rule there is a change here.
//!
//! What it is not: it has no cache, no lock, no cost of a switch, and its
//! memory ([`memory`]) is a stand-in. It says what the rules do, not how fast.

pub mod config;
pub mod cpu;
pub mod dispatch;
pub mod engine;
pub mod ffi;
pub mod fork;
pub mod hold;
pub mod idle;
pub mod memory;
pub mod preempt;
pub mod queue;
pub mod reference;
pub mod report;
pub mod task;
pub mod timer;
pub mod trace;
pub mod vtime;

pub use config::Config;
pub use cpu::CpuSet;
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

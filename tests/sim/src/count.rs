// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler's callbacks do, as `native/count.h` counts it.

use std::ffi::{CStr, c_char};

use crate::kernel::{Kernel, Machine};

/// What the kernel does while callbacks run (`enum count_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A change of a task from outside.
    Other,
    /// `try_to_wake_up()`, or the first wake-up of a new task.
    Wake,
    /// `__schedule()`, with the block, yield or exit that led to it.
    Switch,
    /// A CPU's tick.
    Tick,
    /// The scheduler's timer.
    Timer,
}

/// The operations (`enum count_kind`), with their names in tables.
pub const KINDS: [(Kind, &str); 11] = [
    (Kind::Calls, "callbacks"),
    (Kind::RemoteLoads, "loads of other slots"),
    (Kind::RemoteStores, "stores to other slots"),
    (Kind::SharedLoads, "loads, shared"),
    (Kind::SharedStores, "stores, shared"),
    (Kind::LineMoves, "line moves"),
    (Kind::Atomics, "atomics"),
    (Kind::ListSteps, "list steps"),
    (Kind::Lookups, "look-ups"),
    (Kind::Kfuncs, "kfuncs"),
    (Kind::KernelSteps, "kernel's queue steps"),
];

/// An operation (`enum count_kind`, which describes them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // described in native/count.h
pub enum Kind {
    Calls,
    RemoteLoads,
    RemoteStores,
    SharedLoads,
    SharedStores,
    LineMoves,
    Atomics,
    ListSteps,
    Lookups,
    Kfuncs,
    KernelSteps,
}

/// One cache line of shared variables (`struct count_line`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// Offset in the program, or address in a map.
    pub address: u64,
    /// How often CPUs loaded from it.
    pub loads: u64,
    /// How often CPUs stored to it.
    pub stores: u64,
    /// How often it moved from CPU to CPU.
    pub moves: u64,
    /// CPUs that stored to it.
    pub cpus: u32,
    /// The instructions that stored to it, as offsets in the program; 0: no more.
    pub sites: [u64; 8],
    /// How often each of them did.
    pub site_stores: [u64; 8],
}

unsafe extern "C" {
    fn machine_count_start(m: *mut Machine);
    fn machine_count(m: *const Machine, entry: u32, callback: u32, kind: u32) -> u64;
    fn machine_count_entries(m: *const Machine, entry: u32) -> u64;
    fn machine_count_callback_name(callback: u32) -> *const c_char;
    fn machine_count_line(m: *const Machine, index: u32, line: *mut Line) -> bool;
}

/// The callbacks that are counted apart, in the order of their numbers.
pub fn callbacks() -> Vec<&'static str> {
    (0..)
        .map_while(|callback| {
            // SAFETY: any number is valid; the text is static, or the number is too large.
            let name = unsafe { machine_count_callback_name(callback) };
            // SAFETY: as above.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
        })
        .map(|name| name.to_str().expect("a name of C is ASCII"))
        .collect()
}

/// The counts of a kernel from [`Counts::start`] on.
#[derive(Debug)]
pub struct Counts<'a>(&'a Kernel);

impl<'a> Counts<'a> {
    /// Counts from now on, from 0.
    pub fn start(kernel: &mut Kernel) {
        // SAFETY: the machine lives.
        kernel.with(|m| unsafe { machine_count_start(m) });
    }

    /// The counts of a kernel for which [`Counts::start`] was called.
    pub fn of(kernel: &'a Kernel) -> Self {
        Self(kernel)
    }

    /// How often the callbacks did `kind` because of `entry`.
    pub fn sum(&self, entry: Entry, kind: Kind) -> u64 {
        let callbacks = 0..callbacks().len();
        callbacks.map(|c| self.of_callback(entry, c, kind)).sum()
    }

    /// The same, for one callback of [`callbacks`].
    pub fn of_callback(&self, entry: Entry, callback: usize, kind: Kind) -> u64 {
        let (entry, callback, kind) = (entry as u32, callback as u32, kind as u32);
        // SAFETY: the machine lives and counts.
        self.0
            .with(|m| unsafe { machine_count(m, entry, callback, kind) })
    }

    /// How often the kernel came from `entry`.
    pub fn entries(&self, entry: Entry) -> u64 {
        // SAFETY: the machine lives and counts.
        self.0
            .with(|m| unsafe { machine_count_entries(m, entry as u32) })
    }

    /// The lines that a CPU stored to.
    pub fn lines(&self) -> Vec<Line> {
        let line = |index| {
            let mut line = Line::default();
            // SAFETY: the machine lives and counts; Line is a struct count_line.
            let found = self
                .0
                .with(|m| unsafe { machine_count_line(m, index, &raw mut line) });
            found.then_some(line)
        };
        (0..).map_while(line).collect()
    }
}

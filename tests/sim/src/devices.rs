// SPDX-License-Identifier: GPL-2.0-only
//! What devices and counters do, which no step of a task does: requests through stacked block
//! devices, counters that die.

use crate::kernel::{Kernel, Machine};

unsafe extern "C" {
    fn machine_count_writes(m: *mut Machine, cpu: i32, bytes: u64);
    fn machine_counter_dies(m: *mut Machine, cpu: i32);
    fn machine_counter_opens(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_pass_through(m: *mut Machine, cpu: i32, bytes: u32);
    fn machine_submit(
        m: *mut Machine,
        cpu: i32,
        bytes: u32,
        layers: u32,
        in_place: bool,
        partition: bool,
    );
}

/// How a request reaches its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Stacked devices above the device.
    pub layers: u32,
    /// They remap the request instead of making another one (md raid0, NVMe multipath).
    pub in_place: bool,
    /// The device is a partition.
    pub partition: bool,
}

impl Kernel {
    /// The second traffic counter of `cpu` has counted `bytes` more.
    pub fn count_writes(&mut self, cpu: usize, bytes: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_count_writes(m, cpu as i32, bytes) });
    }

    /// The traffic counter of `cpu` dies, as a pinned one does that the kernel evicts.
    pub fn counter_dies(&mut self, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_counter_dies(m, cpu as i32) });
    }

    /// Another counter takes the place of that of `cpu`.
    pub fn counter_opens(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_counter_opens(m, now_ns, cpu as i32) });
    }

    /// The running task of `cpu` sends a device a command of its own making, which moves `bytes`.
    pub fn pass_through(&mut self, cpu: usize, bytes: u32) {
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe { machine_pass_through(m, cpu as i32, bytes) });
    }

    /// The running task of `cpu` submits `bytes` to a device.
    pub fn submit(&mut self, cpu: usize, bytes: u32, way: Way) {
        let cpu = cpu as i32;
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe {
            machine_submit(m, cpu, bytes, way.layers, way.in_place, way.partition);
        });
    }
}

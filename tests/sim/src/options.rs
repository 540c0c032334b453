// SPDX-License-Identifier: GPL-2.0-only
//! The options that the agent's loader would write (`native/scheduler.h`).

use crate::config::Config;
use crate::ffi::Conf;

/// `struct scheduler_options`.
#[repr(C)]
pub(crate) struct Options {
    conf: Conf,
    slice_ns: u64,
    preempt_margin_ns: u64,
    hold_max_ns: u64,
    rescue_ns: u64,
    v_origin_ns: u64,
    bus_v_origin_ns: u64,
    llc_of_cpu: *const u32,
    queue_of_cpu: *const u32,
    near_queues: *const u8,
    steal_margins_ns: *const u64,
    nr_cpus: u32,
    nr_queues: u32,
    pmu_events: u32,
    drives_controller: bool,
}

/// Calls `act` with the options of `config`, which live until it returns.
pub(crate) fn with_options<T>(config: &Config, act: impl FnOnce(*const Options) -> T) -> T {
    let llc_of_cpu: Vec<u32> = config.llc_of_cpu.iter().map(|llc| *llc as u32).collect();
    let queues = config.queues();
    let (near, margins_ns) = queues.tables(config.steal_margin_ns);
    let options = Options {
        conf: config.conf,
        slice_ns: config.slice_ns,
        preempt_margin_ns: config.preempt_margin_ns,
        hold_max_ns: config.hold_max_ns,
        rescue_ns: config.rescue_ns,
        v_origin_ns: config.v_origin_ns,
        bus_v_origin_ns: config.v_origin_ns,
        llc_of_cpu: llc_of_cpu.as_ptr(),
        queue_of_cpu: queues.of_cpu.as_ptr(),
        near_queues: near.as_ptr(),
        steal_margins_ns: margins_ns.as_ptr(),
        nr_cpus: config.nr_cpus() as u32,
        nr_queues: queues.count() as u32,
        pmu_events: config.pmu_events,
        drives_controller: config.controller_update_ns.is_some(),
    };
    act(&raw const options)
}

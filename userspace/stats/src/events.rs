// SPDX-License-Identifier: GPL-2.0-only
//! The events that the BPF scheduler counts.

/// An event that the scheduler counts.
#[derive(Debug, PartialEq, Eq)]
pub struct SchedulerEvent {
    /// Its name in the statistics.
    pub name: &'static str,
    /// What it counts.
    pub text: &'static str,
}

/// Every event, in the order of `enum drfq_event` of bpf/intf.h.
pub const EVENTS: &[SchedulerEvent] = include!(concat!(env!("OUT_DIR"), "/events.rs"));

// SPDX-License-Identifier: GPL-2.0-only
//! The traffic counters that the loaded BPF programs read: which are dead, and which never count.

use std::path::Path;

use anyhow::{Context, Result};
use drfq_sense::{
    silent_counters::Count,
    traffic_counters::{CounterFd, TrafficCounters},
};
use libbpf_rs::{MapCore, MapFlags};

use crate::{bpf_intf, bpf_memory::volatile, bpf_skel::types::drfq_cpu};

/// Counters that stay open because the BPF programs read them.
pub struct Counters {
    open: TrafficCounters,
    /// How many reads had failed when they were last looked at.
    read_errors: u64,
    /// The user knows that one cannot be replaced.
    told_dead: bool,
    /// The user knows that these events are never counted.
    told_silent: Vec<String>,
}

impl Counters {
    /// Keeps `open`.
    pub fn new(open: TrafficCounters) -> Self {
        Self {
            open,
            read_errors: 0,
            told_dead: false,
            told_silent: Vec::new(),
        }
    }

    /// Replaces the counters that the kernel has evicted, if reads have failed since the last
    /// call. `give` gets the new ones. Returns what the user should know.
    ///
    /// # Errors
    /// Those of `give`.
    pub fn replace_dead(
        &mut self,
        slots: &[drfq_cpu],
        root: &Path,
        mut give: impl FnMut(&CounterFd) -> Result<()>,
    ) -> Result<Option<String>> {
        let event = bpf_intf::drfq_event_DRFQ_EV_PMU_READ_ERRORS as usize;
        let read_errors = slots.iter().map(|slot| volatile(&slot.events[event])).sum();
        if read_errors == self.read_errors {
            return Ok(None);
        }
        self.read_errors = read_errors;
        let (replaced, error) = self.open.replace_dead(root);
        replaced.iter().try_for_each(&mut give)?;
        let line = match error {
            Some(error) if !self.told_dead => Some(format!(
                "a CPU's traffic is no longer measured, because its counter was taken: {error}"
            )),
            None if !replaced.is_empty() => Some(format!(
                "{} counters of memory traffic were taken by another user of the PMU, and opened again",
                replaced.len()
            )),
            _ => None,
        };
        self.told_dead |= line.is_some() && replaced.is_empty();
        Ok(line)
    }

    /// A line for each event that is never counted, once.
    pub fn report_silent(&mut self, slots: &[drfq_cpu]) -> Vec<String> {
        let switches = bpf_intf::drfq_event_DRFQ_EV_SWITCHES as usize;
        let count = |counter: CounterFd| {
            let slot = &slots[counter.cpu as usize];
            Count {
                cpu: counter.cpu,
                index: counter.index,
                events: volatile(&slot.counters[counter.index].events),
                first_events: volatile(&slot.counters[0].events),
                packets: volatile(&slot.events[switches]),
            }
        };
        let counts: Vec<_> = self.open.fds().map(count).collect();
        let mut silent = self.open.silent(&counts);
        silent.retain(|silence| !self.told_silent.contains(&silence.event));
        let events = silent.iter().map(|silence| silence.event.clone());
        self.told_silent.extend(events);
        silent.iter().map(ToString::to_string).collect()
    }
}

/// The BPF programs on the counter's CPU read it from now on. `maps`: one for each number.
///
/// # Errors
/// The kernel refused.
pub fn give_counter<M: MapCore>(maps: [&M; 2], counter: &CounterFd) -> Result<()> {
    let (cpu, fd) = (counter.cpu.to_ne_bytes(), counter.fd.to_ne_bytes());
    let added = maps[counter.index].update(&cpu, &fd, MapFlags::ANY);
    added.with_context(|| format!("cannot give a counter of CPU {} to BPF", counter.cpu))
}

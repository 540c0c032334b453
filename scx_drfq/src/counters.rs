// SPDX-License-Identifier: GPL-2.0-only
//! The traffic counters that the loaded BPF programs read: which are dead, and which never count.

use std::{
    path::Path,
    time::{Duration, Instant},
};

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
    backoff: Backoff,
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
            backoff: Backoff::default(),
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
        let now = Instant::now();
        if read_errors == self.read_errors || !self.backoff.is_due(now) {
            return Ok(None);
        }
        self.read_errors = read_errors;
        let (replaced, error) = self.open.replace_dead(root);
        replaced.iter().try_for_each(&mut give)?;
        self.backoff.note(error.is_some(), now);
        let line = news(replaced.len(), error.as_deref(), self.told_dead);
        self.told_dead = error.is_some();
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

/// What the user should know of counters that were taken. `told`: that one cannot be opened again.
fn news(replaced: usize, error: Option<&str>, told: bool) -> Option<String> {
    match error {
        Some(error) => (!told).then(|| {
            format!("a CPU's traffic is no longer measured, because its counter was taken: {error}")
        }),
        None => (replaced > 0).then(|| {
            format!(
                "{replaced} counters of memory traffic were taken by another user of the PMU, and \
                 opened again"
            )
        }),
    }
}

/// When counters are looked at again that could not be opened. Until then each context switch on their
/// CPUs fails to read them, so failed reads tell nothing new, and a look at all of them costs an
/// interrupt of each CPU.
#[derive(Default)]
struct Backoff {
    /// The last pause, and when it ends; none after a success.
    pause: Option<(Duration, Instant)>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(1);
    const LAST: Duration = Duration::from_secs(60);

    fn is_due(&self, now: Instant) -> bool {
        self.pause.is_none_or(|(_, end)| now >= end)
    }

    fn note(&mut self, failed: bool, now: Instant) {
        let next = self.pause.map_or(Self::FIRST, |(pause, _)| pause * 2);
        let next = next.min(Self::LAST);
        self.pause = failed.then(|| (next, now + next));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_cannot_be_opened_is_tried_ever_more_seldom() {
        let (start, mut backoff) = (Instant::now(), Backoff::default());
        let mut tries = |from_s: u32, to_s: u32, fails: bool| {
            let polls =
                (4 * from_s..4 * to_s).map(|poll| start + poll * Duration::from_millis(250));
            let due = polls.filter(|&now| {
                let due = backoff.is_due(now);
                if due {
                    backoff.note(fails, now);
                }
                due
            });
            due.count()
        };
        assert_eq!(tries(0, 10, true), 4);
        assert!(tries(10, 3610, true) <= 65);
        // Once it can be opened, each failed read is looked at again.
        assert!(tries(3610, 3680, false) > 4);
        assert_eq!(tries(3680, 3681, false), 4);
    }

    #[test]
    fn a_loss_is_told_once_and_so_is_the_next_one() {
        assert!(news(0, Some("no PMU"), false).is_some());
        assert!(news(1, Some("no PMU"), false).is_some());
        assert_eq!(news(1, Some("no PMU"), true), None);
        assert!(news(2, None, true).is_some_and(|line| line.starts_with("2 counters")));
        assert_eq!(news(0, None, true), None);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sensors against each other: what a load on one CPU moves, what the events of that CPU count, and
//! what resctrl monitors of a group that holds the load alone (MBM).

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use drfq_resctrl::{
    fs::KernelFs,
    groups::{Ctrl, Groups},
    info::Info,
    reading::{Event, Reading},
    schemata::Domain,
};
use drfq_sense::{
    perf_event::{EventChoice, TrafficSource},
    topology::Topology,
    traffic_counters::TrafficCounters,
};
use serde::Serialize;

use crate::{
    calibrate::beyond_cache,
    loads::{self, Load, Moment, Op, Work},
    mba::{guard::Guard, vendor},
};

/// What was compared.
#[derive(Debug, Serialize)]
pub struct Sensors {
    /// The events, or why there are none.
    pub events: String,
    /// Why nothing is monitored (MBM); none: it is.
    pub no_mbm: Option<String>,
    /// A row for each load.
    pub rows: Vec<Row>,
}

/// What each sensor says of one load.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// `read`, `write` or `copy`.
    pub load: &'static str,
    /// Its CPU.
    pub cpu: u32,
    /// How long was counted.
    pub seconds: f64,
    /// Traffic by the load's own count: a line that is written is fetched and written back.
    pub load_bytes: u64,
    /// Traffic that the events stand for; none without events.
    pub event_bytes: Option<u64>,
    /// The counts of the events, by name.
    pub counts: Vec<(String, u64)>,
    /// Traffic that resctrl monitored.
    pub mbm_bytes: Option<u64>,
}

/// Runs each kind of load for a third of `time`, and tells what it finds.
///
/// # Errors
/// A load cannot run.
pub fn measure(
    time: Duration,
    topology: &Topology,
    root: &Path,
    out: &mut impl Write,
) -> Result<Sensors> {
    let monitor = Monitor::open(root);
    let source = TrafficSource {
        event: EventChoice::Auto,
        event_bytes: None,
    };
    let mut counters = TrafficCounters::open(&source, topology, root)?;
    let cpu = *topology.online.last().unwrap_or(&0);
    let mut rows = Vec::new();
    for (load, op) in [("read", Op::Read), ("write", Op::Write), ("copy", Op::Copy)] {
        writeln!(out, "sensors: a load of kind {load} on CPU {cpu}")?;
        let monitor = monitor.as_ref().ok();
        let one = Load {
            work: Work::Memory(op, beyond_cache(cpu, root)),
            cpu: Some(cpu),
            nice: 0,
        };
        let join = || monitor.map_or(Ok(()), Monitor::join);
        let (mut counted, mut monitored) = (Span::default(), Span::default());
        let look = |at| {
            counted.set(at, Some(counters.counts(cpu)));
            monitored.set(at, monitor.and_then(Monitor::bytes));
        };
        let (done, time) = loads::race(&[one], time / 3, join, look)?;
        rows.push(Row {
            load,
            cpu,
            seconds: time.as_secs_f64(),
            ..row(done[0].bytes, &counted, &monitored)
        });
    }
    Ok(Sensors {
        events: counters.source.clone(),
        no_mbm: monitor.err(),
        rows,
    })
}

/// A value at the begin and at the end of what is counted.
struct Span<T> {
    begin: Option<T>,
    end: Option<T>,
}

impl<T> Default for Span<T> {
    fn default() -> Self {
        Self {
            begin: None,
            end: None,
        }
    }
}

impl<T> Span<T> {
    fn set(&mut self, at: Moment, value: Option<T>) {
        match at {
            Moment::Begin => self.begin = value,
            Moment::End => self.end = value,
        }
    }
}

/// Counts of a CPU's events: name, bytes of an event, count.
type Counts = Vec<(String, u32, u64)>;

fn row(load_bytes: u64, counted: &Span<Counts>, monitored: &Span<u64>) -> Row {
    let (begin, end) = (counted.begin.iter().flatten(), counted.end.iter().flatten());
    let found: Counts = begin
        .zip(end)
        .map(|((name, bytes, was), (_, _, is))| (name.clone(), *bytes, is.saturating_sub(*was)))
        .collect();
    let bytes = found
        .iter()
        .map(|(_, bytes, count)| u64::from(*bytes) * count);
    let mbm = monitored.begin.zip(monitored.end);
    Row {
        load_bytes,
        event_bytes: (!found.is_empty()).then(|| bytes.sum()),
        counts: found
            .into_iter()
            .map(|(name, _, count)| (name, count))
            .collect(),
        mbm_bytes: mbm.and_then(|(was, is)| is.checked_sub(was)),
        ..Row::default()
    }
}

/// A group of our own, which holds the load alone. Whatever ends the process, the cleaner of
/// [`Guard`] removes it.
struct Monitor {
    groups: Groups<KernelFs>,
    group: Ctrl,
    domains: Vec<Domain>,
    // Dropped last: the cleaner then finds nothing to do.
    _guard: Guard,
}

impl Monitor {
    /// Makes the group; else why traffic is not monitored, in a few words.
    fn open(root: &Path) -> Result<Self, String> {
        let guard = Guard::open(root)?;
        let files = KernelFs::open(&guard.point).map_err(|error| error.to_string())?;
        let info = Info::read(&files, vendor()).map_err(|error| error.to_string())?;
        let monitoring = info.monitoring.as_ref();
        let total = monitoring.filter(|found| found.events.contains(&Event::MbmTotal));
        let Some(total) = total else {
            return Err("resctrl does not monitor bandwidth here (MBM)".into());
        };
        let (groups, _) = Groups::open(files).map_err(|error| error.to_string())?;
        let group = groups
            .create_ctrl("evidence")
            .map_err(|error| error.to_string())?;
        if total.assignable.is_some() {
            // Without a counter the readings say so.
            let _ = groups.assign_counter(&group, Event::MbmTotal);
        }
        Ok(Self {
            domains: total.domains.clone(),
            groups,
            group,
            _guard: guard,
        })
    }

    fn join(&self) -> io::Result<()> {
        // SAFETY: the call has no preconditions.
        let tid = unsafe { libc::gettid() } as u32;
        let joined = self.groups.add_task(&self.group, tid);
        joined
            .map(drop)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// What the group has moved so far, in all domains that can be read.
    fn bytes(&self) -> Option<u64> {
        let read = |domain: &Domain| {
            let reading = self.groups.reading(&self.group, *domain, Event::MbmTotal);
            reading.ok().and_then(Reading::bytes)
        };
        let found: Vec<u64> = self.domains.iter().filter_map(read).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_differences_and_bytes() {
        let count = |reads, writes| vec![("r".to_owned(), 64, reads), ("w".to_owned(), 64, writes)];
        let (mut counted, mut monitored) = (Span::default(), Span::default());
        counted.set(Moment::Begin, Some(count(10, 20)));
        counted.set(Moment::End, Some(count(110, 70)));
        monitored.set(Moment::Begin, Some(1000));
        monitored.set(Moment::End, Some(11_000));
        let found = row(9600, &counted, &monitored);
        assert_eq!(found.event_bytes, Some(64 * 150));
        assert_eq!(found.counts, [("r".to_owned(), 100), ("w".to_owned(), 50)]);
        assert_eq!(found.mbm_bytes, Some(10_000));
    }

    #[test]
    fn what_no_sensor_counts_is_none() {
        let mut counted = Span::default();
        counted.set(Moment::Begin, Some(Vec::new()));
        counted.set(Moment::End, Some(Vec::new()));
        let mut monitored = Span::default();
        monitored.set(Moment::End, Some(5));
        let found = row(64, &counted, &monitored);
        assert_eq!((found.event_bytes, found.mbm_bytes), (None, None));
    }
}

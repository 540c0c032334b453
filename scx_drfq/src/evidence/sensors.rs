// SPDX-License-Identifier: GPL-2.0-only
//! Sensors against each other: what a load on one CPU moves, what the events of that CPU count, and
//! what resctrl monitors of a group that holds the load alone (MBM).

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use drfq_policy::attribution::{Counts as Lines, Fit};
use drfq_resctrl::{
    error,
    fs::{KernelFs, ResctrlFs},
    groups::{Ctrl, Groups, Mon},
    info::Info,
    reading::{Event, Reading},
    schemata::Domain,
};
use drfq_sense::{
    perf_event::{EventChoice, TrafficSource},
    topology::Topology,
    traffic_counters::{EventCount, TrafficCounters},
};
use serde::Serialize;

use crate::{
    calibrate::memory::beyond_cache,
    loads::{self, Load, Moment, Op, Work},
    mba::{
        guard::Guard,
        join::{can_join, join},
        vendor,
    },
};

/// What was compared.
#[derive(Debug, Default, Serialize)]
pub struct Sensors {
    /// The events, or why there are none.
    pub events: String,
    /// Why nothing is monitored (MBM); none: it is.
    pub no_mbm: Option<String>,
    /// What MBM says of the events; none without events or MBM.
    pub factors: Vec<Factor>,
    /// A row for each load.
    pub rows: Vec<Row>,
}

/// How much traffic an event stands for, fitted to what MBM shows of all loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factor {
    /// The event's name.
    pub event: String,
    /// Bytes of one event.
    pub bytes: f64,
    /// Their standard deviation (bytes).
    pub std_dev: f64,
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
    let cpu = measured_cpu(&topology.online, |cpu| !counters.counts(cpu).is_empty());
    let (mut rows, mut fitting) = (Vec::new(), Fitting::default());
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
            let (counts, bytes) = (counters.counts(cpu), monitor.map(Monitor::bytes));
            fitting.look(at, &counts, bytes.clone());
            counted.set(at, Some(counts));
            monitored.set(at, bytes);
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
        events: events(&counters),
        no_mbm: monitor.err(),
        factors: fitting.factors(),
        rows,
    })
}

/// The last CPU with counters: kinds of cores differ in their events. Without any, the last one.
fn measured_cpu(online: &[u32], mut counts: impl FnMut(u32) -> bool) -> u32 {
    let counted = online.iter().rev().find(|&&cpu| counts(cpu));
    *counted.or(online.last()).unwrap_or(&0)
}

/// The events, or the reason without them, which is more than their source tells.
fn events(counters: &TrafficCounters) -> String {
    let reason = counters.degraded.clone().filter(|_| counters.is_empty());
    reason.unwrap_or_else(|| counters.source.clone())
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
            Moment::Between => {}
            Moment::End => self.end = value,
        }
    }
}

/// Counts of a CPU's events.
type Counts = Vec<EventCount>;

/// Events that came between two looks.
#[derive(Clone, Debug, PartialEq)]
struct Came {
    event: String,
    /// Bytes that one event stands for.
    bytes: u32,
    count: u64,
}

/// What came of each event that was counted between two looks. A counter that cannot be read is in
/// neither list, so its event is found by name.
fn came(begin: &Counts, end: &Counts) -> Vec<Came> {
    let one = |is: &EventCount| {
        let was = begin.iter().find(|was| was.event == is.event)?;
        Some(Came {
            event: is.event.clone(),
            bytes: is.bytes,
            count: is.since(was)?,
        })
    };
    end.iter().filter_map(one).collect()
}

/// Bytes by domain; none where they cannot be read.
type Monitored = Vec<Option<u64>>;

/// What was monitored between two looks; none if it is not known. The hardware may not count a
/// group in domains where it is idle. A domain that can be read at one look alone leaves open what
/// moved there.
fn moved(was: &Monitored, is: &Monitored) -> Option<u64> {
    let known = was
        .iter()
        .zip(is)
        .filter(|(was, is)| was.is_some() || is.is_some());
    let differences = known.map(|(was, is)| (*is)?.checked_sub((*was)?));
    let found: Vec<u64> = differences.collect::<Option<_>>()?;
    (!found.is_empty()).then(|| found.iter().sum())
}

/// Fits [`Factor`]s. The loads mix reads and writes differently, so the factors differ, too.
#[derive(Default)]
struct Fitting {
    fit: Fit,
    events: Vec<String>,
    last: Option<(Counts, Monitored)>,
}

impl Fitting {
    /// Observes what has come since the last moment of the same load.
    fn look(&mut self, at: Moment, counts: &Counts, bytes: Option<Monitored>) {
        let now = bytes.map(|bytes| (counts.clone(), bytes));
        let last = self.last.take().filter(|_| at != Moment::Begin);
        if let (Some((were, was)), Some((are, is))) = (last, &now)
            && let Some(bytes) = moved(&was, is)
        {
            self.observe(&came(&were, are), bytes);
        }
        self.last = now;
    }

    /// Only looks at the same events can be fitted together.
    fn observe(&mut self, came: &[Came], bytes: u64) {
        let events: Vec<String> = came.iter().map(|one| one.event.clone()).collect();
        if events.len() > self.events.len() {
            (self.fit, self.events) = (Fit::default(), events);
        } else if events != self.events {
            return;
        }
        let count = |event: usize| came.get(event).map_or(0.0, |one| one.count as f64);
        let lines = Lines {
            reads: count(0),
            writes: count(1),
        };
        self.fit = self.fit.observe(lines, bytes as f64);
    }

    fn factors(&self) -> Vec<Factor> {
        let one_of = |event: usize| Lines {
            reads: f64::from(event == 0),
            writes: f64::from(event == 1),
        };
        let factor = |(event, name): (usize, &String)| {
            let found = self.fit.bytes(one_of(event));
            Factor {
                event: name.clone(),
                bytes: found.bytes,
                std_dev: found.std_dev,
            }
        };
        self.events.iter().enumerate().map(factor).collect()
    }
}

fn row(load_bytes: u64, counted: &Span<Counts>, monitored: &Span<Monitored>) -> Row {
    let looks = counted.begin.as_ref().zip(counted.end.as_ref());
    let found = looks.map_or_else(Vec::new, |(begin, end)| came(begin, end));
    let bytes = found.iter().map(|one| u64::from(one.bytes) * one.count);
    let mbm = monitored.begin.as_ref().zip(monitored.end.as_ref());
    Row {
        load_bytes,
        event_bytes: (!found.is_empty()).then(|| bytes.sum()),
        counts: found
            .into_iter()
            .map(|one| (one.event, one.count))
            .collect(),
        mbm_bytes: mbm.and_then(|(was, is)| moved(was, is)),
        ..Row::default()
    }
}

/// A group of our own, which holds the load alone. Whatever ends the process, the cleaner of
/// [`Guard`] removes it.
struct Monitor {
    groups: Groups<KernelFs>,
    group: Mon,
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
        let groups = Groups::open(files).map_err(|error| error.to_string())?;
        let group = make(&groups, total.assignable.is_some()).map_err(|error| error.to_string())?;
        can_join(&groups, &group)?;
        Ok(Self {
            domains: total.domains.clone(),
            groups,
            group,
            _guard: guard,
        })
    }

    fn join(&self) -> io::Result<()> {
        join(&self.groups, &self.group)
    }

    /// What the group has moved so far, by domain; none where it cannot be read.
    fn bytes(&self) -> Monitored {
        let read = |domain: &Domain| {
            let reading = self.groups.reading(&self.group, *domain, Event::MbmTotal);
            reading.ok().and_then(Reading::bytes)
        };
        self.domains.iter().map(read).collect()
    }
}

/// Makes the group. It takes a monitoring id and no class, which may be missing. `assignable`:
/// counters are assigned to groups.
fn make(groups: &Groups<impl ResctrlFs>, assignable: bool) -> error::Result<Mon> {
    let group = groups.create_mon(&Ctrl::DEFAULT, "evidence")?;
    if assignable {
        // Without a counter the readings say so.
        let _ = groups.assign_counter(&group, Event::MbmTotal);
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::fake::{FakeKernel, Shape};
    use drfq_sense::queues::Queues;

    use super::*;

    #[test]
    fn mbm_needs_no_class() {
        for counters in [None, Some(1)] {
            let kernel = FakeKernel::new(Shape {
                closids: 0,
                counters,
                ..Shape::default()
            });
            let groups = Groups::open(&kernel).unwrap();
            let group = make(&groups, counters.is_some()).unwrap();
            let reading = groups.reading(&group, 0, Event::MbmTotal).unwrap();
            assert_eq!(reading, Reading::Bytes(0));
        }
    }

    #[test]
    fn the_load_runs_on_a_cpu_that_has_counters() {
        assert_eq!(measured_cpu(&[0, 1, 4, 5], |cpu| cpu < 4), 1);
        assert_eq!(measured_cpu(&[0, 1, 4, 5], |_| true), 5);
        assert_eq!(measured_cpu(&[0, 1, 4, 5], |_| false), 5);
    }

    #[test]
    fn without_events_the_reason_is_told() {
        let none = |reason: Option<&str>| {
            let topology = Topology {
                online: vec![0],
                cpu_llc: vec![0],
                nr_llcs: 1,
                queues: Queues::single(1),
            };
            let source = TrafficSource {
                event: EventChoice::None,
                event_bytes: None,
            };
            let mut counters =
                TrafficCounters::open(&source, &topology, Path::new("/")).expect("opens nothing");
            counters.degraded = reason.map(str::to_owned);
            events(&counters)
        };
        assert_eq!(none(Some("the kernel is too old")), "the kernel is too old");
        assert_eq!(none(None), "switched off (--perf-event none)");
    }

    fn counted(event: &str, count: u64) -> EventCount {
        EventCount {
            event: event.into(),
            bytes: 64,
            count,
            ..EventCount::default()
        }
    }

    #[test]
    fn an_event_that_was_not_read_at_both_looks_is_left_out() {
        let (mut looks, monitored) = (Span::default(), Span::default());
        looks.set(Moment::Begin, Some(vec![counted("w", 20)]));
        looks.set(
            Moment::End,
            Some(vec![counted("r", 9000), counted("w", 70)]),
        );
        let found = row(9600, &looks, &monitored);
        assert_eq!(found.counts, [("w".to_owned(), 50)]);
        assert_eq!(found.event_bytes, Some(64 * 50));
    }

    #[test]
    fn a_row_holds_differences_and_bytes() {
        let count = |reads, writes| vec![counted("r", reads), counted("w", writes)];
        let (mut counted, mut monitored) = (Span::default(), Span::default());
        counted.set(Moment::Begin, Some(count(10, 20)));
        counted.set(Moment::End, Some(count(110, 70)));
        monitored.set(Moment::Begin, Some(vec![Some(1000), None]));
        monitored.set(Moment::End, Some(vec![Some(11_000), None]));
        let found = row(9600, &counted, &monitored);
        assert_eq!(found.event_bytes, Some(64 * 150));
        assert_eq!(found.counts, [("r".to_owned(), 100), ("w".to_owned(), 50)]);
        assert_eq!(found.mbm_bytes, Some(10_000));
    }

    /// Looks at a reader and a writer, of which MBM shows so many bytes for each event of either.
    fn fitted(read: u64, write: u64) -> Vec<Factor> {
        let mut fitting = Fitting::default();
        for (reads, writes) in [(1000, 0), (1000, 1000)] {
            for moment in 0..50 {
                let at = match moment {
                    0 => Moment::Begin,
                    _ => Moment::Between,
                };
                let count = |name: &str, each| counted(name, each * moment);
                let bytes = moment * (read * reads + write * writes);
                fitting.look(
                    at,
                    &vec![count("r", reads), count("w", writes)],
                    Some(vec![Some(bytes)]),
                );
            }
        }
        fitting.factors()
    }

    #[test]
    fn each_event_has_the_bytes_that_mbm_shows() {
        for (read, write) in [(64, 64), (96, 64), (80, 40)] {
            for (factor, bytes) in fitted(read, write).iter().zip([read, write]) {
                let off = (factor.bytes - bytes as f64).abs();
                assert!(off < 1.0, "{factor:?} for {bytes}");
                assert!(factor.std_dev < 3.0, "{factor:?}");
            }
        }
    }

    #[test]
    fn a_domain_that_is_read_at_one_look_alone_leaves_the_traffic_unknown() {
        assert_eq!(
            moved(&vec![Some(1), Some(2)], &vec![Some(5), Some(4)]),
            Some(6)
        );
        assert_eq!(moved(&vec![Some(1), None], &vec![Some(5), None]), Some(4));
        assert_eq!(moved(&vec![Some(1), None], &vec![Some(5), Some(9)]), None);
        assert_eq!(moved(&vec![Some(1), Some(9)], &vec![Some(5), None]), None);
        assert_eq!(moved(&vec![Some(5)], &vec![Some(1)]), None);
        assert_eq!(moved(&vec![None], &vec![None]), None);
    }

    #[test]
    fn without_mbm_there_are_no_factors() {
        let mut fitting = Fitting::default();
        for at in [Moment::Begin, Moment::Between, Moment::End] {
            fitting.look(at, &vec![counted("r", 10)], None);
        }
        assert_eq!(fitting.factors(), []);
    }

    #[test]
    fn what_no_sensor_counts_is_none() {
        let mut counted = Span::default();
        counted.set(Moment::Begin, Some(Vec::new()));
        counted.set(Moment::End, Some(Vec::new()));
        let mut monitored = Span::default();
        monitored.set(Moment::End, Some(vec![Some(5)]));
        let found = row(64, &counted, &monitored);
        assert_eq!((found.event_bytes, found.mbm_bytes), (None, None));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Counters of memory traffic, one per CPU. The agent owns them, and the BPF
//! scheduler reads them at each context switch.

use std::{
    fs,
    io::{self, ErrorKind},
    os::fd::{AsRawFd, RawFd},
    path::Path,
};

use anyhow::{Result, bail};
use perf_event::Counter;

pub use crate::counter::EventCount;

use crate::{
    counter::{hybrid_pmu, open_one},
    cpu_model::{CpuModel, cache_line_bytes},
    perf_event::{EventChoice, PerfEvent, TrafficSource, names},
    sched_ext,
    silent_counters::{Count, Silence},
    topology::{Topology, cpu_list},
    traffic_events::{TrafficEvents, candidates},
};

/// The counters of memory traffic.
pub struct TrafficCounters<C = Counter> {
    /// What the traffic statistics are from, or why there are none.
    pub source: String,
    /// An event is a software event that stands in for memory traffic.
    pub stand_in: bool,
    /// One line about what is missing, if something is.
    pub degraded: Option<String>,
    cpus: Vec<CpuCounters<C>>,
}

/// The counters of one CPU.
struct CpuCounters<C> {
    cpu: u32,
    /// In the order of their events.
    counters: Vec<(PerfEvent, C)>,
    /// Traffic that they do not count.
    missing: &'static str,
    /// Bytes that one event stands for.
    bytes: u32,
}

/// One counter as the scheduler gets it, valid as long as the [`TrafficCounters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterFd {
    /// Its CPU.
    pub cpu: u32,
    /// Its number on that CPU, from 0.
    pub index: usize,
    /// Bytes that one event stands for.
    pub bytes: u32,
    /// Its descriptor.
    pub fd: RawFd,
}

impl TrafficCounters {
    /// Opens the events that `source` asks for on every CPU.
    ///
    /// # Errors
    /// An event that was asked for by name cannot be counted. The automatic choice never fails. On
    /// each CPU it takes what its PMU counts, and it sets `degraded` if a CPU's traffic stays
    /// unmeasured.
    pub fn open(source: &TrafficSource, topology: &Topology, root: &Path) -> Result<Self> {
        if source.event == EventChoice::None {
            return Ok(Self::none("switched off (--perf-event none)", None));
        }
        let model = CpuModel::read(root);
        let bytes = source.event_bytes.unwrap_or_else(|| cache_line_bytes(root));
        let readable = bpf_reads_counters(&sched_ext::release(root));
        let (mut cpus, mut refused) = (Vec::new(), Vec::new());
        for &cpu in &topology.online {
            let pmu = hybrid_pmu(cpu, root);
            let wanted = match &source.event {
                EventChoice::Events(events) => vec![asked_for(events)],
                _ => candidates(&model, pmu.map_or("", |(name, _)| name)),
            };
            let open = |event: &PerfEvent| match readable {
                true => open_one(event, cpu, pmu.map(|(_, number)| number)),
                false => Err(io::Error::new(
                    ErrorKind::Unsupported,
                    "BPF schedulers can read counters since kernel 6.15",
                )),
            };
            let strict = source.event != EventChoice::Auto;
            match open_best(&wanted, strict, open) {
                Ok((counters, missing)) => cpus.push(CpuCounters {
                    cpu,
                    counters,
                    missing,
                    bytes,
                }),
                Err((event, error)) if strict => bail!("{}", explain(&event, &error)),
                Err((event, error)) => refused.push((cpu, explain(&event, &error))),
            }
        }
        Ok(Self::of(cpus, &refused))
    }

    /// Whether no CPU has a counter.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The most counters that a CPU has.
    pub fn per_cpu(&self) -> usize {
        let counts = self.cpus.iter().map(|cpu| cpu.counters.len());
        counts.max().unwrap_or(0)
    }

    /// What the counters do not count, in words; empty if there are none.
    pub fn missing(&self) -> &'static str {
        self.cpus.first().map_or("", |cpu| cpu.missing)
    }

    /// Puts a new counter in the place of each one that the kernel has evicted from its PMU. An
    /// evicted counter never counts again. Returns the new ones like [`Self::fds`], and why a
    /// counter could not be opened.
    pub fn replace_dead(&mut self, root: &Path) -> (Vec<CounterFd>, Option<String>) {
        let ended = |error: io::Error| error.kind() == ErrorKind::UnexpectedEof;
        let dead = |counter: &mut Counter| counter.read().is_err_and(ended);
        let (replaced, error) = replace_where(&mut self.cpus, dead, |event, cpu| {
            open_one(event, cpu, hybrid_pmu(cpu, root).map(|(_, number)| number))
        });
        let is_new = |found: &CounterFd| replaced.contains(&(found.cpu, found.index));
        let fds = self.fds().filter(is_new).collect();
        (fds, error.map(|(event, error)| explain(&event, &error)))
    }

    /// All counters.
    pub fn fds(&self) -> impl Iterator<Item = CounterFd> {
        self.cpus.iter().flat_map(|cpu| {
            let one = |(index, (_, counter)): (usize, &(PerfEvent, Counter))| CounterFd {
                cpu: cpu.cpu,
                index,
                bytes: cpu.bytes,
                fd: counter.as_raw_fd(),
            };
            cpu.counters.iter().enumerate().map(one)
        })
    }

    /// What each counter of `cpu` has counted. A counter that cannot be read is left out.
    pub fn counts(&mut self, cpu: u32) -> Vec<EventCount> {
        let own = self.cpus.iter_mut().filter(|one| one.cpu == cpu);
        let counters = own.flat_map(|one| {
            let bytes = one.bytes;
            one.counters.iter_mut().map(move |counter| (bytes, counter))
        });
        let read = counters.filter_map(|(bytes, (event, counter))| {
            let read = counter.read_count_and_time().ok()?;
            Some(EventCount {
                event: event.name.clone(),
                bytes,
                count: read.count,
                enabled_ns: read.time_enabled,
                running_ns: read.time_running,
            })
        });
        read.collect()
    }

    /// The counters that seem never to count, by what the scheduler has read from them.
    pub fn silent(&self, counts: &[Count]) -> Vec<Silence> {
        let mut found: Vec<Silence> = Vec::new();
        for count in counts.iter().filter(|count| count.is_silent()) {
            let own = self.cpus.iter().find(|cpu| cpu.cpu == count.cpu);
            let counter = own.and_then(|cpu| cpu.counters.get(count.index));
            let Some((event, _)) = counter.filter(|(event, _)| !event.may_never_occur()) else {
                continue;
            };
            match found.iter_mut().find(|silence| silence.event == event.name) {
                Some(silence) => silence.cpus.push(count.cpu),
                None => found.push(Silence {
                    event: event.name.clone(),
                    cpus: vec![count.cpu],
                }),
            }
        }
        found
    }
}

impl<C> TrafficCounters<C> {
    /// What was opened, and the CPUs on which nothing could be, with the reasons.
    fn of(cpus: Vec<CpuCounters<C>>, refused: &[(u32, String)]) -> Self {
        let unmeasured = |whose: &str, reason: &str| {
            format!("{reason}, so the memory traffic of {whose} is neither measured nor charged")
        };
        let Some((_, reason)) = refused.first() else {
            return Self {
                source: describe(&cpus),
                stand_in: cpus.iter().any(CpuCounters::stand_in),
                degraded: None,
                cpus,
            };
        };
        if cpus.is_empty() {
            return Self::none("no PMU", Some(unmeasured("CPUs", reason)));
        }
        let whose = format!("CPUs {}", cpu_list(refused.iter().map(|(cpu, _)| *cpu)));
        Self {
            source: describe(&cpus),
            stand_in: false,
            degraded: Some(unmeasured(&whose, reason)),
            cpus,
        }
    }

    fn none(source: &str, degraded: Option<String>) -> Self {
        Self {
            source: source.into(),
            stand_in: false,
            degraded,
            cpus: Vec::new(),
        }
    }
}

impl<C> CpuCounters<C> {
    fn events(&self) -> Vec<PerfEvent> {
        self.counters
            .iter()
            .map(|(event, _)| event.clone())
            .collect()
    }

    fn stand_in(&self) -> bool {
        self.counters.iter().any(|(event, _)| event.is_stand_in())
    }
}

/// Events that a user names.
fn asked_for(events: &[PerfEvent]) -> TrafficEvents {
    TrafficEvents {
        events: events.to_vec(),
        missing: "what the events that were asked for do not count",
        source: "--perf-event",
    }
}

/// The events in words, such as `A+B x 64 B`, with their CPUs if those differ.
fn describe<C>(cpus: &[CpuCounters<C>]) -> String {
    let text = |cpu: &CpuCounters<C>| format!("{} x {} B", names(&cpu.events()), cpu.bytes);
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for cpu in cpus {
        let text = text(cpu);
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, members)) => members.push(cpu.cpu),
            None => groups.push((text, vec![cpu.cpu])),
        }
    }
    match &groups[..] {
        [(text, _)] => text.clone(),
        _ => {
            let one = |(text, cpus): &(String, Vec<u32>)| {
                format!("{text} on CPUs {}", cpu_list(cpus.iter().copied()))
            };
            groups.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Opens the first events that can be counted. If the first event of a model can be, but not the
/// second, the first counts alone, unless `strict`.
///
/// # Errors
/// No event can be counted, with the best one and the reason.
#[allow(clippy::type_complexity)]
fn open_best<C>(
    wanted: &[TrafficEvents],
    strict: bool,
    open: impl Fn(&PerfEvent) -> io::Result<C>,
) -> Result<(Vec<(PerfEvent, C)>, &'static str), (PerfEvent, io::Error)> {
    let mut first = None;
    for found in wanted {
        let mut counters = Vec::new();
        let mut failed = None;
        for event in &found.events {
            match open(event) {
                Ok(counter) => counters.push((event.clone(), counter)),
                Err(error) => {
                    failed = Some((event.clone(), error));
                    break;
                }
            }
        }
        if !counters.is_empty() && (failed.is_none() || !strict) {
            return Ok((
                counters,
                if failed.is_none() {
                    found.missing
                } else {
                    "writes"
                },
            ));
        }
        first = first.or(failed);
    }
    Err(first.unwrap_or_else(|| (PerfEvent::cache_misses(), ErrorKind::NotFound.into())))
}

/// Whether a scheduler may call bpf_perf_event_read_value(): since Linux 6.15
/// ("bpf: Make perf_event_read_output accessible in all program types").
fn bpf_reads_counters(release: &str) -> bool {
    let mut numbers = release
        .split(['.', '-', '+'])
        .map(|number| number.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    // An unreadable release counts as new enough.
    !matches!(version, (Some(major), Some(minor)) if (major, minor) < (6, 15))
}

/// Whether the kernel opens counters only for CAP_SYS_ADMIN. Debian and others
/// patch it so for values above 2 of the sysctl, which ends at 2 upstream.
pub fn needs_sys_admin(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("proc/sys/kernel/perf_event_paranoid"));
    let value = text.ok().and_then(|text| text.trim().parse::<i32>().ok());
    value.is_some_and(|value| value > 2)
}

/// Why an event cannot be counted.
fn explain(event: &PerfEvent, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            format!("not permitted to count {}", event.name)
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            format!("no PMU that counts {}", event.name)
        }
        _ => format!("cannot count {}: {error}", event.name),
    }
}

/// Opens the counters anew that are dead. Returns their (CPU, number), and the last error.
#[allow(clippy::type_complexity)]
fn replace_where<C>(
    cpus: &mut [CpuCounters<C>],
    mut is_dead: impl FnMut(&mut C) -> bool,
    mut open: impl FnMut(&PerfEvent, u32) -> io::Result<C>,
) -> (Vec<(u32, usize)>, Option<(PerfEvent, io::Error)>) {
    let (mut replaced, mut last) = (Vec::new(), None);
    for cpu in cpus {
        for (index, (event, counter)) in cpu.counters.iter_mut().enumerate() {
            if !is_dead(counter) {
                continue;
            }
            match open(event, cpu.cpu) {
                Ok(new) => {
                    *counter = new;
                    replaced.push((cpu.cpu, index));
                }
                Err(error) => last = Some((event.clone(), error)),
            }
        }
    }
    (replaced, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::EventKind;

    const KIND: EventKind = EventKind::Hardware(3);

    /// Opens what is not in `refused`. A counter is the name of its event.
    fn best(wanted: &[&[&str]], strict: bool, refused: &[&str]) -> Result<Vec<String>, String> {
        let events = |names: &&[&str]| {
            let event = |name: &&str| PerfEvent {
                name: (*name).into(),
                kind: KIND,
            };
            asked_for(&names.iter().map(event).collect::<Vec<_>>())
        };
        let wanted: Vec<_> = wanted.iter().map(events).collect();
        let open = |event: &PerfEvent| match refused.contains(&event.name.as_str()) {
            true => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            false => Ok(event.name.clone()),
        };
        match open_best(&wanted, strict, open) {
            Ok((counters, _)) => Ok(counters.into_iter().map(|(_, name)| name).collect()),
            Err((event, _)) => Err(event.name),
        }
    }

    #[test]
    fn a_cpu_counts_the_best_events_that_its_pmu_has() {
        let wanted: &[&[&str]] = &[&["reads", "writes"], &["misses"]];
        for (refused, opened) in [
            (&[][..], &["reads", "writes"][..]),
            (&["writes"], &["reads"]),
            (&["reads"], &["misses"]),
            (&["reads", "writes"], &["misses"]),
        ] {
            let found = best(wanted, false, refused).unwrap();
            assert_eq!(found, opened, "without {refused:?}");
        }
        let error = best(wanted, false, &["reads", "writes", "misses"]);
        assert_eq!(error, Err("reads".into()));
    }

    #[test]
    fn named_events_are_counted_all_or_none() {
        let wanted: &[&[&str]] = &[&["reads", "writes"]];
        assert_eq!(best(wanted, true, &["writes"]), Err("writes".into()));
        assert_eq!(best(wanted, true, &[]).unwrap(), ["reads", "writes"]);
    }

    #[test]
    fn a_cpu_without_events_leaves_the_others_theirs() {
        let cpus = || vec![cpu(0, &[("reads", 0)]), cpu(2, &[("reads", 0)])];
        let refused = |cpu| (cpu, format!("no PMU on CPU {cpu}"));
        let opened = TrafficCounters::of(cpus(), &[refused(1), refused(3)]);
        assert_eq!(opened.cpus.len(), 2);
        let line = opened.degraded.expect("two CPUs measure nothing");
        assert!(line.contains("no PMU on CPU 1"), "{line}");
        assert!(line.contains("traffic of CPUs 1,3 "), "{line}");
        assert_eq!(TrafficCounters::of(cpus(), &[]).degraded, None);
        let none = TrafficCounters::<u32>::of(Vec::new(), &[refused(0)]);
        assert!(none.cpus.is_empty() && none.degraded.is_some());
    }

    fn cpu(cpu: u32, events: &[(&str, u32)]) -> CpuCounters<u32> {
        let counter = |(name, generation): &(&str, u32)| {
            let event = PerfEvent {
                name: (*name).into(),
                kind: KIND,
            };
            (event, *generation)
        };
        CpuCounters {
            cpu,
            counters: events.iter().map(counter).collect(),
            missing: "",
            bytes: 64,
        }
    }

    #[test]
    fn the_source_names_the_cpus_where_they_differ() {
        let (a, b) = ([("r", 0), ("w", 0)], [("m", 0)]);
        assert_eq!(describe(&[cpu(0, &a), cpu(1, &a)]), "r+w x 64 B");
        assert_eq!(
            describe(&[cpu(0, &a), cpu(1, &a), cpu(2, &b), cpu(4, &b)]),
            "r+w x 64 B on CPUs 0-1; m x 64 B on CPUs 2,4"
        );
    }

    #[test]
    fn only_dead_counters_are_opened_again() {
        // A counter is its generation; CPU 2 cannot be opened.
        let mut cpus = [
            cpu(0, &[("r", 1), ("w", 0)]),
            cpu(2, &[("r", 0)]),
            cpu(5, &[("r", 0), ("w", 1)]),
        ];
        let (replaced, error) = replace_where(
            &mut cpus,
            |generation| *generation == 0,
            |_, cpu| match cpu {
                2 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
                _ => Ok(2),
            },
        );
        assert_eq!(replaced, [(0, 1), (5, 0)]);
        let generations = |cpu: &CpuCounters<u32>| -> Vec<u32> {
            cpu.counters.iter().map(|(_, counter)| *counter).collect()
        };
        assert_eq!(
            cpus.iter().map(generations).collect::<Vec<_>>(),
            [vec![1, 2], vec![0], vec![2, 1]]
        );
        let (event, error) = error.unwrap();
        assert_eq!(
            (event.name.as_str(), error.raw_os_error()),
            ("r", Some(libc::ENODEV))
        );
    }

    #[test]
    fn an_error_says_what_is_missing() {
        let event: PerfEvent = "cache-misses".parse().unwrap();
        for (errno, text) in [
            (libc::ENOENT, "no PMU that counts cache-misses"),
            (libc::EACCES, "not permitted to count cache-misses"),
        ] {
            assert_eq!(explain(&event, &io::Error::from_raw_os_error(errno)), text);
        }
    }

    #[test]
    fn kernels_before_6_15_do_not_read_counters() {
        for (release, reads) in [
            ("6.12.107+deb13-cloud-amd64", false),
            ("6.14-rc7", false),
            ("5.19.0", false),
            ("6.15.0", true),
            ("6.16.12+deb13-cloud-amd64", true),
            ("7.0", true),
            ("unknown", true),
        ] {
            assert_eq!(bpf_reads_counters(release), reads, "{release}");
        }
    }

    #[test]
    fn paranoia_above_2_needs_sys_admin() {
        let root = tempfile::tempdir().unwrap();
        assert!(!needs_sys_admin(root.path()));
        let dir = root.path().join("proc/sys/kernel");
        fs::create_dir_all(&dir).unwrap();
        for (text, needs) in [
            ("3\n", true),
            ("4\n", true),
            ("2\n", false),
            ("-1\n", false),
        ] {
            fs::write(dir.join("perf_event_paranoid"), text).unwrap();
            assert_eq!(needs_sys_admin(root.path()), needs, "{text}");
        }
    }

    #[test]
    fn without_an_event_no_counter_is_opened() {
        let topology = Topology {
            online: vec![0],
            cpu_llc: vec![0],
            nr_llcs: 1,
            queues: crate::queues::Queues::single(1),
        };
        let source = TrafficSource {
            event: EventChoice::None,
            event_bytes: None,
        };
        let counters = TrafficCounters::open(&source, &topology, Path::new("/")).unwrap();
        assert!(counters.is_empty());
        assert_eq!(counters.per_cpu(), 0);
        assert_eq!(counters.fds().count(), 0);
        assert!(counters.degraded.is_none());
    }
}

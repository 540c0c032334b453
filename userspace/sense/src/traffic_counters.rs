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
use perf_event::{Builder, Counter, events::Event as Countable};
use perf_event_open_sys::bindings::{
    PERF_PMU_TYPE_SHIFT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};

use crate::{
    cpu_model::{CpuModel, cache_line_bytes},
    perf_event::{EventChoice, EventKind, PerfEvent, TrafficSource},
    sched_ext,
    topology::{Topology, parse_cpu_list},
};

/// PMUs of the two kinds of cores of a hybrid CPU.
const HYBRID_PMUS: [&str; 2] = ["cpu_core", "cpu_atom"];

/// The counters of memory traffic.
#[derive(Default)]
pub struct TrafficCounters {
    /// What the traffic statistics are from, or why there are none.
    pub source: String,
    /// The event is a software event that stands in for memory traffic.
    pub stand_in: bool,
    /// Bytes that one event stands for; 0 if there is no counter.
    pub event_bytes: u32,
    /// One line about what is missing, if something is.
    pub degraded: Option<String>,
    counters: Vec<(u32, Counter)>,
    /// What they count; none if there are none.
    event: Option<PerfEvent>,
}

impl TrafficCounters {
    /// Opens the event that `source` asks for on every CPU.
    ///
    /// # Errors
    /// An event that was asked for by name cannot be counted. The automatic
    /// choice never fails; it leaves memory traffic unmeasured and sets `degraded`.
    pub fn open(source: &TrafficSource, topology: &Topology, root: &Path) -> Result<Self> {
        let event = match &source.event {
            EventChoice::None => return Ok(Self::none("switched off (--perf-event none)", None)),
            EventChoice::Auto => CpuModel::read(root).traffic_event(),
            EventChoice::Event(event) => event.clone(),
        };
        let event_bytes = source.event_bytes.unwrap_or_else(|| cache_line_bytes(root));
        let opened = if bpf_reads_counters(&sched_ext::release(root)) {
            open_all(&event, &topology.online, root)
        } else {
            let reason = "BPF schedulers can read counters since kernel 6.15";
            Err(io::Error::new(ErrorKind::Unsupported, reason))
        };
        match opened {
            Ok(counters) => Ok(Self {
                source: format!("{} x {event_bytes} B", event.name),
                stand_in: event.is_stand_in(),
                event_bytes,
                degraded: None,
                counters,
                event: Some(event),
            }),
            Err(error) if source.event == EventChoice::Auto => Ok(Self::none(
                "no PMU",
                Some(format!(
                    "{}, so the memory traffic of CPUs is neither measured nor charged",
                    explain(&event, &error)
                )),
            )),
            Err(error) => bail!("{}", explain(&event, &error)),
        }
    }

    fn none(source: &str, degraded: Option<String>) -> Self {
        Self {
            source: source.into(),
            degraded,
            ..Self::default()
        }
    }

    /// Puts a new counter in the place of each one that the kernel has evicted from its PMU. An
    /// evicted counter never counts again. Returns the new ones like [`Self::fds`], and why a
    /// counter could not be opened.
    pub fn replace_dead(&mut self, root: &Path) -> (Vec<(u32, RawFd)>, Option<String>) {
        let Some(event) = &self.event else {
            return (Vec::new(), None);
        };
        let (replaced, error) = replace_where(
            &mut self.counters,
            |counter| matches!(counter.read(), Err(error) if error.kind() == ErrorKind::UnexpectedEof),
            |cpu| open_one(event, cpu, root),
        );
        let is_new = |cpu: &u32| replaced.contains(cpu);
        let fds = self.fds().filter(|(cpu, _)| is_new(cpu)).collect();
        (fds, error.map(|error| explain(event, &error)))
    }

    /// The (CPU, descriptor of its counter), valid as long as `self`.
    pub fn fds(&self) -> impl Iterator<Item = (u32, RawFd)> {
        self.counters
            .iter()
            .map(|(cpu, counter)| (*cpu, counter.as_raw_fd()))
    }
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

fn open_all(event: &PerfEvent, cpus: &[u32], root: &Path) -> io::Result<Vec<(u32, Counter)>> {
    cpus.iter()
        .map(|&cpu| Ok((cpu, open_one(event, cpu, root)?)))
        .collect()
}

/// Opens the counters anew that are dead. Returns their CPUs, and the last error.
fn replace_where<C>(
    counters: &mut [(u32, C)],
    mut is_dead: impl FnMut(&mut C) -> bool,
    mut open: impl FnMut(u32) -> io::Result<C>,
) -> (Vec<u32>, Option<io::Error>) {
    let (mut replaced, mut last) = (Vec::new(), None);
    for (cpu, counter) in counters {
        if !is_dead(counter) {
            continue;
        }
        match open(*cpu) {
            Ok(new) => {
                *counter = new;
                replaced.push(*cpu);
            }
            Err(error) => last = Some(error),
        }
    }
    (replaced, last)
}

/// A counter that is always active if the PMU has room for it. Otherwise it is
/// multiplexed with others, and the scheduler scales its count.
fn open_one(event: &PerfEvent, cpu: u32, root: &Path) -> io::Result<Counter> {
    let pmu = pmu_type(cpu, root);
    let open = |pinned| {
        let mut counter = Builder::new(Encoded {
            kind: event.kind,
            pmu,
        })
        .any_pid()
        .one_cpu(cpu as usize)
        .exclude_kernel(false)
        .exclude_hv(false)
        .pinned(pinned)
        .enabled(true)
        .build()?;
        // A pinned counter for which the PMU has no room reads as end of file.
        counter.read().map(|_| counter)
    };
    match open(true) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => open(false),
        other => other,
    }
}

/// The type number of the PMU of `cpu` on a hybrid machine.
fn pmu_type(cpu: u32, root: &Path) -> Option<u32> {
    let devices = root.join("sys/bus/event_source/devices");
    HYBRID_PMUS.iter().find_map(|pmu| {
        let cpus = fs::read_to_string(devices.join(pmu).join("cpus")).ok()?;
        let mine = parse_cpu_list(&cpus).ok()?.contains(&cpu);
        let number = fs::read_to_string(devices.join(pmu).join("type")).ok()?;
        mine.then(|| number.trim().parse().ok())?
    })
}

/// An event in the encoding of perf_event_open(2).
struct Encoded {
    kind: EventKind,
    pmu: Option<u32>,
}

impl Countable for Encoded {
    fn update_attrs(self, attr: &mut perf_event_attr) {
        let of_pmu = |config| config | u64::from(self.pmu.unwrap_or(0)) << PERF_PMU_TYPE_SHIFT;
        (attr.type_, attr.config) = match self.kind {
            EventKind::Hardware(config) => (PERF_TYPE_HARDWARE, of_pmu(config)),
            EventKind::Cache(config) => (PERF_TYPE_HW_CACHE, of_pmu(config)),
            EventKind::Raw(config) => (self.pmu.unwrap_or(PERF_TYPE_RAW), config),
            EventKind::Software(config) => (PERF_TYPE_SOFTWARE, config),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(kind: EventKind, pmu: Option<u32>) -> (u32, u64) {
        let mut attr = perf_event_attr::default();
        Encoded { kind, pmu }.update_attrs(&mut attr);
        (attr.type_, attr.config)
    }

    #[test]
    fn an_event_of_a_hybrid_cpu_names_its_pmu() {
        assert_eq!(
            encode(EventKind::Hardware(3), None),
            (PERF_TYPE_HARDWARE, 3)
        );
        assert_eq!(
            encode(EventKind::Hardware(3), Some(10)),
            (PERF_TYPE_HARDWARE, 10 << 32 | 3)
        );
        assert_eq!(
            encode(EventKind::Raw(0x4844), None),
            (PERF_TYPE_RAW, 0x4844)
        );
        assert_eq!(encode(EventKind::Raw(0x4844), Some(10)), (10, 0x4844));
        assert_eq!(
            encode(EventKind::Software(2), Some(10)),
            (PERF_TYPE_SOFTWARE, 2)
        );
    }

    #[test]
    fn each_cpu_of_a_hybrid_machine_has_its_pmu() {
        let root = tempfile::tempdir().unwrap();
        for (pmu, number, cpus) in [("cpu_core", "4\n", "0-3\n"), ("cpu_atom", "10\n", "4-5\n")] {
            let dir = root.path().join("sys/bus/event_source/devices").join(pmu);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("type"), number).unwrap();
            fs::write(dir.join("cpus"), cpus).unwrap();
        }
        assert_eq!(pmu_type(0, root.path()), Some(4));
        assert_eq!(pmu_type(5, root.path()), Some(10));
        assert_eq!(pmu_type(6, root.path()), None);
        assert_eq!(pmu_type(0, Path::new("/nonexistent")), None);
    }

    #[test]
    fn only_dead_counters_are_opened_again() {
        // A counter is its generation; CPU 2 cannot be opened.
        let mut counters = vec![(0, 1), (1, 0), (2, 0), (5, 0)];
        let (replaced, error) = replace_where(
            &mut counters,
            |generation| *generation == 0,
            |cpu| match cpu {
                2 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
                _ => Ok(2),
            },
        );
        assert_eq!(replaced, [1, 5]);
        assert_eq!(counters, [(0, 1), (1, 2), (2, 0), (5, 2)]);
        assert_eq!(error.unwrap().raw_os_error(), Some(libc::ENODEV));
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
        };
        let source = TrafficSource {
            event: EventChoice::None,
            event_bytes: None,
        };
        let counters = TrafficCounters::open(&source, &topology, Path::new("/")).unwrap();
        assert_eq!(counters.event_bytes, 0);
        assert_eq!(counters.fds().count(), 0);
        assert!(counters.degraded.is_none());
    }
}

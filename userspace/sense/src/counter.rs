// SPDX-License-Identifier: GPL-2.0-only
//! One counter of an event on one CPU.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use perf_event::{Builder, Counter, events::Event as Countable};
use perf_event_open_sys::bindings::{
    PERF_PMU_TYPE_SHIFT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};

use crate::{
    perf_event::{EventKind, PerfEvent},
    topology::parse_cpu_list,
};

/// PMUs of the kinds of cores of a hybrid CPU.
const HYBRID_PMUS: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// A counter that is always active if the PMU has room for it. Otherwise it is
/// multiplexed with others, and the scheduler scales its count. `pmu`: the type number of the
/// CPU's PMU on a hybrid machine.
pub fn open_one(event: &PerfEvent, cpu: u32, pmu: Option<u32>) -> io::Result<Counter> {
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

/// What a counter has counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCount {
    /// The event's name.
    pub event: String,
    /// Bytes that one event stands for.
    pub bytes: u32,
    /// Events.
    pub count: u64,
    /// How long it should have counted (ns).
    pub enabled_ns: u64,
    /// How long it did (ns). It is less where the PMU multiplexes it.
    pub running_ns: u64,
}

impl EventCount {
    /// Events since `before`, an earlier count of the same counter. A multiplexed counter is taken to
    /// have gone on alike while it did not count. None: it has not counted at all.
    pub fn since(&self, before: &Self) -> Option<u64> {
        let enabled_ns = self.enabled_ns.checked_sub(before.enabled_ns)?;
        let running_ns = self.running_ns.checked_sub(before.running_ns)?;
        let counted = self.count.checked_sub(before.count)?;
        if running_ns == enabled_ns {
            return Some(counted);
        }
        let scaled = u128::from(counted) * u128::from(enabled_ns);
        u64::try_from(scaled.checked_div(u128::from(running_ns))?).ok()
    }
}

/// The name and the type number of the PMU of `cpu` on a hybrid machine.
pub fn hybrid_pmu(cpu: u32, root: &Path) -> Option<(&'static str, u32)> {
    let devices = root.join("sys/bus/event_source/devices");
    HYBRID_PMUS.iter().find_map(|pmu| {
        let cpus = fs::read_to_string(devices.join(pmu).join("cpus")).ok()?;
        let mine = parse_cpu_list(&cpus).ok()?.contains(&cpu);
        let number = fs::read_to_string(devices.join(pmu).join("type")).ok()?;
        mine.then(|| Some((*pmu, number.trim().parse().ok()?)))?
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
            EventKind::Raw { config, .. } => (self.pmu.unwrap_or(PERF_TYPE_RAW), config),
            EventKind::Software(config) => (PERF_TYPE_SOFTWARE, config),
        };
        if let EventKind::Raw { config1, .. } = self.kind {
            attr.__bindgen_anon_3.config1 = config1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(config: u64, config1: u64) -> EventKind {
        EventKind::Raw { config, config1 }
    }

    fn encode(kind: EventKind, pmu: Option<u32>) -> (u32, u64) {
        let mut attr = perf_event_attr::default();
        Encoded { kind, pmu }.update_attrs(&mut attr);
        (attr.type_, attr.config)
    }

    #[test]
    fn a_multiplexed_count_is_scaled_to_the_time_that_it_was_enabled() {
        let reading = |(count, enabled_ns, running_ns)| EventCount {
            count,
            enabled_ns,
            running_ns,
            ..EventCount::default()
        };
        for (begin, end, moved) in [
            ((100, 1000, 1000), (150, 2000, 2000), Some(50)),
            ((100, 1000, 400), (145, 2000, 850), Some(100)),
            ((100, 1000, 400), (100, 2000, 400), None),
            ((100, 1000, 1000), (100, 1000, 1000), Some(0)),
            // It was opened anew.
            ((100, 1000, 1000), (50, 500, 500), None),
        ] {
            let found = reading(end).since(&reading(begin));
            assert_eq!(found, moved, "{begin:?} to {end:?}");
        }
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
        assert_eq!(encode(raw(0x4844, 0), None), (PERF_TYPE_RAW, 0x4844));
        assert_eq!(encode(raw(0x4844, 0), Some(10)), (10, 0x4844));
        assert_eq!(
            encode(EventKind::Software(2), Some(10)),
            (PERF_TYPE_SOFTWARE, 2)
        );
    }

    #[test]
    fn an_offcore_event_has_its_response_in_config1() {
        let mut attr = perf_event_attr::default();
        let kind = raw(0x01b7, 0x3f_bc00_07f7);
        Encoded { kind, pmu: None }.update_attrs(&mut attr);
        // SAFETY: every bit pattern of this union is a number.
        assert_eq!(unsafe { attr.__bindgen_anon_3.config1 }, 0x3f_bc00_07f7);
    }

    #[test]
    fn each_cpu_of_a_hybrid_machine_has_its_pmu() {
        let root = tempfile::tempdir().unwrap();
        for (pmu, number, cpus) in [
            ("cpu_core", "4\n", "0-3\n"),
            ("cpu_atom", "10\n", "4-5\n"),
            ("cpu_lowpower", "11\n", "6-7\n"),
        ] {
            let dir = root.path().join("sys/bus/event_source/devices").join(pmu);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("type"), number).unwrap();
            fs::write(dir.join("cpus"), cpus).unwrap();
        }
        assert_eq!(hybrid_pmu(0, root.path()), Some(("cpu_core", 4)));
        assert_eq!(hybrid_pmu(5, root.path()), Some(("cpu_atom", 10)));
        assert_eq!(hybrid_pmu(6, root.path()), Some(("cpu_lowpower", 11)));
        assert_eq!(hybrid_pmu(8, root.path()), None);
        assert_eq!(hybrid_pmu(0, Path::new("/nonexistent")), None);
    }
}

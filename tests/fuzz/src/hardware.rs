// SPDX-License-Identifier: GPL-2.0-only
//! What the machine tells of itself: CPU model, PMU events, memory modules, lists of CPUs.

use std::fs;

use drfq_sense::{
    cpu_model::{CpuModel, cache_line_bytes},
    dmi::DmiMemory,
    perf_event::{EventChoice, PerfEvent},
    topology::{cpu_list, parse_cpu_list},
    traffic_events::candidates,
};

use crate::temporary;

/// No text of the machine makes a reader panic. The events of any model can be opened, and a
/// list of CPUs that is taken is written as it was meant.
pub fn check(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    match kind % 4 {
        0 => model(data),
        1 => memory(data),
        2 => cpus(&text),
        _ => events(&text),
    }
}

fn model(data: &[u8]) {
    let root = temporary::directory();
    temporary::write(&root, "proc/cpuinfo", data);
    let cpu = CpuModel::read(root.path());
    for pmu in ["", "cpu_core", "cpu_atom"] {
        let found = candidates(&cpu, pmu);
        assert!(!found.is_empty());
        for events in found {
            assert!((1..=2).contains(&events.events.len()), "{cpu:?}");
            assert!(!events.source.is_empty(), "{cpu:?}");
        }
    }
}

fn memory(data: &[u8]) {
    let root = temporary::directory();
    temporary::write(&root, "sys/firmware/dmi/tables/DMI", data);
    if let Ok(memory) = DmiMemory::read(root.path()) {
        assert!(!memory.text.is_empty() && !memory.text.contains('\n'));
    }
    temporary::write(
        &root,
        "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size",
        data,
    );
    assert!(cache_line_bytes(root.path()) > 0);
    let _ = fs::remove_dir_all(root.path());
}

fn cpus(text: &str) {
    if let Ok(cpus) = parse_cpu_list(text) {
        let written = cpu_list(cpus.iter().copied());
        let mut expected = cpus;
        expected.sort_unstable();
        expected.dedup();
        let mut again = parse_cpu_list(&written).expect("our own list");
        again.sort_unstable();
        again.dedup();
        assert_eq!(again, expected, "{text:?} became {written:?}");
    }
}

fn events(text: &str) {
    if let Ok(event) = text.parse::<PerfEvent>() {
        let _ = (event.is_stand_in(), event.may_never_occur());
    }
    if let Ok(choice) = text.parse::<EventChoice>() {
        let again: EventChoice = choice.to_string().parse().expect("our own text");
        assert_eq!(again.to_string(), choice.to_string());
    }
}

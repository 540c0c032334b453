// SPDX-License-Identifier: GPL-2.0-only
//! What `scx_drfq doctor` says about resctrl on machines that are directories.
#![cfg(target_arch = "x86_64")]

use std::fs;

use drfq_resctrl::{
    detection::{Detection, State},
    info::{AssignMode, ThrottleMode, Unit},
    reading::Event,
    schemata::Resource,
};

/// A machine of these files (path and content, below `/`).
fn machine(files: &[(&str, &str)]) -> Detection {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Detection::new(root.path())
}

const MOUNTS: (&str, &str) = (
    "proc/mounts",
    "resctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n",
);
const KNOWN: (&str, &str) = ("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n");
const MB: (&str, &str) = ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n");
const FEATURES: &str = "sys/fs/resctrl/info/L3_MON/mon_features";
const MBM: (&str, &str) = (FEATURES, "llc_occupancy\nmbm_total_bytes\n");
const OCCUPANCY: (&str, &str) = (FEATURES, "llc_occupancy\n");

fn cpu(vendor: &str, model: u32, stepping: u32, flags: &str) -> (&'static str, String) {
    let text = format!(
        "vendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: {model}\nstepping\t: {stepping}\n\
         flags\t\t: fpu {flags}\n"
    );
    ("proc/cpuinfo", text)
}

const ALL: &str = "rdt_a cqm_mbm_total cqm_mbm_local mba";

#[test]
fn a_missing_cpu_feature_kernel_option_or_mount_is_told_apart() {
    let (name, xeon) = cpu("GenuineIntel", 0x6a, 6, ALL);
    let xeon = (name, xeon.as_str());
    let task = |text| ("proc/self/cpu_resctrl_groups", text);
    for (files, state, words) in [
        (vec![], State::NotInCpu, "neither Intel RDT"),
        (vec![KNOWN], State::NotInCpu, "neither Intel RDT"),
        (vec![xeon], State::NotInKernel, "CONFIG_X86_CPU_RESCTRL"),
        (vec![xeon, KNOWN], State::NotMounted, "mount -t resctrl"),
        (
            vec![xeon, KNOWN, task("res:\nmon:\n")],
            State::NotMounted,
            "mount -t resctrl",
        ),
        (
            vec![xeon, KNOWN, task("res:/\nmon:\n")],
            State::MountedElsewhere,
            "namespace",
        ),
    ] {
        let found = machine(&files);
        let text = found.missing().unwrap();
        assert_eq!(found.state, state, "{text}");
        assert!(text.contains(words), "{text}");
        assert_eq!((found.missing_mbm(), found.missing_mba()), (None, None));
    }
    let (name, guest) = cpu("GenuineIntel", 0x6a, 6, "hypervisor");
    let found = machine(&[(name, &guest), KNOWN]);
    assert!(found.missing().unwrap().contains("virtual machine"));
}

#[test]
fn a_complete_machine_misses_nothing() {
    let (name, xeon) = cpu("GenuineIntel", 0x55, 7, ALL);
    let found = machine(&[(name, &xeon), MOUNTS, MBM, MB]);
    let missing = [
        found.missing(),
        found.missing_mbm(),
        found.missing_mba(),
        found.caveat(),
    ];
    assert_eq!(missing, [const { None }; 4]);
}

#[test]
fn the_reason_for_missing_monitoring_is_named() {
    let cases = [
        (
            0x55,
            4,
            ALL,
            "",
            "stepping 4; boot with rdt=cmt,mbmtotal,mbmlocal",
        ),
        (
            0x55,
            7,
            ALL,
            "ro rdt=!mbmtotal,!mbmlocal quiet",
            "rdt=!mbmtotal; boot without",
        ),
        (0x55, 7, "rdt_a mba", "", "no flag cqm_mbm_total"),
        (
            0x55,
            7,
            "rdt_a hypervisor",
            "",
            "virtual machine does not show",
        ),
        (0x55, 4, ALL, "rdt=cmt,mbmtotal", "dmesg"),
        (0x6a, 4, ALL, "", "dmesg"),
    ];
    for (model, stepping, flags, options, words) in cases {
        let (name, text) = cpu("GenuineIntel", model, stepping, flags);
        let found = machine(&[
            (name, &text),
            MOUNTS,
            OCCUPANCY,
            MB,
            ("proc/cmdline", options),
        ]);
        let reason = found.missing_mbm().unwrap();
        assert!(reason.contains(words), "{reason}");
        assert_eq!(found.missing_mba(), None);
    }
}

#[test]
fn a_kernel_whose_features_are_all_switched_off_names_the_option() {
    let (name, xeon) = cpu("GenuineIntel", 0x6a, 6, ALL);
    let off = ("proc/cmdline", "rdt=!cmt,!mbmtotal,!mbmlocal,!l3cat,!mba\n");
    let found = machine(&[(name, &xeon), off]);
    assert_eq!(found.state, State::NotInKernel);
    assert!(found.missing().unwrap().contains("rdt=!cmt"));
}

#[test]
fn the_reason_for_missing_throttling_is_named() {
    for (flags, options, words) in [
        ("rdt_a cqm_mbm_total", "", "no flag mba"),
        (ALL, "rdt=!mba", "rdt=!mba; boot without"),
        (ALL, "", "dmesg"),
    ] {
        let (name, text) = cpu("GenuineIntel", 0x6a, 6, flags);
        let found = machine(&[(name, &text), MOUNTS, MBM, ("proc/cmdline", options)]);
        let reason = found.missing_mba().unwrap();
        assert!(reason.contains(words), "{reason}");
        assert_eq!(found.missing_mbm(), None);
    }
}

#[test]
fn before_a_mount_cpu_and_options_tell_whether_there_is_throttling() {
    for (flags, options, words) in [
        (ALL, "", None),
        ("rdt_a cqm_mbm_total", "", Some("no flag mba")),
        (ALL, "rdt=!mba", Some("rdt=!mba; boot without")),
    ] {
        let (name, text) = cpu("AuthenticAMD", 1, 1, flags);
        let found = machine(&[(name, &text), KNOWN, ("proc/cmdline", options)]);
        assert_eq!(found.state, State::NotMounted);
        let reason = found.cannot_throttle();
        assert_eq!(reason.is_some(), words.is_some(), "{reason:?}");
        let reason = reason.unwrap_or_default();
        assert!(reason.contains(words.unwrap_or_default()), "{reason}");
    }
}

#[test]
fn assignable_counters_of_amd_are_named_with_their_mode() {
    let (name, epyc) = cpu("AuthenticAMD", 1, 1, ALL);
    let mode = |text| ("sys/fs/resctrl/info/L3_MON/mbm_assign_mode", text);
    let counters = ("sys/fs/resctrl/info/L3_MON/num_mbm_cntrs", "0=32;1=31\n");
    for (text, assigned, words) in [
        (
            "[mbm_event]\ndefault\n",
            AssignMode::MbmEvent,
            "31 counters",
        ),
        (
            "mbm_event\n[default]\n",
            AssignMode::Default,
            "echo mbm_event",
        ),
        ("[new]\n", AssignMode::Other("new".into()), "does not know"),
    ] {
        let found = machine(&[(name, &epyc), MOUNTS, MBM, MB, mode(text), counters]);
        let caveat = found.caveat().unwrap();
        assert!(caveat.contains(words), "{caveat}");
        let monitoring = found.info().unwrap().monitoring.clone().unwrap();
        let assignable = monitoring.assignable.unwrap();
        assert_eq!(assignable.mode, assigned);
        assert_eq!(assignable.counters, [(0, 32), (1, 31)].into());
    }
}

#[test]
fn the_unit_and_range_follow_from_vendor_and_mount() {
    let schemata = |text| ("sys/fs/resctrl/schemata", text);
    let intel = "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n";
    let amd = "  SMBA:0=2048\n    MB:0=2048;1=  16\n";
    let min = |text| ("sys/fs/resctrl/info/MB/min_bandwidth", text);
    let gran = |text| ("sys/fs/resctrl/info/MB/bandwidth_gran", text);
    let by_kernel = ("sys/fs/resctrl/mba_MBps_event", "mbm_local_bytes\n");
    let cases = [
        (
            "GenuineIntel",
            vec![schemata(intel), min("10"), gran("10")],
            Unit::Percent,
            100,
            10,
        ),
        (
            "AuthenticAMD",
            vec![schemata(amd), min("0"), gran("1")],
            Unit::EighthGbPerS,
            2048,
            0,
        ),
        (
            "HygonGenuine",
            vec![schemata(amd), min("0"), gran("1")],
            Unit::EighthGbPerS,
            2048,
            0,
        ),
        (
            "GenuineIntel",
            vec![schemata(intel), min("10"), by_kernel],
            Unit::MibPerS,
            u32::MAX,
            10,
        ),
    ];
    for (vendor, mut files, unit, max, min) in cases {
        let (name, text) = cpu(vendor, 1, 1, ALL);
        files.extend([(name, text.as_str()), MOUNTS]);
        let found = machine(&files);
        let bandwidth = found.info().unwrap().bandwidth.clone().unwrap();
        assert_eq!(
            (bandwidth.unit, bandwidth.max, bandwidth.min),
            (unit, max, min)
        );
        assert_eq!(bandwidth.domains, [0, 1]);
        let steps: Vec<_> = bandwidth.steps().take(20).collect();
        match unit {
            Unit::Percent => assert_eq!(steps, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
            Unit::EighthGbPerS => assert_eq!(steps[..3], [0, 1, 2]),
            Unit::MibPerS => assert_eq!(steps.len(), 20),
        }
    }
}

/// A machine with CDP, with a Sub-NUMA cluster in one domain, and with directories of
/// other kernels.
const DIVIDED: [(&str, &str); 16] = [
    (
        "sys/fs/resctrl/schemata",
        "MB:0=100;2=100\nL3CODE:0=fff;2=fff\nL3DATA:0=fff;2=fff\n",
    ),
    (
        FEATURES,
        "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n",
    ),
    MOUNTS,
    (
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\nflags\t\t: rdt_a cqm_mbm_total mba\n",
    ),
    ("sys/fs/resctrl/info/L3_MON/num_rmids", "256\n"),
    ("sys/fs/resctrl/info/MB/num_closids", "15\n"),
    (
        "sys/fs/resctrl/info/MB/thread_throttle_mode",
        "per-thread\n",
    ),
    ("sys/fs/resctrl/info/L2/num_closids", "16\n"),
    ("sys/fs/resctrl/info/L3CODE/num_closids", "8\n"),
    ("sys/fs/resctrl/info/L3CODE/cbm_mask", "fff\n"),
    ("sys/fs/resctrl/mon_data/mon_L3_00/mon_sub_L3_00/x", ""),
    ("sys/fs/resctrl/mon_data/mon_L3_02/x", ""),
    ("sys/fs/resctrl/mon_data/mon_MB_00/x", ""),
    (
        "sys/fs/resctrl/mon_data/mon_PERF_PKG_00/core_energy",
        "5.5\n",
    ),
    ("sys/fs/resctrl/mon_data/mon_L3_+7/x", ""),
    ("sys/fs/resctrl/theirs/x", ""),
];

#[test]
fn all_files_of_the_info_directory_are_read() {
    let found = machine(&DIVIDED);
    let info = found.info().unwrap();
    assert_eq!(info.num_closids, 8, "the smallest of all resources");
    assert!(info.moves_keep_counters && info.monitors_bandwidth());
    let bandwidth = info.bandwidth.as_ref().unwrap();
    assert_eq!(bandwidth.thread_throttle_mode, ThrottleMode::PerThread);
    assert_eq!(bandwidth.domains, [0, 2]);
    let names: Vec<_> = info.caches.iter().map(|cache| cache.resource).collect();
    assert_eq!(names, [Resource::L3Code, Resource::L2]);
    assert_eq!(info.caches[0].cbm_mask, 0xfff);
    let monitoring = info.monitoring.as_ref().unwrap();
    assert_eq!(monitoring.events, Event::ALL);
    assert_eq!(monitoring.num_rmids, 256);
    assert_eq!(monitoring.domains, [0, 2]);
    assert_eq!(monitoring.assignable, None);
}

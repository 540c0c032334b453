// SPDX-License-Identifier: GPL-2.0-only
//! A machine with a noisy neighbour, for tests and for the pictures of the documentation.
//! The counts are invented; the statistics are computed from them as the agent does.

use std::sync::Arc;

use drfq_stats::{
    controller_report::Controller,
    events::EVENTS,
    interval::{WEIGHT_ONE, tasks},
    mba_report::{Mba, MbaGroup},
    sample::{CpuSample, Facts, Sample, TaskSample, TaskState},
};

use crate::snapshot::{Cgroup, CpuTime, Process, Snapshot};

const SECOND_NS: u64 = 1_000_000_000;
/// 2026-03-02 03:12:00 UTC.
const BEGIN_UNIX_NS: u64 = 1_772_421_120 * SECOND_NS;
const DOCKER: &str = "/docker/4f1d6c0b9a7e835219cc04d7be6f31a85d20e7f9b3486a1c5d9e0f7283b46c1a";

/// What a task does.
struct Load {
    pid: u32,
    tgid: u32,
    comm: &'static str,
    user: &'static str,
    cgroup: &'static str,
    weight: f64,
    state: TaskState,
    /// Parts of a second that it runs and waits, and its traffic by CPU and DMA (GB/s).
    rates: [f64; 4],
}

macro_rules! loads {
    ($($pid:literal $tgid:literal $comm:literal $user:literal $cgroup:ident $weight:literal
       $state:ident $cpu:literal $wait:literal $gbps:literal $dma:literal;)+) => {
        const LOADS: &[Load] = &[$(Load {
            pid: $pid,
            tgid: $tgid,
            comm: $comm,
            user: $user,
            cgroup: $cgroup,
            weight: $weight,
            state: TaskState::$state,
            rates: [$cpu, $wait, $gbps, $dma],
        }),+];
    };
}

const WEB: &str = "/system.slice/web.service";
const DB: &str = "/system.slice/postgresql.service";
const SHELL: &str = "/user.slice/user-1000.slice/session-3.scope";
const KERNEL: &str = "/";

// Thread, process, name, user, cgroup, weight, state; CPU, wait, GB/s by CPU and by DMA.
loads! {
    901 901 "analytics" "spark" DOCKER 0.25 Running 0.86 0.14 7.9 0.0;
    902 901 "analytics" "spark" DOCKER 0.25 Running 0.85 0.15 7.8 0.0;
    903 901 "analytics" "spark" DOCKER 0.25 Queued 0.86 0.14 7.9 0.0;
    904 901 "analytics" "spark" DOCKER 0.25 Running 0.84 0.16 7.7 0.0;
    310 310 "nginx" "www-data" WEB 2.0 Blocked 0.21 0.02 0.3 0.1;
    311 311 "nginx" "www-data" WEB 2.0 Running 0.24 0.02 0.3 0.1;
    420 420 "postgres" "postgres" DB 1.0 Held 0.35 0.05 1.2 2.1;
    421 421 "postgres" "postgres" DB 1.0 Blocked 0.12 0.02 0.4 0.3;
    1501 1501 "cc1plus" "ada" SHELL 1.0 Running 0.71 0.29 0.5 0.0;
    1502 1502 "cc1plus" "ada" SHELL 1.0 Queued 0.70 0.30 0.5 0.0;
    1503 1503 "cc1plus" "ada" SHELL 1.0 Running 0.72 0.28 0.4 0.0;
    1504 1504 "cc1plus" "ada" SHELL 1.0 Running 0.70 0.30 0.5 0.0;
    1510 1510 "make" "ada" SHELL 1.0 Blocked 0.01 0.0 0.0 0.0;
    17 17 "ksoftirqd/1" "root" KERNEL 1.0 Blocked 0.02 0.0 0.0 0.0;
    2 2 "kthreadd" "root" KERNEL 1.0 Blocked 0.0 0.0 0.0 0.0;
}

fn is_kernels(load: &Load) -> bool {
    load.cgroup == KERNEL
}

fn task(load: &Load, at_ns: u64) -> TaskSample {
    let Load {
        pid,
        tgid,
        comm,
        weight,
        state,
        rates: [cpu, wait, gbps, dma],
        ..
    } = *load;
    // A slow wave, so that histories have a shape.
    let phase = at_ns as f64 / 9e9 + f64::from(pid);
    let wave = 0.06e9 * phase.sin();
    let ns = |part: f64| (part * (at_ns as f64 + wave)).max(0.0) as u64;
    let total = |gb_per_s: f64| (gb_per_s * (at_ns as f64 + 3.0 * wave)).max(0.0) as u64;
    let held = if state == TaskState::Held { 0.4 } else { 0.0 };
    TaskSample {
        pid,
        tgid,
        comm: comm.into(),
        weight: (weight * f64::from(WEIGHT_ONE)) as u32,
        state,
        kthread: is_kernels(load),
        cpu_ns: ns(cpu),
        charged_ns: ns(cpu),
        wait_ns: (wait * at_ns as f64) as u64,
        bytes: total(gbps + dma),
        dma_bytes: total(dma),
        cpu_vt_ns: at_ns / 2 + u64::from(pid % 7) * 900_000,
        mem_vt_ns: at_ns / 2,
        held_ns: (held * at_ns as f64) as u64,
        max_held_ns: (held * 30e6) as u64,
        runs: (wait * at_ns as f64 / 3e6) as u64,
        ..TaskSample::default()
    }
}

fn sample(at_ns: u64) -> Sample {
    let cpu = |cpu: u32| CpuSample {
        cpu,
        llc: cpu / 4,
        pid: [901, 311, 1501, 902, 1503, 904, 1504, 0][cpu as usize],
        vtime_ns: at_ns / 2 + u64::from(cpu) * 300_000,
        switches: at_ns / SECOND_NS * (180 + 40 * u64::from(cpu)),
        steals: u64::from(cpu),
    };
    let count = |event: u64| event * at_ns / SECOND_NS;
    Sample {
        at_ns,
        vtime_ns: at_ns / 2,
        busy_cpus: 7,
        events: (0..EVENTS.len() as u64).map(count).collect(),
        cpus: (0..8).map(cpu).collect(),
        tasks: LOADS.iter().map(|load| task(load, at_ns)).collect(),
        mba: mba(),
        ..Sample::default()
    }
}

fn mba() -> Mba {
    let group = |name: &str, weight, gbps: f64, dominant_pct, level_pct, tasks| MbaGroup {
        name: name.into(),
        weight,
        bytes_per_s: gbps * 1e9,
        bytes: (gbps * 60e9) as u64,
        dominant_pct,
        level_pct,
        tasks,
    };
    Mba {
        state: "on".into(),
        domains: 2,
        saturated: 1,
        acting: 1,
        bytes_per_s: 39.8e9,
        capacity_bytes_per_s: 40e9,
        runnable: 8.6,
        groups: vec![
            group(DOCKER, 0.33, 31.3, 78.3, 40.0, 4),
            group(
                "/system.slice/postgresql.service",
                0.17,
                4.0,
                10.0,
                100.0,
                2,
            ),
            group(SHELL, 0.17, 1.9, 35.4, 100.0, 5),
            group(WEB, 0.33, 0.8, 5.6, 100.0, 2),
        ],
        periods: 600,
        writes: 41,
        moves: 7,
        ..Mba::default()
    }
}

fn facts() -> Facts {
    Facts {
        run_id: 0,
        loaded_at_ns: 0,
        nr_cpus: 8,
        mem_bytes_per_s: Some(40_000_000_000),
        mem_source: "LONGEST_LAT_CACHE.MISS x 64 B".into(),
        mem_stand_in: false,
        mem_measured: true,
        thesis_weights: false,
    }
}

/// The machine in its `second`th second.
pub fn snapshot(second: u64) -> Snapshot {
    let at_ns = (second + 60) * SECOND_NS;
    let report = tasks(
        &facts(),
        &sample(at_ns - SECOND_NS),
        &sample(at_ns),
        usize::MAX,
    );
    let mut snapshot = Snapshot {
        at_unix_ns: BEGIN_UNIX_NS + second * SECOND_NS,
        report,
        ..Snapshot::default()
    };
    for load in LOADS.iter().filter(|load| !is_kernels(load)) {
        let process = Process {
            name: load.comm.into(),
            user: load.user.into(),
            cgroup: load.cgroup.into(),
        };
        snapshot.processes.insert(load.tgid, Arc::new(process));
    }
    for (path, weight) in [
        ("/docker", Some(100)),
        (DOCKER, Some(100)),
        ("/system.slice", Some(100)),
        (WEB, Some(200)),
        (DB, Some(100)),
        ("/user.slice", Some(100)),
        ("/user.slice/user-1000.slice", None),
        (SHELL, None),
    ] {
        let cgroup = Cgroup { cpu_weight: weight };
        snapshot.cgroups.insert(path.into(), cgroup);
    }
    let wave = (second as f64 / 9.0).sin();
    let cpu = |cpu: u32| CpuTime {
        cpu,
        busy_pct: if cpu == 7 { 31.0 } else { 97.0 - 2.0 * wave },
        irq_pct: if cpu == 1 { 3.0 } else { 0.4 },
    };
    snapshot.cpus = (0..8).map(cpu).collect();
    snapshot
}

/// A container takes most of the memory bandwidth, and a service waits for it.
pub fn noisy() -> Snapshot {
    snapshot(40)
}

/// The same machine with a controller.
pub fn with_controller() -> Snapshot {
    let mut snapshot = noisy();
    snapshot.report.system.controller = Controller {
        state: "mmio:/sys/bus/pci/devices/0000:00:04.0/resource0 connected".into(),
        connected: 1,
        bytes_per_s: 38.2e9,
        bytes: 2_300_000_000_000,
        shared_bytes: 11_000_000_000,
        unattributed_bytes: 23_000_000_000,
        ids: 14,
        time_ps: 60_000_000_000_000,
        polls: 60_000,
        copy_interval_ns: 1e6,
        writes: 812_000,
        cpu_ns: 410_000_000,
        ..Controller::default()
    };
    for task in &mut snapshot.report.tasks {
        task.controller_bytes_per_s = task.mem_bytes_per_s * 0.97;
    }
    snapshot
}

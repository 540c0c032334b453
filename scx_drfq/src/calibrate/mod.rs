// SPDX-License-Identifier: GPL-2.0-only
//! Measures the memory of this machine: bandwidth, latency, and what each level of the throttle
//! (MBA) leaves. It needs a machine that is idle otherwise. It stores the result for the scheduler.

mod throttle;

use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use drfq_sense::{root, sched_ext, topology::Topology};
use drfq_version::VERSION;

use self::throttle::Throttle;
use crate::{
    bandwidth::format_bytes_per_s,
    calibration::{Calibration, DomainMeasured, LevelMeasured, Store, machine},
    loads::{self, Moved, Op},
    local_time, preflight,
};

/// The loads of all CPUs touch so many times the size of their cache.
const CACHES: usize = 4;

/// Each thread touches at least so much (bytes).
pub const LEAST: usize = 4 << 20;

/// Below this part of the time on their CPUs, the loads were disturbed.
const UNDISTURBED: f64 = 0.9;

/// Measures for some `seconds`, prints what it finds, and stores it unless `dry`.
///
/// # Errors
/// scx_drfq runs, a load cannot run, or the result cannot be stored.
pub fn run(seconds: f64, dry: bool, out: &mut impl Write) -> Result<()> {
    let root = root();
    preflight::check_stopped(&root, "calibrate")?;
    let store = Store::new(&root);
    if !dry {
        store
            .writable()
            .context("cannot store a calibration (run it with sudo)")?;
    }
    let calibration = measure(seconds, &root, out)?;
    let m = format_bytes_per_s(calibration.bytes_per_s as f64);
    if dry {
        writeln!(out, "m = {m}; not stored")?;
        return Ok(());
    }
    store
        .write(&calibration)
        .context("cannot store the calibration")?;
    writeln!(
        out,
        "m = {m}; stored in {}, for the next start of scx_drfq",
        store.path().display()
    )?;
    Ok(())
}

/// Measures for some `seconds`, and prints what it finds.
///
/// # Errors
/// A load cannot run.
pub fn measure(seconds: f64, root: &Path, out: &mut impl Write) -> Result<Calibration> {
    let topology = Topology::read(root)?;
    let throttle = Throttle::open(root);
    let levels = throttle
        .as_ref()
        .map_or(0, |throttle| throttle.levels().len());
    let phases = 4 * topology.nr_llcs as usize + levels;
    let time = Duration::from_secs_f64(seconds / phases as f64);
    writeln!(
        out,
        "measures the memory for {seconds:.0} s with all CPUs; other programs are slow meanwhile"
    )?;
    let mut domains = Vec::new();
    for llc in 0..topology.nr_llcs {
        domains.push(domain(llc, &topology, root, time, out)?);
    }
    match throttle {
        Ok(throttle) => {
            let measured = curve(&throttle, &topology, root, time, out)?;
            domains
                .iter_mut()
                .for_each(|domain| domain.levels.clone_from(&measured));
        }
        Err(reason) => writeln!(out, "throttling is not measured: {reason}")?,
    }
    let best = |domain: &DomainMeasured| {
        let rates = [
            domain.read_bytes_per_s,
            domain.write_bytes_per_s,
            domain.copy_bytes_per_s,
        ];
        rates.into_iter().max().unwrap_or(0)
    };
    Ok(Calibration {
        machine: machine(root),
        kernel: sched_ext::release(root),
        version: VERSION.into(),
        date: local_time::today(),
        bytes_per_s: domains.iter().map(best).sum(),
        domains,
    })
}

/// Measures bandwidth and latency of one last-level cache's CPUs.
fn domain(
    llc: u32,
    topology: &Topology,
    root: &Path,
    time: Duration,
    out: &mut impl Write,
) -> Result<DomainMeasured> {
    let of_llc = |cpu: &&u32| topology.cpu_llc[**cpu as usize] == llc;
    let cpus: Vec<u32> = topology.online.iter().filter(of_llc).copied().collect();
    ensure!(!cpus.is_empty(), "cache {llc} has no CPU that is online");
    let bytes = (beyond_cache(cpus[0], root) / cpus.len()).max(LEAST);
    let mut measure = |op: Op, name: &str| -> Result<u64> {
        let moved = loads::run(op, &cpus, bytes, time, || Ok(()))
            .with_context(|| format!("cannot measure {name}"))?;
        let rate = format_bytes_per_s(moved.bytes_per_s);
        writeln!(out, "domain {llc}: {name} {rate}{}", disturbed(moved))?;
        Ok(moved.bytes_per_s as u64)
    };
    let read_bytes_per_s = measure(Op::Read, "readers")?;
    let write_bytes_per_s = measure(Op::Write, "writers, with their fetches,")?;
    let copy_bytes_per_s = measure(Op::Copy, "copiers, with their fetches,")?;
    let whole = beyond_cache(cpus[0], root);
    let latency_ns = loads::latency_ns(cpus[0], whole, time).context("cannot measure latency")?;
    writeln!(
        out,
        "domain {llc}: a read of idle memory {latency_ns:.0} ns"
    )?;
    Ok(DomainMeasured {
        domain: llc,
        read_bytes_per_s,
        write_bytes_per_s,
        copy_bytes_per_s,
        latency_ns,
        counted_by: "the loads".into(),
        levels: Vec::new(),
    })
}

/// Measures what each level of the throttle leaves of one copier.
fn curve(
    throttle: &Throttle,
    topology: &Topology,
    root: &Path,
    time: Duration,
    out: &mut impl Write,
) -> Result<Vec<LevelMeasured>> {
    let cpu = topology.online[0];
    let bytes = beyond_cache(cpu, root);
    let measure = |setting: u32| -> Result<f64> {
        throttle.set(setting)?;
        let moved = loads::run(Op::Copy, &[cpu], bytes, time, || throttle.join());
        Ok(moved
            .context("cannot measure a throttled copier")?
            .bytes_per_s)
    };
    let mut levels = throttle.levels();
    let Some(open) = levels.pop() else {
        return Ok(Vec::new());
    };
    let full = measure(open)?;
    let mut found = Vec::new();
    for setting in levels {
        let fraction = measure(setting)? / full;
        writeln!(
            out,
            "throttle at {setting}: a copier keeps {:.1} %",
            100.0 * fraction
        )?;
        found.push(LevelMeasured { setting, fraction });
    }
    Ok(found)
}

fn disturbed(moved: Moved) -> String {
    match moved.on_cpu < UNDISTURBED {
        true => format!(
            " (disturbed: the loads had their CPUs for {:.0} % of the time)",
            100.0 * moved.on_cpu
        ),
        false => String::new(),
    }
}

/// Memory that does not stay in the caches of a CPU (bytes).
pub fn beyond_cache(cpu: u32, root: &Path) -> usize {
    (CACHES * cache_bytes(cpu, root)).max(LEAST)
}

/// Size of the last cache of a CPU (bytes); 32 MiB if it is not known.
fn cache_bytes(cpu: u32, root: &Path) -> usize {
    let dir = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    let size = |index: u32| -> Option<usize> {
        let text = fs::read_to_string(dir.join(format!("index{index}/size"))).ok()?;
        Some(text.trim().strip_suffix('K')?.parse::<usize>().ok()? << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
}

/// Runs with a line for each phase on standard output.
///
/// # Errors
/// As [`run`].
pub fn command(seconds: f64, dry: bool) -> Result<()> {
    run(seconds, dry, &mut io::stdout())
}

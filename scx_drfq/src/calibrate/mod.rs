// SPDX-License-Identifier: GPL-2.0-only
//! Measures the memory of this machine: bandwidth, latency, and what each level of the throttle
//! (MBA) leaves. It needs a machine that is idle otherwise. It stores the result for the scheduler.

pub mod memory;
mod phases;
mod throttle;

use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use drfq_resctrl::task::TaskGroups;
use drfq_sense::{root, sched_ext, topology::Topology};
use drfq_version::VERSION;

use self::{
    memory::{beyond_cache, shortage, threads},
    phases::{Phases, UNDISTURBED, disturbed, kept},
    throttle::Throttle,
};
use crate::{
    bandwidth::format_bytes_per_s,
    calibration::{Calibration, DomainMeasured, LevelMeasured, Store, machine},
    cli,
    loads::{self, Moved, Op},
    local_time, preflight,
};

/// What is measured of a domain, and of all domains together.
const OPS: [(Op, &str); 3] = [
    (Op::Read, "readers"),
    (Op::Write, "writers, with their fetches,"),
    (Op::Copy, "copiers, with their fetches,"),
];

/// What was measured.
pub struct Measured {
    /// What the scheduler needs of it.
    pub calibration: Calibration,
    /// Why it may tell of caches rather than of the memory; none: it does not.
    pub shortage: Option<String>,
    /// The part of the time that the loads had their CPUs, in the phase in which they had the least.
    on_cpu: f64,
}

impl Measured {
    /// How far other programs took the CPUs; none if they hardly did.
    pub fn disturbance(&self) -> Option<String> {
        (self.on_cpu < UNDISTURBED).then(|| {
            format!(
                "in a phase, even when it was repeated, the loads had their CPUs for {:.0} % of the \
                 time",
                100.0 * self.on_cpu
            )
        })
    }
}

/// Measures, prints what it finds, and stores it unless the user wants none of it.
///
/// # Errors
/// scx_drfq runs, a load cannot run, other programs ran, or the result cannot be stored.
pub fn run(options: &cli::Calibrate, out: &mut impl Write) -> Result<()> {
    let root = root();
    preflight::check_stopped(&root, "calibrate")?;
    let store = Store::new(&root);
    if !options.dry_run {
        store.writable().map_err(not_writable)?;
    }
    let (topology, left_out) = reachable(Topology::read(&root)?, loads::may_use, out)?;
    let measured = measure(f64::from(options.seconds), &topology, &root, out)?;
    keep(&measured, &left_out, &store, options, out)
}

/// Stores what was measured, and says so. `left_out`: CPUs that took no part.
fn keep(
    measured: &Measured,
    left_out: &[u32],
    store: &Store,
    options: &cli::Calibrate,
    out: &mut impl Write,
) -> Result<()> {
    let m = format_bytes_per_s(measured.calibration.bytes_per_s as f64);
    let mut doubts = Vec::new();
    if let Some(disturbance) = measured.disturbance() {
        doubts.push(format!("other programs ran: {disturbance}; stop what runs"));
    }
    if !left_out.is_empty() {
        doubts.push(format!(
            "CPUs {left_out:?} took no part, and all may move more; start it from a shell that may \
             use them"
        ));
    }
    let doubts = doubts.join("; ");
    if !doubts.is_empty() && !options.dry_run && !options.force {
        bail!("m = {m} is not stored, since {doubts}, or add --force");
    }
    let although = match doubts.as_str() {
        "" => String::new(),
        _ => format!("; {doubts}"),
    };
    if options.dry_run {
        writeln!(out, "m = {m}; not stored{although}")?;
        return Ok(());
    }
    store
        .write(&measured.calibration)
        .context("cannot store the calibration")?;
    writeln!(
        out,
        "m = {m}; stored in {}, for the next start of scx_drfq{although}",
        store.path().display()
    )?;
    Ok(())
}

/// Why nothing can be stored. More rights help only where they are missing.
fn not_writable(error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => " (run it with sudo)",
        _ => "",
    };
    anyhow::Error::from(error).context(format!("cannot store a calibration{hint}"))
}

/// Measures for some `seconds`, and prints what it finds.
///
/// # Errors
/// A load cannot run.
pub fn measure(
    seconds: f64,
    topology: &Topology,
    root: &Path,
    out: &mut impl Write,
) -> Result<Measured> {
    let throttle = Throttle::open(root);
    check_group(root)?;
    if throttle.is_err() {
        check_limits(throttle::limits(root))?;
    }
    let levels = throttle
        .as_ref()
        .map_or(0, |throttle| throttle.levels().len());
    let llcs: Vec<u32> = (0..topology.nr_llcs)
        .filter(|&llc| !cpus_of(llc, topology).is_empty())
        .collect();
    let several = llcs.len() > 1;
    let count = 4 * llcs.len() + levels + if several { OPS.len() } else { 0 };
    writeln!(
        out,
        "measures the memory for {seconds:.0} s with {} CPUs; other programs are slow meanwhile",
        topology.online.len()
    )?;
    let shortage = shortage(topology, root);
    if let Some(line) = &shortage {
        writeln!(out, "{line}")?;
    }
    let mut phases = Phases {
        root,
        time: Duration::from_secs_f64(seconds / count as f64),
        on_cpu: 1.0,
        out,
    };
    let join = || throttle.as_ref().map_or(Ok(()), Throttle::join);
    let mut domains = Vec::new();
    for &llc in &llcs {
        domains.push(domain(llc, topology, join, &mut phases)?);
    }
    let together = match several {
        true => Some(all(&llcs, topology, join, &mut phases)?),
        false => None,
    };
    match throttle {
        Ok(throttle) => {
            let measured = curve(&throttle, topology, &mut phases)?;
            domains
                .iter_mut()
                .for_each(|domain| domain.levels.clone_from(&measured));
        }
        Err(reason) => writeln!(phases.out, "throttling is not measured: {reason}")?,
    }
    let calibration = Calibration {
        machine: machine(root),
        kernel: sched_ext::release(root),
        version: VERSION.into(),
        date: local_time::today(),
        bytes_per_s: m(&domains, together),
        domains,
    };
    Ok(Measured {
        calibration,
        shortage,
        on_cpu: phases.on_cpu,
    })
}

/// m: what the domains moved at the same time, as they may share one memory. What each moved
/// alone, summed, bounds it.
fn m(domains: &[DomainMeasured], together: Option<[u64; 3]>) -> u64 {
    let best = |rates: [u64; 3]| rates.into_iter().max().unwrap_or(0);
    let of = |domain: &DomainMeasured| {
        best([
            domain.read_bytes_per_s,
            domain.write_bytes_per_s,
            domain.copy_bytes_per_s,
        ])
    };
    let alone: u64 = domains.iter().map(of).sum();
    together.map_or(alone, |rates| alone.min(best(rates)))
}

/// Measures bandwidth and latency of one last-level cache's CPUs.
fn domain(
    llc: u32,
    topology: &Topology,
    join: impl Fn() -> io::Result<()> + Sync,
    phases: &mut Phases<impl Write>,
) -> Result<DomainMeasured> {
    let cpus = cpus_of(llc, topology);
    let name = format!("domain {llc}");
    let [read_bytes_per_s, write_bytes_per_s, copy_bytes_per_s] =
        rates(&name, &threads(&[llc], topology, phases.root), join, phases)?;
    let whole = beyond_cache(cpus[0], phases.root);
    let latency_ns = loads::latency_ns(cpus[0], whole, phases.time);
    let latency_ns = latency_ns.context("cannot measure latency")?;
    writeln!(
        phases.out,
        "{name}: a read of idle memory {latency_ns:.0} ns"
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

/// Measures the bandwidth of all CPUs of these caches together.
fn all(
    llcs: &[u32],
    topology: &Topology,
    join: impl Fn() -> io::Result<()> + Sync,
    phases: &mut Phases<impl Write>,
) -> Result<[u64; 3]> {
    let all = threads(llcs, topology, phases.root);
    rates("all domains", &all, join, phases)
}

/// The CPUs of one last-level cache.
fn cpus_of(llc: u32, topology: &Topology) -> Vec<u32> {
    let of_llc = |cpu: &&u32| topology.cpu_llc[**cpu as usize] == llc;
    topology.online.iter().filter(of_llc).copied().collect()
}

/// The topology without the CPUs that a cpuset keeps this process away from, as those of an isolated
/// partition, and these CPUs. `may_use`: whether a load can run on a CPU.
///
/// # Errors
/// It may use none.
pub fn reachable(
    mut topology: Topology,
    may_use: impl Fn(u32) -> bool,
    out: &mut impl Write,
) -> Result<(Topology, Vec<u32>)> {
    let (online, left_out) = topology.online.iter().partition(|&&cpu| may_use(cpu));
    topology.online = online;
    let left_out: Vec<u32> = left_out;
    ensure!(!topology.online.is_empty(), "no CPU can run a load");
    if !left_out.is_empty() {
        writeln!(out, "CPUs of other cpusets are left out: {left_out:?}")?;
    }
    Ok((topology, left_out))
}

/// Checks that no other program limits the memory traffic of this process by a resctrl group: too
/// small an m would be found.
///
/// # Errors
/// It is in a group.
fn check_group(root: &Path) -> Result<()> {
    let groups = fs::read_to_string(root.join("proc/self/cpu_resctrl_groups"));
    let found = groups.ok().and_then(|text| TaskGroups::parse(&text));
    if let Some(group) = found
        .map(|found| found.ctrl)
        .filter(|name| !name.is_empty())
    {
        bail!(
            "this process is in the resctrl group {group:?} of another program, which may limit its \
             memory traffic; start it from a shell that is in none"
        );
    }
    Ok(())
}

/// Checks the limits of the default group, in which the loads run where they get no class.
///
/// # Errors
/// It has some.
fn check_limits(limits: Option<String>) -> Result<()> {
    if let Some(limits) = limits {
        bail!(
            "the default group of resctrl has limits, {limits}, so that m would be too small; lift \
             them for the calibration"
        );
    }
    Ok(())
}

/// Traffic of each of [`OPS`] by these threads (bytes per second).
fn rates(
    whose: &str,
    threads: &[(u32, usize)],
    join: impl Fn() -> io::Result<()> + Sync,
    phases: &mut Phases<impl Write>,
) -> Result<[u64; 3]> {
    let mut found = [0; 3];
    for ((op, name), found) in OPS.into_iter().zip(&mut found) {
        let moved = phases
            .run(op, threads, &join)
            .with_context(|| format!("cannot measure {name}"))?;
        let rate = format_bytes_per_s(moved.bytes_per_s);
        writeln!(phases.out, "{whose}: {name} {rate}{}", disturbed(moved))?;
        *found = moved.bytes_per_s as u64;
    }
    Ok(found)
}

/// Measures what each level of the throttle leaves of one copier.
fn curve<W: Write>(
    throttle: &Throttle,
    topology: &Topology,
    phases: &mut Phases<W>,
) -> Result<Vec<LevelMeasured>> {
    let cpu = topology.online[0];
    let bytes = beyond_cache(cpu, phases.root);
    let measure = |setting: u32, phases: &mut Phases<W>| -> Result<Moved> {
        throttle.set(setting)?;
        let moved = phases.run(Op::Copy, &[(cpu, bytes)], || throttle.join());
        moved.context("cannot measure a throttled copier")
    };
    let mut levels = throttle.levels();
    let Some(open) = levels.pop() else {
        return Ok(Vec::new());
    };
    let full = measure(open, phases)?;
    let mut found = Vec::new();
    for setting in levels {
        let moved = measure(setting, phases)?;
        let fraction = kept(moved, full);
        writeln!(
            phases.out,
            "throttle at {setting}: a copier keeps {:.1} %{}",
            100.0 * fraction,
            disturbed(moved)
        )?;
        found.push(LevelMeasured { setting, fraction });
    }
    Ok(found)
}

/// Runs with a line for each phase on standard output.
///
/// # Errors
/// As [`run`].
pub fn command(options: &cli::Calibrate) -> Result<()> {
    run(options, &mut io::stdout())
}

#[cfg(test)]
mod tests {
    use drfq_sense::queues::Queues;

    use super::*;

    fn domain(read: u64, write: u64, copy: u64) -> DomainMeasured {
        DomainMeasured {
            domain: 0,
            read_bytes_per_s: read,
            write_bytes_per_s: write,
            copy_bytes_per_s: copy,
            latency_ns: 80.0,
            counted_by: String::new(),
            levels: Vec::new(),
        }
    }

    #[test]
    fn cpus_of_other_cpusets_are_left_out() {
        let topology = || Topology {
            online: vec![0, 1, 2, 3],
            cpu_llc: vec![0, 0, 1, 1],
            nr_llcs: 2,
            queues: Queues::single(4),
        };
        let mut said = Vec::new();
        let (found, left_out) = reachable(topology(), |cpu| cpu < 2, &mut said).unwrap();
        assert_eq!(left_out, [2, 3]);
        assert_eq!((found.online.as_slice(), found.nr_llcs), (&[0, 1][..], 2));
        assert!(cpus_of(1, &found).is_empty());
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("[2, 3]"), "{said}");
        assert!(reachable(topology(), |_| false, &mut Vec::new()).is_err());
    }

    #[test]
    fn a_process_that_another_program_may_limit_measures_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert!(check_group(root.path()).is_ok());
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        for (groups, refused) in [("res:/\nmon:\n", false), ("res:theirs\nmon:\n", true)] {
            let file = root.path().join("proc/self/cpu_resctrl_groups");
            fs::write(file, groups).unwrap();
            assert_eq!(check_group(root.path()).is_err(), refused, "{groups}");
        }
    }

    #[test]
    fn sudo_is_advised_only_where_rights_are_missing() {
        for (errno, advised) in [
            (libc::EACCES, true),
            (libc::EPERM, true),
            (libc::EROFS, false),
            (libc::ENOSPC, false),
        ] {
            let text = format!("{:#}", not_writable(io::Error::from_raw_os_error(errno)));
            assert_eq!(text.contains("sudo"), advised, "{text}");
        }
    }

    #[test]
    fn domains_that_share_a_memory_count_by_what_they_move_together() {
        let domains = [domain(20, 18, 19), domain(17, 18, 21)];
        assert_eq!(m(&domains, Some([25, 24, 23])), 25);
        assert_eq!(m(&domains, Some([39, 45, 40])), 41);
        assert_eq!(m(&domains[..1], None), 20);
    }

    #[test]
    fn what_may_be_too_small_is_stored_only_by_force() {
        let busy = "the loads had their CPUs for 62 % of the time";
        let part = "CPUs [4, 5] took no part";
        for (on_cpu, left_out, dry_run, force, stored, says) in [
            (
                0.95,
                &[][..],
                false,
                false,
                true,
                "for the next start of scx_drfq\n",
            ),
            (0.62, &[], false, false, false, busy),
            (0.62, &[], false, true, true, busy),
            (0.95, &[], true, false, false, "m = 20 GB/s; not stored\n"),
            (0.62, &[], true, false, false, busy),
            (0.95, &[4, 5], false, false, false, part),
            (0.95, &[4, 5], false, true, true, part),
            (0.62, &[4, 5], false, false, false, part),
        ] {
            let root = tempfile::tempdir().unwrap();
            let store = Store::new(root.path());
            let options = cli::Calibrate {
                seconds: 2,
                dry_run,
                force,
            };
            let measured = Measured {
                calibration: Calibration {
                    machine: String::new(),
                    kernel: String::new(),
                    version: String::new(),
                    date: String::new(),
                    bytes_per_s: 20_000_000_000,
                    domains: Vec::new(),
                },
                shortage: None,
                on_cpu,
            };
            let mut out = Vec::new();
            let kept = keep(&measured, left_out, &store, &options, &mut out);
            let mut said = String::from_utf8(out).unwrap();
            let refused = kept.is_err();
            said += &kept
                .err()
                .map_or_else(String::new, |error| error.to_string());
            assert!(
                said.contains("m = 20 GB/s") && said.contains(says),
                "{said}"
            );
            assert_eq!(store.path().exists(), stored, "{said}");
            assert_eq!(refused, !stored && !dry_run, "{said}");
            assert_eq!(said.contains("--force"), refused, "{said}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! `scx_drfq evidence`: what sensors, memory and schedulers do on a machine, by loads that it
//! carries, in one file that a user can attach to a report.

mod running;
mod sensors;
mod sets;
mod words;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    iter,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use drfq_resctrl::detection::{Detection, State};
use drfq_sense::{root, sched_ext, topology::Topology};
use drfq_version::VERSION;
use serde::Serialize;

use self::{sensors::Sensors, sets::Sets};
use crate::{
    calibrate,
    calibration::{Calibration, machine},
    cli, doctor, loads, local_time, preflight,
};

/// The version of the file's form.
const SCHEMA: u32 = 3;

/// The parts of the time that sensors and calibration take. The sets take the rest.
const SENSORS: f64 = 0.2;
const CALIBRATION: f64 = 0.3;

/// The names that are tried for the file.
const NUMBERS: u32 = 10;

/// The content of the file.
#[derive(Debug, Serialize)]
pub struct Evidence {
    schema: u32,
    version: &'static str,
    date: String,
    /// How long the measurements took, as it was asked for.
    seconds: u16,
    machine: String,
    kernel: String,
    /// The CPU's, as /proc/cpuinfo says.
    microcode: String,
    /// PMUs of memory controllers that this machine has. They are not read.
    uncore_pmus: Vec<String>,
    /// What `scx_drfq doctor` says.
    doctor: Vec<String>,
    sensors: Sensors,
    calibration: Calibration,
    sets: Sets,
    /// The summary, a sentence each.
    summary: Vec<String>,
}

/// Measures, writes the file, and prints the summary.
///
/// # Errors
/// The file cannot be written, or exists; or no load can run.
pub fn command(options: &cli::Evidence) -> Result<()> {
    let (root, out) = (root(), &mut Unheard(io::stdout()));
    // SAFETY: the call has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        bail!("evidence counts events and loads schedulers, so it needs root; run it with sudo");
    }
    preflight::check_unoccupied(&root)?;
    // What is wrong with the file shows before the measurements. Ctrl-C leaves none.
    drop(create(&options.file)?);
    fs::remove_file(&options.file).context("cannot remove the file again")?;
    announce(options, out)?;
    let evidence = measure(options, &root, out)?;
    evidence
        .summary
        .iter()
        .try_for_each(|line| writeln!(out, "{line}"))?;
    deliver(&options.file, &evidence, out)
}

/// Writes the file. If that fails, all that was measured goes to `out`.
///
/// # Errors
/// The file cannot be written.
fn deliver(path: &Path, evidence: &impl Serialize, out: &mut impl Write) -> Result<()> {
    match write(path, evidence) {
        Ok(path) => writeln!(out, "written to {}", path.display())?,
        Err(error) => {
            serde_json::to_writer_pretty(&mut *out, evidence)?;
            writeln!(out)?;
            return Err(error.context("the measurements are on standard output instead"));
        }
    }
    Ok(())
}

/// A writer whose end loses no measurement: what it does not take is dropped.
struct Unheard<W>(W);

impl<W: Write> Write for Unheard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Writes the file, and returns its path. If one of this name has come during the measurements, the new
/// one gets a number.
fn write(path: &Path, evidence: &impl Serialize) -> Result<PathBuf> {
    let numbered = (1..NUMBERS).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    let free = |path: PathBuf| create(&path).map(|file| (path, file));
    let (path, mut file) = iter::once(path.to_owned())
        .chain(numbered)
        .find_map(|path| free(path).ok())
        .map_or_else(|| free(path.to_owned()), Ok)?;
    let written = serde_json::to_writer_pretty(&mut file, evidence)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(writeln!(file)?));
    if let Err(error) = written {
        // Half a report, as on a full disk, is none.
        let _ = fs::remove_file(&path);
        return Err(error).with_context(|| format!("cannot write {}", path.display()));
    }
    Ok(path)
}

/// Makes the file; one that exists is no file of ours.
fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{} exists; remove it, or name another file", path.display())
        }
        _ => anyhow::Error::from(error).context(format!("cannot write {}", path.display())),
    })
}

fn announce(options: &cli::Evidence, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "For some {} s all CPUs are busy, and other programs are slow. Meanwhile scx_drfq\n\
         - counts events of the PMU, and mounts resctrl if it is not mounted,\n\
         - moves the level of a resctrl class of its own, which holds only its own load,\n\
         - loads its scheduler several times, and unloads it.\n\
         Everything is as before at the end, and after Ctrl-C.",
        options.seconds
    )?;
    Ok(())
}

fn measure(options: &cli::Evidence, root: &Path, out: &mut impl Write) -> Result<Evidence> {
    let seconds = f64::from(options.seconds);
    let (topology, _) = calibrate::reachable(Topology::read(root)?, loads::may_use, out)?;
    let mut report = Vec::new();
    let can_run = doctor::run(&mut report)?;
    let sensors = sensors::measure(
        Duration::from_secs_f64(seconds * SENSORS),
        &topology,
        root,
        out,
    )
    .context("cannot compare the sensors")?;
    let measured = calibrate::measure(seconds * CALIBRATION, &topology, root, out)?;
    let disturbance = measured.disturbance();
    let (calibration, shortage) = (measured.calibration, measured.shortage);
    let plan = sets::Plan {
        time: Duration::from_secs_f64(seconds * (1.0 - SENSORS - CALIBRATION)),
        bytes_per_s: calibration.bytes_per_s,
        can_run,
        no_throttle: no_throttle(&Detection::new(root)),
    };
    let sets = sets::measure(&plan, &topology, root, out)?;
    let mut summary = words::summary(&sensors, &calibration, &sets);
    summary.extend(shortage.map(|text| format!("The {text}.")));
    summary.extend(
        disturbance.map(|text| format!("Other programs ran during the calibration: {text}.")),
    );
    Ok(Evidence {
        schema: SCHEMA,
        version: VERSION,
        date: local_time::today(),
        seconds: options.seconds,
        machine: machine(root),
        kernel: sched_ext::release(root),
        microcode: microcode(root),
        uncore_pmus: uncore_pmus(root),
        doctor: String::from_utf8_lossy(&report)
            .lines()
            .map(str::to_owned)
            .collect(),
        sensors,
        calibration,
        sets,
        summary,
    })
}

/// Why the scheduler cannot throttle on this machine, as far as that can be told without it.
fn no_throttle(found: &Detection) -> Option<String> {
    let resctrl = match found.state {
        // Evidence has mounted it, and the scheduler does.
        State::NotMounted => None,
        _ => found.missing().or_else(|| found.missing_mba()),
    };
    let reason = found.cannot_throttle().or(resctrl)?;
    Some(format!("no throttle (MBA), {reason}"))
}

/// The microcode of the first CPU; empty if it is not known.
fn microcode(root: &Path) -> String {
    let text = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("microcode"));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

/// The PMUs of memory controllers, as the kernel names them.
fn uncore_pmus(root: &Path) -> Vec<String> {
    let devices = fs::read_dir(root.join("sys/bus/event_source/devices"));
    let names = devices.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<_> = names
        .filter(|name| {
            ["uncore_imc", "amd_umc", "amd_df"]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_takes_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let gone = dir.path().join("gone/evidence.json");
        let error = deliver(&gone, &"measured", &mut out).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
        assert_eq!(out, b"\"measured\"\n");
        out.clear();
        deliver(&dir.path().join("evidence.json"), &"measured", &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().starts_with("written to "));
    }

    #[test]
    fn a_file_that_exists_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("evidence.json");
        drop(create(&path).unwrap());
        let error = create(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("exists; remove it, or name another file"),
            "{error}"
        );
        let error = create(&dir.path().join("none/evidence.json")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
    }

    #[test]
    fn a_file_that_came_meanwhile_is_kept_and_so_is_the_evidence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("evidence.json");
        assert_eq!(write(&path, &"first").unwrap(), path);
        let second = write(&path, &"second").unwrap();
        assert_eq!(second, dir.path().join("evidence.json.1"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "\"first\"\n");
        assert_eq!(fs::read_to_string(&second).unwrap(), "\"second\"\n");
        let error = write(&dir.path().join("none/evidence.json"), &"third").unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
    }

    #[test]
    fn an_output_that_goes_away_ends_no_measurement() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Unheard(writer);
        writeln!(out, "set 1").unwrap();
        out.flush().unwrap();
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_machine_throttles_by_its_cpu_whatever_the_unit_of_its_levels() {
        let machine = |vendor: &str, flags: &str| {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("proc")).unwrap();
            let cpu = format!("vendor_id\t: {vendor}\nflags\t\t: {flags}\n");
            fs::write(dir.path().join("proc/cpuinfo"), cpu).unwrap();
            fs::write(dir.path().join("proc/filesystems"), "nodev\tresctrl\n").unwrap();
            no_throttle(&Detection::new(dir.path()))
        };
        for vendor in ["GenuineIntel", "AuthenticAMD"] {
            assert_eq!(machine(vendor, "cqm_mbm_total mba"), None, "{vendor}");
            let reason = machine(vendor, "cqm_mbm_total").expect("no flag");
            assert!(reason.contains("no flag mba"), "{reason}");
        }
    }

    #[test]
    fn pmus_of_memory_controllers_are_named_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["uncore_imc_1", "cpu", "uncore_imc_0", "amd_df"] {
            fs::create_dir_all(dir.path().join("sys/bus/event_source/devices").join(name)).unwrap();
        }
        let found = uncore_pmus(dir.path());
        assert_eq!(found, ["amd_df", "uncore_imc_0", "uncore_imc_1"]);
        assert_eq!(uncore_pmus(Path::new("/nonexistent")), [""; 0]);
    }
}

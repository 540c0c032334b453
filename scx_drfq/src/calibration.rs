// SPDX-License-Identifier: GPL-2.0-only
//! What `scx_drfq calibrate` has measured on this machine, and the file that keeps it.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use drfq_sense::{cpu_model::CpuModel, dmi::DmiMemory, topology::Topology};
use serde::{Deserialize, Serialize};

/// The directory and the file, below `/`.
const DIRECTORY: &str = "var/lib/scx_drfq";
const FILE: &str = "calibration.toml";

/// A level of a throttle and what it leaves of the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelMeasured {
    /// What was written to the schemata file.
    pub setting: u32,
    /// The part of its unthrottled traffic that a copy keeps.
    pub fraction: f64,
}

/// What was measured for one domain of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainMeasured {
    /// Its last-level cache, as the scheduler numbers it.
    pub domain: u32,
    /// Traffic of readers, writers and copiers on all of its CPUs (bytes per second).
    pub read_bytes_per_s: u64,
    /// The same for writers: what they fetch and what they write back.
    pub write_bytes_per_s: u64,
    /// The same for copiers.
    pub copy_bytes_per_s: u64,
    /// Time of one read of an idle memory (ns).
    pub latency_ns: f64,
    /// What counted the traffic.
    pub counted_by: String,
    /// The levels of the throttle; empty without MBA.
    #[serde(default)]
    pub levels: Vec<LevelMeasured>,
}

/// A calibration and its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The machine that was measured.
    pub machine: String,
    /// Its kernel.
    pub kernel: String,
    /// What measured it.
    pub version: String,
    /// When.
    pub date: String,
    /// m: the largest traffic measured of all domains together (bytes per second).
    pub bytes_per_s: u64,
    /// Its domains.
    pub domains: Vec<DomainMeasured>,
}

/// What tells machines apart that have different memory.
pub fn machine(root: &Path) -> String {
    let cpu = CpuModel::read(root);
    let cpus = Topology::read(root).map_or(0, |topology| topology.nr_cpu_ids());
    let memory = DmiMemory::read(root).map_or_else(|_| "unknown memory".into(), |found| found.text);
    format!(
        "{} family {} model {} stepping {}, {cpus} CPUs, {memory}",
        cpu.vendor, cpu.family, cpu.model, cpu.stepping
    )
}

/// The file that keeps the calibration.
pub struct Store {
    root: PathBuf,
    /// The user that must own file and directory.
    owner: u32,
}

impl Store {
    /// That of the machine under `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            owner: 0,
        }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.root.join(DIRECTORY).join(FILE)
    }

    /// The calibration of this machine; none if there is none.
    ///
    /// # Errors
    /// Why the file is not used, in a few words.
    pub fn read(&self) -> Result<Option<Calibration>, String> {
        let path = self.path();
        let text = match self.read_private(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} is not used: {error}", path.display())),
        };
        let found: Calibration = toml::from_str(&text).map_err(|error| {
            let message = error
                .message()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("{} is not used: {message}", path.display())
        })?;
        let machine = machine(&self.root);
        if found.machine != machine {
            return Err(format!(
                "{} is not used: it is of another machine ({})",
                path.display(),
                found.machine
            ));
        }
        Ok(Some(found))
    }

    /// A file that only its owner could have written, in a directory of the same kind.
    fn read_private(&self, path: &Path) -> io::Result<String> {
        let directory = path.parent().unwrap_or(path);
        for checked in [directory, path] {
            let found = fs::symlink_metadata(checked)?;
            if found.uid() != self.owner || found.mode() & 0o022 != 0 || found.is_symlink() {
                let what = format!("others than root can change {}", checked.display());
                return Err(io::Error::other(what));
            }
        }
        fs::read_to_string(path)
    }

    /// Whether a calibration can be stored.
    ///
    /// # Errors
    /// It cannot.
    pub fn writable(&self) -> io::Result<()> {
        let path = self.path();
        let directory = path.parent().unwrap_or(&path);
        make_directory(directory)?;
        let probe = path.with_extension("probe");
        fs::write(&probe, "")?;
        fs::remove_file(&probe)
    }

    /// Stores a calibration in place of the last one. A reader sees one of the two.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, calibration: &Calibration) -> io::Result<()> {
        let path = self.path();
        let directory = path.parent().unwrap_or(&path);
        make_directory(directory)?;
        let text = toml::to_string(calibration).map_err(io::Error::other)?;
        let fresh = path.with_extension("new");
        let _ = fs::remove_file(&fresh);
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        writeln!(
            file,
            "# Written by scx_drfq calibrate. Without this file m is estimated."
        )?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn calibration(root: &Path) -> Calibration {
        Calibration {
            machine: machine(root),
            kernel: "7.3.4".into(),
            version: "0.1.0".into(),
            date: "2026-11-22".into(),
            bytes_per_s: 20_000_000_000,
            domains: vec![DomainMeasured {
                domain: 0,
                read_bytes_per_s: 20_000_000_000,
                write_bytes_per_s: 18_000_000_000,
                copy_bytes_per_s: 19_000_000_000,
                latency_ns: 81.5,
                counted_by: "the loads".into(),
                levels: vec![LevelMeasured {
                    setting: 10,
                    fraction: 0.125,
                }],
            }],
        }
    }

    fn store(root: &Path) -> Store {
        Store {
            root: root.to_owned(),
            // SAFETY: the call has no preconditions.
            owner: unsafe { libc::geteuid() },
        }
    }

    #[test]
    fn a_calibration_is_read_as_it_was_written_and_is_private() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        assert_eq!(store.read(), Ok(None));
        let first = calibration(root.path());
        store.write(&first).unwrap();
        assert_eq!(store.read(), Ok(Some(first.clone())));
        assert_eq!(fs::metadata(store.path()).unwrap().mode() & 0o777, 0o600);
        let second = Calibration {
            bytes_per_s: 1,
            ..first
        };
        store.write(&second).unwrap();
        assert_eq!(store.read(), Ok(Some(second)));
    }

    #[test]
    fn a_calibration_of_another_machine_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let mut other = calibration(root.path());
        other.machine = "another".into();
        store.write(&other).unwrap();
        let error = store.read().unwrap_err();
        assert!(error.contains("another machine"), "{error}");
    }

    #[test]
    fn a_file_that_others_may_change_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        store.write(&calibration(root.path())).unwrap();
        let path = store.path();
        for (changed, mode) in [(path.as_path(), 0o622), (path.parent().unwrap(), 0o777)] {
            let kept = fs::metadata(changed).unwrap().permissions();
            fs::set_permissions(changed, fs::Permissions::from_mode(mode)).unwrap();
            let error = store.read().unwrap_err();
            assert!(error.contains("others than root"), "{error}");
            fs::set_permissions(changed, kept).unwrap();
        }
        let foreign = Store {
            owner: store.owner + 1,
            ..store
        };
        assert!(foreign.read().is_err());
    }

    #[test]
    fn a_damaged_file_is_one_line() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        store.write(&calibration(root.path())).unwrap();
        fs::write(store.path(), "machine = 5\n[[[").unwrap();
        let error = store.read().unwrap_err();
        assert!(
            error.contains("is not used") && !error.contains('\n'),
            "{error}"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of the BPF programs on each kernel, recorded in a file, so that a
//! test can report growth.

use crate::bpf_programs;
use crate::run::kernel_release;
use crate::scenario::SchedulerProgram;
use crate::scheduler::{Executables, LoadedScheduler};
use anyhow::{Context, Result, ensure};
use drfq_controller_link::interface::{identity, limits, offset};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Growth beyond this must be recorded on purpose.
const GROWTH_MAX_PCT: usize = 5;

/// The verifier refuses a program of which it would process 1,000,000 instructions. What grows with
/// the machine must stay far from that.
const VERIFIED_MAX: u32 = 500_000;

/// Options that load the parts for a known bandwidth, on every machine.
const ARGS: [&str; 2] = ["--memory-bandwidth", "10G"];

/// Options that load the parts that read counters.
const COUNTER_ARGS: [&str; 4] = [
    "--perf-event",
    "page-faults+minor-faults",
    "--event-bytes",
    "4096",
];

const HEADER: &str = "\
# SPDX-License-Identifier: GPL-2.0-only
# Size of each BPF program, by kernel: instructions that the verifier processed
# on all paths, and instructions of the program itself. Written by
#   tests/vm/verifier --record
";

/// Size of one program on one kernel, instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Processed by the verifier.
    pub verified: u32,
    /// After the verifier's rewriting.
    pub xlated: usize,
}

/// Program, kernel, size.
pub type Sizes = BTreeMap<String, BTreeMap<String, Size>>;

/// Loads scx_drfq and writes the sizes of its programs on this kernel. Prints the largest.
///
/// # Errors
/// It does not load, or the verifier processes more than half of what it may in one program.
pub fn show(out: &Path, counters: bool) -> Result<()> {
    let before = bpf_programs::loaded();
    let mut args = ARGS.map(String::from).to_vec();
    if counters {
        args.extend(COUNTER_ARGS.map(String::from));
    }
    let registers = std::env::temp_dir().join("drfq-registers");
    std::fs::write(&registers, controller_registers()).context("cannot write registers")?;
    args.extend([
        "--controller".into(),
        format!("mmio:{}", registers.display()),
    ]);
    let log = out.with_extension("log");
    let loaded = LoadedScheduler::start(
        &Executables::find()?,
        SchedulerProgram::ScxDrfq,
        &args,
        &log,
    )?;
    let found = bpf_programs::since(&before);
    loaded.stop()?;
    let kernel = kernel_version(&kernel_release());
    let mut sizes = Sizes::new();
    // The loader's probes of kernel features are not part of the scheduler.
    for program in found.into_iter().filter(|p| p.name.starts_with("drfq_")) {
        let size = Size {
            verified: program.verified_insns,
            xlated: program.xlated_insns,
        };
        sizes
            .entry(program.name)
            .or_default()
            .insert(kernel.clone(), size);
    }
    write(out, &sizes)?;
    check_largest(&sizes)
}

/// Prints the program of which the verifier processed most.
fn check_largest(sizes: &Sizes) -> Result<()> {
    let verified = sizes
        .iter()
        .flat_map(|(program, kernels)| kernels.values().map(move |size| (size.verified, program)));
    let (most, program) = verified.max().context("no program of scx_drfq was found")?;
    println!("the verifier processed at most {most} instructions, of {program}");
    ensure!(
        most <= VERIFIED_MAX,
        "more than {VERIFIED_MAX}; bound its loops by constants, or let the verifier forget their counters"
    );
    Ok(())
}

/// Registers of a memory controller that moves nothing. Its presence loads the parts
/// that label traffic.
fn controller_registers() -> Vec<u8> {
    let mut bytes = vec![0; limits::BYTES as usize];
    for (offset, value) in [
        (offset::ID, identity::ID),
        (offset::VERSION, identity::VERSION),
        (offset::PIDS, limits::PIDS),
        (offset::CORES, limits::CORES_MAX),
    ] {
        bytes[offset as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Merges what `show` wrote on each kernel into the file of record.
pub fn record(file: &Path, shown: &[PathBuf]) -> Result<()> {
    write(file, &merge(shown)?)
}

/// Whether no program grew beyond the limit; prints those that did.
pub fn check(file: &Path, shown: &[PathBuf]) -> Result<bool> {
    let complaints = compare(&read(file)?, &merge(shown)?);
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        println!("if this growth is intended, run: tests/vm/verifier --record");
    }
    Ok(complaints.is_empty())
}

fn compare(recorded: &Sizes, now: &Sizes) -> Vec<String> {
    let mut complaints = Vec::new();
    for (program, kernels) in now {
        for (kernel, size) in kernels {
            let Some(old) = recorded.get(program).and_then(|k| k.get(kernel)) else {
                complaints.push(format!("{program} on {kernel} is not recorded"));
                continue;
            };
            for (what, old, new) in [
                ("verified", old.verified as usize, size.verified as usize),
                ("xlated", old.xlated, size.xlated),
            ] {
                let growth = 100.0 * (new as f64 / old as f64 - 1.0);
                if new * 100 > old * (100 + GROWTH_MAX_PCT) {
                    complaints.push(format!(
                        "{program} on {kernel}: {old} -> {new} {what} instructions, \
                         {growth:+.1} % (limit {GROWTH_MAX_PCT} %)"
                    ));
                }
            }
        }
    }
    for (program, kernels) in recorded {
        for kernel in kernels.keys() {
            if now
                .get(program)
                .is_none_or(|sizes| !sizes.contains_key(kernel))
            {
                complaints.push(format!("{program} is recorded on {kernel}, but not loaded"));
            }
        }
    }
    complaints
}

fn merge(files: &[PathBuf]) -> Result<Sizes> {
    let mut all = Sizes::new();
    for file in files {
        for (program, kernels) in read(file)? {
            all.entry(program).or_default().extend(kernels);
        }
    }
    Ok(all)
}

fn read(file: &Path) -> Result<Sizes> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    toml::from_str(&text).with_context(|| format!("{name} is not valid"))
}

/// One line for each kernel of a program, so that a change reads well.
fn write(file: &Path, sizes: &Sizes) -> Result<()> {
    let mut text = String::from(HEADER);
    for (program, kernels) in sizes {
        text += &format!("\n[{program}]\n");
        for (kernel, Size { verified, xlated }) in kernels {
            text += &format!("\"{kernel}\" = {{ verified = {verified}, xlated = {xlated} }}\n");
        }
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// `7.2.13` of `7.2.13+deb14-amd64`.
fn kernel_version(release: &str) -> String {
    let end = release
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(release.len());
    release[..end].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(program: &str, verified: u32) -> Sizes {
        let size = Size {
            verified,
            xlated: 10,
        };
        [(program.to_string(), [("7.2.13".to_string(), size)].into())].into()
    }

    #[test]
    fn growth_beyond_the_limit_is_reported_and_shrinking_is_not() {
        assert!(compare(&sizes("p", 100), &sizes("p", 105)).is_empty());
        assert!(compare(&sizes("p", 100), &sizes("p", 50)).is_empty());
        assert_eq!(compare(&sizes("p", 100), &sizes("p", 106)).len(), 1);
    }

    #[test]
    fn a_program_near_the_verifiers_limit_is_an_error() {
        assert!(check_largest(&sizes("p", VERIFIED_MAX)).is_ok());
        assert!(check_largest(&sizes("p", VERIFIED_MAX + 1)).is_err());
        assert!(check_largest(&Sizes::new()).is_err());
    }

    #[test]
    fn a_new_and_a_missing_program_are_reported() {
        assert_eq!(compare(&sizes("p", 100), &sizes("q", 100)).len(), 2);
    }

    #[test]
    fn written_sizes_read_back_unchanged() {
        let file = std::env::temp_dir().join(format!("drfq-insns-{}.toml", std::process::id()));
        write(&file, &sizes("p", 7)).unwrap();
        let got = read(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(got.unwrap(), sizes("p", 7));
    }

    #[test]
    fn the_kernel_version_is_the_release_without_its_suffix() {
        assert_eq!(kernel_version("7.2.13+deb14-amd64"), "7.2.13");
        assert_eq!(kernel_version("6.16.12"), "6.16.12");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Runs scenarios of scx_drfq and its peers, in a VM (tests/vm) or on a
//! machine without other users. Every command needs root.
//!
//! Exit status: 0 every expectation held, 1 one was missed or an error, 2 wrong usage.

mod bench;
mod bpf_programs;
mod campaign;
mod cycles;
mod debt;
mod fair_share;
mod insns;
mod judge;
mod kmsg;
mod loads;
mod measurement;
mod predict;
mod process;
mod record;
mod resume;
mod rows;
mod run;
mod scenario;
mod scheduler;
mod stats_client;
mod subject;
mod summary;
mod verdict;
mod weight;
mod with_scheduler;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs scenarios of scx_drfq and its peers and judges what was measured.
#[derive(Parser)]
#[command(name = "drfq-exp", version)]
struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and compare its measurements with its expectations.
    Run(campaign::Plan),
    /// Print the virtual machine that a scenario is for.
    Describe {
        /// A file of tests/scenarios.
        file: PathBuf,
    },
    /// Run a command while scx_drfq is loaded.
    ///
    /// Fails if the command, the scheduler or the kernel has trouble.
    WithScheduler {
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Argument of scx_drfq, as --arg=--slice-us --arg=1000.
        #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
        args: Vec<String>,
        /// The command and its arguments, after --.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Load and unload scx_drfq repeatedly.
    ///
    /// Fails if BPF objects or kernel memory are left.
    Cycles {
        /// Number of rounds.
        count: usize,
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Kill scx_drfq (SIGKILL).
    ///
    /// Fails if the kernel does not return to its own scheduler in time.
    Kill {
        /// Number of rounds.
        count: usize,
        /// Time that the kernel may take, ms.
        #[arg(long, default_value_t = 1000)]
        within_ms: u64,
        /// Kill at a random moment, also while it loads, and not half a second after it has
        /// loaded. Fails too if not a quarter of the kills meet a loaded scheduler, and a
        /// quarter none.
        #[arg(long)]
        at_random: bool,
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Run benchmarks under EEVDF, scx_drfq and its peers by turns.
    Bench {
        /// Repeats of each benchmark.
        #[arg(long, default_value_t = 5)]
        repeats: u32,
        /// Directory for rows.csv and logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        provenance: rows::Provenance,
    },
    /// Record or compare the sizes of the BPF programs.
    #[command(subcommand)]
    Insns(Insns),
}

#[derive(Subcommand)]
enum Insns {
    /// Write the sizes on this kernel.
    Show {
        /// File to write.
        out: PathBuf,
        /// Without the parts that read counters, which the CPUs of a made-up machine do not have.
        #[arg(long)]
        no_counters: bool,
    },
    /// Write the file of record from what `show` wrote on each kernel.
    Record {
        /// The file of record.
        file: PathBuf,
        /// What `show` wrote.
        #[arg(required = true)]
        shown: Vec<PathBuf>,
    },
    /// Compare with the file of record.
    Check {
        /// The file of record.
        file: PathBuf,
        /// What `show` wrote.
        #[arg(required = true)]
        shown: Vec<PathBuf>,
    },
}

fn run_insns(command: Insns) -> Result<bool> {
    match command {
        Insns::Show { out, no_counters } => insns::show(&out, !no_counters).map(|()| true),
        Insns::Record { file, shown } => insns::record(&file, &shown).map(|()| true),
        Insns::Check { file, shown } => insns::check(&file, &shown),
    }
}

fn run(command: Command) -> Result<bool> {
    match command {
        Command::Run(plan) => campaign::run(&plan),
        Command::Describe { file } => {
            println!("{}", campaign::describe(&file)?);
            Ok(true)
        }
        Command::WithScheduler { out, args, command } => with_scheduler::run(&args, &command, &out),
        Command::Cycles { count, out } => cycles::run(count, &out),
        Command::Kill {
            count,
            within_ms,
            at_random,
            out,
        } => {
            let moment = if at_random {
                cycles::Moment::Random
            } else {
                cycles::Moment::Loaded
            };
            cycles::kill(count, moment, Duration::from_millis(within_ms), &out)
        }
        Command::Bench {
            repeats,
            out,
            provenance,
        } => bench::run(repeats, &out, &provenance).map(|()| true),
        Command::Insns(command) => run_insns(command),
    }
}

fn main() -> ExitCode {
    match run(Opts::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("drfq-exp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

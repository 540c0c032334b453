// SPDX-License-Identifier: GPL-2.0-only
//! Experiments of scx_drfq and its peers, run inside a virtual machine (see
//! tests/vm) or on a machine that may be disturbed. Every command needs root.
//!
//! Exit status: 0 as expected, 1 not as expected or failed, 2 wrong usage.

mod bench;
mod campaign;
mod cycles;
mod experiment;
mod fair;
mod hold;
mod insns;
mod judge;
mod kmsg;
mod loads;
mod predict;
mod process;
mod programs;
mod record;
mod run;
mod scheduler;
mod statistic;
mod stats;
mod table;
mod under;
mod weight;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Experiments of scx_drfq and its peers.
#[derive(Parser)]
#[command(name = "drfq-exp", version)]
struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment and judge its figures.
    Run(campaign::Plan),
    /// Print the virtual machine that an experiment is for.
    Describe {
        /// A file of tests/scenarios.
        file: PathBuf,
    },
    /// Run a command while scx_drfq is loaded, and check both.
    Under {
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Argument of scx_drfq (may be repeated).
        #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
        args: Vec<String>,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Load and unload scx_drfq again and again; nothing may be left behind.
    Cycles {
        /// How often.
        count: usize,
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Kill scx_drfq (SIGKILL); the kernel must return to its own scheduler.
    Kill {
        /// How often.
        count: usize,
        /// Within this time, ms.
        #[arg(long, default_value_t = 1000)]
        within_ms: u64,
        /// Directory for logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Benchmarks side by side: EEVDF, scx_drfq, scx_rusty.
    Bench {
        /// Repeats of everything.
        #[arg(long, default_value_t = 5)]
        repeats: u32,
        /// Directory for bench.md and logs.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Sizes of the BPF programs.
    #[command(subcommand)]
    Insns(Insns),
}

#[derive(Subcommand)]
enum Insns {
    /// Write the sizes on this kernel.
    Show {
        /// File to write.
        out: PathBuf,
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
        Insns::Show { out } => insns::show(&out).map(|()| true),
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
        Command::Under { out, args, command } => under::run(&args, &command, &out),
        Command::Cycles { count, out } => cycles::run(count, &out),
        Command::Kill {
            count,
            within_ms,
            out,
        } => cycles::kill(count, Duration::from_millis(within_ms), &out),
        Command::Bench { repeats, out } => bench::run(repeats, &out).map(|()| true),
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

// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that report exactly what they did.
//!
//! Each load runs until `--duration-s` has passed or SIGTERM or SIGINT comes,
//! then writes a report (`--json`). SIGUSR1 begins the measured part: latencies
//! recorded before it are forgotten. A load dies with its parent.

mod chase;
mod clock;
mod copy;
mod cycle;
mod dma;
mod faults;
mod fdtd;
mod forkstorm;
mod hog;
mod lbm;
mod phases;
mod process;
mod report;
mod requests;
mod samples;
mod signals;
mod sleeper;
mod steps;

use anyhow::{Context, Result, bail};
use chase::Chase;
use clap::{Args, Parser, Subcommand};
use faults::Pace;
use report::Report;
use std::path::PathBuf;
use std::time::Duration;
use steps::Steps;

/// Workloads that report exactly what they did.
#[derive(Parser)]
#[command(name = "drfq-load", version)]
struct Opts {
    /// Nice value, -20 to 19.
    #[arg(long, global = true, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    nice: Option<i32>,

    /// CPUs to run on, such as 0,2-3.
    #[arg(long, global = true, value_name = "LIST")]
    cpus: Option<String>,

    /// Stop after so many seconds (a fraction is allowed).
    #[arg(long, global = true, value_name = "SECONDS")]
    duration_s: Option<f64>,

    /// Write a report at the end; - is standard output.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Name of the process in ps and top (15 characters).
    #[arg(long, global = true)]
    name: Option<String>,

    /// Wait until standard input ends before starting.
    #[arg(long, global = true)]
    gate: bool,

    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Spin.
    Hog,
    /// Work and sleep in turn; records how late each wake-up was.
    Sleeper {
        /// CPU time of one piece of work, us.
        #[arg(long, default_value_t = 500)]
        run_us: u64,
        /// Time between the end of the work and the next wake-up, us.
        #[arg(long, default_value_t = 5000)]
        sleep_us: u64,
        /// Report every wake-up, not only a summary.
        #[arg(long)]
        log_wakes: bool,
    },
    /// Touch fresh pages: a known number of page faults.
    Faults(Faults),
    /// CPU-heavy and fault-heavy phases in turn.
    Phases {
        /// Length of the CPU-heavy phase, ms of own CPU time.
        #[arg(long, default_value_t = 200)]
        cpu_ms: u64,
        /// Length of the fault-heavy phase, ms of own CPU time.
        #[arg(long, default_value_t = 100)]
        fault_ms: u64,
        #[command(flatten)]
        faults: Faults,
    },
    /// Read a file or block device by direct I/O.
    Dma {
        /// What to read.
        path: PathBuf,
        /// Bytes of one read, a multiple of 4096.
        #[arg(long, default_value_t = 1 << 20)]
        block_bytes: usize,
        /// Number of reads; 0: until stopped.
        #[arg(long, default_value_t = 0)]
        count: u64,
        /// Sleep between reads, us.
        #[arg(long, default_value_t = 0)]
        pause_us: u64,
    },
    /// Fork short-lived processes without pause.
    Forkstorm {
        /// Children alive at a time.
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
        width: u32,
        /// CPU time that each child uses, us.
        #[arg(long, default_value_t = 1000)]
        child_us: u64,
    },
    /// Copy memory without pause.
    Copy {
        /// Memory, half of it source and half destination, KiB.
        #[arg(long, default_value_t = 16384)]
        kib: usize,
    },
    /// Serve requests that arrive at random times; records each latency from its arrival.
    Requests(Requests),
    /// Simulate a flow around an obstacle by the lattice Boltzmann method, like 470.lbm.
    Lbm {
        /// Cells per edge of a plane.
        #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=1000))]
        side: u32,
        /// Planes of the box.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        planes: u32,
        #[command(flatten)]
        steps: Steps,
    },
    /// Chase pointers: each read waits for the one before.
    Chase {
        #[command(flatten)]
        chase: Chase,
        #[command(flatten)]
        steps: Steps,
    },
    /// Simulate electromagnetic waves in a box by Yee's scheme, like 459.GemsFDTD.
    Fdtd {
        /// Nodes per edge of the box.
        #[arg(long, default_value_t = 52, value_parser = clap::value_parser!(u32).range(3..=1000))]
        side: u32,
        #[command(flatten)]
        steps: Steps,
    },
}

#[derive(Args)]
struct Requests {
    /// Mean time between two arrivals, us.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    period_us: u64,
    /// Entries of a table that a request looks up, one after the other.
    #[arg(long, default_value_t = 1000)]
    lookups: u32,
    /// Size of the table, KiB.
    #[arg(long, default_value_t = 4096)]
    table_kib: usize,
    /// Decides the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print each latency, us.
    #[arg(long)]
    print: bool,
}

impl From<&Requests> for requests::Requests {
    fn from(options: &Requests) -> Self {
        Self {
            period_ns: options.period_us * 1000,
            lookups: options.lookups,
            table_kib: options.table_kib,
            seed: options.seed,
            print: options.print,
        }
    }
}

#[derive(Args)]
struct Faults {
    /// Pages of one burst.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// One burst for so much CPU time of the load, its own included, us.
    #[arg(long, conflicts_with = "rate")]
    every_cpu_us: Option<u64>,
    /// Bursts per second of real time.
    #[arg(long)]
    rate: Option<f64>,
}

impl Faults {
    fn pace(&self) -> Result<Pace> {
        Ok(match (self.every_cpu_us, self.rate) {
            (Some(us), _) => Pace::CpuNs(us * 1000),
            (None, Some(hz)) if hz > 0.0 && hz <= 1e9 => Pace::PeriodNs((1e9 / hz) as u64),
            (None, Some(hz)) => bail!("--rate {hz} is not between 0 and 1e9"),
            (None, None) => Pace::Free,
        })
    }
}

impl Load {
    fn name(&self) -> &'static str {
        match self {
            Load::Hog => "hog",
            Load::Sleeper { .. } => "sleeper",
            Load::Faults(_) => "faults",
            Load::Phases { .. } => "phases",
            Load::Dma { .. } => "dma",
            Load::Forkstorm { .. } => "forkstorm",
            Load::Copy { .. } => "copy",
            Load::Requests(_) => "requests",
            Load::Lbm { .. } => "lbm",
            Load::Chase { .. } => "chase",
            Load::Fdtd { .. } => "fdtd",
        }
    }

    fn run(&self, report: &mut Report) -> Result<()> {
        match self {
            Load::Hog => hog::run(report),
            Load::Sleeper {
                run_us,
                sleep_us,
                log_wakes,
            } => sleeper::run(report, *run_us, *sleep_us, *log_wakes)?,
            Load::Faults(f) => faults::run(report, f.burst as usize, f.pace()?)?,
            Load::Phases {
                cpu_ms,
                fault_ms,
                faults,
            } => {
                let phases = phases::Phases {
                    cpu_ns: cpu_ms * 1_000_000,
                    fault_ns: fault_ms * 1_000_000,
                };
                phases::run(report, phases, faults.burst as usize, faults.pace()?)?;
            }
            Load::Dma {
                path,
                block_bytes,
                count,
                pause_us,
            } => {
                let reads = dma::Reads {
                    path,
                    block_bytes: *block_bytes,
                    count: *count,
                    pause_us: *pause_us,
                };
                dma::run(report, &reads)?;
            }
            Load::Forkstorm { width, child_us } => forkstorm::run(report, *width, *child_us)?,
            Load::Copy { kib } => copy::run(report, *kib),
            Load::Requests(options) => requests::run(report, options.into())?,
            Load::Lbm {
                side,
                planes,
                steps,
            } => lbm::run(report, *side as usize, *planes as usize, *steps)?,
            Load::Chase { chase, steps } => chase::run(report, *chase, *steps)?,
            Load::Fdtd { side, steps } => fdtd::run(report, *side as usize, *steps)?,
        }
        Ok(())
    }
}

/// `0,2-3` as a list of CPU numbers.
fn parse_cpus(list: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bad = || format!("--cpus {list}: expected a list such as 0,2-3");
        let first: usize = first.parse().with_context(bad)?;
        let last: usize = last.parse().with_context(bad)?;
        if last < first || last >= libc::CPU_SETSIZE as usize {
            bail!(bad());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

fn prepare(opts: &Opts) -> Result<()> {
    process::die_with_parent()?;
    signals::install()?;
    if let Some(nice) = opts.nice {
        process::set_nice(nice)?;
    }
    if let Some(list) = &opts.cpus {
        process::set_affinity(&parse_cpus(list)?)?;
    }
    // The name comes last: a process that waits for it finds the rest done.
    if let Some(name) = &opts.name {
        process::set_name(name)?;
    }
    if opts.gate {
        process::wait_gate()?;
    }
    if let Some(seconds) = opts.duration_s {
        if !(seconds > 0.0 && seconds < 1e9) {
            bail!("--duration-s {seconds} is not between 0 and 1e9");
        }
        signals::stop_after(Duration::from_secs_f64(seconds))?;
    }
    Ok(())
}

fn run(opts: &Opts) -> Result<()> {
    prepare(opts)?;
    let cpu_before_ns = clock::thread_cpu_ns();
    let mut report = Report {
        load: opts.load.name().to_string(),
        pid: std::process::id(),
        start_ns: clock::now_ns(),
        ..Report::default()
    };
    opts.load.run(&mut report)?;
    report.end_ns = clock::now_ns();
    report.cpu_ns = clock::thread_cpu_ns() - cpu_before_ns;
    match &opts.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

fn main() -> std::process::ExitCode {
    match run(&Opts::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drfq-load: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_list_is_parsed_and_a_wrong_one_refused() {
        assert_eq!(parse_cpus("0,2-3").unwrap(), [0, 2, 3]);
        for bad in ["", "3-1", "a", "0,", "-1", "99999"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }
}

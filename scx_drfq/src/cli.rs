// SPDX-License-Identifier: GPL-2.0-only
//! The command line. `crate::options` has the options of the scheduler itself.

use std::{str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand};
use drfq_version::VERSION;

use crate::options::Options;

/// Shares CPU time and memory bandwidth by dominant resource fair queueing.
///
/// Without a command, scx_drfq loads the scheduler. It runs until Ctrl-C or
/// SIGTERM, or until the kernel ends it; the kernel then returns to its own
/// scheduler. scx_drfq needs CAP_BPF and CAP_PERFMON, so run it as root; it
/// drops all other privileges.
#[derive(Debug, Parser)]
#[command(name = "scx_drfq", version = VERSION, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of scheduling.
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub run: Run,

    #[command(flatten, next_help_heading = "Scheduler options")]
    pub options: Options,
}

/// Options of the command itself.
#[derive(Args, Debug)]
pub struct Run {
    /// Print the values that would be loaded, as TOML, and exit; needs no privileges
    #[arg(long)]
    pub dry_run: bool,

    /// Print a line of statistics every SEC seconds while scheduling [0.1 to 3600]
    #[arg(long, value_name = "SEC", conflicts_with = "dry_run")]
    pub stats: Option<Seconds>,

    /// Do not schedule; print a line of statistics of the running scx_drfq every
    /// SEC seconds [0.1 to 3600]
    #[arg(long, value_name = "SEC", conflicts_with_all = ["dry_run", "stats"])]
    pub monitor: Option<Seconds>,

    /// Describe all statistics, and exit
    #[arg(long, exclusive = true)]
    pub help_stats: bool,

    /// Show the messages of libbpf and the BPF verifier
    #[arg(short, long)]
    pub verbose: bool,
}

/// Commands that do not schedule.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what runs under scx_drfq against its fair share: tasks, processes,
    /// cgroups, CPUs, memory, controller; F1 lists the keys
    Top(Top),

    /// Explain in plain words what a task, process or cgroup asked for, what it
    /// got, what holds it back, and what to type to change it
    Explain(Explain),

    /// Check whether scx_drfq can run here, one line per requirement; the exit
    /// status is 0 if it can
    Doctor,

    /// Charge a task for memory traffic that the kernel does not report, such as
    /// that of a driver in user space
    ChargeTraffic(ChargeTraffic),
}

/// Options of `top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Print tables instead of drawing on the screen; this is the default if the
    /// output is no terminal
    #[arg(long)]
    pub plain: bool,

    /// Refresh interval; rates and shares cover this interval [seconds, 0.1 to 3600]
    #[arg(long, value_name = "SEC", default_value = "1")]
    pub interval: Seconds,

    /// End after this time [seconds, 0.1 to 3600; default: run until Ctrl-C or q]
    #[arg(long, value_name = "SEC")]
    pub duration: Option<Seconds>,

    /// Number of tasks in a printed table [1 to 10000]
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rows: u32,
}

/// Options of `explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// A process or thread id, the path of a cgroup, or the name of its last level,
    /// such as nginx.service
    #[arg(value_name = "PID|CGROUP")]
    pub entity: String,

    /// The interval that is explained [seconds, 0.1 to 3600]
    #[arg(long, value_name = "SEC", default_value = "1")]
    pub interval: Seconds,
}

/// The largest charge (bytes).
pub const CHARGE_MAX: u64 = 1_000_000_000_000;

/// Options of `charge-traffic`.
#[derive(Args, Debug)]
pub struct ChargeTraffic {
    /// Thread id of the task
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: u32,

    /// Bytes to charge [1 to 1 TB; default: read one number per line of standard
    /// input, and print it once it is charged]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=CHARGE_MAX))]
    pub bytes: Option<u64>,
}

/// A time of 0.1 to 3600 seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(seconds) if (0.1..=3600.0).contains(&seconds) => {
                Ok(Self(Duration::from_secs_f64(seconds)))
            }
            _ => Err("expected a number of seconds between 0.1 and 3600".into()),
        }
    }
}

/// An error of the command line in one line.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    // The tip and the usage follow after an empty line.
    let reason = text.lines().take_while(|line| !line.trim().is_empty());
    let reason = reason.map(str::trim).collect::<Vec<_>>().join(" ");
    format!("{} (see --help)", reason.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_interval_outside_its_bounds_is_refused() {
        assert_eq!("0.5".parse(), Ok(Seconds(Duration::from_millis(500))));
        for text in ["0", "-1", "0.05", "3601", "inf", "nan", "", "1s"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_refuses_options_of_the_scheduler() {
        for line in [
            "--slice-us 4000 top",
            "--dry-run doctor",
            "--help-stats --stats 1",
        ] {
            let words = std::iter::once("scx_drfq").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn an_error_becomes_one_line() {
        for line in [
            "--no-such",
            "--slice-us 0",
            "--variant x",
            "charge-traffic",
            "frobnicate",
        ] {
            let words = std::iter::once("scx_drfq").chain(line.split(' '));
            let text = one_line(&Cli::try_parse_from(words).unwrap_err());
            assert!(!text.contains('\n') && !text.starts_with("error"), "{text}");
        }
    }
}

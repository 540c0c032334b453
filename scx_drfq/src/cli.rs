// SPDX-License-Identifier: GPL-2.0-only
//! The command line. `crate::options` has the options of the scheduler itself.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use drfq_version::VERSION;
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::{local_time::TimeOfDay, metrics::Address, options::Options, stats_group::StatsGroup};

/// Shares CPU time and memory bandwidth by dominant resource fair queueing.
///
/// Without a command, scx_drfq loads the scheduler. It runs until Ctrl-C or
/// SIGTERM, or until the kernel ends it; the kernel then returns to its own
/// scheduler. scx_drfq needs CAP_BPF and CAP_PERFMON, so run it as root; it
/// drops the privileges that it does not need.
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

    #[command(flatten)]
    pub libbpf: Libbpf,
}

/// libbpf's options, which all scx schedulers have. They are for experts, so the help
/// leaves them out.
#[derive(Args, Debug)]
#[allow(missing_docs)]
pub struct Libbpf {
    #[arg(long, hide = true)]
    pub relaxed_maps: Option<bool>,
    #[arg(long, hide = true)]
    pub pin_root_path: Option<String>,
    #[arg(long, hide = true)]
    pub kconfig: Option<String>,
    #[arg(long, hide = true)]
    pub btf_custom_path: Option<String>,
    #[arg(long, hide = true)]
    pub bpf_token_path: Option<String>,
}

impl Libbpf {
    /// In the form that libbpf's binding takes.
    pub fn options(&self) -> LibbpfOpts {
        LibbpfOpts {
            relaxed_maps: self.relaxed_maps,
            pin_root_path: self.pin_root_path.clone(),
            kconfig: self.kconfig.clone(),
            btf_custom_path: self.btf_custom_path.clone(),
            bpf_token_path: self.bpf_token_path.clone(),
        }
    }
}

/// Options of the command itself.
#[derive(Args, Debug)]
pub struct Run {
    /// TOML file of options and rules; SIGHUP reads its rules again [default:
    /// /etc/scx_drfq.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print all options and rules as a configuration file, and exit; needs no privileges
    #[arg(long, conflicts_with = "dry_run")]
    pub print_config: bool,

    /// Print the values that would be loaded, as TOML, and exit; needs no privileges
    #[arg(long)]
    pub dry_run: bool,

    /// Print a line of statistics every SEC seconds while scheduling [0.1 to 3600]
    #[arg(long, value_name = "SEC", conflicts_with = "dry_run")]
    pub stats: Option<Seconds>,

    /// Do not schedule; print a line of statistics every SEC seconds [0.1 to 3600]
    #[arg(long, value_name = "SEC", conflicts_with_all = ["dry_run", "stats"])]
    pub monitor: Option<Seconds>,

    /// With --stats or --monitor: print all statistics as JSON, an object per line
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,

    /// Serve OpenMetrics under /metrics at ADDRESS:PORT, or for this user at unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Address>,

    /// A group, by name or number, whose members may read statistics as this user may
    #[arg(long, value_name = "GROUP")]
    pub stats_group: Option<StatsGroup>,

    /// Describe all statistics, and exit
    #[arg(long, exclusive = true)]
    pub help_stats: bool,

    /// Show the messages of libbpf and the BPF verifier; RUST_LOG chooses others, such
    /// as info
    #[arg(short, long)]
    pub verbose: bool,

    /// A number that tells this run from others in its messages and statistics
    #[arg(long, value_name = "N")]
    pub run_id: Option<u64>,

    /// Length of the kernel's exit dump [bytes, 1024 to 16777216; default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=1 << 24))]
    pub exit_dump_len: Option<u32>,
}

/// Commands that do not schedule.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what runs under scx_drfq against its fair share; F1 lists the keys
    Top(Top),

    /// Explain in words what a task, process or cgroup got, and how to change it
    Explain(Explain),

    /// Record the running scx_drfq in a file
    Record(Record),

    /// Make a page of a recording, or tell what happened at a time
    Report(Report),

    /// Write a recording to standard output as CSV, JSON lines or a trace
    Export(Export),

    /// Check whether scx_drfq can run here; the exit status is 0 if it can
    Doctor,

    /// Measure the memory of this machine, and keep the result for the scheduler
    Calibrate(Calibrate),

    /// Measure what sensors, memory and schedulers do here, for a report
    Evidence(Evidence),

    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },

    /// Write the manual pages
    #[command(hide = true)]
    ManPages {
        /// Where to
        directory: PathBuf,
    },

    /// Charge a task for memory traffic that the kernel does not report
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

    /// Show this recording instead of the running scheduler, at the speed at which it was
    /// made
    #[arg(long, value_name = "FILE", conflicts_with = "interval")]
    pub replay: Option<PathBuf>,

    /// With --replay: begin at this time [local time, such as 03:12 or 2026-11-22T03:12:30]
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub at: Option<TimeOfDay>,

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

/// Options of `record`.
#[derive(Args, Debug)]
pub struct Record {
    /// The file; a recording that exists is continued
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Time between two snapshots [seconds, 0.1 to 3600]
    #[arg(long, value_name = "SEC", default_value = "1")]
    pub interval: Seconds,

    /// End after this time [seconds, 0.1 to 3600; default: run until Ctrl-C]
    #[arg(long, value_name = "SEC")]
    pub duration: Option<Seconds>,

    /// Largest size of the file [bytes, optionally with k, M or G, 64k to 1000G]. If it is
    /// reached, the older half keeps one snapshot in sixty, and then the oldest go
    #[arg(long, value_name = "BYTES", default_value = "100M")]
    pub max_size: Size,
}

/// Options of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to write the page [default: print what changed as text]
    #[arg(short, long, value_name = "HTML")]
    pub output: Option<PathBuf>,

    /// Tell what changed at this time [local time, such as 03:12 or 2026-11-22T03:12:30;
    /// default: compare the two halves]
    #[arg(long, value_name = "TIME")]
    pub at: Option<TimeOfDay>,
}

/// What `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A row for each task and time, with a head
    Csv,
    /// An object per line, as --json prints them
    Jsonl,
    /// The trace events of Chrome, which ui.perfetto.dev opens
    Perfetto,
}

/// Options of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
}

/// A size of a file (bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, factor) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 1000),
            Some((at, 'M')) => (&text[..at], 1_000_000),
            Some((at, 'G')) => (&text[..at], 1_000_000_000),
            _ => (text, 1),
        };
        let plain = digits.chars().all(|c| c.is_ascii_digit());
        let bytes = digits.parse::<u64>().ok().filter(|_| plain);
        let bytes = bytes.and_then(|number| number.checked_mul(factor));
        bytes
            .filter(|bytes| (64_000..=1_000_000_000_000).contains(bytes))
            .map(Self)
            .ok_or("expected a size between 64k and 1000G, such as 100M".into())
    }
}

/// The largest charge (bytes).
pub const CHARGE_MAX: u64 = 1_000_000_000_000;

/// Options of `calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// How long to measure, in all [seconds, 2 to 3600]
    #[arg(long, value_name = "SEC", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(2..=3600))]
    pub seconds: u16,

    /// Print what is measured, and keep nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Keep the result although other programs ran meanwhile
    #[arg(long, conflicts_with = "dry_run")]
    pub force: bool,
}

/// Options of `evidence`.
#[derive(Args, Debug)]
pub struct Evidence {
    /// The file
    #[arg(value_name = "FILE", default_value = "scx_drfq-evidence.json")]
    pub file: PathBuf,

    /// How long to measure, in all [seconds, 10 to 3600]
    #[arg(long, value_name = "SEC", default_value_t = 600,
          value_parser = clap::value_parser!(u16).range(10..=3600))]
    pub seconds: u16,
}

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

impl Seconds {
    /// Checks that a measurement of this interval ends within the duration.
    ///
    /// # Errors
    /// It does not; in one line.
    pub fn fits(self, duration: Option<Self>) -> Result<(), String> {
        match duration {
            Some(whole) if whole.0 < self.0 => Err(format!(
                "--duration {} ends before the first --interval of {} s, so nothing is measured; \
                 choose a longer duration or a shorter interval",
                whole.0.as_secs_f64(),
                self.0.as_secs_f64()
            )),
            _ => Ok(()),
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
    fn a_size_outside_its_bounds_is_refused() {
        assert_eq!("64k".parse(), Ok(Size(64_000)));
        assert_eq!("1000G".parse(), Ok(Size(1_000_000_000_000)));
        for text in [
            "",
            "k",
            "63k",
            "1001G",
            "-1M",
            "1.5M",
            "99999999999999999999G",
            "+5M",
            "½M",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
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

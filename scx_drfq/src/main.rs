// SPDX-License-Identifier: GPL-2.0-only
//! The command `scx_drfq`. Its exit status is 0 after success, 1 if the machine or
//! the kernel refused, and 2 after an error in the command line or the configuration
//! file. Each error is one line.

mod accounts;
mod agent;
mod bandwidth;
mod bpf_intf;
mod bpf_memory;
mod bpf_skel;
mod calibrate;
mod calibration;
mod callbacks;
mod capacity;
mod charge;
mod cli;
mod client;
mod config;
mod connections;
mod counters;
mod devices;
mod doctor;
mod evidence;
mod exit_report;
mod export;
mod group_limits;
mod json_lines;
mod kernel_btf;
mod link_summary;
mod links;
mod loader;
mod loads;
mod local_time;
mod manual;
mod mba;
mod metrics;
mod open_files;
mod options;
mod periodic;
mod preflight;
mod printer;
mod privileges;
mod realtime;
mod record;
mod report;
mod rule_weights;
mod server;
mod settings;
mod signals;
mod stats_group;
mod stats_process;
mod tasks;
mod top;

use std::{
    env,
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use anyhow::Result;
use drfq_sense::{root, topology::Topology};

use crate::{
    capacity::{Capacity, Wanted},
    cli::Command,
    config::Config,
    settings::{Refusal, Settings},
    signals::Reload,
};

/// Why the command failed.
enum Failure {
    /// The options contradict each other.
    Usage(String),
    /// Any other reason.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

fn main() -> ExitCode {
    let reload = Reload::default();
    let settings = match Settings::read(env::args_os(), || reload.listen()) {
        Ok(settings) => settings,
        // --help and --version.
        Err(Refusal::CommandLine(text)) if !text.use_stderr() => return print(&text.to_string()),
        Err(refusal) => return fail(2, &refusal.text()),
    };
    match run(settings, reload) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Usage(text)) => fail(2, &text),
        Err(Failure::Other(error)) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(Failure::Other(error)) => fail(1, &format!("{error:#}")),
    }
}

/// Runs a command. Returns whether its checks succeeded.
fn run(settings: Settings, reload: Reload) -> Result<bool, Failure> {
    let cli = &settings.cli;
    if cli.run.json && cli.run.stats.is_none() && cli.run.monitor.is_none() {
        return Err(Failure::Usage(
            "--json needs --stats SEC or --monitor SEC; add one of the two".into(),
        ));
    }
    match &cli.command {
        Some(Command::Top(options)) => {
            if options.replay.is_none() {
                let fits = options.interval.fits(options.duration);
                fits.map_err(Failure::Usage)?;
            }
            top::run(options)?;
        }
        Some(Command::Explain(options)) => top::explain_entity(options)?,
        Some(Command::Record(options)) => {
            let fits = options.interval.fits(options.duration);
            fits.map_err(Failure::Usage)?;
            record::run(options)?;
        }
        Some(Command::Report(options)) => report::run(options)?,
        Some(Command::Export(options)) => export::run(options)?,
        Some(Command::Completions { shell }) => manual::completions(*shell)?,
        Some(Command::ManPages { directory }) => manual::pages(directory)?,
        Some(Command::Doctor) => return Ok(doctor::run(&mut io::stdout())?),
        Some(Command::Calibrate(options)) => calibrate::command(options)?,
        Some(Command::Evidence(options)) => evidence::command(options)?,
        Some(Command::ChargeTraffic(charge)) => charge::run(charge.pid, charge.bytes)?,
        None if cli.run.help_stats => server::describe(&mut io::stdout())?,
        None => match cli.run.monitor {
            Some(interval) => client::monitor(interval.0, cli.run.json)?,
            None => schedule(settings, reload)?,
        },
    }
    Ok(true)
}

fn schedule(settings: Settings, reload: Reload) -> Result<(), Failure> {
    let cli = &settings.cli;
    let capacity = Capacity::find(cli.options.memory_bandwidth, &root());
    let resolve = || -> Result<Config, Failure> {
        let topology = Topology::read(&root())?;
        let resolved = cli.options.resolve(&topology, &capacity);
        resolved.map_err(|error| Failure::Usage(error.to_string()))
    };
    let config = resolve()?;
    if cli.run.print_config {
        settings::print(&settings, &mut io::stdout()).map_err(anyhow::Error::from)?;
        return Ok(());
    }
    if cli.run.dry_run {
        if let (Wanted::Auto, Capacity::Unknown(reason)) = (cli.options.memory_bandwidth, &capacity)
        {
            // What root alone may read could tell m.
            let _ = writeln!(io::stderr(), "scx_drfq: m is unknown here: {reason}");
        }
        let text = toml::to_string(&config).map_err(anyhow::Error::from)?;
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(anyhow::Error::from)?;
        return Ok(());
    }
    agent::run(settings, reload)?;
    Ok(())
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn fail(status: u8, text: &str) -> ExitCode {
    // A library's error may have several lines; they become clauses of one line.
    // If standard error is closed, the line has no reader.
    let line = text
        .split('\n')
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let line = line.collect::<Vec<_>>().join("; ");
    let _ = writeln!(io::stderr(), "scx_drfq: {line}");
    ExitCode::from(status)
}

/// Whether the reader of our output has gone, which is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

// SPDX-License-Identifier: GPL-2.0-only
//! Two tenants share a modelled machine, under the kernel's scheduler and under scx_drfq.

mod figures;
#[cfg(test)]
mod fixture;
mod gallery;
mod guest;
mod host;
mod machine;
mod sample;
mod screen;
mod script;
mod tenant;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Two tenants share a modelled machine, under the kernel's scheduler and under scx_drfq.
#[derive(Parser)]
#[command(name = "drfq-demo", version)]
struct Options {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand)]
enum Side {
    /// Start the tenants, and print a line of JSON per interval (in the virtual machine).
    Guest(guest::Options),
    /// Start the virtual machine and show it: a screen on a terminal, otherwise text.
    Host(host::Options),
    /// Print a picture (SVG) of recorded samples.
    Picture(gallery::Options),
}

fn main() -> ExitCode {
    let result = match &Options::parse().side {
        Side::Guest(options) => guest::run(options),
        Side::Host(options) => host::run(options),
        Side::Picture(options) => gallery::picture(options).map(|svg| print!("{svg}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drfq-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

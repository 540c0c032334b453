// SPDX-License-Identifier: GPL-2.0-only
//! The cache lines that move most between CPUs, with the variables in them and the code that
//! stores to them. The layout is that of the host's compiler, not that of the BPF object.

use std::cmp::Reverse;
use std::path::Path;
use std::process::{Command, ExitCode};

use drfq_sim::count::{Counts, Entry, Kind, Line};
use drfq_sim::scale::{Load, counted};

const LINE_BYTES: u64 = 64;
const SHOWN: usize = 12;

/// What a program of binutils prints.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let run = Command::new(program).args(arguments).output();
    let run = run.map_err(|error| format!("cannot run {program}: {error}; install binutils"))?;
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// The variables of the program as (address, name), in order.
fn variables(program: &str) -> Result<Vec<(u64, String)>, String> {
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let data = matches!(kind, "b" | "B" | "d" | "D" | "r" | "R");
        Some((address, words.next()?.to_owned())).filter(|_| data)
    };
    let text = output("nm", &["--numeric-sort", program])?;
    Ok(text.lines().filter_map(symbol).collect())
}

/// The variables that begin in a line, or the one that goes through it.
fn names(line: &Line, variables: &[(u64, String)]) -> String {
    let end = line.address + LINE_BYTES;
    let first = variables.partition_point(|(address, _)| *address < line.address);
    let last = variables.partition_point(|(address, _)| *address < end);
    if first < last {
        let names = variables[first..last].iter().map(|(_, name)| name.as_str());
        return names.collect::<Vec<_>>().join(" ");
    }
    match first.checked_sub(1).map(|before| &variables[before]) {
        Some((address, name)) if line.address - address < 1 << 20 => {
            format!("{name} + {}", line.address - address)
        }
        _ => "a map".into(),
    }
}

/// FILE:LINE of an instruction, with those of the functions that it was inlined into.
fn place(program: &str, site: u64) -> Result<String, String> {
    let address = format!("{site:#x}");
    let text = output("addr2line", &["-i", "-s", "-e", program, &address])?;
    Ok(text.lines().collect::<Vec<_>>().join(", from "))
}

fn report(program: &str, load: &Load, window_ns: u64) -> Result<(), String> {
    let mut sim = counted(load, window_ns);
    let counts = Counts::of(sim.kernel());
    let variables = variables(program)?;
    let mut lines = counts.lines();
    lines.sort_by_key(|line| Reverse(line.moves));
    println!(
        "{} line moves in {} wake-ups and {} calls of __schedule() and what led to it",
        counts.sum(Entry::Switch, Kind::LineMoves) + counts.sum(Entry::Wake, Kind::LineMoves),
        counts.entries(Entry::Wake),
        counts.entries(Entry::Switch),
    );
    for line in lines.iter().take(SHOWN) {
        println!(
            "\n{}: {} moves, {} loads, {} stores by {} CPUs",
            names(line, &variables),
            line.moves,
            line.loads,
            line.stores,
            line.cpus
        );
        for (site, stores) in line.sites.iter().zip(line.site_stores) {
            if *site != 0 {
                println!("  {stores:>8} stores  {}", place(program, *site)?);
            }
        }
    }
    Ok(())
}

/// Prints the lines of a load of three tasks for each CPU.
pub fn print(cpus: usize, llcs: usize, window_ns: u64) -> ExitCode {
    let program = std::env::current_exe().unwrap_or_default();
    let program = Path::new(&program).to_string_lossy();
    match report(&program, &Load::new(cpus, llcs), window_ns) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: error: {error}");
            ExitCode::FAILURE
        }
    }
}

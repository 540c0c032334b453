// SPDX-License-Identifier: GPL-2.0-only
//! Runs random cases until time is up. A case that breaks an invariant is made small and written
//! as a file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use drfq_sim::fuzz::{Case, generate, judge, shrink};

/// Looks for events after which the scheduler breaks an invariant, in the simulator
#[derive(Parser)]
#[command(name = "fuzz")]
struct Options {
    /// Stop after this time
    #[arg(long, value_name = "SEC", default_value_t = 600)]
    seconds: u64,
    /// The first seed; the others follow it
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Where the smallest cases go, as files for tests/sim/cases
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Judge this case instead of random ones
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    /// Stop after so many findings of different kinds
    #[arg(long, value_name = "N", default_value_t = 10)]
    findings: usize,
    /// Runs to make a case smaller
    #[arg(long, value_name = "N", default_value_t = 3000)]
    shrink: usize,
}

fn judge_file(path: &PathBuf) -> Result<bool, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let case = Case::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if !case.is_valid() {
        return Err(format!(
            "{}: an index or a CPU set is wrong",
            path.display()
        ));
    }
    let finding = judge(&case);
    match &finding {
        None => println!("{}: no invariant is broken", path.display()),
        Some(finding) => println!("{}: {}", path.display(), finding.text.join("\n")),
    }
    Ok(finding.is_none())
}

fn fuzz(options: &Options) -> Result<bool, String> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut kinds: Vec<String> = Vec::new();
    let mut cases = 0u64;
    while Instant::now() < end && kinds.len() < options.findings {
        let seed = options.seed + cases;
        cases += 1;
        let case = generate(seed);
        let Some(finding) = judge(&case).filter(|f| !kinds.contains(&f.kind)) else {
            continue;
        };
        println!("seed {seed}: {}", finding.text[0]);
        let smallest = shrink(&case, &finding, options.shrink);
        let path = options.out.join(format!("seed-{seed}.toml"));
        std::fs::write(&path, smallest.text())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!(
            "  {} tasks, {} events: {}",
            smallest.tasks.len(),
            smallest.events.len(),
            path.display()
        );
        kinds.push(finding.kind);
    }
    println!(
        "{cases} cases from seed {}, {} findings",
        options.seed,
        kinds.len()
    );
    Ok(kinds.is_empty())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.case {
        Some(path) => judge_file(path),
        None => fuzz(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("fuzz: error: {error}");
            ExitCode::from(2)
        }
    }
}

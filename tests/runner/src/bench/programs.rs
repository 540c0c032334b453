// SPDX-License-Identifier: GPL-2.0-only
//! Programs of others that the benchmark runs where they are installed.

use super::{compile, schbench};
use anyhow::{Context, Result, bail};
use std::process::{Command, Output};

/// What a program measured: what, unit and value.
pub type Measured = Vec<(String, &'static str, f64)>;

/// Groups of 20 senders and 20 receivers, and messages of each pair.
const HACKBENCH: [&str; 4] = ["-g", "2", "-l", "100"];

/// A load that needs programs which a machine may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Schbench,
    Hackbench,
    Build,
}

impl Program {
    const ALL: [Self; 3] = [Self::Schbench, Self::Hackbench, Self::Build];

    /// Executables that it needs in PATH.
    fn executables(self) -> &'static [&'static str] {
        match self {
            Self::Schbench => &["schbench"],
            Self::Hackbench => &["hackbench"],
            Self::Build => &["make", "cc"],
        }
    }

    /// How a user gets them.
    fn advice(self) -> &'static str {
        match self {
            Self::Schbench => "build github.com/masoncl/schbench (no distribution has it)",
            Self::Hackbench => "install rt-tests",
            Self::Build => "install make and gcc",
        }
    }

    /// Runs it once.
    pub fn measure(self) -> Result<Measured> {
        match self {
            Self::Schbench => schbench::measure(),
            Self::Hackbench => hackbench(),
            Self::Build => compile::measure(),
        }
    }
}

/// Those that can run here. Standard error tells which are left out.
pub fn installed() -> Vec<Program> {
    let mut all = Program::ALL.to_vec();
    all.retain(|program| {
        let missing = program.executables().iter().find(|name| !is_in_path(name));
        if let Some(name) = missing {
            let advice = program.advice();
            eprintln!("{name} is not in PATH, so its rows are left out: {advice}");
        }
        missing.is_none()
    });
    all
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// What a command prints; an error with its standard error if it fails.
pub fn output(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {text}", output.status);
    }
    Ok(output)
}

fn hackbench() -> Result<Measured> {
    let output = output(Command::new("hackbench").args(HACKBENCH))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds =
        hackbench_s(&text).with_context(|| format!("hackbench printed no time: {text:?}"))?;
    let what = format!("hackbench {}", HACKBENCH.join(" "));
    Ok(vec![(what, "ms", seconds * 1e3)])
}

/// The seconds that hackbench printed.
fn hackbench_s(text: &str) -> Option<f64> {
    let time = text.lines().find_map(|line| line.strip_prefix("Time:"))?;
    time.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_hackbench_is_found() {
        let text = "Running in process mode with 2 groups using 40 file descriptors each \
                    (== 80 tasks)\nEach sender will pass 100 messages of 100 bytes\nTime: 2.299\n";
        assert_eq!(hackbench_s(text), Some(2.299));
        assert_eq!(hackbench_s("Time: soon\n"), None);
        assert_eq!(hackbench_s(""), None);
    }

    #[test]
    fn only_a_file_of_path_is_a_program() {
        assert!(is_in_path("sh"));
        assert!(!is_in_path("."));
        assert!(!is_in_path("no-such-program"));
    }

    #[test]
    fn a_failed_command_tells_why() {
        let failed = output(Command::new("sh").args(["-c", "echo reason >&2; exit 3"]));
        let text = failed.unwrap_err().to_string();
        assert!(
            text.contains("status: 3") && text.contains("reason"),
            "{text}"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command while scx_drfq is loaded.

use crate::kmsg::Kmsg;
use crate::scenario::SchedulerProgram;
use crate::scheduler::{Executables, LoadedScheduler, wait_for_state};
use crate::stats_client::Stats;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long loading again may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Retries, because a scheduler that was loaded again serves its statistics later.
fn ask_with_retries() -> Result<Stats> {
    let start = Instant::now();
    loop {
        match Stats::ask() {
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
            answer => return answer,
        }
    }
}

/// Loads scx_drfq with `args`, runs `command`, unloads. Whether the command
/// succeeded and neither the scheduler nor the kernel reports an error.
pub fn run(args: &[String], command: &[String], dir: &Path) -> Result<bool> {
    let mut kmsg = Kmsg::from_now()?;
    let log = dir.join("scheduler.log");
    let mut loaded =
        LoadedScheduler::start(&Executables::find()?, SchedulerProgram::ScxDrfq, args, &log)?;
    let (program, rest) = command.split_first().context("no command given")?;
    let status = Command::new(program)
        .args(rest)
        .env("DRFQ_AGENT_PID", loaded.pid().unwrap_or(0).to_string())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    let mut trouble = Vec::new();
    if !status.success() {
        trouble.push(format!("{program} ended with {status}"));
    }
    if loaded.exited()?.is_none() {
        // The command may have made it restart.
        wait_for_state("enabled", PATIENCE)?;
        let stats = ask_with_retries()?;
        trouble.extend(stats.contradictions()?);
        println!("events: {}", serde_json::to_string(&stats.system.rest)?);
    }
    if let Err(error) = loaded.stop() {
        trouble.push(format!("{error:#}"));
    }
    trouble.extend(
        kmsg.trouble()?
            .into_iter()
            .map(|line| format!("kernel log: {line}")),
    );
    trouble.iter().for_each(|line| println!("{line}"));
    Ok(trouble.is_empty())
}

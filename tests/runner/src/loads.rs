// SPDX-License-Identifier: GPL-2.0-only
//! The processes of a case. They start behind a gate and are released together.

use crate::process::{Stat, Usage};
use crate::scenario::Task;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// One process of a case.
pub struct Load {
    /// Which of the case's tasks it is a copy of.
    pub task: usize,
    /// Name of the process.
    pub name: String,
    child: Child,
    report: PathBuf,
}

/// All processes of a case. Dropping it kills them.
pub struct Loads {
    /// In the order of the case's tasks.
    pub all: Vec<Load>,
    gate: Option<PipeWriter>,
}

impl Loads {
    /// Starts every copy of every task and waits until all wait at the gate.
    /// Reports go to `dir`.
    pub fn start(program: &Path, tasks: &[Task], dir: &Path) -> Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let mut loads = Self {
            all: Vec::new(),
            gate: Some(writer),
        };
        for (index, task) in tasks.iter().enumerate() {
            for copy in 0..task.count {
                let name = format!("{}-{copy}", task.name);
                let report = dir.join(format!("load-{name}.json"));
                // An earlier run may have left one.
                let _ = std::fs::remove_file(&report);
                let pin = task.cpu.map(|cpu| format!("--cpus={cpu}"));
                let child = Command::new(program)
                    .args(["--gate", "--name", &name])
                    .args(pin)
                    .arg(format!("--nice={}", task.nice))
                    .arg("--json")
                    .arg(&report)
                    .args(task.load.split_whitespace())
                    .stdin(reader.try_clone()?)
                    .spawn()
                    .with_context(|| format!("cannot start {}", program.display()))?;
                loads.all.push(Load {
                    task: index,
                    name,
                    child,
                    report,
                });
            }
        }
        drop(reader);
        loads.wait_ready()?;
        Ok(loads)
    }

    /// The name is set last before the gate, and a load that sleeps then
    /// sleeps at the gate.
    fn wait_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        for load in &mut self.all {
            loop {
                let stat = Stat::read(load.pid())?;
                if stat.name == load.name && stat.state == 'S' {
                    break;
                }
                load.check_alive()?;
                ensure!(
                    start.elapsed() < PATIENCE,
                    "{} did not start in {PATIENCE:?}",
                    load.name
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Opens the gate.
    pub fn release(&mut self) {
        self.gate = None;
    }

    /// Begins the measured part of every load (SIGUSR1).
    pub fn mark(&self) {
        self.all.iter().for_each(|load| load.signal(libc::SIGUSR1));
    }

    /// What each process has used so far.
    pub fn usage(&mut self) -> Result<Vec<Usage>> {
        self.all
            .iter_mut()
            .map(|load| {
                load.check_alive()?;
                Usage::of(load.pid())
            })
            .collect()
    }

    /// Ends all loads and returns their reports.
    pub fn finish(mut self) -> Result<Vec<Value>> {
        self.release();
        self.all.iter().for_each(|load| load.signal(libc::SIGTERM));
        let start = Instant::now();
        let mut reports = Vec::new();
        for load in &mut self.all {
            let status = loop {
                match load.child.try_wait()? {
                    Some(status) => break status,
                    None if start.elapsed() > PATIENCE => bail!(
                        "{} did not end within {PATIENCE:?} after SIGTERM",
                        load.name
                    ),
                    None => std::thread::sleep(Duration::from_millis(2)),
                }
            };
            ensure!(status.success(), "{} ended with {status}", load.name);
            let text = std::fs::read_to_string(&load.report)
                .with_context(|| format!("{} left no report", load.name))?;
            reports.push(serde_json::from_str(&text)?);
        }
        self.all.clear();
        Ok(reports)
    }
}

impl Load {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended before it was told to: {status}", self.name),
            None => Ok(()),
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: not waited for yet, so the id is the child's.
        unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for load in &mut self.all {
            // A failure means that it has ended already.
            let _ = load.child.kill();
            let _ = load.child.wait();
        }
    }
}

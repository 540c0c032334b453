// SPDX-License-Identifier: GPL-2.0-only
//! Starts and stops a scheduler, and reads the kernel's sched_ext state.

use crate::scenario::SchedulerProgram;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const STATE_FILE: &str = "/sys/kernel/sched_ext/state";
const OPS_FILE: &str = "/sys/kernel/sched_ext/root/ops";

/// How long loading or unloading may take before it is called a failure. An
/// emulated machine on a busy host needs most of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the executables are.
#[derive(Debug, Clone)]
pub struct Executables {
    /// Directory of scx_drfq and drfq-load.
    pub ours: PathBuf,
    /// Directory of the peers, see tools/peers.
    pub peers: PathBuf,
}

impl Executables {
    /// Ours beside this executable, the peers in the cache.
    pub fn find() -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find this executable")?;
        let ours = exe
            .parent()
            .context("this executable has no directory")?
            .to_path_buf();
        Ok(Self {
            ours,
            peers: cache().join("peers/bin"),
        })
    }

    /// The executable of `program`; `None` for the kernel's own scheduler.
    pub fn path(&self, program: SchedulerProgram) -> Option<PathBuf> {
        match program {
            SchedulerProgram::Eevdf => None,
            SchedulerProgram::ScxDrfq => Some(self.ours.join("scx_drfq")),
            SchedulerProgram::ScxRusty => Some(self.peers.join("scx_rusty")),
            SchedulerProgram::ScxLavd => Some(self.peers.join("scx_lavd")),
            SchedulerProgram::ScxBpfland => Some(self.peers.join("scx_bpfland")),
            SchedulerProgram::ScxCosmos => Some(self.peers.join("scx_cosmos")),
        }
    }

    /// What `program --version` prints; empty for the kernel's own scheduler, and
    /// if it prints nothing.
    pub fn version(&self, program: SchedulerProgram) -> String {
        let output = self
            .path(program)
            .and_then(|path| Command::new(path).arg("--version").output().ok());
        let text = output.map_or_else(String::new, |output| {
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        text.trim().replace("scx_rusty: ", "scx_rusty ")
    }

    /// Whether `program` can be started.
    pub fn has(&self, program: SchedulerProgram) -> bool {
        self.path(program).is_none_or(|path| path.exists())
    }
}

/// The project's cache, where tools/peers puts it.
fn cache() -> PathBuf {
    let var = |name| std::env::var_os(name).map(PathBuf::from);
    var("DRFQ_CACHE").unwrap_or_else(|| {
        var("XDG_CACHE_HOME")
            .unwrap_or_else(|| var("HOME").unwrap_or_default().join(".cache"))
            .join("scx_drfq")
    })
}

/// A loaded scheduler. Dropping it kills its process, which unloads it.
pub struct LoadedScheduler {
    child: Option<Child>,
    log: PathBuf,
}

/// The kernel's sched_ext state: enabled, enabling, disabled, disabling.
pub fn sched_ext_state() -> Result<String> {
    let text = std::fs::read_to_string(STATE_FILE)
        .with_context(|| format!("cannot read {STATE_FILE}: this kernel has no sched_ext"))?;
    Ok(text.trim().to_string())
}

/// Name of the loaded scheduler, empty when there is none.
pub fn loaded_ops() -> String {
    std::fs::read_to_string(OPS_FILE)
        .unwrap_or_default()
        .trim()
        .to_string()
}

/// Polls until the state is `wanted`; the time it took.
pub fn wait_for_state(wanted: &str, limit: Duration) -> Result<Duration> {
    let start = Instant::now();
    loop {
        let now = sched_ext_state()?;
        if now == wanted {
            return Ok(start.elapsed());
        }
        ensure!(
            start.elapsed() < limit,
            "sched_ext is still {now} after {limit:?}, not {wanted}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl LoadedScheduler {
    /// Loads `program`, and waits until the kernel runs it. What it prints
    /// goes to the file `log`.
    pub fn start(
        executables: &Executables,
        program: SchedulerProgram,
        args: &[String],
        log: &Path,
    ) -> Result<Self> {
        let mut loaded = Self::spawn(executables, program, args, log)?;
        if loaded.child.is_some() {
            loaded.wait_enabled()?;
        }
        Ok(loaded)
    }

    /// Starts `program`, and does not wait until it is loaded.
    pub fn spawn(
        executables: &Executables,
        program: SchedulerProgram,
        args: &[String],
        log: &Path,
    ) -> Result<Self> {
        let before = sched_ext_state()?;
        ensure!(
            before == "disabled",
            "sched_ext is {before} ({}) before the run",
            loaded_ops()
        );
        let mut loaded = Self {
            child: None,
            log: log.to_path_buf(),
        };
        let Some(path) = executables.path(program) else {
            return Ok(loaded);
        };
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(&path)
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        loaded.child = Some(child);
        Ok(loaded)
    }

    fn wait_enabled(&mut self) -> Result<()> {
        let start = Instant::now();
        while sched_ext_state()? != "enabled" {
            if let Some(status) = self.exited()? {
                bail!(
                    "the scheduler ended while loading: {status}; {}",
                    self.end_of_log()
                );
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "the scheduler did not load within {PATIENCE:?}; {}",
                    self.end_of_log()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Process id of the agent; `None` for the kernel's own scheduler.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The exit status if the process has ended by itself.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }

    /// Unloads it as a user would (SIGINT). An error if it had ended before,
    /// fails, or does not end.
    pub fn stop(mut self) -> Result<()> {
        if let Some(status) = self.exited()? {
            bail!(
                "the scheduler ended before it was told to: {status}; {}",
                self.end_of_log()
            );
        }
        if self.child.is_some() {
            self.signal(libc::SIGINT);
            let status = self.wait()?;
            ensure!(
                status.success(),
                "the scheduler ended with {status}; {}",
                self.end_of_log()
            );
        }
        wait_for_state("disabled", PATIENCE)?;
        Ok(())
    }

    /// Kills the process (SIGKILL). Returns how long the kernel ran its scheduler, or was loading
    /// it, after that. The process may need longer, for its other programs.
    pub fn kill(mut self) -> Result<Duration> {
        let start = Instant::now();
        let mut took = Duration::ZERO;
        self.signal(libc::SIGKILL);
        loop {
            let ended = self.exited()?.is_some();
            if sched_ext_state()? != "disabled" {
                took = start.elapsed();
            } else if ended {
                return Ok(took);
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "the killed scheduler or its process did not end within {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signal: libc::c_int) {
        if let Some(child) = &self.child {
            // SAFETY: not waited for yet, so the id is the child's.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        }
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.exited()? {
                Some(status) => {
                    self.child = None;
                    return Ok(status);
                }
                None if start.elapsed() > PATIENCE => {
                    bail!(
                        "the scheduler did not end within {PATIENCE:?}; {}",
                        self.end_of_log()
                    )
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// The end of what it printed.
    fn end_of_log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().rev().take(12).collect();
        format!(
            "its last output:\n{}",
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        )
    }
}

impl Drop for LoadedScheduler {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // A failure means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

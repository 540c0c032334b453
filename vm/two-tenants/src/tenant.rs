// SPDX-License-Identifier: GPL-2.0-only
//! A tenant in the guest: a cgroup, its processes, and their account in resctrl.

use std::{
    fs,
    io::Read,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::sample::Usage;

const CGROUPS: &str = "/sys/fs/cgroup";
const RESCTRL: &str = "/sys/fs/resctrl";

/// Mounts resctrl, and lets cgroups have weights.
///
/// # Errors
/// The kernel has no resctrl, or this is not root.
pub fn prepare() -> Result<()> {
    write(&Path::new(CGROUPS).join("cgroup.subtree_control"), "+cpu")?;
    // SAFETY: the strings are terminated and outlive the call; there is no data.
    let refused = unsafe {
        let name = c"resctrl".as_ptr();
        libc::mount(name, c"/sys/fs/resctrl".as_ptr(), name, 0, std::ptr::null())
    };
    if refused != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot mount resctrl");
    }
    Ok(())
}

/// Writes a file of the kernel's.
fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {text} to {}", file.display()))
}

/// A cgroup and its processes.
pub struct Tenant {
    cgroup: PathBuf,
    monitor: PathBuf,
    weight: u32,
    processes: Vec<Child>,
}

impl Tenant {
    /// A tenant without processes.
    ///
    /// # Errors
    /// The kernel refuses its groups.
    pub fn new(name: &str, weight: u32) -> Result<Self> {
        let mut tenant = Self {
            cgroup: Path::new(CGROUPS).join(name),
            monitor: Path::new(RESCTRL).join("mon_groups").join(name),
            weight,
            processes: Vec::new(),
        };
        for directory in [&tenant.cgroup, &tenant.monitor] {
            fs::create_dir(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        tenant.set_weight(weight)?;
        Ok(tenant)
    }

    /// Changes the cgroup's weight.
    ///
    /// # Errors
    /// The kernel refuses the weight.
    pub fn set_weight(&mut self, weight: u32) -> Result<()> {
        write(&self.cgroup.join("cpu.weight"), &weight.to_string())?;
        self.weight = weight;
        Ok(())
    }

    /// Starts another process. It waits until it is in its groups.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, program: &Path, arguments: &[String], output: Stdio) -> Result<()> {
        let mut child = Command::new(program)
            .arg("--gate")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let pid = child.id().to_string();
        write(&self.cgroup.join("cgroup.procs"), &pid)?;
        write(&self.monitor.join("tasks"), &pid)?;
        // The load starts when this end of its pipe is closed.
        drop(child.stdin.take());
        self.processes.push(child);
        Ok(())
    }

    /// Stops all processes, or lets them go on. What arrived meanwhile is forgotten.
    ///
    /// # Errors
    /// The kernel cannot freeze cgroups.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        // The signals wait until the processes go on.
        for child in self.processes.iter().filter(|_| !frozen) {
            // SAFETY: the child is not waited for yet, so its id is no other process's.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGUSR1) };
        }
        let text = if frozen { "1" } else { "0" };
        write(&self.cgroup.join("cgroup.freeze"), text)
    }

    /// Ends the process that was started last.
    pub fn stop_one(&mut self) {
        if let Some(mut child) = self.processes.pop() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// How many processes there are.
    pub fn count(&self) -> u32 {
        self.processes.len() as u32
    }

    /// What it has used.
    ///
    /// # Errors
    /// The kernel's accounts cannot be read.
    pub fn usage(&self) -> Result<Usage> {
        let read = |file: PathBuf| {
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let stat = read(self.cgroup.join("cpu.stat"))?;
        let bytes = read(self.monitor.join("mon_data/mon_L3_00/mbm_total_bytes"))?;
        let cpu_us = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        Ok(Usage {
            cpu_us: cpu_us.and_then(|text| text.parse().ok()).unwrap_or(0),
            bytes: bytes.trim().parse().unwrap_or(0),
            weight: self.weight,
            processes: self.count(),
        })
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        while self.count() > 0 {
            self.stop_one();
        }
    }
}

/// The latencies that processes print into one pipe, a line each (us).
pub struct Latencies {
    output: std::io::PipeReader,
    input: std::io::PipeWriter,
    rest: String,
}

impl Latencies {
    /// An empty pipe.
    ///
    /// # Errors
    /// No pipe can be opened.
    pub fn new() -> Result<Self> {
        let (output, input) = std::io::pipe().context("cannot open a pipe")?;
        // SAFETY: the descriptor is open, and the arguments are plain integers.
        let refused = unsafe { libc::fcntl(output.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        if refused != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot open a pipe");
        }
        Ok(Self {
            output,
            input,
            rest: String::new(),
        })
    }

    /// An output for one more process.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn output(&self) -> Result<Stdio> {
        Ok(self.input.try_clone().context("cannot open a pipe")?.into())
    }

    /// What has been printed since the last call.
    pub fn take(&mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        // An empty pipe ends this with an error.
        let _ = self.output.read_to_end(&mut bytes);
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let whole = self.rest.rfind('\n').map_or(0, |at| at + 1);
        let lines = self.rest[..whole].lines();
        let values = lines.filter_map(|line| line.parse().ok()).collect();
        self.rest.drain(..whole);
        values
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_latency_that_is_printed_in_two_parts_is_one() {
        let mut latencies = Latencies::new().unwrap();
        let mut input = latencies.input.try_clone().unwrap();
        assert!(latencies.take().is_empty());
        input.write_all(b"12\n3").unwrap();
        assert_eq!(latencies.take(), [12]);
        input.write_all(b"4\n5\n").unwrap();
        assert_eq!(latencies.take(), [34, 5]);
    }
}

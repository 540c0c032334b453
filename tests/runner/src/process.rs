// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel counts for one process.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// `CLOCK_MONOTONIC` when it was read, ns.
    pub at_ns: u64,
    /// CPU time of all its threads, ns.
    pub cpu_ns: u64,
    /// Page faults, minor and major.
    pub faults: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
}

impl Usage {
    /// Reads it for process `pid`, which must not have been waited for.
    ///
    /// CPU time comes from the process' clock: unlike /proc/PID/schedstat it
    /// includes the packet that runs now, up to this call.
    pub fn of(pid: u32) -> Result<Self> {
        let cpu_ns = cpu_ns(pid)?;
        let at_ns = now_ns();
        let stat = Stat::read(pid)?;
        Ok(Self {
            at_ns,
            cpu_ns,
            faults: stat.faults,
            read_bytes: read_bytes(pid)?,
        })
    }

    /// What was used between `before` and this.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            at_ns: self.at_ns - before.at_ns,
            cpu_ns: self.cpu_ns - before.cpu_ns,
            faults: self.faults - before.faults,
            read_bytes: self.read_bytes - before.read_bytes,
        }
    }
}

/// Idle time of all CPUs since boot, ns, in steps of 10 ms.
pub fn idle_ns() -> Result<u64> {
    // SAFETY: sysconf has no preconditions.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    let text = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let fields: Vec<&str> = text
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let field = |i: usize| -> Result<u64> { Ok(fields.get(i).context("short")?.parse()?) };
    // cpu user nice system idle iowait
    let ticks = field(4).and_then(|idle| Ok(idle + field(5)?));
    Ok(ticks.context("/proc/stat has no idle time")? * (1_000_000_000 / ticks_per_s))
}

/// The fields of /proc/PID/stat that are used here.
pub struct Stat {
    /// Name, at most 15 bytes.
    pub name: String,
    /// State: R, S, D, T, Z, ...
    pub state: char,
    /// Page faults, minor and major.
    pub faults: u64,
}

impl Stat {
    /// Reads it for process `pid`.
    pub fn read(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&text).with_context(|| format!("{path}: {text:?}"))
    }

    fn parse(text: &str) -> Result<Self> {
        // The name is in parentheses and may hold any character.
        let open = text.find('(').context("no name")?;
        let close = text.rfind(')').context("no name")?;
        let fields: Vec<&str> = text[close + 1..].split_whitespace().collect();
        let number = |i: usize| -> Result<u64> { Ok(fields.get(i).context("short")?.parse()?) };
        Ok(Self {
            name: text[open + 1..close].to_string(),
            state: fields
                .first()
                .and_then(|f| f.chars().next())
                .context("no state")?,
            faults: number(7)? + number(9)?,
        })
    }
}

/// `CLOCK_MONOTONIC`, ns.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// CPU time of all threads of process `pid`, ns, up to now.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for writing.
    let rc = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if rc != 0 {
        bail!("process {pid} has no CPU clock: it has ended");
    }
    clock_ns(clock).with_context(|| format!("cannot read the CPU clock of process {pid}"))
}

/// The processes that process `pid` has started, which may have ended since: those of its
/// main thread.
pub fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    let pids = text.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

fn clock_ns(clock: libc::clockid_t) -> Result<u64> {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is valid for writing.
    if unsafe { libc::clock_gettime(clock, &mut ts) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// 0 on a kernel without I/O accounting.
fn read_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(0);
    };
    let line = text.lines().find_map(|l| l.strip_prefix("read_bytes: "));
    line.unwrap_or("0")
        .parse()
        .with_context(|| format!("{path}: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_parsed() {
        let text = "7 (a) R) S 1 7 7 0 -1 4194560 100 20 3 0 0 0 0 0 20 0 1 0 5 1 1";
        let got = Stat::parse(text).unwrap();
        assert_eq!(
            (got.name.as_str(), got.state, got.faults),
            ("a) R", 'S', 103)
        );
        assert!(Stat::parse("7 (x").is_err());
    }

    #[test]
    fn the_children_of_a_process_are_those_that_run() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let found = children(shell.id());
        assert_eq!(found, [line.trim().parse::<u32>().unwrap()]);
        // SAFETY: the child is the shell's, which waits for it.
        unsafe { libc::kill(found[0] as libc::pid_t, libc::SIGKILL) };
        shell.wait().unwrap();
        assert!(children(shell.id()).is_empty());
    }

    #[test]
    fn the_usage_of_a_running_process_grows() {
        let pid = std::process::id();
        let before = Usage::of(pid).unwrap();
        let used = Usage::of(pid).unwrap().since(&before);
        assert!(used.cpu_ns > 0 && used.at_ns > 0);
    }
}

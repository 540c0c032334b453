// SPDX-License-Identifier: GPL-2.0-only
//! What every load sets on its own process before it starts.

use anyhow::{Context, Result, bail};
use std::ffi::CString;
use std::io::Read;

/// Ends this process when its parent ends, however that happens.
pub fn die_with_parent() -> Result<()> {
    // SAFETY: plain integer arguments.
    let rc = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    check(rc, "cannot ask for the parent's death signal")
}

/// Sets the name that ps and top show; the kernel keeps 15 bytes.
pub fn set_name(name: &str) -> Result<()> {
    let name = CString::new(name).context("--name has a zero byte")?;
    // SAFETY: the string is terminated; the kernel copies at most 16 bytes.
    let rc = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    check(rc, "cannot set the name")
}

/// Sets the timers' slack to 1 ns in place of 50 us, so that a latency is the
/// scheduler's and not the timer's.
pub fn precise_timers() -> Result<()> {
    // SAFETY: plain integer arguments.
    let rc = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    check(rc, "cannot set the timer slack")
}

/// Sets the nice value, -20 to 19. Values below the present one need
/// `CAP_SYS_NICE`.
pub fn set_nice(nice: i32) -> Result<()> {
    // SAFETY: plain integer arguments; 0 names the calling process.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    check(rc, &format!("cannot set nice {nice}: run as root"))
}

/// Restricts the process to `cpus`.
pub fn set_affinity(cpus: &[usize]) -> Result<()> {
    // SAFETY: an all-zero set is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            bail!(
                "--cpus: CPU {cpu} is beyond the limit of {}",
                libc::CPU_SETSIZE - 1
            );
        }
        // SAFETY: `cpu` is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the size is that of `set`; 0 names the calling process.
    let rc = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    check(rc, &format!("cannot run on CPUs {cpus:?}"))
}

/// Waits until standard input ends. Loads that share one pipe as standard
/// input start together when its other end is closed.
pub fn wait_gate() -> Result<()> {
    let mut rest = Vec::new();
    std::io::stdin()
        .read_to_end(&mut rest)
        .context("cannot wait at the gate (standard input)")?;
    Ok(())
}

/// Page faults of this process so far: minor and major.
pub fn faults() -> u64 {
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

fn check(rc: libc::c_int, what: &str) -> Result<()> {
    if rc != 0 {
        return Err(std::io::Error::last_os_error()).context(what.to_string());
    }
    Ok(())
}

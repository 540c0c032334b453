// SPDX-License-Identifier: GPL-2.0-only
//! What the process may do. Of root's capabilities it keeps two, and lets
//! nothing that it might start gain others:
//!
//! * CAP_BPF and CAP_PERFMON load sched_ext programs and open counters, at the
//!   start and again after CPU hotplug.
//!
//! Where the kernel opens counters for CAP_SYS_ADMIN only (see
//! `drfq_sense::traffic_counters::needs_sys_admin`) it keeps that too, unless it runs
//! with `--perf-event none`.
//!
//! They are dropped to before anything is loaded, so that a load proves that
//! they suffice.

use std::io;

use anyhow::{Context, Result};
use caps::{CapSet, Capability, CapsHashSet};

const KEPT: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_PERFMON];

/// The capabilities that scheduling needs and the process has not, by name.
///
/// # Errors
/// The kernel does not tell.
pub fn missing() -> Result<Vec<String>> {
    let have = caps::read(None, CapSet::Effective).context("cannot read capabilities")?;
    let missing = KEPT.iter().filter(|capability| !have.contains(capability));
    Ok(missing.map(Capability::to_string).collect())
}

/// Gives up everything but what scheduling needs. Concerns the calling thread
/// and those that it starts later, so it must come before any other thread.
///
/// # Errors
/// The kernel refuses.
pub fn confine(keep_sys_admin: bool) -> Result<()> {
    let context = "cannot drop privileges";
    let mut kept: CapsHashSet = KEPT.into_iter().collect();
    let sys_admin = Capability::CAP_SYS_ADMIN;
    if keep_sys_admin && caps::has_cap(None, CapSet::Permitted, sys_admin).context(context)? {
        kept.insert(sys_admin);
    }
    for capability in caps::read(None, CapSet::Bounding).context(context)? {
        // Without CAP_SETPCAP the bounding set stays; no_new_privs below makes
        // it pointless anyway.
        if !kept.contains(&capability) && caps::drop(None, CapSet::Bounding, capability).is_err() {
            break;
        }
    }
    caps::clear(None, CapSet::Ambient).context(context)?;
    caps::clear(None, CapSet::Inheritable).context(context)?;
    caps::set(None, CapSet::Effective, &kept).context(context)?;
    caps::set(None, CapSet::Permitted, &kept).context(context)?;
    // SAFETY: neither call touches memory.
    let refused = unsafe {
        // Private sockets and files.
        libc::umask(0o077);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    };
    if refused != 0 {
        return Err(io::Error::last_os_error()).context(context);
    }
    Ok(())
}

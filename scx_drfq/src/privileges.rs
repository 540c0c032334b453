// SPDX-License-Identifier: GPL-2.0-only
//! Drops privileges. The agent keeps two of root's capabilities, CAP_BPF and
//! CAP_PERFMON. They load sched_ext programs and open counters, at the start and
//! again after CPU hotplug. No program that it starts can gain others.
//!
//! Where the kernel opens counters for CAP_SYS_ADMIN only (see
//! `drfq_sense::traffic_counters::needs_sys_admin`) it keeps that too, unless it runs
//! with `--perf-event none`.
//!
//! Privileges are dropped before anything is loaded, so a successful load proves
//! that these capabilities suffice.

use std::io;

use anyhow::{Context, Result};
use caps::{CapSet, Capability, CapsHashSet};

const KEPT: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_PERFMON];

/// The names of the capabilities that scheduling needs and the process lacks.
///
/// # Errors
/// The capabilities cannot be read.
pub fn missing() -> Result<Vec<String>> {
    let have = caps::read(None, CapSet::Effective).context("cannot read capabilities")?;
    let missing = KEPT.iter().filter(|capability| !have.contains(capability));
    Ok(missing.map(Capability::to_string).collect())
}

/// Drops every capability that scheduling does not need. This applies to the
/// calling thread and to threads that it starts later, so call it before any
/// other thread is started.
///
/// # Errors
/// The kernel refuses.
pub fn confine(keep_sys_admin: bool) -> Result<()> {
    confine_to(KEPT.into_iter().collect(), keep_sys_admin)
}

/// Drops every capability of the process that cleans up resctrl. It needs none for
/// files that belong to root, and CAP_SYS_ADMIN to unmount.
///
/// # Errors
/// The kernel refuses.
pub fn confine_cleaner(unmounts: bool) -> Result<()> {
    confine_to(CapsHashSet::new(), unmounts)
}

/// Drops every capability of the process that serves statistics.
///
/// # Errors
/// The kernel refuses.
pub fn confine_server() -> Result<()> {
    confine_to(CapsHashSet::new(), false)
}

fn confine_to(mut kept: CapsHashSet, keep_sys_admin: bool) -> Result<()> {
    let context = "cannot drop privileges";
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
        // New sockets and files are private to the user.
        libc::umask(0o077);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    };
    if refused != 0 {
        return Err(io::Error::last_os_error()).context(context);
    }
    Ok(())
}

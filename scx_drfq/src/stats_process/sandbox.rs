// SPDX-License-Identifier: GPL-2.0-only
//! What the process that serves statistics gives up. Nearly all of it goes before the
//! process has a second thread, because capabilities and Landlock are of threads.
//!
//! The socket's directory belongs to the agent's user, root. So this user stays the effective
//! one until the socket is open. The real and the saved user are nobody before. A process
//! may become its saved user without a capability, so none has to be kept for that.

use std::path::Path;

use anyhow::{Context, Result};
use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use nix::{
    sys::resource::{Resource, setrlimit},
    unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid},
};

use super::system_calls::Filters;
use crate::{privileges, realtime, stats_group::StatsGroup};

/// The user and the group without files.
const NOBODY: u32 = 65534;

/// Most open files. A client takes one.
const FILES_MAX: libc::rlim_t = 1024;

/// Most memory (bytes). A client takes 2 MiB of stack, its last samples and an answer.
const MEMORY_MAX: libc::rlim_t = 4 << 30;

/// The newest version of Landlock that is used; an older kernel does what it can.
const LANDLOCK: ABI = ABI::V10;

/// A process that may open the socket, and can do little else.
pub struct Sandbox {
    filters: Filters,
    /// Whether the real user and the real group are nobody.
    user: bool,
    group: bool,
}

impl Sandbox {
    /// Confines this process, which has a single thread. It may replace the file at `path` in
    /// an existing directory.
    ///
    /// # Errors
    /// The kernel refuses. A kernel without Landlock does not.
    pub fn enter(path: &Path, group: Option<StatsGroup>) -> Result<Self> {
        let filters = Filters::new()?;
        // Without the directory, no socket can be opened in it.
        let directory = path.parent().and_then(|parent| PathFd::new(parent).ok());
        setrlimit(Resource::RLIMIT_NOFILE, FILES_MAX, FILES_MAX).context("cannot limit files")?;
        setrlimit(Resource::RLIMIT_DATA, MEMORY_MAX, MEMORY_MAX).context("cannot limit memory")?;
        realtime::forbid();
        let may = |capability| caps::has_cap(None, CapSet::Effective, capability);
        let sandbox = Self {
            filters,
            user: may(Capability::CAP_SETUID)?,
            group: may(Capability::CAP_SETGID)?,
        };
        let nobody = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        if sandbox.group {
            let effective = group.map_or_else(getegid, StatsGroup::id);
            setgroups(&[]).context("cannot leave groups")?;
            setresgid(nobody.1, effective, nobody.1).context("cannot leave the group")?;
        }
        if sandbox.user {
            setresuid(nobody.0, geteuid(), nobody.0).context("cannot leave the user")?;
        }
        privileges::confine_server()?;
        forbid_files(directory).context("cannot forbid files")?;
        sandbox.filters.allow_opening()?;
        Ok(sandbox)
    }

    /// Forbids all that opened the socket. This is for all threads: the C library tells them
    /// of the new user, and the kernel of the filter.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn close(self) -> Result<()> {
        let nobody = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        if self.group {
            setresgid(nobody.1, nobody.1, nobody.1).context("cannot leave the group")?;
        }
        if self.user {
            setresuid(nobody.0, nobody.0, nobody.0).context("cannot leave the user")?;
        }
        self.filters.allow_serving()
    }
}

/// Forbids all of the file system but the socket in its directory, TCP and UDP, and signals to
/// other processes.
fn forbid_files(directory: Option<PathFd>) -> Result<()> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    if let Some(directory) = directory {
        let replace = AccessFs::MakeSock | AccessFs::RemoveFile;
        rules = rules.add_rule(PathBeneath::new(directory, replace))?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// Becomes a process that ends when the agent closes its connection. Signals of the terminal
/// and of the service manager reach it, too, but the agent still needs it then. The kernel
/// could not kill it when the agent dies (PR_SET_PDEATHSIG), because that signal comes from
/// the agent, which may not send it to another user.
pub fn leave_signals_to_the_agent() {
    // SAFETY: the string ends in NUL, and no handler is set.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"drfq-stats".as_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The system calls of the process that serves statistics (seccomp).
//!
//! Any other call fails with ENOSYS. The C library then takes an older call, which may be
//! allowed: clone() in place of clone3(), whose flags a filter cannot read. A call that is
//! missing here fails, and does not kill the server.

use std::{collections::BTreeMap, env::consts::ARCH};

use anyhow::{Context, Result};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// What threads that serve clients call, whatever the arguments.
const SERVING: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// What opens the socket, gives it to a group, and confines the process further.
const OPENING: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_geteuid,
    libc::SYS_listen,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_seccomp,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// The calls until the socket is open, and thereafter.
pub struct Filters {
    opening: BpfProgram,
    serving: BpfProgram,
}

impl Filters {
    /// Compiles the filters.
    ///
    /// # Errors
    /// There is no filter for this architecture.
    pub fn new() -> Result<Self> {
        let mut opening = rules()?;
        opening.extend(OPENING.iter().map(|&call| (call, Vec::new())));
        let only = |value| argument(0, SeccompCmpOp::Eq, value);
        opening.insert(libc::SYS_socket, vec![only(libc::AF_UNIX)?]);
        opening.insert(libc::SYS_prctl, vec![only(libc::PR_SET_NO_NEW_PRIVS)?]);
        Ok(Self {
            opening: compile(opening)?,
            serving: compile(rules()?)?,
        })
    }

    /// Allows what opens the socket and serves clients, for this thread and those that it
    /// starts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn allow_opening(&self) -> Result<()> {
        seccompiler::apply_filter(&self.opening).context("cannot filter system calls")
    }

    /// Allows what serves clients, for all threads.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn allow_serving(&self) -> Result<()> {
        seccompiler::apply_filter_all_threads(&self.serving).context("cannot filter system calls")
    }
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The calls of the serving threads.
fn rules() -> Result<Rules> {
    let thread = libc::CLONE_THREAD;
    // SAFETY: it has no preconditions.
    let own_process = unsafe { libc::getpid() };
    let no_code = || argument(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0);
    let mut rules: Rules = SERVING.iter().map(|&call| (call, Vec::new())).collect();
    rules.extend([
        // Threads, and no processes.
        (
            libc::SYS_clone,
            vec![argument(0, SeccompCmpOp::MaskedEq(thread as u64), thread)?],
        ),
        // Others set the owner of a descriptor, who gets signals.
        (
            libc::SYS_fcntl,
            vec![
                argument(1, SeccompCmpOp::Eq, libc::F_DUPFD_CLOEXEC)?,
                argument(1, SeccompCmpOp::Eq, libc::F_GETFD)?,
            ],
        ),
        // It tells the user of a client.
        (
            libc::SYS_getsockopt,
            vec![SeccompRule::new(vec![
                condition(1, SeccompCmpOp::Eq, libc::SOL_SOCKET)?,
                condition(2, SeccompCmpOp::Eq, libc::SO_PEERCRED)?,
            ])?],
        ),
        (libc::SYS_mmap, vec![no_code()?]),
        (libc::SYS_mprotect, vec![no_code()?]),
        // By it the C library changes the user of all threads.
        (
            libc::SYS_tgkill,
            vec![argument(0, SeccompCmpOp::Eq, own_process)?],
        ),
    ]);
    Ok(rules)
}

/// A rule about the low 32 bits of one argument, counted from 0.
fn argument(index: u8, compare: SeccompCmpOp, value: i32) -> Result<SeccompRule> {
    Ok(SeccompRule::new(vec![condition(index, compare, value)?])?)
}

fn condition(index: u8, compare: SeccompCmpOp, value: i32) -> Result<SeccompCondition> {
    Ok(SeccompCondition::new(index, Dword, compare, value as u64)?)
}

fn compile(rules: Rules) -> Result<BpfProgram> {
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

// SPDX-License-Identifier: GPL-2.0-only
//! Charges memory traffic to a task through the SYSCALL program of the running
//! scheduler, found by its name.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
};

use anyhow::{Context, Result, bail};
use libbpf_rs::{
    Program, ProgramType,
    libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts},
    query::ProgInfoIter,
};

use crate::bpf_intf::drfq_dma_arg;

/// The kernel keeps 15 characters of a name; these are all of it.
const PROGRAM: &str = "drfq_charge_dma";

/// Charges `bytes` to the task `pid`.
///
/// # Errors
/// No scheduler is running, it does not know the task, or the caller may not
/// (CAP_SYS_ADMIN finds programs, CAP_BPF runs them).
pub fn run(pid: u32, bytes: u64) -> Result<()> {
    let missing = caps::has_cap(
        None,
        caps::CapSet::Effective,
        caps::Capability::CAP_SYS_ADMIN,
    );
    if !missing.context("cannot read capabilities")? {
        bail!("not privileged: CAP_SYS_ADMIN missing; run it with sudo");
    }
    let program = ProgInfoIter::default()
        .find(|program| program.ty == ProgramType::Syscall && program.name == PROGRAM)
        .context("no scx_drfq is running (its program drfq_charge_dma is not loaded)")?;
    let fd = Program::fd_from_id(program.id).context("cannot open the scheduler's program")?;
    match charge(fd.as_fd(), pid, Mover::Device, bytes).context("cannot charge the traffic")? {
        true => Ok(()),
        false => bail!("no task {pid} that scx_drfq schedules"),
    }
}

/// Who moved the bytes of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// A device: while the task is blocked this makes a debt (4.10).
    Device,
    /// Its CPU, as a memory controller counted it.
    Cpu,
}

/// Charges `bytes` to the task `pid` through the program; whether there is such
/// a task.
///
/// # Errors
/// The kernel or the program refused.
pub fn charge(program: BorrowedFd, pid: u32, mover: Mover, bytes: u64) -> io::Result<bool> {
    let mut argument = drfq_dma_arg {
        pid,
        by_cpu: u32::from(mover == Mover::Cpu),
        bytes,
    };
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        ctx_in: ptr::from_mut(&mut argument).cast(),
        ctx_size_in: size_of::<drfq_dma_arg>() as _,
        ..Default::default()
    };
    // SAFETY: the descriptor is open, and both structures outlive the call.
    let error = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut opts) };
    match (error, opts.retval as i32) {
        (0, 0) => Ok(true),
        (0, refused) if refused == -libc::ESRCH => Ok(false),
        (0, refused) => Err(io::Error::from_raw_os_error(-refused)),
        (error, _) => Err(io::Error::from_raw_os_error(-error)),
    }
}

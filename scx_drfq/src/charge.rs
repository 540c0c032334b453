// SPDX-License-Identifier: GPL-2.0-only
//! Charges memory traffic to a task through the running scheduler's SYSCALL
//! program, which is found by its name.

use std::{
    io::{self, BufRead, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
};

use anyhow::{Context, Result, bail};
use libbpf_rs::{
    Program, ProgramType,
    libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts},
    query::ProgInfoIter,
};

use crate::{
    bpf_intf::{
        drfq_agent_arg, drfq_cgroup_weight_arg, drfq_hw_id_arg, drfq_pace_arg, drfq_pace_group_arg,
        drfq_task_weight_arg, drfq_traffic_arg,
    },
    cli::CHARGE_MAX,
};

/// The kernel keeps 15 characters of a name; these are all of it.
const PROGRAM: &str = "drfq_charge_mem";

/// Charges `bytes` to the task `pid`. Without `bytes` it charges the number in
/// each line of the standard input.
///
/// # Errors
/// No scheduler is running, it does not know the task, or a line is no number of
/// bytes. Or the caller lacks CAP_SYS_ADMIN, which finds programs, or CAP_BPF,
/// which runs them. Earlier charges remain.
pub fn run(pid: u32, bytes: Option<u64>) -> Result<()> {
    let missing = caps::has_cap(
        None,
        caps::CapSet::Effective,
        caps::Capability::CAP_SYS_ADMIN,
    );
    if !missing.context("cannot read capabilities")? {
        bail!("missing privileges: CAP_SYS_ADMIN; run scx_drfq with sudo");
    }
    let program = ProgInfoIter::default()
        .find(|program| program.ty == ProgramType::Syscall && program.name == PROGRAM)
        .context(
            "no scx_drfq is running (its program drfq_charge_mem is not loaded); start it first",
        )?;
    let fd = Program::fd_from_id(program.id).context("cannot open the scheduler's program")?;
    let one = |bytes| match charge(fd.as_fd(), pid, Mover::Device, bytes)
        .context("cannot charge the traffic")?
    {
        true => Ok(()),
        false => bail!("scx_drfq does not schedule a task {pid}; check the thread id"),
    };
    match bytes {
        Some(bytes) => one(bytes),
        None => charge_lines(io::stdin().lock(), &mut io::stdout(), one),
    }
}

/// Charges the number in each line of `input`, and writes it to `output` once it
/// is charged.
fn charge_lines(
    input: impl BufRead,
    output: &mut impl Write,
    mut one: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    for (i, line) in input.lines().enumerate() {
        let line = line.context("cannot read standard input")?;
        let bytes = line.trim().parse().ok();
        let Some(bytes) = bytes.filter(|bytes| (1..=CHARGE_MAX).contains(bytes)) else {
            bail!(
                "line {}: expected a number of bytes from 1 to 1 TB, got {line:?}",
                i + 1
            );
        };
        one(bytes)?;
        writeln!(output, "{bytes}").context("cannot write to standard output")?;
        output.flush().context("cannot write to standard output")?;
    }
    Ok(())
}

/// What moved the bytes of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// A device. While the task is blocked this makes a debt (4.10).
    Device,
    /// The task's CPU, as a memory controller counted it.
    Cpu,
}

/// Charges `bytes` to the task `pid` through the program. Returns whether the
/// scheduler knows the task.
///
/// # Errors
/// The kernel or the program refused.
pub fn charge(program: BorrowedFd, pid: u32, mover: Mover, bytes: u64) -> io::Result<bool> {
    let argument = drfq_traffic_arg {
        pid,
        moved_by_cpu: u32::from(mover == Mover::Cpu),
        bytes,
    };
    call(program, argument)
}

/// Makes this process the agent, and its child `stats_pid` the one that serves statistics,
/// through the program drfq_register_agent; 0: there is none. Returns whether the child
/// exists.
///
/// # Errors
/// The kernel or the program refused.
pub fn register_agent(program: BorrowedFd, stats_pid: u32) -> io::Result<bool> {
    call(program, drfq_agent_arg { stats_pid })
}

/// Gives the task `pid` a hardware id through the program drfq_set_hw_id. Returns
/// whether the scheduler knows the task.
///
/// # Errors
/// The kernel or the program refused.
pub fn set_hw_id(program: BorrowedFd, pid: u32, hw_id: u32) -> io::Result<bool> {
    call(program, drfq_hw_id_arg { pid, hw_id })
}

/// Gives the task `pid` a weight (1/WEIGHT_ONE) through the program
/// drfq_set_task_weight; 0: that of its nice value. Returns whether the task exists.
///
/// # Errors
/// The kernel or the program refused.
pub fn set_task_weight(program: BorrowedFd, pid: u32, weight: u32) -> io::Result<bool> {
    call(program, drfq_task_weight_arg { pid, weight })
}

/// Gives a cgroup a weight (1/WEIGHT_ONE, which is cpu.weight 100) through the program
/// drfq_set_cgroup_weight. Returns whether the cgroup exists.
///
/// # Errors
/// The kernel or the program refused.
pub fn set_cgroup_weight(program: BorrowedFd, id: u64, weight: u32) -> io::Result<bool> {
    let reserved = 0;
    call(
        program,
        drfq_cgroup_weight_arg {
            id,
            weight,
            reserved,
        },
    )
}

/// Sets the pace of the group `index` (ns per byte, 32.32 fixed point) through the program
/// drfq_set_pace; 0: it has none.
///
/// # Errors
/// The kernel or the program refused.
pub fn set_pace(program: BorrowedFd, index: u32, ns_per_byte_q32: u64) -> io::Result<bool> {
    let reserved = 0;
    call(
        program,
        drfq_pace_arg {
            ns_per_byte_q32,
            index,
            reserved,
        },
    )
}

/// Updates what each group paid for, through the program drfq_read_paces.
///
/// # Errors
/// The kernel refused.
pub fn read_paces(program: BorrowedFd) -> io::Result<()> {
    call(program, ()).map(drop)
}

/// Puts the task `pid` into the group `index` through the program drfq_set_pace_group; 0:
/// into none. Returns whether the task exists.
///
/// # Errors
/// The kernel or the program refused.
pub fn set_pace_group(program: BorrowedFd, pid: u32, index: u32) -> io::Result<bool> {
    call(program, drfq_pace_group_arg { pid, index })
}

/// Runs a SYSCALL program about one task or cgroup. Returns whether it exists.
fn call<Argument>(program: BorrowedFd, mut argument: Argument) -> io::Result<bool> {
    // The kernel refuses the address of nothing.
    let address = match size_of::<Argument>() {
        0 => ptr::null_mut(),
        _ => ptr::from_mut(&mut argument).cast(),
    };
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        ctx_in: address,
        ctx_size_in: size_of::<Argument>() as _,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &str) -> (Vec<u64>, String, Result<()>) {
        let (mut charged, mut output) = (Vec::new(), Vec::new());
        let result = charge_lines(input.as_bytes(), &mut output, |bytes| {
            charged.push(bytes);
            Ok(())
        });
        (charged, String::from_utf8(output).unwrap(), result)
    }

    #[test]
    fn each_line_is_charged_and_echoed() {
        let (charged, output, result) = lines("1\n 4096\n1000000000000\n");
        assert!(result.is_ok());
        assert_eq!(charged, [1, 4096, CHARGE_MAX]);
        assert_eq!(output, "1\n4096\n1000000000000\n");
    }

    #[test]
    fn a_bad_line_ends_the_input_after_earlier_charges() {
        for bad in ["0", "-1", "", "x", "1000000000001"] {
            let (charged, _, result) = lines(&format!("7\n{bad}\n8\n"));
            assert_eq!(charged, [7]);
            assert!(result.unwrap_err().to_string().starts_with("line 2: "));
        }
    }
}

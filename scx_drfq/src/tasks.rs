// SPDX-License-Identifier: GPL-2.0-only
//! Reads the task iterator, a stream of `struct drfq_task_stat`.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read},
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd},
    ptr,
};

use anyhow::{Context, Result, ensure};
use drfq_stats::sample::{TaskSample, TaskState};
use libbpf_rs::libbpf_sys::bpf_iter_create;

use crate::bpf_intf::{
    drfq_task_flags_DRFQ_TASK_BLOCKED as BLOCKED, drfq_task_flags_DRFQ_TASK_HELD as HELD,
    drfq_task_flags_DRFQ_TASK_KTHREAD as KTHREAD, drfq_task_flags_DRFQ_TASK_THROTTLED as THROTTLED,
    drfq_task_stat,
};

/// Every task that the scheduler has an account of. `iterator` is the descriptor
/// of the iterator's link, which any thread may use, unlike the library's type.
///
/// # Errors
/// The iterator cannot be read.
pub fn read(iterator: BorrowedFd) -> Result<Vec<TaskSample>> {
    let mut bytes = Vec::new();
    open(iterator)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .context("cannot read the task iterator")?;
    parse(&bytes)
}

fn open(iterator: BorrowedFd) -> io::Result<File> {
    // SAFETY: the descriptor is open.
    let fd = unsafe { bpf_iter_create(iterator.as_raw_fd()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nothing else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn parse(bytes: &[u8]) -> Result<Vec<TaskSample>> {
    let records = bytes.chunks_exact(size_of::<drfq_task_stat>());
    ensure!(
        records.remainder().is_empty(),
        "the task iterator ended within a record; this command and the loaded scheduler \
         differ in version"
    );
    Ok(records.map(sample).collect())
}

fn sample(record: &[u8]) -> TaskSample {
    // SAFETY: the record is as long as the structure, and any bytes are a valid
    // value of it.
    let stat: drfq_task_stat = unsafe { ptr::read_unaligned(record.as_ptr().cast()) };
    let comm: Vec<u8> = stat.comm.iter().map(|&c| c as u8).collect();
    let comm = CStr::from_bytes_until_nul(&comm)
        .unwrap_or_default()
        .to_string_lossy();
    let state = match stat.flags {
        flags if flags & HELD != 0 => TaskState::Held,
        flags if flags & THROTTLED != 0 => TaskState::Throttled,
        flags if flags & BLOCKED != 0 => TaskState::Blocked,
        _ => TaskState::Queued,
    };
    TaskSample {
        pid: stat.pid,
        tgid: stat.tgid,
        comm: comm.into_owned(),
        weight: stat.weight,
        nice: stat.nice,
        state,
        flags: stat.flags,
        kthread: stat.flags & KTHREAD != 0,
        cpu_ns: stat.cpu_ns,
        charged_ns: stat.charged_ns,
        wait_ns: stat.wait_ns,
        bytes: stat.bytes,
        dma_bytes: stat.dma_bytes,
        cpu_vt_ns: stat.cpu_vt_ns,
        mem_vt_ns: stat.mem_vt_ns,
        register_vtime: stat.register_vtime,
        held_ns: stat.held_ns,
        max_held_ns: stat.max_held_ns,
        at_ns: stat.at_ns,
        started_ns: stat.started_ns,
        runs: stat.runs,
        throttled_ns: stat.throttled_ns,
        pace: stat.pace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(stat: &drfq_task_stat) -> &[u8] {
        // SAFETY: the structure has no padding, and outlives the slice.
        unsafe {
            std::slice::from_raw_parts(ptr::from_ref(stat).cast(), size_of::<drfq_task_stat>())
        }
    }

    #[test]
    fn each_record_becomes_a_task_and_a_partial_one_is_refused() {
        // SAFETY: zeros are a valid value.
        let mut stat: drfq_task_stat = unsafe { std::mem::zeroed() };
        stat.pid = 7;
        stat.flags = HELD | KTHREAD;
        stat.bytes = 9;
        stat.comm[..2].copy_from_slice(&[b'h' as _, b'i' as _]);
        let two = [bytes(&stat), bytes(&stat)].concat();
        let tasks = parse(&two).unwrap();
        assert_eq!(tasks.len(), 2);
        let task = &tasks[1];
        assert_eq!((task.pid, task.bytes, task.comm.as_str()), (7, 9, "hi"));
        assert_eq!((task.state, task.kthread), (TaskState::Held, true));
        assert!(parse(&two[..two.len() - 1]).is_err());
        assert!(parse(&[]).unwrap().is_empty());
    }
}

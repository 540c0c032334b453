// SPDX-License-Identifier: GPL-2.0-only
//! Open files: their limit, and which of them other processes keep.

use std::{
    fs::File,
    os::fd::{AsRawFd, RawFd},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of this process as far as any process may. Each CPU has up to two counters, and
/// the usual limit is 1024. A limit that stays shows when a
/// counter cannot be opened.
pub fn raise_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Closes what a process that the agent forks has inherited, but for standard error and `kept`.
pub fn close_inherited(kept: &[RawFd]) {
    let null = File::options().read(true).write(true).open("/dev/null");
    let close = |first: RawFd, last: libc::c_uint| {
        if first as libc::c_uint <= last {
            // SAFETY: values of this process that own descriptors are never used or dropped.
            unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last, 0) };
        }
    };
    for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        match &null {
            // SAFETY: both are open.
            Ok(null) => unsafe { libc::dup2(null.as_raw_fd(), standard) },
            Err(_) => continue,
        };
    }
    std::mem::forget(null);
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut first = libc::STDERR_FILENO + 1;
    for descriptor in kept {
        close(first, descriptor as libc::c_uint - 1);
        first = descriptor + 1;
    }
    close(first, libc::c_uint::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_soft_limit_becomes_the_hard_one() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard - 1, hard).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((hard, hard)));
    }
}

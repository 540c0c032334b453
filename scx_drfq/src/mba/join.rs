// SPDX-License-Identifier: GPL-2.0-only
//! Puts the calling thread into a group of resctrl, to measure what it does there.

use std::io;

use drfq_resctrl::{
    fs::ResctrlFs,
    groups::{Group, Groups, Placed},
};

/// Puts the calling thread into a group. It leaves when it ends.
///
/// # Errors
/// The kernel refused, or the thread is in a group of another program.
pub fn join<F: ResctrlFs>(groups: &Groups<F>, group: &impl Group) -> io::Result<()> {
    // SAFETY: the call has no preconditions.
    let tid = unsafe { libc::gettid() } as u32;
    match groups.add_task(group, tid) {
        Ok(Placed::Moved | Placed::Already) => Ok(()),
        Ok(Placed::Foreign) => Err(io::Error::other(
            "this process is in a resctrl group of another program; start it from a shell that is in none",
        )),
        Ok(Placed::Ended) => Err(io::Error::other("the thread has ended")),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::{
        fake::{FakeKernel, Shape},
        groups::Ctrl,
    };

    use super::*;

    #[test]
    fn a_thread_of_another_programs_group_is_not_measured() {
        let kernel = FakeKernel::new(Shape::default());
        // SAFETY: the call has no preconditions.
        let tid = unsafe { libc::gettid() } as u32;
        kernel.start_task(tid, None);
        let (groups, _) = Groups::open(&kernel).unwrap();
        let ours = groups.create_ctrl("test").unwrap();
        join(&groups, &ours).unwrap();
        join(&groups, &ours).unwrap();
        groups.add_task(&Ctrl::DEFAULT, tid).unwrap();
        kernel.mkdir("theirs").unwrap();
        kernel.write("theirs/tasks", &format!("{tid}\n")).unwrap();
        let refused = join(&groups, &ours).unwrap_err().to_string();
        assert!(refused.contains("another program"), "{refused}");
    }
}

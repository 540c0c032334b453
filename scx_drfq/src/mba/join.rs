// SPDX-License-Identifier: GPL-2.0-only
//! Puts the calling thread into a group of resctrl, to measure what it does there.

use std::{io, thread};

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

/// Whether threads that this one starts can [`join`] the group.
///
/// # Errors
/// Why not.
pub fn can_join<F: ResctrlFs + Sync>(
    groups: &Groups<F>,
    group: &(impl Group + Sync),
) -> Result<(), String> {
    let joined = thread::scope(|scope| scope.spawn(|| join(groups, group)).join());
    joined
        .unwrap_or_else(|_| Err(io::Error::other("a thread cannot join a group")))
        .map_err(|error| error.to_string())
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
        let groups = Groups::open(&kernel).unwrap();
        let ours = groups.create_ctrl("test").unwrap();
        join(&groups, &ours).unwrap();
        join(&groups, &ours).unwrap();
        groups.add_task(&Ctrl::DEFAULT, tid).unwrap();
        kernel.mkdir("theirs").unwrap();
        kernel.write("theirs/tasks", &format!("{tid}\n")).unwrap();
        let refused = join(&groups, &ours).unwrap_err().to_string();
        assert!(refused.contains("another program"), "{refused}");
        // The model of the kernel knows no thread but this one.
        assert!(can_join(&groups, &ours).is_err());
    }
}

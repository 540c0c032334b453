// SPDX-License-Identifier: GPL-2.0-only
//! Makes the agent a real-time task while the kernel switches all tasks to the scheduler.
//!
//! The kernel switches one after another, by a thread of the agent. It is among the first, and
//! fair tasks that are not switched yet go before it: on a busy machine the switch would never
//! end. From 7.0 on the kernel uses a real-time thread of its own.

use std::io;

use nix::sys::resource::{Resource, setrlimit};

/// The lowest real-time priority is enough.
const PRIORITY: libc::c_int = 1;

/// Lets the agent become a real-time task later, without privileges. Processes that it starts
/// from then on may, too.
pub fn allow() {
    // Where it is refused, the switch takes its chance as the kernel intends.
    let _ = setrlimit(Resource::RLIMIT_RTPRIO, PRIORITY as u64, PRIORITY as u64);
}

/// Calls `act` as a real-time task, if the kernel allows it. `act` starts no thread, which would
/// be one for ever.
pub fn during<T>(act: impl FnOnce() -> T) -> T {
    let raised = set_policy(libc::SCHED_FIFO, PRIORITY).is_ok();
    let result = act();
    if raised && let Err(error) = set_policy(libc::SCHED_OTHER, 0) {
        log::warn!("the agent stays a real-time task: {error}");
    }
    result
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: the call touches no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn the_thread_is_an_ordinary_task_afterwards() {
        let before = policy();
        assert_eq!(during(|| 7), 7);
        assert_eq!(policy(), before);
    }
}

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

/// Lets the agent become a real-time task later, without privileges.
pub fn allow() {
    limit(PRIORITY as u64);
}

/// Takes that right away from a process that the agent has started.
pub fn forbid() {
    limit(0);
}

fn limit(priority: u64) {
    // Where it is refused, the switch takes its chance as the kernel intends.
    let _ = setrlimit(Resource::RLIMIT_RTPRIO, priority, priority);
}

/// A thread's scheduling policy and real-time priority.
type Policy = (libc::c_int, libc::sched_param);

/// Calls `act` as a real-time task, if the kernel allows it. `act` starts no thread, which would
/// be one for ever.
pub fn during<T>(act: impl FnOnce() -> T) -> T {
    let before = policy().ok().filter(|(policy, _)| !is_real_time(*policy));
    let real_time = libc::sched_param {
        sched_priority: PRIORITY,
    };
    let raised = before.filter(|_| set_policy((libc::SCHED_FIFO, real_time)).is_ok());
    let result = act();
    if let Some(before) = raised
        && let Err(error) = set_policy(before)
    {
        log::warn!("the agent stays a real-time task: {error}");
    }
    result
}

fn is_real_time(policy: libc::c_int) -> bool {
    let policy = policy & !libc::SCHED_RESET_ON_FORK;
    [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)
}

/// That of the calling thread.
fn policy() -> io::Result<Policy> {
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    let policy = unsafe {
        match libc::sched_getparam(0, &raw mut parameter) {
            0 => libc::sched_getscheduler(0),
            error => error,
        }
    };
    let failed = policy < 0;
    (!failed)
        .then_some((policy, parameter))
        .ok_or_else(io::Error::last_os_error)
}

fn set_policy((policy, parameter): Policy) -> io::Result<()> {
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_has_its_policy_again_afterwards() {
        let before = policy().unwrap().0;
        assert_eq!(during(|| 7), 7);
        assert_eq!(policy().unwrap().0, before);
    }

    #[test]
    fn a_thread_that_forks_into_ordinary_tasks_is_a_real_time_task() {
        assert!(is_real_time(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK));
        assert!(!is_real_time(libc::SCHED_BATCH));
    }
}

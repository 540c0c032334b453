// SPDX-License-Identifier: GPL-2.0-only
//! The signals that end the agent, and the one that makes it read its rules again.

use std::{
    io,
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

/// Whether SIGHUP has asked for a reload.
#[derive(Default)]
pub struct Reload(Arc<AtomicBool>);

impl Reload {
    /// Listens to SIGHUP. What comes before the agent can reload is done once it can.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen(&self) -> io::Result<()> {
        flag::register(SIGHUP, Arc::clone(&self.0)).map(drop)
    }
}

/// What SIGHUP does.
pub enum Hangup {
    /// It ends the command, as when its terminal closes.
    Ends,
    /// The same, unless it is ignored since the start, as under nohup(1).
    EndsUnlessIgnored,
    /// It asks for a reload.
    Reloads(Reload),
}

/// What signals have asked for.
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Reload,
}

impl Signals {
    /// Listens to the signals that end the agent, and to SIGHUP unless [`Reload`] does.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen(hangup: Hangup) -> io::Result<Self> {
        let stop = Arc::default();
        flag::register(SIGINT, Arc::clone(&stop))?;
        flag::register(SIGTERM, Arc::clone(&stop))?;
        let reload = match hangup {
            Hangup::Reloads(reload) => reload,
            Hangup::EndsUnlessIgnored if is_ignored(SIGHUP) => Reload::default(),
            Hangup::Ends | Hangup::EndsUnlessIgnored => {
                flag::register(SIGHUP, Arc::clone(&stop))?;
                Reload::default()
            }
        };
        Ok(Self { stop, reload })
    }

    /// Whether the agent must end.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reload was asked for since the last call.
    pub fn take_reload(&self) -> bool {
        self.reload.0.swap(false, Ordering::Relaxed)
    }
}

/// Whether this process ignores a signal, as what started it may have asked.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no disposition is set, and the C library fills the structure.
    let failed = unsafe { libc::sigaction(signal, ptr::null(), found.as_mut_ptr()) };
    // SAFETY: all bits zero are a value of the structure, too.
    failed == 0 && unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `works` holds in a process of its own, because dispositions of signals are of
    /// processes.
    fn in_a_process(works: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child allocates, which the C library allows, and ends without destructors.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!works()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }

    fn hang_up() {
        // SAFETY: it touches no memory.
        unsafe { libc::raise(SIGHUP) };
    }

    #[test]
    fn a_reload_that_comes_early_is_done_later_and_ends_nothing() {
        assert!(in_a_process(|| {
            let reload = Reload::default();
            reload.listen().unwrap();
            hang_up();
            let signals = Signals::listen(Hangup::Reloads(reload)).unwrap();
            !signals.stop() && signals.take_reload() && !signals.take_reload()
        }));
    }

    #[test]
    fn without_reloads_sighup_ends_the_agent() {
        assert!(in_a_process(|| {
            let signals = Signals::listen(Hangup::EndsUnlessIgnored).unwrap();
            hang_up();
            signals.stop()
        }));
    }

    #[test]
    fn sighup_that_is_ignored_stays_so_where_neither_a_screen_nor_reloads_need_it() {
        let after_sighup = |hangup| {
            // SAFETY: no handler is set.
            unsafe { libc::signal(SIGHUP, libc::SIG_IGN) };
            if let Hangup::Reloads(reload) = &hangup {
                reload.listen().unwrap();
            }
            let signals = Signals::listen(hangup).unwrap();
            hang_up();
            (signals.stop(), signals.take_reload())
        };
        for (hangup, expected) in [
            (Hangup::Ends, (true, false)),
            (Hangup::EndsUnlessIgnored, (false, false)),
            (Hangup::Reloads(Reload::default()), (false, true)),
        ] {
            assert!(in_a_process(|| after_sighup(hangup) == expected));
        }
    }
}

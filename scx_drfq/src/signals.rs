// SPDX-License-Identifier: GPL-2.0-only
//! The signals that end the agent, and the one that makes it read its rules again.

use std::{
    io,
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

/// What signals have asked for.
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Reload,
}

impl Signals {
    /// Listens to the signals that end the agent. SIGHUP is one of them, as when the agent's
    /// terminal closes, unless `reload` listens to it already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen(reload: Option<Reload>) -> io::Result<Self> {
        let stop = Arc::default();
        flag::register(SIGINT, Arc::clone(&stop))?;
        flag::register(SIGTERM, Arc::clone(&stop))?;
        if reload.is_none() {
            flag::register(SIGHUP, Arc::clone(&stop))?;
        }
        let reload = reload.unwrap_or_default();
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
            let signals = Signals::listen(Some(reload)).unwrap();
            !signals.stop() && signals.take_reload() && !signals.take_reload()
        }));
    }

    #[test]
    fn without_reloads_sighup_ends_the_agent() {
        assert!(in_a_process(|| {
            let signals = Signals::listen(None).unwrap();
            hang_up();
            signals.stop()
        }));
    }
}

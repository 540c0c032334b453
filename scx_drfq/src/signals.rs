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

/// What signals have asked for.
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Listens. SIGHUP asks for a reload if `reloads` is set. Otherwise it ends the
    /// agent, as when its terminal closes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen(reloads: bool) -> io::Result<Self> {
        let (stop, reload) = (Arc::default(), Arc::default());
        flag::register(SIGINT, Arc::clone(&stop))?;
        flag::register(SIGTERM, Arc::clone(&stop))?;
        flag::register(SIGHUP, Arc::clone(if reloads { &reload } else { &stop }))?;
        Ok(Self { stop, reload })
    }

    /// Whether the agent must end.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reload was asked for since the last call.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

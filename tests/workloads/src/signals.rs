// SPDX-License-Identifier: GPL-2.0-only
//! Signals that steer a load: SIGTERM, SIGINT and SIGALRM end it, SIGUSR1
//! begins the measured part.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

static STOP: AtomicBool = AtomicBool::new(false);
static MARKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    if signal == libc::SIGUSR1 {
        MARKS.fetch_add(1, Ordering::Relaxed);
    } else {
        STOP.store(true, Ordering::Relaxed);
    }
}

/// Whether the load was told to end.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// How many times the measured part was begun (SIGUSR1).
pub fn marks() -> u32 {
    MARKS.load(Ordering::Relaxed)
}

/// Installs the handlers. Without `SA_RESTART`, so that sleeps end at once.
pub fn install() -> Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGALRM, libc::SIGUSR1] {
        // SAFETY: an all-zero sigaction is valid (empty mask, no flags).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler touches only lock-free atomics.
        let rc = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        if rc != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot install signal handlers");
        }
    }
    Ok(())
}

/// Lets SIGALRM end the load after `duration` of real time. A look at the clock in
/// each loop would be most of the work where the clock is slow, as in an emulator.
pub fn stop_after(duration: Duration) -> Result<()> {
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: duration.as_secs() as libc::time_t,
            tv_usec: libc::suseconds_t::from(duration.subsec_micros()),
        },
    };
    // SAFETY: `timer` is initialised; the old value is not asked for.
    let rc = unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    if rc != 0 {
        return Err(std::io::Error::last_os_error())
            .context("cannot set the timer of --duration-s");
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-only
//! Keeps a driver going whatever becomes of its controller: connects, does a turn
//! per interval, and when the controller goes tries again with growing pauses.
//! It runs in a thread of its own, so that nobody waits for a controller.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    driver::{Driver, lock},
    link_stats::{LinkState, LinkStats},
    mmio::Mmio,
    pci,
    registers::{Fault, Registers},
    scheduler_view::SchedulerView,
    socket::{PATIENCE, Socket},
    target::Target,
};

/// The first pause before it tries again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A controller that stayed for this long was not lost for the old reason.
const HEALTHY: Duration = Duration::from_secs(5);

/// A turn is followed by this many times the CPU time that it took, so that a
/// link takes a fifth of a CPU at most, however slow the machine.
const PAUSE_PER_CPU_TIME: u32 = 4;

/// How often it looks whether the agent wants to end.
const POLL: Duration = Duration::from_millis(50);

/// Where a link finds its controller, and whom it tells.
#[derive(Clone)]
pub struct Endpoint {
    /// The controller.
    pub target: Target,
    /// The directory that stands for `/`.
    pub root: PathBuf,
    /// How long a server may take to answer.
    pub patience: Duration,
    /// Says a line to the user.
    pub say: fn(&str),
}

impl Endpoint {
    /// With the usual patience.
    pub fn new(target: Target, root: PathBuf, say: fn(&str)) -> Self {
        Self {
            target,
            root,
            patience: PATIENCE,
            say,
        }
    }

    fn connect(&self, stop: &Arc<AtomicBool>) -> Result<Box<dyn Registers>, Fault> {
        Ok(match &self.target {
            Target::Unix(path) => Box::new(Socket::connect(path, self.patience, Arc::clone(stop))?),
            Target::Mmio(path) => Box::new(Mmio::map(path)?),
            Target::MmioAuto => Box::new(Mmio::map(&pci::find(&self.root)?)?),
        })
    }
}

/// A driver and its controller.
pub struct Reconnector<J> {
    endpoint: Endpoint,
    driver: J,
    registers: Option<Box<dyn Registers>>,
    connected_at: Instant,
    retry_at: Instant,
    pause: Duration,
    stats: Arc<Mutex<LinkStats>>,
    stop: Arc<AtomicBool>,
}

/// The pause after one of `pause`.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSES.1)
}

impl<J: Driver> Reconnector<J> {
    /// Makes the first contact.
    ///
    /// # Errors
    /// The controller is not there, or is none.
    pub fn open(endpoint: Endpoint, driver: J) -> Result<Self, Fault> {
        let now = Instant::now();
        let stats = LinkStats {
            target: endpoint.target.to_string(),
            ..LinkStats::default()
        };
        let mut link = Self {
            endpoint,
            driver,
            registers: None,
            connected_at: now,
            retry_at: now,
            pause: PAUSES.0,
            stats: Arc::new(Mutex::new(stats)),
            stop: Arc::default(),
        };
        link.connect()?;
        lock(&link.stats).state = LinkState::Connected;
        Ok(link)
    }

    /// Its stats, which change while it runs.
    pub fn stats(&self) -> Arc<Mutex<LinkStats>> {
        Arc::clone(&self.stats)
    }

    /// Set to true it ends `run`.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The driver.
    pub fn driver(&self) -> &J {
        &self.driver
    }

    /// Does the driver until it is told to stop, and leaves the controller clean.
    pub fn run(&mut self, scheduler: &mut dyn SchedulerView) {
        let mut cpu_ns = thread_cpu_ns();
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.poll(scheduler);
            let spent_ns = thread_cpu_ns().saturating_sub(cpu_ns);
            lock(&self.stats).cpu_ns += spent_ns;
            cpu_ns += spent_ns;
            // Turns that came too late are not made up for.
            let pause = Duration::from_nanos(spent_ns) * PAUSE_PER_CPU_TIME;
            next = (next + self.driver.interval()).max(Instant::now() + pause);
            self.sleep_until(next);
        }
        self.shutdown(scheduler);
        self.stop.store(false, Ordering::Relaxed);
    }

    /// One turn, or one try to connect if it is time for it.
    pub fn poll(&mut self, scheduler: &mut dyn SchedulerView) {
        if self.registers.is_none() {
            if Instant::now() < self.retry_at {
                return;
            }
            if let Err(fault) = self.connect() {
                self.on_error(&fault);
                return;
            }
        }
        let Some(registers) = &mut self.registers else {
            return;
        };
        match self.driver.poll(registers.as_mut(), scheduler, &self.stats) {
            Ok(()) => self.on_success(),
            Err(fault) => self.on_error(&fault),
        }
    }

    /// Ends the driver: the last contact, as far as there is one.
    pub fn shutdown(&mut self, scheduler: &mut dyn SchedulerView) {
        if let Some(registers) = &mut self.registers {
            let settled = self
                .driver
                .shutdown(registers.as_mut(), scheduler, &self.stats);
            if let Err(fault) = settled {
                self.on_error(&fault);
            }
        }
    }

    fn connect(&mut self) -> Result<(), Fault> {
        let mut registers = self.endpoint.connect(&self.stop)?;
        self.driver.connect(registers.as_mut(), &self.stats)?;
        self.registers = Some(registers);
        self.connected_at = Instant::now();
        Ok(())
    }

    /// A turn went well.
    fn on_success(&mut self) {
        if self.connected_at.elapsed() >= HEALTHY {
            self.pause = PAUSES.0;
        }
        let mut stats = lock(&self.stats);
        let lost = std::mem::replace(&mut stats.state, LinkState::Connected);
        if matches!(lost, LinkState::Lost(_)) {
            (self.endpoint.say)(&format!("{} is back", stats.target));
        }
    }

    /// Something went wrong: says so once, and tries again later.
    fn on_error(&mut self, fault: &Fault) {
        self.registers = None;
        self.retry_at = Instant::now() + self.pause;
        self.pause = longer(self.pause);
        let mut stats = lock(&self.stats);
        if !matches!(stats.state, LinkState::Lost(_)) {
            stats.losses += 1;
            (self.endpoint.say)(&format!(
                "lost {}: {fault}; trying again until it is back",
                stats.target
            ));
        }
        stats.state = LinkState::Lost(fault.to_string());
    }

    fn sleep_until(&self, when: Instant) {
        while !self.stop.load(Ordering::Relaxed) {
            let left = when.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(POLL));
        }
    }
}

/// CPU time of the calling thread (ns).
fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second() {
        let mut pause = PAUSES.0;
        let mut total = Duration::ZERO;
        for _ in 0..10 {
            total += pause;
            pause = longer(pause);
        }
        assert_eq!(pause, PAUSES.1);
        assert!(total < Duration::from_secs(5), "{total:?}");
    }
}

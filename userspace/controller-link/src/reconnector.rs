// SPDX-License-Identifier: GPL-2.0-only
//! Runs a driver in a separate thread, so that a slow controller delays nothing
//! else. It polls at each interval, and connects again with growing pauses when
//! the controller is lost.

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
    socket::{REPLY_TIMEOUT, Socket},
    target::Target,
};

/// The shortest and the longest pause before it connects again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// After this time the pauses start again with the shortest.
const HEALTHY: Duration = Duration::from_secs(5);

/// The pause after a poll, in multiples of the CPU time that the poll took. A
/// link thus takes at most a fifth of a CPU.
const PAUSE_PER_CPU_TIME: u32 = 4;

/// How often it checks whether the agent is ending.
const POLL: Duration = Duration::from_millis(50);

/// Where the controller is, and how to reach it.
#[derive(Clone)]
pub struct Endpoint {
    /// The controller.
    pub target: Target,
    /// The directory that stands for `/`.
    pub root: PathBuf,
    /// How long a server may take to answer.
    pub timeout: Duration,
    /// Shows a line to the user when the controller is lost or back.
    pub notify: fn(&str),
}

impl Endpoint {
    /// An endpoint with the usual timeout.
    pub fn new(target: Target, root: PathBuf, notify: fn(&str)) -> Self {
        Self {
            target,
            root,
            timeout: REPLY_TIMEOUT,
            notify,
        }
    }

    fn connect(&self, stop: &Arc<AtomicBool>) -> Result<Box<dyn Registers>, Fault> {
        Ok(match &self.target {
            Target::Unix(path) => Box::new(Socket::connect(path, self.timeout, Arc::clone(stop))?),
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
    /// Physical addresses of the pages that hold the cores' labels.
    mailbox: Vec<u64>,
    stats: Arc<Mutex<LinkStats>>,
    stop: Arc<AtomicBool>,
}

/// The pause after one of this length.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSES.1)
}

impl<J: Driver> Reconnector<J> {
    /// Connects for the first time.
    ///
    /// # Errors
    /// The controller cannot be reached, or it is no memory controller.
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
            mailbox: Vec::new(),
            stats: Arc::new(Mutex::new(stats)),
            stop: Arc::default(),
        };
        link.connect()?;
        lock(&link.stats).state = LinkState::Connected;
        Ok(link)
    }

    /// Its statistics, which change while it runs.
    pub fn stats(&self) -> Arc<Mutex<LinkStats>> {
        Arc::clone(&self.stats)
    }

    /// A flag that ends `run` when it is set.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The driver.
    pub fn driver(&self) -> &J {
        &self.driver
    }

    /// Lets the cores label their traffic in these pages of memory (see
    /// [`Registers::set_mailbox`]), until `shutdown`. Returns whether they do.
    pub fn set_mailbox(&mut self, pages: Vec<u64>) -> bool {
        self.mailbox = pages;
        let Some(registers) = &mut self.registers else {
            return false;
        };
        match registers.set_mailbox(&self.mailbox) {
            Ok(has) => {
                let active = has && !self.mailbox.is_empty();
                self.driver.use_mailbox(active);
                active
            }
            Err(fault) => {
                self.on_error(&fault);
                false
            }
        }
    }

    /// Polls until the `stop` flag is set, then shuts the driver down.
    pub fn run(&mut self, scheduler: &mut dyn SchedulerView) {
        let mut cpu_ns = thread_cpu_ns();
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.poll(scheduler);
            let spent_ns = thread_cpu_ns().saturating_sub(cpu_ns);
            lock(&self.stats).cpu_ns += spent_ns;
            cpu_ns += spent_ns;
            // A late poll is not made up for.
            let pause = Duration::from_nanos(spent_ns) * PAUSE_PER_CPU_TIME;
            next = (next + self.driver.interval()).max(Instant::now() + pause);
            self.sleep_until(next);
        }
        self.shutdown(scheduler);
        self.stop.store(false, Ordering::Relaxed);
    }

    /// Polls once, or tries to connect if that is due.
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

    /// Shuts the driver down, if it is connected.
    pub fn shutdown(&mut self, scheduler: &mut dyn SchedulerView) {
        // The labels' pages are freed soon.
        self.set_mailbox(Vec::new());
        if let Some(registers) = &mut self.registers {
            let result = self
                .driver
                .shutdown(registers.as_mut(), scheduler, &self.stats);
            if let Err(fault) = result {
                self.on_error(&fault);
            }
        }
    }

    fn connect(&mut self) -> Result<(), Fault> {
        let mut registers = self.endpoint.connect(&self.stop)?;
        self.driver.connect(registers.as_mut(), &self.stats)?;
        let has_mailbox = registers.set_mailbox(&self.mailbox)?;
        self.driver
            .use_mailbox(has_mailbox && !self.mailbox.is_empty());
        self.registers = Some(registers);
        self.connected_at = Instant::now();
        Ok(())
    }

    /// After a poll that worked.
    fn on_success(&mut self) {
        if self.connected_at.elapsed() >= HEALTHY {
            self.pause = PAUSES.0;
        }
        let mut stats = lock(&self.stats);
        let lost = std::mem::replace(&mut stats.state, LinkState::Connected);
        if matches!(lost, LinkState::Lost(_)) {
            (self.endpoint.notify)(&format!(
                "memory controller {}: connected again",
                stats.target
            ));
        }
    }

    /// After a fault: tells the user once, and schedules the next try.
    fn on_error(&mut self, fault: &Fault) {
        self.registers = None;
        self.retry_at = Instant::now() + self.pause;
        self.pause = longer(self.pause);
        let mut stats = lock(&self.stats);
        if !matches!(stats.state, LinkState::Lost(_)) {
            stats.losses += 1;
            (self.endpoint.notify)(&format!(
                "memory controller {}: lost, because {fault}; scx_drfq goes on without it and \
                 keeps trying to connect",
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
    fn pauses_double_up_to_one_second() {
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

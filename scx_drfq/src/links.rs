// SPDX-License-Identifier: GPL-2.0-only
//! Runs the links to memory controllers beside the scheduler, each in a
//! separate thread.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};
use drfq_controller_link::{
    driver::Driver,
    forwarder::Forwarder,
    link_stats::LinkStats,
    reconnector::{Endpoint, Reconnector},
    scheduler_view::{RunningTask, SchedulerView, TaskUsage},
    shadow::Shadow,
    target::Target,
};
use drfq_policy::fair_share::Capacity;
use drfq_sense::root;
use drfq_stats::sample::Sample;

use crate::{
    charge,
    config::Config,
    loader::{Window, volatile},
    tasks,
};

/// The links that the user asked for. They and their counts persist while the
/// scheduler is loaded again.
pub struct Links {
    controller: Option<Reconnector<Forwarder>>,
    shadow: Option<Reconnector<Shadow>>,
}

impl Links {
    /// Connects for the first time. `say` shows the user when a controller is lost or
    /// back.
    ///
    /// # Errors
    /// A controller cannot be reached, or it is no memory controller.
    pub fn open(config: &Config, say: fn(&str)) -> Result<Self> {
        let interval = Duration::from_nanos(config.controller_interval_ns);
        let links = Self {
            controller: open(config.controller.as_ref(), say, || Forwarder::new(interval))?,
            shadow: open(config.shadow.as_ref(), say, Shadow::default)?,
        };
        let cores = links
            .controller
            .as_ref()
            .map(|link| link.driver().size().cores);
        if let Some(cores) = cores.filter(|&cores| cores < config.nr_cpu_ids) {
            say(&format!(
                "the memory controller has {cores} cores; traffic of CPUs {cores} and above is \
                 not attributed to tasks"
            ));
        }
        Ok(links)
    }

    /// Runs the links while `work` runs. If `charge` is set, tasks are charged the
    /// traffic that the controller counts.
    pub fn beside<T>(
        &mut self,
        window: Window,
        config: &Config,
        charge: bool,
        work: impl FnOnce(&Counted) -> T,
    ) -> T {
        let counted = Counted {
            controller: self.controller.as_ref().map(Reconnector::stats),
            shadow: self.shadow.as_ref().map(Reconnector::stats),
        };
        let stops = [
            self.controller.as_ref().map(Reconnector::stop),
            self.shadow.as_ref().map(Reconnector::stop),
        ];
        thread::scope(|scope| {
            let _stop = StopAtEnd(stops);
            if let Some(link) = &mut self.controller {
                let mut machine = Running::new(window, config, charge);
                scope.spawn(move || link.run(&mut machine));
            }
            if let Some(link) = &mut self.shadow {
                let mut machine = Running::new(window, config, false);
                scope.spawn(move || link.run(&mut machine));
            }
            work(&counted)
        })
    }
}

fn open<J: Driver>(
    target: Option<&Target>,
    say: fn(&str),
    driver: impl FnOnce() -> J,
) -> Result<Option<Reconnector<J>>> {
    let Some(target) = target else {
        return Ok(None);
    };
    let link = Reconnector::open(Endpoint::new(target.clone(), root(), say), driver());
    link.map(Some)
        .map_err(|fault| anyhow!("memory controller {target}: {fault}"))
}

/// Ends the links when `work` returns or panics.
struct StopAtEnd([Option<Arc<AtomicBool>>; 2]);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        for stop in self.0.iter().flatten() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Statistics of the running links.
pub struct Counted {
    controller: Option<Arc<Mutex<LinkStats>>>,
    shadow: Option<Arc<Mutex<LinkStats>>>,
}

impl Counted {
    /// Adds the statistics so far to a sample.
    pub fn add_to(&self, sample: &mut Sample) {
        let now = |stats: &Option<Arc<Mutex<LinkStats>>>| {
            let stats = stats.as_ref()?.lock();
            Some(stats.unwrap_or_else(PoisonError::into_inner).clone())
        };
        sample.controller = now(&self.controller).unwrap_or_default();
        sample.shadow = now(&self.shadow).unwrap_or_default();
    }
}

/// The running scheduler, as a link sees it.
struct Running<'a> {
    window: Window<'a>,
    capacity: Capacity,
    charges: bool,
    running: Vec<RunningTask>,
}

impl<'a> Running<'a> {
    fn new(window: Window<'a>, config: &Config, charges: bool) -> Self {
        let bandwidth = config.memory_bandwidth_bytes_per_s;
        Self {
            window,
            capacity: Capacity {
                cpus: config.nr_cpus.into(),
                bytes_per_s: bandwidth.map(|bandwidth| bandwidth.bytes_per_s() as f64),
            },
            charges,
            running: Vec::new(),
        }
    }
}

impl SchedulerView for Running<'_> {
    fn running(&mut self) -> &[RunningTask] {
        self.running.clear();
        self.running.extend(self.window.cpus.iter().map(|cpu| {
            // A packet that starts between the two reads is shown with the virtual
            // time of its predecessor until the next poll.
            let vtime_ns = volatile(&cpu.register_vtime_ns);
            RunningTask {
                pid: volatile(&cpu.pid),
                vtime_ns,
            }
        }));
        &self.running
    }

    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String> {
        let tasks = tasks::read(self.window.tasks).map_err(|error| format!("{error:#}"))?;
        Ok(tasks
            .iter()
            .map(|task| TaskUsage {
                pid: task.pid,
                cpu_ns: task.charged_ns,
                bytes: task.bytes,
                vtime_ns: task.register_vtime_ns,
            })
            .collect())
    }

    fn charge(&mut self, pid: u32, bytes: u64) {
        if self.charges {
            // The charge fails if the task or the scheduler has ended; then there
            // is nothing left to charge.
            let _ = charge::charge(self.window.charge, pid, charge::Mover::Cpu, bytes);
        }
    }

    fn machine_share(&self, cpu_ns: u64, bytes: u64, interval_ns: u64) -> f64 {
        let interval_ns = interval_ns.max(1) as f64;
        self.capacity.dominant_share(
            cpu_ns as f64 / interval_ns,
            bytes as f64 * 1e9 / interval_ns,
        )
    }
}

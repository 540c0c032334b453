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
    id_table::SHARED_ID,
    interface::{identity, mailbox},
    link_stats::LinkStats,
    pagemap::Pagemap,
    pci,
    reconnector::{Endpoint, Reconnector},
    registers::{Fault, HwId, PIDS_MAX},
    scheduler_view::{Charging, RunningTask, SchedulerView, TaskUsage},
    shadow::Shadow,
    target::Target,
};
use drfq_policy::fair_share::Capacity;
use drfq_sense::root;
use drfq_stats::sample::Sample;

use crate::{
    bpf_intf, bpf_memory::volatile, bpf_skel::types::drfq_label, charge, config::Config,
    loader::Window, tasks,
};

// bpf/intf.h repeats these.
const _: () = assert!(bpf_intf::DRFQ_HW_ID_SHARED == SHARED_ID as u32);
const _: () = assert!(bpf_intf::DRFQ_HW_IDS >= PIDS_MAX);
const _: () = assert!(bpf_intf::DRFQ_LABEL_VALID == identity::ID);
const _: () = assert!(size_of::<drfq_label>() == mailbox::LABEL_BYTES as usize);

/// The links that the user asked for. They and their counts persist while the
/// scheduler is loaded again.
pub struct Links {
    controller: Option<Reconnector<Forwarder>>,
    shadow: Option<Reconnector<Shadow>>,
    /// Tells where the CPUs' labels are; none if no mapped controller is driven.
    pagemap: Option<Pagemap>,
}

/// Makes a controller that is a PCI function answer, which needs privileges.
///
/// # Errors
/// The kernel refuses.
pub fn enable(controller: Option<&Target>) -> Result<()> {
    let Some(target) = controller else {
        return Ok(());
    };
    pci::enable(target, &root()).map_err(|fault| unusable(target, &fault))
}

/// Opens what `Links` needs privileges for. None if the user drives no controller that
/// may have a mailbox, or if the kernel has no pagemap.
pub fn open_pagemap(controller: Option<&Target>) -> Option<Pagemap> {
    match controller? {
        Target::Unix(_) => None,
        Target::Mmio(_) | Target::MmioAuto => Pagemap::open().ok(),
    }
}

impl Links {
    /// Connects for the first time. `say` shows the user when a controller is lost or
    /// back.
    ///
    /// # Errors
    /// A controller cannot be reached, or it is no memory controller.
    pub fn open(config: &Config, pagemap: Option<Pagemap>, say: fn(&str)) -> Result<Self> {
        let interval = Duration::from_nanos(config.controller_interval_ns);
        let links = Self {
            controller: open(config.controller.as_ref(), say, || Forwarder::new(interval))?,
            shadow: open(config.shadow.as_ref(), say, Shadow::default)?,
            pagemap,
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

    /// Tells the controller where the CPUs label their traffic, if it has a mailbox.
    /// Call it before the scheduler is attached. Otherwise labels are copied to the
    /// registers; `say` shows the user why.
    pub fn announce(&mut self, labels: &[drfq_label], say: fn(&str)) {
        let (Some(controller), Some(pagemap)) = (&mut self.controller, &self.pagemap) else {
            return;
        };
        match pagemap.physical(labels) {
            Ok(pages) => {
                controller.set_mailbox(pages);
            }
            Err(reason) => say(&format!(
                "the memory controller's mailbox is not used, because {reason}; CPUs' labels \
                 reach it late"
            )),
        }
    }

    /// The CPUs label their traffic nowhere any more. [`Self::beside`] does the same at its end,
    /// but a scheduler may end before.
    pub fn retract(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.set_mailbox(Vec::new());
        }
    }

    /// The statistics of the links, which go on while these run.
    pub fn counted(&self) -> Counted {
        Counted {
            controller: self.controller.as_ref().map(Reconnector::stats),
            shadow: self.shadow.as_ref().map(Reconnector::stats),
        }
    }

    /// Runs the links while `work` runs. `charging`: what tasks are charged of the traffic that
    /// the controller counts.
    pub fn beside<T>(
        &mut self,
        window: Window,
        config: &Config,
        charging: Charging,
        work: impl FnOnce(&Counted) -> T,
    ) -> T {
        let counted = self.counted();
        let stops = [
            self.controller.as_ref().map(Reconnector::stop),
            self.shadow.as_ref().map(Reconnector::stop),
        ];
        thread::scope(|scope| {
            let _stop = StopAtEnd(stops);
            if let Some(link) = &mut self.controller {
                let mut machine = Running::new(window, config, charging);
                scope.spawn(move || link.run(&mut machine));
            }
            if let Some(link) = &mut self.shadow {
                let mut machine = Running::new(window, config, Charging::Nothing);
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
    link.map(Some).map_err(|fault| unusable(target, &fault))
}

fn unusable(target: &Target, fault: &Fault) -> anyhow::Error {
    anyhow!("memory controller {target}: {fault}")
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
    charging: Charging,
    running: Vec<RunningTask>,
}

impl<'a> Running<'a> {
    fn new(window: Window<'a>, config: &Config, charging: Charging) -> Self {
        let bandwidth = config.memory_bandwidth_bytes_per_s;
        Self {
            window,
            capacity: Capacity {
                cpus: config.nr_cpus.into(),
                bytes_per_s: bandwidth.map(|bandwidth| bandwidth.bytes_per_s() as f64),
            },
            charging,
            running: Vec::new(),
        }
    }
}

impl SchedulerView for Running<'_> {
    fn running(&mut self) -> &[RunningTask] {
        self.running.clear();
        let cpus = self.window.cpus.iter().zip(self.window.labels);
        self.running.extend(cpus.map(|(cpu, label)| {
            // A packet that starts between these reads is shown with the label of its
            // predecessor until the next poll.
            RunningTask {
                vtime: volatile(&label.vtime),
                id: volatile(&label.pid) as HwId,
                pid: volatile(&cpu.pid),
            }
        }));
        &self.running
    }

    fn device_vtime(&self, id: HwId) -> u64 {
        let vtime = self.window.device_vtimes.get(usize::from(id));
        vtime.map_or(0, volatile)
    }

    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String> {
        let tasks = tasks::read(self.window.tasks).map_err(|error| format!("{error:#}"))?;
        Ok(tasks
            .iter()
            .map(|task| TaskUsage {
                pid: task.pid,
                cpu_ns: task.charged_ns,
                bytes: task.bytes,
                device_bytes: task.dma_bytes,
                vtime: task.register_vtime,
                kthread: task.kthread,
            })
            .collect())
    }

    fn assign(&mut self, pid: u32, id: HwId) {
        // It fails if the task or the scheduler has ended.
        let _ = charge::set_hw_id(self.window.set_hw_id, pid, id.into());
    }

    fn charging(&self) -> Charging {
        self.charging
    }

    fn charge(&mut self, pid: u32, bytes: u64) {
        // The charge fails if the task or the scheduler has ended; then there is nothing left to
        // charge.
        let _ = charge::charge(self.window.charge, pid, charge::Mover::Cpu, bytes);
    }

    fn machine_share(&self, cpu_ns: u64, bytes: u64, interval_ns: u64) -> f64 {
        let interval_ns = interval_ns.max(1) as f64;
        self.capacity.dominant_share(
            cpu_ns as f64 / interval_ns,
            bytes as f64 * 1e9 / interval_ns,
        )
    }
}

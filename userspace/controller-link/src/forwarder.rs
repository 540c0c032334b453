// SPDX-License-Identifier: GPL-2.0-only
//! The driver of `--controller`. It gives tasks hardware ids, writes the virtual
//! times of their devices' traffic (virtualTime_pid), and books the traffic that the
//! controller counted to its tasks.
//!
//! If the controller has a mailbox, CPUs label their traffic themselves at each
//! switch. Otherwise the driver copies their labels to the registers (pid_coreId,
//! virtualTime_coreId). Between a switch and the next poll, the controller then
//! counts a core's traffic for the task that ran before.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    device_users::DeviceUsers,
    driver::{Driver, lock},
    id_table::{IdTable, SHARED_ID},
    link_stats::LinkStats,
    missed::Missed,
    registers::{
        Access, Fault, HwId, Registers, Size, identify, pid_core, traffic, vtime_core, vtime_pid,
    },
    scheduler_view::{Charging, SchedulerView, TaskUsage, usage_since},
    session::Session,
    sweep::{State, Sweep},
    traffic_accounting::traffic_read,
};

/// Time between two scans of all tasks, which find their virtual times and those
/// that have ended.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// A scan takes at most one part in this many of the time.
const SCAN_SHARE: u32 = 50;

/// Time over which loads are measured to give ids to the heaviest tasks.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(1);

/// How many intervals lie between two polls if there is a mailbox, no device moves memory for
/// tasks, and they are not charged all that is counted. Then polls only give ids to new tasks.
/// Virtual times of devices must not be late: a device that seems to lie behind takes what is not
/// its part. Nor must ids be late where traffic without one is charged to no task.
const QUIET_INTERVALS: u32 = 10;

/// Forwards the running tasks to the registers.
pub struct Forwarder {
    interval: Duration,
    size: Size,
    ids: IdTable,
    session: Session,
    /// Whether the cores label their traffic themselves.
    mailbox: bool,
    /// Whether tasks are charged all that is counted.
    charges_all: bool,
    /// The id that pid_coreId holds for each core.
    core_ids: Vec<HwId>,
    sweep: Sweep,
    devices: DeviceUsers,
    missed: Missed,
    next_scan: Instant,
    /// The scan that loads are measured from, and its time.
    before: Option<(Instant, HashMap<u32, TaskUsage>)>,
}

impl Forwarder {
    /// `interval`: time between two polls.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            size: Size { pids: 3, cores: 1 },
            ids: IdTable::new(3),
            session: Session::default(),
            mailbox: false,
            charges_all: true,
            core_ids: Vec::new(),
            sweep: Sweep::begin(),
            devices: DeviceUsers::default(),
            missed: Missed::default(),
            next_scan: Instant::now(),
            before: None,
        }
    }

    /// How many ids and cores the connected controller has.
    pub fn size(&self) -> Size {
        self.size
    }

    fn run_batch(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        accesses: &mut [Access],
    ) -> Result<(), Fault> {
        let booked = &mut self.missed.booked;
        self.session
            .run_batch(registers, stats, &self.ids, accesses, booked)
    }

    /// Scans all tasks and rebalances the ids. Returns the (offset, value) pairs
    /// that the tasks' registers should hold.
    fn scan_tasks(
        &mut self,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Vec<(u64, u64)> {
        let begun = Instant::now();
        // If the tasks cannot be read now, the next scan may succeed.
        let tasks = scheduler.tasks().unwrap_or_default();
        let (since, before) = self
            .before
            .get_or_insert_with(|| (begun, tasks.iter().map(|m| (m.pid, *m)).collect()));
        let elapsed = begun.saturating_duration_since(*since);
        if elapsed >= REBALANCE_INTERVAL && !tasks.is_empty() {
            let interval_ns = elapsed.as_nanos() as u64;
            let loads = usage_since(before, &tasks)
                .into_iter()
                .map(|(pid, (cpu_ns, bytes))| {
                    (pid, scheduler.machine_share(cpu_ns, bytes, interval_ns))
                });
            self.ids.rebalance(&loads.collect());
            let alive: HashSet<u32> = tasks.iter().map(|task| task.pid).collect();
            lock(stats).traffic.prune(&alive);
            self.before = Some((begun, tasks.iter().map(|m| (m.pid, *m)).collect()));
        }
        self.devices.scanned(&tasks, &mut self.ids, begun);
        self.next_scan = begun + SCAN_INTERVAL.max(begun.elapsed() * SCAN_SHARE);
        let vtimes = tasks
            .iter()
            .map(|task| (self.ids.get(task.pid), task.vtime));
        let held = vtimes.filter(|(id, _)| *id != SHARED_ID);
        let wanted = held.map(|(id, vtime)| (vtime_pid(id), vtime)).collect();
        self.missed.scanned(tasks, begun);
        wanted
    }

    /// Adds what the registers of the running tasks should hold to `wanted`, and tells
    /// the scheduler the ids that CPUs should carry. Returns the id of each core.
    fn labels(
        &mut self,
        scheduler: &mut dyn SchedulerView,
        wanted: &mut Vec<(u64, u64)>,
    ) -> Vec<HwId> {
        let mut labels = vec![0; self.core_ids.len()];
        let mut outdated = Vec::new();
        for (core, (label, now)) in labels.iter_mut().zip(scheduler.running()).enumerate() {
            let own = match now.pid {
                0 => 0,
                pid => self.ids.claim(pid),
            };
            if own != 0 && own != SHARED_ID {
                wanted.push((vtime_pid(own), now.vtime));
            }
            if self.mailbox {
                *label = now.id;
                if now.id != 0 && now.id != own {
                    outdated.push(now.pid);
                }
                continue;
            }
            *label = own;
            // A virtual time of a task that no longer runs would order what the kernel does there.
            wanted.push((
                vtime_core(core as u32),
                if own != 0 { now.vtime } else { 0 },
            ));
            wanted.push((pid_core(core as u32), own.into()));
        }
        self.assign(scheduler, outdated);
        labels
    }

    /// Tells the scheduler the ids of these tasks, and of those whose id changed.
    fn assign(&mut self, scheduler: &mut dyn SchedulerView, mut pids: Vec<u32>) {
        pids.extend(self.ids.take_changed());
        if !self.mailbox {
            return;
        }
        pids.sort_unstable();
        pids.dedup();
        for pid in pids.into_iter().filter(|&pid| pid != 0) {
            scheduler.assign(pid, self.ids.get(pid));
        }
    }

    /// Frees the draining ids that were read, and that neither a core nor a request to a device
    /// carries. `told`: the ids that the scheduler knew to be taken before this poll looked at the
    /// cores. With a mailbox, a core may have taken up any other one since.
    fn free_read(&mut self, accesses: &[Access], labels: &[HwId], told: &[HwId]) {
        let now = Instant::now();
        for (id, bytes) in traffic_read(accesses) {
            let late = self.mailbox && !told.contains(&id);
            if labels.contains(&id) || self.devices.carry(id, bytes, now) || late {
                continue;
            }
            self.ids.finish_drain(id);
        }
    }
}

impl Driver for Forwarder {
    fn interval(&self) -> Duration {
        if self.mailbox && !self.charges_all && self.devices.ids().is_empty() {
            self.interval * QUIET_INTERVALS
        } else {
            self.interval
        }
    }

    fn use_mailbox(&mut self, active: bool) {
        self.mailbox = active;
        if active {
            // A scheduler that was loaded since knows no id, and device users rarely run.
            self.ids.report_all();
        }
    }

    fn connect(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let size = identify(registers)?;
        if size != self.size {
            self.ids = IdTable::new(size.pids);
            self.devices = DeviceUsers::default();
            self.size = size;
        }
        self.session.restart();
        self.missed.reconnected();
        self.core_ids = vec![0; size.cores as usize];
        // Traffic counted so far belongs to the tasks that had the ids then.
        let mut reads: Vec<Access> = (0..size.pids)
            .map(|id| Access::read(traffic(id as HwId)))
            .collect();
        self.run_batch(registers, stats, &mut reads)?;
        self.sweep.read();
        Ok(())
    }

    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        // What a CPU carries, or is kept for an id, must be of the task that has it now.
        self.assign(scheduler, Vec::new());
        let told = self.ids.draining().to_vec();
        self.charges_all = scheduler.charging() == Charging::All;
        let mut wanted = Vec::new();
        if self.mailbox {
            let devices = self.devices.ids().iter();
            let vtimes = devices.map(|&id| (vtime_pid(id), scheduler.device_vtime(id)));
            wanted.extend(vtimes.filter(|&(_, vtime)| vtime != 0));
        }
        if Instant::now() >= self.next_scan {
            wanted.extend(self.scan_tasks(scheduler, stats));
        }
        let labels = self.labels(scheduler, &mut wanted);
        let mut accesses = self.session.cache.changes(&wanted);
        let writes = accesses.len() as u64;
        let state = State {
            table: &self.ids,
            carried: &[&self.core_ids, &labels].map(Vec::as_slice).concat(),
            labelled: self.mailbox,
            charges: self.charges_all,
            asked: !self.session.ids_written || self.missed.waits(),
            writes,
        };
        let reads = self.sweep.due(&state);
        if let Some(ids) = &reads {
            accesses.extend(ids.iter().map(|&id| Access::read(traffic(id))));
            if !self.session.ids_written {
                // The time since `connect` went into loading the scheduler.
                self.session.clock.restart();
            }
        }
        if !accesses.is_empty() {
            self.run_batch(registers, stats, &mut accesses)?;
        }
        if reads.is_some() {
            self.sweep.read();
            self.session.ids_written = true;
            self.free_read(&accesses, &labels, &told);
            self.core_ids = labels;
        }
        self.missed.settle(self.mailbox, scheduler);
        let mut stats = lock(stats);
        stats.polls += 1;
        stats.writes += writes;
        stats.mailbox = self.mailbox;
        stats.ids = self.ids.len() as u64;
        drop(stats);
        registers.advance(self.interval().as_nanos() as u64 * 1000)
    }

    fn shutdown(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let cores = 0..self.core_ids.len() as u32;
        let clear = |core| [pid_core(core), vtime_core(core)].map(|at| Access::write(at, 0));
        let mut accesses: Vec<Access> = cores.flat_map(clear).collect();
        let ids = 0..self.size.pids as HwId;
        accesses.extend(ids.map(|id| Access::read(traffic(id))));
        let result = self.run_batch(registers, stats, &mut accesses);
        self.core_ids.fill(0);
        self.missed.settle(self.mailbox, scheduler);
        result
    }
}

#[cfg(test)]
mod tests;

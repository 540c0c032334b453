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

/// How many intervals lie between two polls if there is a mailbox and no device moves memory
/// for tasks. Then polls only give ids to new tasks. Virtual times of devices must not be late:
/// a device that seems to lie behind takes what is not its part.
const QUIET_INTERVALS: u32 = 10;

/// Forwards the running tasks to the registers.
pub struct Forwarder {
    interval: Duration,
    size: Size,
    ids: IdTable,
    session: Session,
    /// Whether the cores label their traffic themselves.
    mailbox: bool,
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
        self.devices.scanned(&tasks, &mut self.ids);
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

    /// Frees the draining ids that were read and that no core carries.
    fn free_read(&mut self, accesses: &[Access], labels: &[HwId]) {
        for (id, _) in traffic_read(accesses) {
            if !labels.contains(&id) {
                self.ids.finish_drain(id);
            }
        }
    }
}

impl Driver for Forwarder {
    fn interval(&self) -> Duration {
        if self.mailbox && self.devices.ids().is_empty() {
            self.interval * QUIET_INTERVALS
        } else {
            self.interval
        }
    }

    fn use_mailbox(&mut self, active: bool) {
        self.mailbox = active;
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
            charges: scheduler.charging() == Charging::All,
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
            self.free_read(&accesses, &labels);
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
mod tests {
    use super::*;
    use crate::{
        fake::{FakeController, FakeScheduler},
        scheduler_view::RunningTask,
        sweep::{SELDOM, SWEPT_IDS},
    };

    /// A forwarder that is connected to a fake controller.
    fn begin(
        pids: u64,
        cores: u64,
    ) -> (Forwarder, FakeController, FakeScheduler, Mutex<LinkStats>) {
        let mut forwarder = Forwarder::new(Duration::from_millis(1));
        let mut controller = FakeController::new(pids, cores);
        let stats = Mutex::default();
        forwarder.connect(&mut controller, &stats).unwrap();
        (forwarder, controller, FakeScheduler::default(), stats)
    }

    fn core(pid: u32, vtime: u64) -> RunningTask {
        RunningTask { pid, id: 0, vtime }
    }

    #[test]
    fn registers_change_only_with_the_running_task_or_its_slice() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
        scheduler.running = vec![core(500_000, 7), core(0, 0)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let id = forwarder.ids.get(500_000);
        assert_eq!(controller.label(0), (u64::from(id), 7));
        assert_eq!(controller.peek(vtime_pid(id)), Ok(7));
        assert_eq!(controller.label(1).0, 0);

        // Nothing changed, so nothing is written.
        let written = controller.writes;
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.writes, written);

        scheduler.running[0] = core(500_000, 8);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.writes, written + 2);
        assert_eq!(controller.label(0), (u64::from(id), 8));
    }

    #[test]
    fn traffic_is_charged_to_the_task_that_ran() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
        scheduler.running = vec![core(10, 1), core(20, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 100);
        controller.move_bytes(1, 7);
        // The tasks swap cores; the bytes counted so far are still theirs.
        scheduler.running = vec![core(20, 1), core(30, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 1);
        controller.move_bytes(1, 50);
        scheduler.running = vec![core(0, 0); 2];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(scheduler.charged, [(10, 100), (20, 8), (30, 50)].into());
        assert_eq!(lock(&stats).traffic.total(), 158);
    }

    #[test]
    fn traffic_of_a_task_that_does_not_run_is_found_within_a_sweep() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
        scheduler.running = vec![core(10, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let id = forwarder.ids.get(10);
        scheduler.running = vec![core(11, 1)];
        for _ in 0..2 {
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
        }
        controller.count(id, 4096);
        for _ in 0..8192 / SWEPT_IDS {
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
        }
        assert_eq!(scheduler.charged, [(10, 4096)].into());
    }

    #[test]
    fn tasks_beyond_the_ids_share_one_and_are_not_charged() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(4, 1);
        for pid in 1..=20_000 {
            scheduler.running = vec![core(pid, pid.into())];
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
            controller.move_bytes(0, 1);
        }
        forwarder
            .shutdown(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let traffic = lock(&stats).traffic.clone();
        assert_eq!((traffic.by_pid.len(), traffic.shared), (2, 19_998));
        assert_eq!(traffic.total(), 20_000);
        assert_eq!(
            scheduler.charged.len(),
            2,
            "tasks that share an id are not charged"
        );
    }

    #[test]
    fn the_id_of_an_ended_task_is_read_before_it_is_reused() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(3, 1);
        scheduler.add_tasks(&[10, 20]);
        scheduler.running = vec![core(10, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 5);
        // 10 ends; the scan a second later notices.
        scheduler.tasks.retain(|task| task.pid != 10);
        let (past, _) = forwarder.before.as_mut().unwrap();
        *past -= REBALANCE_INTERVAL;
        forwarder.next_scan = Instant::now();
        scheduler.running = vec![core(20, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.label(0).0, u64::from(SHARED_ID));
        controller.move_bytes(0, 3);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!((controller.label(0).0, forwarder.ids.get(20)), (2, 2));
        controller.move_bytes(0, 8);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let traffic = lock(&stats).traffic.clone();
        assert_eq!((traffic.by_pid.get(&20), traffic.shared), (Some(&8), 3));
        assert_eq!((scheduler.charged[&10], traffic.total()), (5, 16));
    }

    #[test]
    fn with_a_mailbox_the_scheduler_gets_the_ids_and_the_registers_stay() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
        forwarder.use_mailbox(true);
        let label = |pid, id| RunningTask { pid, id, vtime: 7 };
        scheduler.running = vec![label(10, SHARED_ID), label(0, 0)];
        let mut poll = |scheduler: &mut FakeScheduler| {
            forwarder.poll(&mut controller, scheduler, &stats).unwrap();
            (controller.label(0), controller.label(1))
        };
        assert_eq!(poll(&mut scheduler), ((0, 0), (0, 0)));
        assert_eq!(scheduler.assigned, [(10, 2)]);
        // The CPU has labelled itself. Then another task runs, whose label is old.
        scheduler.running = vec![label(10, 2), label(11, SHARED_ID)];
        poll(&mut scheduler);
        scheduler.running = vec![label(11, 3), label(10, SHARED_ID)];
        poll(&mut scheduler);
        assert_eq!(scheduler.assigned[1..], [(11, 3), (10, 2)]);
        assert_eq!(controller.peek(vtime_pid(2)), Ok(7));
    }

    #[test]
    fn with_a_mailbox_traffic_of_tasks_that_ran_between_polls_is_read() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
        forwarder.use_mailbox(true);
        for (pid, id) in [(10, 2), (11, 3), (12, 4)] {
            scheduler.running = vec![RunningTask { pid, id, vtime: 1 }];
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
        }
        controller.count(2, 100);
        controller.count(3, 10);
        let mut poll = || forwarder.poll(&mut controller, &mut scheduler, &stats);
        (0..8192 / SWEPT_IDS).for_each(|_| poll().unwrap());
        assert_eq!(scheduler.charged, [(10, 100), (11, 10)].into());
    }

    #[test]
    fn with_a_mailbox_polls_are_rare_unless_a_device_moves_memory() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 1);
        forwarder.use_mailbox(true);
        scheduler.add_tasks(&[10]);
        scheduler.device_vtimes = [(2, 77)].into();
        scheduler.tasks[0].vtime = 9;
        let mut seen = Vec::new();
        // The task runs, and sleeps from then on. A scan is followed by a poll without one.
        for (pid, device_bytes) in [(10, 0), (0, 4096), (0, 4096), (0, 8192)] {
            scheduler.running = vec![RunningTask {
                pid,
                id: 2,
                vtime: 5,
            }];
            scheduler.tasks[0].device_bytes = device_bytes;
            forwarder.next_scan = Instant::now();
            let mut poll = || forwarder.poll(&mut controller, &mut scheduler, &stats);
            (0..2).for_each(|_| poll().unwrap());
            let vtime = controller.peek(vtime_pid(2)).unwrap();
            seen.push((forwarder.interval().as_millis(), vtime));
        }
        assert_eq!(seen, [(10, 5), (1, 77), (10, 9), (1, 77)]);
    }

    #[test]
    fn cores_beyond_the_controllers_get_no_id() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        scheduler.running = (1..=16).map(|pid| core(pid, 1)).collect();
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(forwarder.ids.len(), 2, "cores beyond its own have no label");
    }

    #[test]
    fn an_idle_machine_is_read_once_per_idle_interval_and_then_for_all_tasks() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
        let mut poll = |running, controller: &mut FakeController, waits| {
            scheduler.running = vec![running];
            forwarder.sweep.wait(waits);
            forwarder.poll(controller, &mut scheduler, &stats).unwrap();
            (controller.batches, scheduler.charged.clone())
        };
        poll(core(10, 1), &mut controller, Duration::ZERO);
        let (batches, _) = poll(core(0, 0), &mut controller, Duration::ZERO);
        controller.count(2, 4096);
        assert_eq!(poll(core(0, 0), &mut controller, Duration::ZERO).0, batches);
        let (now, charged) = poll(core(0, 0), &mut controller, SELDOM);
        assert_eq!((now, charged), (batches + 1, [(10, 4096)].into()));
    }

    #[test]
    fn a_batch_that_fails_half_way_loses_no_traffic() {
        for answered in 0..30 {
            let (mut forwarder, mut controller, mut scheduler, stats) = begin(8, 2);
            scheduler.running = vec![core(10, 1), core(20, 1)];
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
            controller.move_bytes(0, 100);
            controller.move_bytes(1, 10);
            controller.fails_after = Some(answered);
            scheduler.running = vec![core(20, 9), core(10, 9)];
            let _ = forwarder.poll(&mut controller, &mut scheduler, &stats);
            // The connection comes back, and the registers kept their content.
            controller.fails_after = None;
            forwarder.connect(&mut controller, &stats).unwrap();
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
            assert_eq!(
                scheduler.charged,
                [(10, 100), (20, 10)].into(),
                "{answered}"
            );
            assert_eq!(
                controller.label(0),
                (forwarder.ids.get(20).into(), 9),
                "all is written again"
            );
        }
    }

    #[test]
    fn shutdown_clears_every_core_and_charges_the_rest() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
        scheduler.running = vec![core(10, 1), core(20, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(1, 3);
        forwarder
            .shutdown(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!((controller.label(0).0, controller.label(1).0), (0, 0));
        assert_eq!(scheduler.charged, [(20, 3)].into());
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The driver of `--controller`: the registers follow what runs (pid_coreId,
//! virtualTime_coreId, virtualTime_pid), and the traffic that the controller
//! counted is booked to its tasks.
//!
//! A core's traffic between a context switch and the next turn goes to the task
//! that ran before; at most one interval of it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    driver::{Driver, lock},
    id_table::{IdTable, SHARED_ID},
    link_stats::LinkStats,
    registers::{
        Access, Fault, HwId, Registers, Size, identify, pid_core, register_vtime, traffic,
        vtime_core, vtime_pid,
    },
    scheduler_view::{SchedulerView, TaskUsage, used},
    session::Session,
    traffic_accounting::traffic_read,
};

/// Time between two looks at all tasks: their virtual times, and who has ended.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// A roll call takes at most one part of so many of the time.
const SCAN_SHARE: u32 = 50;

/// Time over which loads are compared, to give ids to the heaviest.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(1);

/// Ids that are read in each turn whether a core carried them or not: devices
/// move memory for tasks that do not run.
const SWEPT_IDS: usize = 16;

/// Time between two turns of an idle machine that read registers.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// Forwards what runs.
pub struct Forwarder {
    interval: Duration,
    size: Size,
    ids: IdTable,
    session: Session,
    /// What pid_coreId of each core holds.
    carried: Vec<HwId>,
    /// The next id to be swept.
    cursor: u32,
    last_batch: Instant,
    next_scan: Instant,
    /// Members as the loads are compared with, and when that was.
    before: Option<(Instant, HashMap<u32, TaskUsage>)>,
    /// Traffic that was booked and is not charged yet.
    owed: Vec<(u32, u64)>,
}

impl Forwarder {
    /// `interval`: time between two turns.
    pub fn new(interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            interval,
            size: Size { pids: 3, cores: 1 },
            ids: IdTable::new(3),
            session: Session::default(),
            carried: Vec::new(),
            cursor: 0,
            last_batch: now,
            next_scan: now,
            before: None,
            owed: Vec::new(),
        }
    }

    /// The controller's size, once it was greeted.
    pub fn size(&self) -> Size {
        self.size
    }

    fn exchange(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        accesses: &mut [Access],
    ) -> Result<(), Fault> {
        self.session
            .exchange(registers, stats, &self.ids, accesses, &mut self.owed)?;
        self.last_batch = Instant::now();
        Ok(())
    }

    fn charge(&mut self, scheduler: &mut dyn SchedulerView) {
        for (pid, bytes) in self.owed.drain(..) {
            scheduler.charge(pid, bytes);
        }
    }

    /// Looks at all tasks; what their registers should hold.
    fn scan_tasks(
        &mut self,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Vec<(u64, u64)> {
        let begun = Instant::now();
        // Without an answer the next look may have one.
        let tasks = scheduler.tasks().unwrap_or_default();
        let (since, before) = self
            .before
            .get_or_insert_with(|| (begun, tasks.iter().map(|m| (m.pid, *m)).collect()));
        let elapsed = begun.saturating_duration_since(*since);
        if elapsed >= REBALANCE_INTERVAL && !tasks.is_empty() {
            let interval_ns = elapsed.as_nanos() as u64;
            let loads = used(before, &tasks)
                .into_iter()
                .map(|(pid, (cpu_ns, bytes))| (pid, scheduler.share(cpu_ns, bytes, interval_ns)));
            self.ids.rebalance(&loads.collect());
            let alive: HashSet<u32> = tasks.iter().map(|task| task.pid).collect();
            lock(stats).traffic.prune(&alive);
            self.before = Some((begun, tasks.iter().map(|m| (m.pid, *m)).collect()));
        }
        self.next_scan = begun + SCAN_INTERVAL.max(begun.elapsed() * SCAN_SHARE);
        tasks
            .iter()
            .map(|task| (self.ids.get(task.pid), task.vtime_ns))
            .filter(|(id, _)| *id != SHARED_ID)
            .map(|(id, vtime_ns)| (vtime_pid(id), register_vtime(vtime_ns)))
            .collect()
    }

    /// What the cores' registers should hold, and the id that each carries.
    fn labels(
        &mut self,
        scheduler: &mut dyn SchedulerView,
        wanted: &mut Vec<(u64, u64)>,
    ) -> Vec<HwId> {
        let mut labels = vec![0; self.carried.len()];
        for (core, (label, now)) in labels.iter_mut().zip(scheduler.cores()).enumerate() {
            if now.pid != 0 {
                *label = self.ids.claim(now.pid);
                let vtime = register_vtime(now.vtime_ns);
                wanted.push((vtime_core(core as u32), vtime));
                if *label != SHARED_ID {
                    wanted.push((vtime_pid(*label), vtime));
                }
            }
            wanted.push((pid_core(core as u32), (*label).into()));
        }
        labels
    }

    /// The ids whose traffic is read in this turn.
    fn ids_to_read(&mut self, labels: &[HwId]) -> BTreeSet<HwId> {
        let mut ids: BTreeSet<HwId> = [0, SHARED_ID].into();
        ids.extend(&self.carried);
        ids.extend(labels);
        ids.extend(self.ids.draining());
        for _ in 0..SWEPT_IDS {
            self.cursor = (self.cursor + 1) % self.size.pids;
            ids.insert(self.cursor as HwId);
        }
        ids
    }

    /// Ids that were taken from their tasks are free once no core carries them
    /// and they are read.
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
        self.interval
    }

    fn connect(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let size = identify(registers)?;
        if size != self.size {
            self.ids = IdTable::new(size.pids);
            self.size = size;
        }
        self.session.restart();
        self.carried = vec![0; size.cores as usize];
        // What was counted before goes to those who had the ids then.
        let mut reads: Vec<Access> = (0..size.pids)
            .map(|id| Access::read(traffic(id as HwId)))
            .collect();
        self.exchange(registers, stats, &mut reads)
    }

    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let mut wanted = Vec::new();
        if Instant::now() >= self.next_scan {
            wanted = self.scan_tasks(scheduler, stats);
        }
        let labels = self.labels(scheduler, &mut wanted);
        let mut accesses = self.session.cache.changes(&wanted);
        let writes = accesses.len() as u64;
        let idle = writes == 0
            && self.ids.draining().is_empty()
            && labels.iter().chain(&self.carried).all(|&id| id == 0);
        if !idle || self.last_batch.elapsed() >= IDLE_INTERVAL {
            let ids = self.ids_to_read(&labels);
            accesses.extend(ids.into_iter().map(|id| Access::read(traffic(id))));
            if !self.session.labelled {
                // The scheduler was being loaded since the greeting.
                self.session.clock.restart();
            }
            self.exchange(registers, stats, &mut accesses)?;
            self.session.labelled = true;
            self.free_read(&accesses, &labels);
            self.carried = labels;
        }
        self.charge(scheduler);
        let mut stats = lock(stats);
        stats.turns += 1;
        stats.writes += writes;
        stats.ids = self.ids.len() as u64;
        drop(stats);
        registers.advance(self.interval.as_nanos() as u64 * 1000)
    }

    fn shutdown(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let cores = 0..self.carried.len() as u32;
        let mut accesses: Vec<Access> =
            cores.map(|core| Access::write(pid_core(core), 0)).collect();
        let ids = 0..self.size.pids as HwId;
        accesses.extend(ids.map(|id| Access::read(traffic(id))));
        let result = self.exchange(registers, stats, &mut accesses);
        self.carried.fill(0);
        self.charge(scheduler);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fake::{FakeController, FakeScheduler},
        scheduler_view::Core,
    };

    /// A forwarder that has greeted a fake controller.
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

    fn core(pid: u32, vtime_slices: u64) -> Core {
        Core {
            pid,
            vtime_ns: vtime_slices << 22,
        }
    }

    #[test]
    fn the_registers_follow_what_runs() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
        scheduler.cores = vec![core(500_000, 7), core(0, 0)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let id = forwarder.ids.get(500_000);
        assert_eq!(controller.label(0), (u64::from(id), 7));
        assert_eq!(controller.peek(vtime_pid(id)), Ok(7));
        assert_eq!(controller.label(1).0, 0);

        // Nothing has changed: nothing is written.
        let written = controller.writes;
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.writes, written);

        // Virtual time within a slice of the register is not written either.
        scheduler.cores[0].vtime_ns += 5;
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.writes, written);
        scheduler.cores[0] = core(500_000, 8);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.writes, written + 2);
        assert_eq!(controller.label(0), (u64::from(id), 8));
    }

    #[test]
    fn traffic_is_charged_to_who_caused_it() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
        scheduler.cores = vec![core(10, 1), core(20, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 100);
        controller.move_bytes(1, 7);
        // The tasks change places; what was counted before is theirs.
        scheduler.cores = vec![core(20, 1), core(30, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 1);
        controller.move_bytes(1, 50);
        scheduler.cores = vec![core(0, 0); 2];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(scheduler.charged, [(10, 100), (20, 8), (30, 50)].into());
        assert_eq!(lock(&stats).traffic.total(), 158);
    }

    #[test]
    fn devices_are_swept() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
        scheduler.cores = vec![core(10, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let id = forwarder.ids.get(10);
        scheduler.cores = vec![core(11, 1)];
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
    fn more_tasks_than_ids_share_the_common_one() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(4, 1);
        for pid in 1..=20_000 {
            scheduler.cores = vec![core(pid, pid.into())];
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
        assert_eq!(scheduler.charged.len(), 2, "nobody pays for the others");
    }

    #[test]
    fn an_id_of_the_dead_is_read_before_it_is_reused() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(3, 1);
        scheduler.add_tasks(&[10, 20]);
        scheduler.cores = vec![core(10, 1)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        controller.move_bytes(0, 5);
        // 10 dies; the roll call notices a second later.
        scheduler.tasks.retain(|task| task.pid != 10);
        let (past, _) = forwarder.before.as_mut().unwrap();
        *past -= REBALANCE_INTERVAL;
        forwarder.next_scan = Instant::now();
        scheduler.cores = vec![core(20, 1)];
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
    fn no_tasks_and_a_machine_larger_than_the_controller_are_fine() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        scheduler.cores = (1..=16).map(|pid| core(pid, 1)).collect();
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(forwarder.ids.len(), 2, "cores beyond its own have no label");
    }

    #[test]
    fn an_idle_machine_is_left_alone() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 1);
        scheduler.cores = vec![core(0, 0)];
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        let batches = controller.batches;
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.batches, batches);
        forwarder.last_batch -= IDLE_INTERVAL;
        forwarder
            .poll(&mut controller, &mut scheduler, &stats)
            .unwrap();
        assert_eq!(controller.batches, batches + 1);
    }

    #[test]
    fn a_controller_that_dies_in_a_batch_loses_only_what_it_did_not_answer() {
        for answered in 0..30 {
            let (mut forwarder, mut controller, mut scheduler, stats) = begin(8, 2);
            scheduler.cores = vec![core(10, 1), core(20, 1)];
            forwarder
                .poll(&mut controller, &mut scheduler, &stats)
                .unwrap();
            controller.move_bytes(0, 100);
            controller.move_bytes(1, 10);
            controller.dies_after = Some(answered);
            scheduler.cores = vec![core(20, 9), core(10, 9)];
            let _ = forwarder.poll(&mut controller, &mut scheduler, &stats);
            // It comes back with its registers: another connection, or a host
            // that was asleep.
            controller.dies_after = None;
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
    fn the_end_leaves_no_label_behind() {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
        scheduler.cores = vec![core(10, 1), core(20, 1)];
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

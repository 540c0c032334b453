// SPDX-License-Identifier: GPL-2.0-only
//! The driver of `--shadow`. A model of the controller replays each task's
//! measured rate as a separate stream, with the task's virtual time. The
//! bandwidth that the model gives a stream is what the controller would have
//! given the task.
//!
//! Only a task's rate is known. The model therefore makes a stream with
//! [`OUTSTANDING_LINES`], a third of them writes, like a copy that reads lines
//! before it writes them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    driver::{Driver, lock},
    id_table::{Assignment, IdTable, SHARED_ID},
    interface::protocol_limits::DEMAND_BYTES_PER_S_MAX,
    link_stats::LinkStats,
    registers::{Access, Demand, Fault, HwId, Registers, identify, traffic, vtime_pid},
    scheduler_view::{SchedulerView, TaskUsage, usage_since},
    session::Session,
    traffic_accounting::traffic_read,
};

/// Ids in use, including 0. A server knows 256 ids with a demand.
const IDS: u32 = 256;

/// Time between two polls.
const INTERVAL: Duration = Duration::from_millis(100);

/// Simulated time per poll (ps) of a model that waits for us. A model takes some
/// ten times as long as the memory that it models, so it simulates a sample.
const SAMPLE_PS: u64 = 1_000_000_000;

/// Cache lines that a task's stream keeps outstanding.
pub const OUTSTANDING_LINES: u32 = 8;

/// Share of writes in a task's stream (percent).
pub const WRITE_PERCENT: u32 = 33;

/// Asks a model for what the tasks of this machine move.
pub struct Shadow {
    ids: IdTable,
    session: Session,
    /// The rate that was last sent for each id (bytes per second).
    sent: BTreeMap<HwId, u64>,
    /// The last scan, which rates are measured from, and its time.
    before: Option<(Instant, HashMap<u32, TaskUsage>)>,
}

impl Default for Shadow {
    fn default() -> Self {
        Self {
            ids: IdTable::new(IDS),
            session: Session::default(),
            sent: BTreeMap::new(),
            before: None,
        }
    }
}

/// Whether a rate differs by more than a tenth from the one that was sent.
/// Smaller changes are not sent, because a new demand restarts its stream.
fn differs(sent: Option<u64>, wanted: u64) -> bool {
    match sent {
        None | Some(0) => wanted > 0,
        Some(sent) => wanted == 0 || wanted.abs_diff(sent) > sent / 10,
    }
}

/// The rates (bytes per second) of the tasks that moved anything in an interval.
fn rates(used: HashMap<u32, (u64, u64)>, interval: Duration) -> HashMap<u32, u64> {
    let seconds = interval.as_secs_f64().max(1e-3);
    let rate = |bytes: u64| ((bytes as f64 / seconds) as u64).min(DEMAND_BYTES_PER_S_MAX);
    let rates = used.into_iter().map(|(pid, (_, bytes))| (pid, rate(bytes)));
    rates.filter(|(_, rate)| *rate > 0).collect()
}

impl Shadow {
    /// Gives ids to the heaviest tasks, and takes them from those that have ended.
    fn assign_ids(&mut self, tasks: &[TaskUsage], rates: &HashMap<u32, u64>) {
        let total: u64 = rates.values().sum();
        let share = |pid| rates.get(&pid).copied().unwrap_or(0) as f64 / total.max(1) as f64;
        let loads = tasks.iter().map(|m| (m.pid, share(m.pid))).collect();
        self.ids.rebalance(&loads);
        let mut heaviest: Vec<_> = rates.iter().collect();
        heaviest.sort_by_key(|(pid, rate)| (u64::MAX - **rate, **pid));
        for (pid, _) in heaviest {
            self.ids.claim(*pid);
        }
    }

    /// The virtual times of the tasks' ids. The shared id gets the mean.
    fn vtimes(&self, tasks: &[TaskUsage], rates: &HashMap<u32, u64>) -> Vec<(u64, u64)> {
        let mut wanted = Vec::new();
        let (mut sum, mut n) = (0u64, 0u64);
        for task in tasks {
            let vtime = task.vtime;
            match self.ids.get(task.pid) {
                SHARED_ID if rates.contains_key(&task.pid) => (sum, n) = (sum + vtime, n + 1),
                SHARED_ID => {}
                id => wanted.push((vtime_pid(id), vtime)),
            }
        }
        wanted.extend(sum.checked_div(n).map(|mean| (vtime_pid(SHARED_ID), mean)));
        wanted
    }

    /// The demands that changed.
    fn demands(&self, rates: &HashMap<u32, u64>) -> Vec<Demand> {
        let mut wanted: BTreeMap<HwId, u64> = self.sent.keys().map(|&id| (id, 0)).collect();
        for (&pid, &rate) in rates {
            let sum = wanted.entry(self.ids.get(pid)).or_default();
            *sum = (*sum + rate).min(DEMAND_BYTES_PER_S_MAX);
        }
        wanted
            .into_iter()
            .filter(|(id, rate)| differs(self.sent.get(id).copied(), *rate))
            .map(|(id, rate)| demand(id, rate))
            .collect()
    }

    fn send_demands(
        &mut self,
        registers: &mut dyn Registers,
        demands: &[Demand],
    ) -> Result<(), Fault> {
        if demands.is_empty() {
            return Ok(());
        }
        registers.demand(demands)?;
        let sent = demands.iter().map(|demand| (demand.id, demand.bytes_per_s));
        self.sent.extend(sent);
        Ok(())
    }

    fn run_batch(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        accesses: &mut [Access],
    ) -> Result<(), Fault> {
        // A shadow only measures; it charges no task.
        let booked = &mut Vec::new();
        self.session
            .run_batch(registers, stats, &self.ids, accesses, booked)
    }

    /// Frees the ids whose demand had ended before they were read, and marks the
    /// demands that an earlier agent left behind to be ended.
    fn finish_reads(&mut self, accesses: &[Access]) {
        for (id, bytes) in traffic_read(accesses) {
            let silent = self.sent.get(&id).is_none_or(|&rate| rate == 0);
            match self.ids.assignment(id) {
                Assignment::Draining(..) if silent => self.ids.finish_drain(id),
                Assignment::Free if id > SHARED_ID && silent && bytes > 0 => {
                    // Any rate but 0, so that 0 is sent next.
                    self.sent.insert(id, 1);
                }
                _ => {}
            }
        }
    }
}

fn demand(id: HwId, bytes_per_s: u64) -> Demand {
    Demand {
        id,
        bytes_per_s,
        outstanding_lines: OUTSTANDING_LINES,
        write_percent: WRITE_PERCENT,
    }
}

fn reads() -> impl Iterator<Item = Access> {
    (0..IDS as HwId).map(|id| Access::read(traffic(id)))
}

impl Driver for Shadow {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn connect(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let size = identify(registers)?;
        if size.pids < IDS {
            return Err(Fault::Refused(format!(
                "to serve --shadow: it has {} hardware ids and --shadow needs {IDS}",
                size.pids
            )));
        }
        self.session.restart();
        self.run_batch(registers, stats, &mut reads().collect::<Vec<_>>())?;
        self.session.ids_written = true;
        // Ends all earlier demands; the next poll sends the present ones.
        let old: Vec<Demand> = self.sent.keys().map(|&id| demand(id, 0)).collect();
        self.send_demands(registers, &old)
    }

    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        // If the tasks cannot be read now, no task counts as ended.
        let Ok(tasks) = scheduler.tasks() else {
            return Ok(());
        };
        let scan = tasks.iter().map(|m| (m.pid, *m)).collect();
        let Some((since, before)) = self.before.replace((now, scan)) else {
            return Ok(());
        };
        let rates = rates(usage_since(&before, &tasks), now.duration_since(since));
        self.assign_ids(&tasks, &rates);
        let mut accesses = self.session.cache.changes(&self.vtimes(&tasks, &rates));
        let writes = accesses.len() as u64;
        accesses.extend(reads());
        self.run_batch(registers, stats, &mut accesses)?;
        self.finish_reads(&accesses);
        let demands = self.demands(&rates);
        self.send_demands(registers, &demands)?;
        registers.advance(SAMPLE_PS)?;
        let mut stats = lock(stats);
        stats.polls += 1;
        stats.writes += writes;
        stats.ids = self.ids.len() as u64;
        stats.demand_bytes_per_s = rates;
        let alive = tasks.iter().map(|task| task.pid).collect();
        stats.traffic.prune(&alive);
        // No scheduler is told the ids of a model.
        self.ids.take_changed();
        Ok(())
    }

    fn shutdown(
        &mut self,
        registers: &mut dyn Registers,
        _: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let quiet: Vec<Demand> = self.sent.keys().map(|&id| demand(id, 0)).collect();
        self.send_demands(registers, &quiet)?;
        self.run_batch(registers, stats, &mut reads().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeController, FakeScheduler};

    fn begin() -> (Shadow, FakeController, FakeScheduler, Mutex<LinkStats>) {
        let (mut shadow, mut controller) = (Shadow::default(), FakeController::new(8192, 4));
        let stats = Mutex::default();
        shadow.connect(&mut controller, &stats).unwrap();
        (shadow, controller, FakeScheduler::default(), stats)
    }

    /// A poll that takes the last one to have been a second ago.
    fn poll(
        shadow: &mut Shadow,
        controller: &mut FakeController,
        scheduler: &mut FakeScheduler,
        stats: &Mutex<LinkStats>,
    ) {
        if let Some((since, _)) = &mut shadow.before {
            *since = Instant::now() - Duration::from_secs(1);
        }
        shadow.poll(controller, scheduler, stats).unwrap();
    }

    #[test]
    fn the_model_is_asked_for_what_each_task_moved() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        scheduler.add_tasks(&[10, 20, 30]);
        scheduler.tasks[0].vtime = 9;
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        scheduler.use_bytes(10, 1_000_000);
        scheduler.use_bytes(20, 5_000_000);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        let (ten, twenty) = (shadow.ids.get(10), shadow.ids.get(20));
        assert_eq!(controller.demands.len(), 2, "30 moved nothing");
        let rate = controller.demands[&twenty].bytes_per_s;
        assert!((4_900_000..=5_000_000).contains(&rate), "{rate}");
        // The virtual times follow with the first poll that knows the id.
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(controller.peek(vtime_pid(ten)), Ok(9));
        controller.count(ten, 640);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(lock(&stats).traffic.by_pid, [(10, 640)].into());
        assert!(controller.demands.values().all(|d| d.bytes_per_s == 0));
    }

    #[test]
    fn a_rate_is_sent_again_if_it_changed_by_more_than_a_tenth() {
        for (sent, wanted, expected) in [
            (None, 0, false),
            (None, 1, true),
            (Some(0), 0, false),
            (Some(0), 7, true),
            (Some(100), 110, false),
            (Some(100), 111, true),
            (Some(100), 89, true),
            (Some(5), 0, true),
        ] {
            assert_eq!(differs(sent, wanted), expected, "{sent:?} {wanted}");
        }
    }

    #[test]
    fn tasks_beyond_the_ids_share_one_demand() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        let pids: Vec<u32> = (1..=9000).collect();
        scheduler.add_tasks(&pids);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        pids.iter().for_each(|&pid| scheduler.use_bytes(pid, 1000));
        scheduler.use_bytes(8999, 1_000_000);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(controller.demands.len(), IDS as usize - 1);
        assert_ne!(shadow.ids.get(8999), SHARED_ID, "the heaviest first");
        let sum: u64 = controller.demands.values().map(|d| d.bytes_per_s).sum();
        assert!((9_900_000..=10_000_000).contains(&sum), "{sum}");
    }

    #[test]
    fn an_ended_task_ends_its_demand_and_frees_its_id() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        scheduler.add_tasks(&[10]);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        scheduler.use_bytes(10, 1_000_000);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        let id = shadow.ids.get(10);
        scheduler.tasks.clear();
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(controller.demands[&id].bytes_per_s, 0);
        assert_eq!(shadow.ids.assignment(id), Assignment::Draining(10, None));
        assert!(shadow.ids.take_changed().is_empty(), "they do not pile up");
        controller.count(id, 64);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(shadow.ids.assignment(id), Assignment::Free);
        assert_eq!(lock(&stats).traffic.total(), 64);
    }

    #[test]
    fn demands_of_an_earlier_agent_are_ended() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        controller.demands.insert(77, demand(77, 5));
        controller.count(77, 64);
        for _ in 0..2 {
            poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        }
        assert_eq!(controller.demands[&77].bytes_per_s, 0);
        assert_eq!(lock(&stats).traffic.inherited, 64);
    }

    #[test]
    fn a_restarted_server_gets_all_demands_again() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        scheduler.add_tasks(&[10]);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        for _ in 0..2 {
            scheduler.use_bytes(10, 1_000_000);
            poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        }
        let mut again = FakeController::new(8192, 4);
        shadow.connect(&mut again, &stats).unwrap();
        scheduler.use_bytes(10, 1_000_000);
        poll(&mut shadow, &mut again, &mut scheduler, &stats);
        let id = shadow.ids.get(10);
        assert!(again.demands[&id].bytes_per_s > 900_000);
        shadow.shutdown(&mut again, &mut scheduler, &stats).unwrap();
        assert_eq!(again.demands[&id].bytes_per_s, 0);
    }
}

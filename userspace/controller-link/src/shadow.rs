// SPDX-License-Identifier: GPL-2.0-only
//! The driver of `--shadow`: what each task moved on this machine is asked of a
//! model of the controller, with the task's virtual time; what the model gives
//! it is what the task would have been given.
//!
//! Of a task only the rate is known. Each is modelled as a stream of
//! [`OUTSTANDING_LINES`] outstanding lines, a third of them writes (a copy after RFO).

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
    registers::{
        Access, Demand, Fault, HwId, Registers, identify, register_vtime, traffic, vtime_pid,
    },
    scheduler_view::{SchedulerView, TaskUsage, used},
    session::Session,
    traffic_accounting::traffic_read,
};

/// Ids in use, nobody's included: a server knows 256 owners of demands.
const IDS: u32 = 256;

/// Time between two turns.
const INTERVAL: Duration = Duration::from_millis(100);

/// Simulated time of a turn (ps), if the model waits for us. A model takes some
/// ten times as long as the memory it models, so only a sample is simulated.
const SAMPLE_PS: u64 = 1_000_000_000;

/// Outstanding lines of a task.
pub const OUTSTANDING_LINES: u32 = 8;

/// Part of a task's traffic that is writes (percent).
pub const WRITE_PERCENT: u32 = 33;

/// Asks a model for what the tasks of this machine move.
pub struct Shadow {
    ids: IdTable,
    session: Session,
    /// What the model was told of each id (bytes per second).
    told: BTreeMap<HwId, u64>,
    /// The roll call that rates are since.
    before: Option<(Instant, HashMap<u32, TaskUsage>)>,
}

impl Default for Shadow {
    fn default() -> Self {
        Self {
            ids: IdTable::new(IDS),
            session: Session::default(),
            told: BTreeMap::new(),
            before: None,
        }
    }
}

/// Whether a rate differs enough from the one that the model was told: by more
/// than a tenth, because to replace a demand starts its stream anew.
fn differs(told: Option<u64>, wanted: u64) -> bool {
    match told {
        None | Some(0) => wanted > 0,
        Some(told) => wanted == 0 || wanted.abs_diff(told) > told / 10,
    }
}

/// The rates of an interval, of those who moved anything (bytes per second).
fn rates(used: HashMap<u32, (u64, u64)>, interval: Duration) -> HashMap<u32, u64> {
    let seconds = interval.as_secs_f64().max(1e-3);
    let rate = |bytes: u64| ((bytes as f64 / seconds) as u64).min(DEMAND_BYTES_PER_S_MAX);
    let rates = used.into_iter().map(|(pid, (_, bytes))| (pid, rate(bytes)));
    rates.filter(|(_, rate)| *rate > 0).collect()
}

impl Shadow {
    /// Gives ids to the heaviest, and takes them from who has ended.
    fn allot(&mut self, tasks: &[TaskUsage], rates: &HashMap<u32, u64>) {
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

    /// The virtual times, of the others the mean.
    fn vtimes(&self, tasks: &[TaskUsage], rates: &HashMap<u32, u64>) -> Vec<(u64, u64)> {
        let mut wanted = Vec::new();
        let (mut sum, mut n) = (0u64, 0u64);
        for task in tasks {
            let vtime = register_vtime(task.vtime_ns);
            match self.ids.get(task.pid) {
                SHARED_ID if rates.contains_key(&task.pid) => (sum, n) = (sum + vtime, n + 1),
                SHARED_ID => {}
                id => wanted.push((vtime_pid(id), vtime)),
            }
        }
        wanted.extend(sum.checked_div(n).map(|mean| (vtime_pid(SHARED_ID), mean)));
        wanted
    }

    /// What the model should be told: changes only.
    fn demands(&self, rates: &HashMap<u32, u64>) -> Vec<Demand> {
        let mut wanted: BTreeMap<HwId, u64> = self.told.keys().map(|&id| (id, 0)).collect();
        for (&pid, &rate) in rates {
            let sum = wanted.entry(self.ids.get(pid)).or_default();
            *sum = (*sum + rate).min(DEMAND_BYTES_PER_S_MAX);
        }
        wanted
            .into_iter()
            .filter(|(id, rate)| differs(self.told.get(id).copied(), *rate))
            .map(|(id, rate)| demand(id, rate))
            .collect()
    }

    fn tell(&mut self, registers: &mut dyn Registers, demands: &[Demand]) -> Result<(), Fault> {
        if demands.is_empty() {
            return Ok(());
        }
        registers.demand(demands)?;
        let told = demands.iter().map(|demand| (demand.id, demand.bytes_per_s));
        self.told.extend(told);
        Ok(())
    }

    fn exchange(
        &mut self,
        registers: &mut dyn Registers,
        stats: &Mutex<LinkStats>,
        accesses: &mut [Access],
    ) -> Result<(), Fault> {
        // Only measured: nobody pays for it.
        let booked = &mut Vec::new();
        self.session
            .exchange(registers, stats, &self.ids, accesses, booked)
    }

    /// Frees the ids whose demand had ended before they were read, and ends
    /// demands that an earlier agent left behind.
    fn clean(&mut self, accesses: &[Access]) {
        for (id, bytes) in traffic_read(accesses) {
            let silent = self.told.get(&id).is_none_or(|&rate| rate == 0);
            match self.ids.assignment(id) {
                Assignment::Draining(..) if silent => self.ids.finish_drain(id),
                Assignment::Free if id > SHARED_ID && silent && bytes > 0 => {
                    // Any rate that was not 0: then 0 is news.
                    self.told.insert(id, 1);
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
                "to be a shadow: it has {} ids, and {IDS} are needed",
                size.pids
            )));
        }
        self.session.restart();
        self.exchange(registers, stats, &mut reads().collect::<Vec<_>>())?;
        self.session.labelled = true;
        // Whatever it was told before, it is told again: 0 where nothing is wanted.
        let old: Vec<Demand> = self.told.keys().map(|&id| demand(id, 0)).collect();
        self.tell(registers, &old)
    }

    fn poll(
        &mut self,
        registers: &mut dyn Registers,
        scheduler: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        // Without an answer nobody has ended; the next turn may have one.
        let Ok(tasks) = scheduler.tasks() else {
            return Ok(());
        };
        let roll = tasks.iter().map(|m| (m.pid, *m)).collect();
        let Some((since, before)) = self.before.replace((now, roll)) else {
            return Ok(());
        };
        let rates = rates(used(&before, &tasks), now.duration_since(since));
        self.allot(&tasks, &rates);
        let mut accesses = self.session.cache.changes(&self.vtimes(&tasks, &rates));
        let writes = accesses.len() as u64;
        accesses.extend(reads());
        self.exchange(registers, stats, &mut accesses)?;
        self.clean(&accesses);
        let demands = self.demands(&rates);
        self.tell(registers, &demands)?;
        registers.advance(SAMPLE_PS)?;
        let mut stats = lock(stats);
        stats.turns += 1;
        stats.writes += writes;
        stats.ids = self.ids.len() as u64;
        stats.demand_bytes_per_s = rates;
        let alive = tasks.iter().map(|task| task.pid).collect();
        stats.traffic.prune(&alive);
        Ok(())
    }

    fn shutdown(
        &mut self,
        registers: &mut dyn Registers,
        _: &mut dyn SchedulerView,
        stats: &Mutex<LinkStats>,
    ) -> Result<(), Fault> {
        let quiet: Vec<Demand> = self.told.keys().map(|&id| demand(id, 0)).collect();
        self.tell(registers, &quiet)?;
        self.exchange(registers, stats, &mut reads().collect::<Vec<_>>())
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

    /// A turn that thinks that the last one was a second ago.
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
    fn what_a_task_moved_is_asked_of_the_model() {
        let (mut shadow, mut controller, mut scheduler, stats) = begin();
        scheduler.add_tasks(&[10, 20, 30]);
        scheduler.tasks[0].vtime_ns = 9 << 22;
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        scheduler.use_bytes(10, 1_000_000);
        scheduler.use_bytes(20, 5_000_000);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        let (ten, twenty) = (shadow.ids.get(10), shadow.ids.get(20));
        assert_eq!(controller.demands.len(), 2, "30 moved nothing");
        let rate = controller.demands[&twenty].bytes_per_s;
        assert!((4_900_000..=5_000_000).contains(&rate), "{rate}");
        // The virtual times follow with the first turn that knows the id.
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(controller.peek(vtime_pid(ten)), Ok(9));
        controller.count(ten, 640);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(lock(&stats).traffic.by_pid, [(10, 640)].into());
        assert!(controller.demands.values().all(|d| d.bytes_per_s == 0));
    }

    #[test]
    fn a_tenth_is_no_news() {
        for (told, wanted, news) in [
            (None, 0, false),
            (None, 1, true),
            (Some(0), 0, false),
            (Some(0), 7, true),
            (Some(100), 110, false),
            (Some(100), 111, true),
            (Some(100), 89, true),
            (Some(5), 0, true),
        ] {
            assert_eq!(differs(told, wanted), news, "{told:?} {wanted}");
        }
    }

    #[test]
    fn more_tasks_than_a_server_knows_share_a_demand() {
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
    fn who_ends_asks_for_nothing_and_gives_its_id_back() {
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
        controller.count(id, 64);
        poll(&mut shadow, &mut controller, &mut scheduler, &stats);
        assert_eq!(shadow.ids.assignment(id), Assignment::Free);
        assert_eq!(lock(&stats).traffic.total(), 64);
    }

    #[test]
    fn demands_that_another_agent_left_are_ended() {
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
    fn a_server_that_starts_again_is_told_everything() {
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

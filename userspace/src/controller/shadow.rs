// SPDX-License-Identifier: GPL-2.0-only
//! The job of `--shadow`: what each task moved on this machine is asked of a
//! model of the controller, with the task's virtual time; what the model gives
//! it is what the task would have been given.
//!
//! Of a task only the rate is known. Each is modelled as a stream of
//! [`LINES`] outstanding lines, a third of them writes (a copy after RFO).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::{Duration, Instant},
};

use super::{
    figures::Figures,
    ids::{COMMON, IdTable, Owner},
    job::{Job, lock},
    ledger::traffic_read,
    machine::{Machine, Member, used},
    registers::{
        Access, Demand, Fault, HwId, Registers, identify, register_vtime, traffic, vtime_pid,
    },
    session::Session,
};

/// Ids in use, nobody's included: a server knows 256 owners of demands.
const IDS: u32 = 256;

/// Time between two turns.
const INTERVAL: Duration = Duration::from_millis(100);

/// Simulated time of a turn (ps), if the model waits for us. A model takes some
/// ten times as long as the memory it models, so only a sample is simulated.
const SAMPLE_PS: u64 = 1_000_000_000;

/// Outstanding lines of a task.
pub const LINES: u32 = 8;

/// Part of a task's traffic that is writes (percent).
pub const WRITE_PCT: u32 = 33;

/// The largest rate that a server takes (bytes per second).
const RATE_MAX: u64 = 1_000_000_000_000;

/// Asks a model for what the tasks of this machine move.
pub struct Shadow {
    ids: IdTable,
    session: Session,
    /// What the model was told of each id (bytes per second).
    told: BTreeMap<HwId, u64>,
    /// The roll call that rates are since.
    before: Option<(Instant, HashMap<u32, Member>)>,
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
    let rate = |bytes: u64| ((bytes as f64 / seconds) as u64).min(RATE_MAX);
    let rates = used.into_iter().map(|(pid, (_, bytes))| (pid, rate(bytes)));
    rates.filter(|(_, rate)| *rate > 0).collect()
}

impl Shadow {
    /// Gives ids to the heaviest, and takes them from who has ended.
    fn allot(&mut self, members: &[Member], rates: &HashMap<u32, u64>) {
        let total: u64 = rates.values().sum();
        let share = |pid| rates.get(&pid).copied().unwrap_or(0) as f64 / total.max(1) as f64;
        let loads = members.iter().map(|m| (m.pid, share(m.pid))).collect();
        self.ids.rebalance(&loads);
        let mut heaviest: Vec<_> = rates.iter().collect();
        heaviest.sort_by_key(|(pid, rate)| (u64::MAX - **rate, **pid));
        for (pid, _) in heaviest {
            self.ids.claim(*pid);
        }
    }

    /// The virtual times, of the others the mean.
    fn vtimes(&self, members: &[Member], rates: &HashMap<u32, u64>) -> Vec<(u64, u64)> {
        let mut wanted = Vec::new();
        let (mut sum, mut n) = (0u64, 0u64);
        for member in members {
            let vtime = register_vtime(member.vtime_ns);
            match self.ids.get(member.pid) {
                COMMON if rates.contains_key(&member.pid) => (sum, n) = (sum + vtime, n + 1),
                COMMON => {}
                id => wanted.push((vtime_pid(id), vtime)),
            }
        }
        wanted.extend(sum.checked_div(n).map(|mean| (vtime_pid(COMMON), mean)));
        wanted
    }

    /// What the model should be told: changes only.
    fn demands(&self, rates: &HashMap<u32, u64>) -> Vec<Demand> {
        let mut wanted: BTreeMap<HwId, u64> = self.told.keys().map(|&id| (id, 0)).collect();
        for (&pid, &rate) in rates {
            let sum = wanted.entry(self.ids.get(pid)).or_default();
            *sum = (*sum + rate).min(RATE_MAX);
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
        figures: &Mutex<Figures>,
        accesses: &mut [Access],
    ) -> Result<(), Fault> {
        // Only measured: nobody pays for it.
        let booked = &mut Vec::new();
        self.session
            .exchange(registers, figures, &self.ids, accesses, booked)
    }

    /// Frees the ids whose demand had ended before they were read, and ends
    /// demands that an earlier agent left behind.
    fn clean(&mut self, accesses: &[Access]) {
        for (id, bytes) in traffic_read(accesses) {
            let silent = self.told.get(&id).is_none_or(|&rate| rate == 0);
            match self.ids.owner(id) {
                Owner::Leaving(..) if silent => self.ids.settle(id),
                Owner::Nobody if id > COMMON && silent && bytes > 0 => {
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
        lines: LINES,
        write_pct: WRITE_PCT,
    }
}

fn reads() -> impl Iterator<Item = Access> {
    (0..IDS as HwId).map(|id| Access::read(traffic(id)))
}

impl Job for Shadow {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn greet(
        &mut self,
        registers: &mut dyn Registers,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault> {
        let size = identify(registers)?;
        if size.pids < IDS {
            return Err(Fault::Refused(format!(
                "to be a shadow: it has {} ids, and {IDS} are needed",
                size.pids
            )));
        }
        self.session.restart();
        self.exchange(registers, figures, &mut reads().collect::<Vec<_>>())?;
        self.session.labelled = true;
        // Whatever it was told before, it is told again: 0 where nothing is wanted.
        let old: Vec<Demand> = self.told.keys().map(|&id| demand(id, 0)).collect();
        self.tell(registers, &old)
    }

    fn turn(
        &mut self,
        registers: &mut dyn Registers,
        machine: &mut dyn Machine,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        // Without an answer nobody has ended; the next turn may have one.
        let Ok(members) = machine.members() else {
            return Ok(());
        };
        let roll = members.iter().map(|m| (m.pid, *m)).collect();
        let Some((since, before)) = self.before.replace((now, roll)) else {
            return Ok(());
        };
        let rates = rates(used(&before, &members), now.duration_since(since));
        self.allot(&members, &rates);
        let mut accesses = self.session.image.changes(&self.vtimes(&members, &rates));
        let writes = accesses.len() as u64;
        accesses.extend(reads());
        self.exchange(registers, figures, &mut accesses)?;
        self.clean(&accesses);
        let demands = self.demands(&rates);
        self.tell(registers, &demands)?;
        registers.advance(SAMPLE_PS)?;
        let mut figures = lock(figures);
        figures.turns += 1;
        figures.writes += writes;
        figures.ids = self.ids.len() as u64;
        figures.demand_bytes_per_s = rates;
        let alive = members.iter().map(|member| member.pid).collect();
        figures.ledger.bury(&alive);
        Ok(())
    }

    fn settle(
        &mut self,
        registers: &mut dyn Registers,
        _: &mut dyn Machine,
        figures: &Mutex<Figures>,
    ) -> Result<(), Fault> {
        let quiet: Vec<Demand> = self.told.keys().map(|&id| demand(id, 0)).collect();
        self.tell(registers, &quiet)?;
        self.exchange(registers, figures, &mut reads().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fake::{Controller, Crew};

    fn begin() -> (Shadow, Controller, Crew, Mutex<Figures>) {
        let (mut shadow, mut controller) = (Shadow::default(), Controller::new(8192, 4));
        let figures = Mutex::default();
        shadow.greet(&mut controller, &figures).unwrap();
        (shadow, controller, Crew::default(), figures)
    }

    /// A turn that thinks that the last one was a second ago.
    fn turn(
        shadow: &mut Shadow,
        controller: &mut Controller,
        crew: &mut Crew,
        figures: &Mutex<Figures>,
    ) {
        if let Some((since, _)) = &mut shadow.before {
            *since = Instant::now() - Duration::from_secs(1);
        }
        shadow.turn(controller, crew, figures).unwrap();
    }

    #[test]
    fn what_a_task_moved_is_asked_of_the_model() {
        let (mut shadow, mut controller, mut crew, figures) = begin();
        crew.enlist(&[10, 20, 30]);
        crew.members[0].vtime_ns = 9 << 22;
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        crew.use_bytes(10, 1_000_000);
        crew.use_bytes(20, 5_000_000);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        let (ten, twenty) = (shadow.ids.get(10), shadow.ids.get(20));
        assert_eq!(controller.demands.len(), 2, "30 moved nothing");
        let rate = controller.demands[&twenty].bytes_per_s;
        assert!((4_900_000..=5_000_000).contains(&rate), "{rate}");
        // The virtual times follow with the first turn that knows the id.
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        assert_eq!(controller.peek(vtime_pid(ten)), Ok(9));
        controller.count(ten, 640);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        assert_eq!(lock(&figures).ledger.by_pid, [(10, 640)].into());
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
        let (mut shadow, mut controller, mut crew, figures) = begin();
        let pids: Vec<u32> = (1..=9000).collect();
        crew.enlist(&pids);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        pids.iter().for_each(|&pid| crew.use_bytes(pid, 1000));
        crew.use_bytes(8999, 1_000_000);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        assert_eq!(controller.demands.len(), IDS as usize - 1);
        assert_ne!(shadow.ids.get(8999), COMMON, "the heaviest first");
        let sum: u64 = controller.demands.values().map(|d| d.bytes_per_s).sum();
        assert!((9_900_000..=10_000_000).contains(&sum), "{sum}");
    }

    #[test]
    fn who_ends_asks_for_nothing_and_gives_its_id_back() {
        let (mut shadow, mut controller, mut crew, figures) = begin();
        crew.enlist(&[10]);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        crew.use_bytes(10, 1_000_000);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        let id = shadow.ids.get(10);
        crew.members.clear();
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        assert_eq!(controller.demands[&id].bytes_per_s, 0);
        assert_eq!(shadow.ids.owner(id), Owner::Leaving(10, None));
        controller.count(id, 64);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        assert_eq!(shadow.ids.owner(id), Owner::Nobody);
        assert_eq!(lock(&figures).ledger.total(), 64);
    }

    #[test]
    fn demands_that_another_agent_left_are_ended() {
        let (mut shadow, mut controller, mut crew, figures) = begin();
        controller.demands.insert(77, demand(77, 5));
        controller.count(77, 64);
        for _ in 0..2 {
            turn(&mut shadow, &mut controller, &mut crew, &figures);
        }
        assert_eq!(controller.demands[&77].bytes_per_s, 0);
        assert_eq!(lock(&figures).ledger.inherited, 64);
    }

    #[test]
    fn a_server_that_starts_again_is_told_everything() {
        let (mut shadow, mut controller, mut crew, figures) = begin();
        crew.enlist(&[10]);
        turn(&mut shadow, &mut controller, &mut crew, &figures);
        for _ in 0..2 {
            crew.use_bytes(10, 1_000_000);
            turn(&mut shadow, &mut controller, &mut crew, &figures);
        }
        let mut again = Controller::new(8192, 4);
        shadow.greet(&mut again, &figures).unwrap();
        crew.use_bytes(10, 1_000_000);
        turn(&mut shadow, &mut again, &mut crew, &figures);
        let id = shadow.ids.get(10);
        assert!(again.demands[&id].bytes_per_s > 900_000);
        shadow.settle(&mut again, &mut crew, &figures).unwrap();
        assert_eq!(again.demands[&id].bytes_per_s, 0);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Traffic of CPUs that no event of the PMU counts, as that of non-temporal stores and of
//! prefetched lines. MBM counts it. So what MBM counts of an entity beyond what its threads were
//! charged is charged to them afterwards, in proportion to their CPU time.

use std::collections::{BTreeMap, HashMap};

use drfq_policy::drf::GroupId;
use drfq_stats::sample::TaskSample;

/// MBM and the accounts are read one after the other, and an event may count a little more or less
/// than MBM. A difference of at most this part of what was moved is neither charged nor kept.
const NOISE: f64 = 0.05;

/// A thread between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub tid: u32,
    /// CPU time (ns).
    pub cpu_ns: u64,
    /// What it was charged for the traffic of CPUs (bytes).
    pub charged: u64,
}

/// The threads of an entity between two samples of the tasks. One that was not there before has no
/// traffic yet.
pub fn threads(before: &HashMap<u32, &TaskSample>, now: &[&TaskSample]) -> Vec<Thread> {
    let by_cpus = |task: &TaskSample| task.bytes.saturating_sub(task.dma_bytes);
    let since = |now: &&TaskSample| {
        let before = before.get(&now.pid).unwrap_or(now);
        Thread {
            tid: now.pid,
            cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
            charged: by_cpus(now).saturating_sub(by_cpus(before)),
        }
    };
    now.iter().map(since).collect()
}

/// An entity.
#[derive(Default)]
struct Balance {
    tids: Vec<u32>,
    /// What MBM had counted at the last look (bytes).
    moved: u64,
    /// What is not charged yet, without the payments (bytes).
    owed: f64,
    /// What each thread is charged in each period until the next look (bytes).
    payments: Vec<(u32, u64)>,
    /// What each thread was charged here since it last ran (bytes): its account takes it when it
    /// runs.
    sent: BTreeMap<u32, u64>,
}

/// All entities.
#[derive(Default)]
pub struct Uncounted {
    balances: BTreeMap<GroupId, Balance>,
}

impl Uncounted {
    /// Forgets all entities but these.
    pub fn retain(&mut self, ids: &[GroupId]) {
        self.balances.retain(|id, _| ids.contains(id));
    }

    /// Looks at an entity. `moved`: what MBM has counted of it since it is monitored (bytes).
    /// `periods`: until the next look. If its threads are others than at the last look, what
    /// happened in between is not known: a thread that has ended took its account with it.
    pub fn look(&mut self, id: GroupId, threads: &[Thread], moved: u64, periods: u64) {
        let balance = self.balances.entry(id).or_default();
        let mut tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
        tids.sort_unstable();
        let since = moved.saturating_sub(balance.moved) as f64;
        balance.moved = moved;
        balance.payments.clear();
        if tids != balance.tids {
            balance.tids = tids;
            balance.owed = 0.0;
            balance.sent.clear();
            return;
        }
        let cpu_ns: u64 = threads.iter().map(|thread| thread.cpu_ns).sum();
        let mut by_events = 0.0;
        for thread in threads {
            let ours = match thread.cpu_ns {
                0 => None,
                _ => balance.sent.remove(&thread.tid),
            };
            by_events += thread.charged as f64 - ours.unwrap_or(0) as f64;
        }
        balance.owed = (balance.owed + since - by_events).max(-NOISE * since);
        if balance.owed <= NOISE * since || cpu_ns == 0 {
            return;
        }
        let owed = std::mem::take(&mut balance.owed);
        for thread in threads {
            let part = owed * thread.cpu_ns as f64 / cpu_ns as f64;
            let payment = (part / periods.max(1) as f64) as u64;
            if payment > 0 {
                balance.payments.push((thread.tid, payment));
            }
        }
    }

    /// What to charge each thread of an entity in this period (bytes).
    pub fn due(&mut self, id: GroupId) -> Vec<(u32, u64)> {
        let Some(balance) = self.balances.get_mut(&id) else {
            return Vec::new();
        };
        for &(tid, bytes) in &balance.payments {
            *balance.sent.entry(tid).or_default() += bytes;
        }
        balance.payments.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: GroupId = 7;
    const PERIODS: u64 = 5;

    /// Threads of which events count a part, and the account of an entity.
    struct Machine {
        uncounted: Uncounted,
        moved: u64,
        charged: u64,
        pending: BTreeMap<u32, u64>,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                uncounted: Uncounted::default(),
                moved: 0,
                charged: 0,
                pending: BTreeMap::new(),
            }
        }

        /// Half a second. (thread, CPU time, bytes moved, bytes that events count). `skew`: what
        /// MBM tells too much.
        fn run(&mut self, threads: &[(u32, u64, u64, u64)], skew: i64) {
            let mut seen = Vec::new();
            for &(tid, cpu_ns, moved, counted) in threads {
                self.moved += moved;
                let pending = self.pending.get_mut(&tid).filter(|_| cpu_ns > 0);
                let charged = counted + pending.map(std::mem::take).unwrap_or(0);
                self.charged += charged;
                seen.push(Thread {
                    tid,
                    cpu_ns,
                    charged,
                });
            }
            let moved = self.moved.saturating_add_signed(skew);
            self.uncounted.look(ID, &seen, moved, PERIODS);
            for _ in 0..PERIODS {
                for (tid, bytes) in self.uncounted.due(ID) {
                    *self.pending.entry(tid).or_default() += bytes;
                }
            }
        }

        fn error(&self) -> f64 {
            let pending: u64 = self.pending.values().sum();
            (self.charged + pending) as f64 / self.moved as f64 - 1.0
        }
    }

    #[test]
    fn what_events_count_is_not_charged_twice() {
        let mut machine = Machine::new();
        for look in 0..100 {
            let skew = [0, 30_000, -30_000, 10_000][look % 4];
            machine.run(&[(1, 500, 1_000_000, 995_000)], skew);
        }
        assert!(machine.error().abs() < 0.01, "{}", machine.error());
    }

    #[test]
    fn what_no_event_counts_is_charged_in_the_next_interval() {
        for counted in [0, 300_000, 667_000] {
            let mut machine = Machine::new();
            for look in 0..100 {
                let skew = [0, 20_000, -20_000][look % 3];
                machine.run(&[(1, 500, 1_000_000, counted)], skew);
            }
            // The first interval begins with the first look.
            assert!(
                machine.error().abs() < 0.02,
                "{counted}: {}",
                machine.error()
            );
        }
    }

    #[test]
    fn threads_pay_in_proportion_to_their_cpu_time() {
        let mut machine = Machine::new();
        for _ in 0..2 {
            machine.run(
                &[(1, 300, 500_000, 0), (2, 100, 500_000, 0), (3, 0, 0, 0)],
                0,
            );
        }
        let parts: Vec<(u32, u64)> = machine.pending.into_iter().collect();
        assert_eq!(parts, [(1, 750_000), (2, 250_000)]);
    }

    #[test]
    fn a_thread_that_sleeps_is_not_charged_again() {
        let mut machine = Machine::new();
        for look in 0..100 {
            let (cpu_ns, moved) = [(500, 1_000_000), (0, 0), (0, 0)][look % 3];
            machine.run(&[(1, cpu_ns, moved, 0)], 0);
        }
        assert!(machine.error().abs() < 0.05, "{}", machine.error());
    }

    #[test]
    fn an_interval_in_which_threads_came_or_went_is_left_out() {
        let mut machine = Machine::new();
        for look in 0..50 {
            machine.run(&[(look, 500, 1_000_000, 0)], 0);
        }
        assert!(machine.pending.is_empty());
    }

    #[test]
    fn a_thread_has_no_traffic_before_it_is_seen() {
        let sample = |pid, bytes, dma_bytes, cpu_ns| TaskSample {
            pid,
            bytes,
            dma_bytes,
            cpu_ns,
            ..TaskSample::default()
        };
        let (old, now, new) = (
            sample(1, 100, 40, 5),
            sample(1, 250, 90, 9),
            sample(2, 70, 0, 3),
        );
        let seen = threads(&HashMap::from([(1, &old)]), &[&now, &new]);
        let told: Vec<_> = seen.iter().map(|t| (t.tid, t.cpu_ns, t.charged)).collect();
        assert_eq!(told, [(1, 4, 100), (2, 0, 0)]);
    }
}

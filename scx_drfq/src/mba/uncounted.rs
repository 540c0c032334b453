// SPDX-License-Identifier: GPL-2.0-only
//! Traffic of CPUs that no event of the PMU counts, as that of non-temporal stores and of
//! prefetched lines. MBM counts it. So what MBM counts of an entity beyond what its threads were
//! charged is charged to them afterwards, in proportion to their CPU time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    time::Duration,
};

use drfq_policy::drf::GroupId;
use drfq_stats::sample::TaskSample;

/// MBM and the accounts are read one after the other, and an event may count a little more or less
/// than MBM. Less than this part of what was moved waits until there is more.
const NOISE: f64 = 0.05;

/// A thread that ran or waited for a CPU for this part of the time takes each payment before the
/// next look. Another one may not, and then its account does not tell what it has taken.
const BUSY: f64 = 0.9;

/// So much of an entity's CPU time may be that of threads that are not busy.
const LIGHT: f64 = 0.05;

/// A payment of less is not worth a call (bytes).
const LEAST: f64 = 65536.0;

/// A thread between two looks.
#[derive(Clone, Copy, Debug)]
struct Thread {
    tid: u32,
    /// CPU time that the scheduler charged (ns). A task of another class has none.
    ran_ns: u64,
    /// It ran or waited for a CPU (ns).
    runnable_ns: u64,
    /// What it was charged for the traffic of CPUs (bytes).
    charged: u64,
}

/// What entities did between two looks.
pub struct Seen {
    interval: Duration,
    entities: Vec<(GroupId, Vec<Thread>)>,
}

impl Seen {
    /// Of two samples of the tasks. `entities`: their threads.
    pub fn new<'a>(
        interval: Duration,
        before: &[TaskSample],
        now: &[TaskSample],
        entities: impl Iterator<Item = (GroupId, &'a [u32])>,
    ) -> Self {
        let before: HashMap<_, _> = before.iter().map(|task| (task.pid, task)).collect();
        let now: HashMap<_, _> = now.iter().map(|task| (task.pid, task)).collect();
        let entities = entities.map(|(id, tids)| {
            let tasks: Vec<_> = tids
                .iter()
                .filter_map(|tid| now.get(tid).copied())
                .collect();
            (id, threads(&before, &tasks))
        });
        Self {
            interval,
            entities: entities.collect(),
        }
    }
}

/// The threads of an entity between two samples of the tasks. One that was not there before has
/// done nothing yet.
fn threads(before: &HashMap<u32, &TaskSample>, now: &[&TaskSample]) -> Vec<Thread> {
    let by_cpus = |task: &TaskSample| task.bytes.saturating_sub(task.dma_bytes);
    let runnable = |task: &TaskSample| task.cpu_ns.saturating_add(task.wait_ns);
    let since = |now: &&TaskSample| {
        let before = before.get(&now.pid).unwrap_or(now);
        Thread {
            tid: now.pid,
            ran_ns: now.charged_ns.saturating_sub(before.charged_ns),
            runnable_ns: runnable(now).saturating_sub(runnable(before)),
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
    /// What each thread is charged in each period that is left before the next look (bytes).
    payments: Vec<(u32, u64)>,
    left: u64,
    /// What was charged here since the last look (bytes).
    sent: u64,
}

impl Balance {
    /// See [`Uncounted::take`]. If the threads are others than at the last look, or are mostly not
    /// busy, what happened in between is not known. A thread that has ended took its account with
    /// it.
    fn look(
        &mut self,
        threads: &[Thread],
        interval: Duration,
        moved: u64,
        most: f64,
        periods: u64,
    ) {
        let mut tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
        tids.sort_unstable();
        let same = tids == self.tids;
        self.tids = tids;
        let since = moved.saturating_sub(self.moved) as f64;
        self.moved = moved;
        // A look that is early finds payments left.
        let left: u64 = self.payments.drain(..).map(|(_, bytes)| bytes).sum();
        self.owed += (left * std::mem::take(&mut self.left)) as f64;
        let sent = std::mem::take(&mut self.sent);

        let least_ns = BUSY * interval.as_nanos() as f64;
        let is_busy = |thread: &&Thread| thread.ran_ns > 0 && thread.runnable_ns as f64 >= least_ns;
        let ran_ns = threads.iter().map(|thread| thread.ran_ns).sum::<u64>() as f64;
        let busy_ns = threads
            .iter()
            .filter(is_busy)
            .map(|t| t.ran_ns)
            .sum::<u64>() as f64;
        if !same || ran_ns == 0.0 || busy_ns < (1.0 - LIGHT) * ran_ns {
            self.owed = 0.0;
            return;
        }
        // A reading may jump, and MBM counts what children move that have ended.
        let since = since.min(most * ran_ns / 1e9);
        let by_events = threads.iter().map(|t| t.charged).sum::<u64>() as f64 - sent as f64;
        self.owed = (self.owed + since - by_events).max(-NOISE * since);
        if self.owed <= NOISE * since {
            return;
        }
        let owed = self.owed;
        self.left = periods;
        for thread in threads.iter().filter(is_busy) {
            let payment = owed * thread.ran_ns as f64 / busy_ns / periods.max(1) as f64;
            if payment >= LEAST {
                self.payments.push((thread.tid, payment as u64));
                self.owed -= payment * periods as f64;
            }
        }
    }
}

/// All entities.
#[derive(Default)]
pub struct Uncounted {
    balances: BTreeMap<GroupId, Balance>,
}

impl Uncounted {
    /// Looks at entities, and forgets all others. `moved`: what MBM has counted of one since it is
    /// monitored (bytes). `most`: what a CPU can move (bytes per second). `periods`: until the next
    /// look.
    pub fn take(&mut self, seen: &Seen, moved: impl Fn(GroupId) -> u64, most: f64, periods: u64) {
        let ids: BTreeSet<GroupId> = seen.entities.iter().map(|(id, _)| *id).collect();
        self.balances.retain(|id, _| ids.contains(id));
        for (id, threads) in &seen.entities {
            let balance = self.balances.entry(*id).or_default();
            balance.look(threads, seen.interval, moved(*id), most, periods);
        }
    }

    /// Charges what is due in this period. `charge`: charges a thread (bytes), and tells whether it
    /// is there. Returns the last failure.
    pub fn pay(&mut self, mut charge: impl FnMut(u32, u64) -> io::Result<bool>) -> Option<String> {
        let mut failure = None;
        for balance in self.balances.values_mut().filter(|found| found.left > 0) {
            balance.left -= 1;
            for &(tid, bytes) in &balance.payments {
                match charge(tid, bytes) {
                    Ok(true) => balance.sent += bytes,
                    Ok(false) => {}
                    Err(error) => {
                        failure = Some(format!(
                            "cannot charge task {tid} what MBM counted: {error}"
                        ));
                    }
                }
            }
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: GroupId = 7;
    const PERIODS: u64 = 5;
    const HALF: Duration = Duration::from_millis(500);
    const HALF_NS: u64 = 500_000_000;
    const MB: u64 = 1_000_000;

    /// What a thread does in half a second.
    #[derive(Clone, Copy)]
    struct Does {
        tid: u32,
        ran_ns: u64,
        runnable_ns: u64,
        moves: u64,
        counted: u64,
    }

    fn hog(tid: u32, moves: u64, counted: u64) -> Does {
        Does {
            tid,
            ran_ns: HALF_NS,
            runnable_ns: HALF_NS,
            moves,
            counted,
        }
    }

    /// Threads of which events count a part, and the account of an entity.
    #[derive(Default)]
    struct Machine {
        uncounted: Uncounted,
        moved: u64,
        charged: u64,
        pending: BTreeMap<u32, u64>,
    }

    impl Machine {
        /// Half a second. `skew`: what MBM tells too much (bytes).
        fn run(&mut self, threads: &[Does], skew: i64) {
            // More periods than were told charge nothing.
            self.run_for(threads, skew, 2 * PERIODS);
        }

        /// The same with so many periods after it.
        fn run_for(&mut self, threads: &[Does], skew: i64, periods: u64) {
            let mut seen = Vec::new();
            for does in threads {
                self.moved += does.moves;
                let pending = self.pending.get_mut(&does.tid).filter(|_| does.ran_ns > 0);
                let charged = does.counted + pending.map(std::mem::take).unwrap_or(0);
                self.charged += charged;
                seen.push(Thread {
                    tid: does.tid,
                    ran_ns: does.ran_ns,
                    runnable_ns: does.runnable_ns,
                    charged,
                });
            }
            let moved = self.moved.saturating_add_signed(skew);
            let seen = Seen {
                interval: HALF,
                entities: vec![(ID, seen)],
            };
            self.uncounted.take(&seen, |_| moved, 1e9, PERIODS);
            for _ in 0..periods {
                let failure = self.uncounted.pay(|tid, bytes| {
                    *self.pending.entry(tid).or_default() += bytes;
                    Ok(true)
                });
                assert_eq!(failure, None);
            }
        }

        /// How far the account is from what was moved, as a part of it.
        fn error(&self) -> f64 {
            let pending: u64 = self.pending.values().sum();
            (self.charged + pending) as f64 / self.moved as f64 - 1.0
        }
    }

    #[test]
    fn what_events_count_is_not_charged_twice() {
        let mut machine = Machine::default();
        for look in 0..100 {
            let skew = [0, 3_000_000, -3_000_000, 1_000_000][look % 4];
            machine.run(&[hog(1, 100 * MB, 99 * MB)], skew);
        }
        assert!(machine.error().abs() < 0.015, "{}", machine.error());
    }

    #[test]
    fn what_no_event_counts_is_charged_in_the_next_interval() {
        for counted in [0, 30 * MB, 67 * MB] {
            let mut machine = Machine::default();
            for look in 0..100 {
                let skew = [0, 2_000_000, -2_000_000][look % 3];
                machine.run(&[hog(1, 100 * MB, counted)], skew);
            }
            // The first interval begins with the first look.
            let error = machine.error();
            assert!(error.abs() < 0.02, "{counted}: {error}");
        }
    }

    #[test]
    fn an_early_look_finds_payments_left() {
        let mut machine = Machine::default();
        for look in 0..100 {
            let periods = if look % 2 == 0 { PERIODS } else { 1 };
            machine.run_for(&[hog(1, 100 * MB, 30 * MB)], 0, periods);
        }
        assert!(machine.error().abs() < 0.02, "{}", machine.error());
    }

    #[test]
    fn threads_pay_in_proportion_to_their_cpu_time() {
        let mut machine = Machine::default();
        let thread = |tid, ran_ns| Does {
            ran_ns,
            ..hog(tid, 50 * MB, 0)
        };
        let idle = Does {
            runnable_ns: 0,
            ..thread(3, 0)
        };
        for _ in 0..2 {
            machine.run(&[thread(1, 300 * MB), thread(2, 100 * MB), idle], 0);
        }
        let parts: Vec<(u32, u64)> = machine.pending.into_iter().collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].1, 3 * parts[1].1);
    }

    #[test]
    fn what_a_thread_took_that_slept_is_not_known() {
        let mut machine = Machine::default();
        for look in 0..100 {
            let does = hog(1, 100 * MB, 0);
            let light = Does {
                ran_ns: 10 * MB,
                runnable_ns: 20 * MB,
                ..hog(1, MB, 0)
            };
            machine.run(&[if look % 2 == 0 { does } else { light }], 0);
        }
        let error = machine.error();
        assert!((-1.0..0.0).contains(&error), "{error}");
    }

    #[test]
    fn an_interval_in_which_threads_came_or_went_is_left_out() {
        let mut machine = Machine::default();
        for look in 0..50 {
            machine.run(&[hog(look, 100 * MB, 0)], 0);
        }
        assert!(machine.pending.is_empty());
    }

    #[test]
    fn a_task_of_another_class_is_not_charged() {
        let mut machine = Machine::default();
        let real_time = Does {
            ran_ns: 0,
            ..hog(1, 100 * MB, 0)
        };
        for _ in 0..50 {
            machine.run(&[real_time], 0);
        }
        assert!(machine.pending.is_empty());
    }

    #[test]
    fn no_thread_pays_for_more_than_a_cpu_can_move() {
        let mut machine = Machine::default();
        machine.run(&[hog(1, 0, 0)], 0);
        machine.run(&[hog(1, 1_000_000 * MB, 0)], 0);
        assert_eq!(machine.pending[&1], 500 * MB);
    }

    #[test]
    fn a_thread_has_no_traffic_before_it_is_seen() {
        let sample = |pid, bytes, dma_bytes, charged_ns| TaskSample {
            pid,
            bytes,
            dma_bytes,
            charged_ns,
            cpu_ns: charged_ns,
            wait_ns: 2 * charged_ns,
            ..TaskSample::default()
        };
        let (old, now, new) = (
            sample(1, 100, 40, 5),
            sample(1, 250, 90, 9),
            sample(2, 70, 0, 3),
        );
        let seen = threads(&HashMap::from([(1, &old)]), &[&now, &new]);
        let told: Vec<_> = seen
            .iter()
            .map(|t| (t.tid, t.ran_ns, t.runnable_ns, t.charged))
            .collect();
        assert_eq!(told, [(1, 4, 12, 100), (2, 0, 0, 0)]);
    }
}

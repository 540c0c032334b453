// SPDX-License-Identifier: GPL-2.0-only
//! What the CPUs' events miss of a task's traffic, and the controller counts. A line that is read
//! first and written later makes no event of a write, so no task is charged for its write-back: a
//! stencil that updates arrays in place would pay for two thirds of what it moves.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::scheduler_view::{Charging, SchedulerView, TaskUsage};

/// What is missed is charged while it is more than this part of what the controller counts: the
/// two are never quite the same.
const LEAST_PART: f64 = 0.05;

/// Time over which that is judged.
const JUDGED: Duration = Duration::from_millis(300);

/// Time in which most of what is owed is paid. At once it would hold a task that shares with a
/// device, which cannot use later what it did not use meanwhile.
const PAID: Duration = Duration::from_millis(200);

/// Time between two charges, and the longest one that is charged for at once.
const PART: Duration = Duration::from_millis(10);
const PAID_AT_ONCE: Duration = Duration::from_millis(50);

/// A task's charges against its counts.
#[derive(Default)]
struct Account {
    /// What the task had been charged at the last scan (bytes).
    charged: u64,
    /// Its CPU time at the last scan (ns), and whether that had grown.
    cpu_ns: u64,
    ran: bool,
    /// What the controller has counted since the last scan (bytes).
    counted: u64,
    /// How long the controller has counted something.
    known: Duration,
    /// What the controller counted lately, and how much of that no event told (bytes). What a scan
    /// finds counts less with each later one.
    recently_counted: f64,
    recently_missed: f64,
    /// What is to be charged yet (bytes). Negative: too much was.
    owed: f64,
    /// What the task paid of it, if no scan has seen that it ran since (bytes). A task that sleeps
    /// is charged when it runs.
    paid: u64,
}

impl Account {
    fn new(task: &TaskUsage) -> Self {
        Self {
            charged: task.bytes,
            cpu_ns: task.cpu_ns,
            ..Self::default()
        }
    }

    /// Takes in a scan, `since` the one before. Returns how much the controller counted beyond what
    /// the task was charged (bytes).
    fn compare(&mut self, task: &TaskUsage, since: Duration) -> f64 {
        self.ran = task.cpu_ns != self.cpu_ns;
        let paid = if self.ran {
            std::mem::take(&mut self.paid)
        } else {
            0
        };
        let counted = std::mem::take(&mut self.counted) as f64;
        let missed = counted + paid as f64 - (task.bytes - self.charged) as f64;
        self.charged = task.bytes;
        self.cpu_ns = task.cpu_ns;
        if counted > 0.0 {
            self.known += since;
        }
        let kept = (-since.div_duration_f64(JUDGED)).exp();
        self.recently_counted = self.recently_counted * kept + counted;
        // A surplus of charges is forgotten, or it would hide for long what is missed later.
        self.recently_missed = (self.recently_missed * kept + missed).max(-self.recently_counted);
        missed
    }

    /// Adds to what the task owes, of which it `missed` so much (bytes). Returns what it pays until
    /// the next scan (bytes/s).
    fn owe(&mut self, missed: f64) -> f64 {
        let part = LEAST_PART * self.recently_counted;
        if self.known >= JUDGED && self.recently_missed > part {
            self.owed += missed;
        }
        if self.ran {
            self.owed.max(0.0) / PAID.as_secs_f64()
        } else {
            0.0
        }
    }
}

/// What the tasks that have ids of their own owe.
pub struct Missed {
    /// Traffic that was booked and is not settled yet: (thread id, bytes).
    pub booked: Vec<(u32, u64)>,
    accounts: HashMap<u32, Account>,
    /// What the controller counted for tasks that no scan has found yet (bytes).
    unknown: HashMap<u32, u64>,
    /// A scan that waits for the counts of the same time.
    scan: Option<(Instant, Vec<TaskUsage>)>,
    /// The last scan that was compared.
    compared: Instant,
    /// What tasks pay (thread id, bytes/s).
    payers: Vec<(u32, f64)>,
    /// When they paid last.
    charged: Instant,
}

impl Default for Missed {
    fn default() -> Self {
        Self {
            booked: Vec::new(),
            accounts: HashMap::new(),
            unknown: HashMap::new(),
            scan: None,
            compared: Instant::now(),
            payers: Vec::new(),
            charged: Instant::now(),
        }
    }
}

impl Missed {
    /// The tasks were scanned at `now`. If none was, the scheduler could not tell.
    pub fn scanned(&mut self, tasks: Vec<TaskUsage>, now: Instant) {
        self.scan = (!tasks.is_empty()).then_some((now, tasks));
    }

    /// Whether a scan waits for counts, so that they should be read now.
    pub fn waits(&self) -> bool {
        self.scan.is_some()
    }

    /// The link was lost meanwhile: what will be counted is of a later time than the scan.
    pub fn reconnected(&mut self) {
        self.scan = None;
    }

    /// Charges what was booked, or compares it with the charges. Charges a part of what was missed,
    /// if one is due.
    ///
    /// `labelled`: cores label their own traffic. Copied labels are late, so a count may be another
    /// task's.
    pub fn settle(&mut self, labelled: bool, scheduler: &mut dyn SchedulerView) {
        let charging = scheduler.charging();
        for (pid, bytes) in std::mem::take(&mut self.booked) {
            match charging {
                Charging::All => scheduler.charge(pid, bytes),
                Charging::Missed if labelled => self.counted(pid, bytes),
                Charging::Missed | Charging::Nothing => {}
            }
        }
        if let Some((at, tasks)) = self.scan.take() {
            self.compare(&tasks, at);
        }
        for (pid, bytes) in self.due(Instant::now()) {
            scheduler.charge(pid, bytes);
        }
    }

    /// Compares the charges of tasks at a time with what was counted until then.
    fn compare(&mut self, tasks: &[TaskUsage], at: Instant) {
        let since = at.saturating_duration_since(self.compared);
        self.compared = at;
        let mut accounts = std::mem::take(&mut self.accounts);
        let mut missed = Vec::new();
        for task in tasks {
            // A count that went back is another task's with the same thread id.
            let known = accounts
                .remove(&task.pid)
                .filter(|account| account.charged <= task.bytes);
            if let Some(mut account) = known {
                missed.push((task, account.compare(task, since)));
                self.accounts.insert(task.pid, account);
            } else if self.unknown.contains_key(&task.pid) {
                self.accounts.insert(task.pid, Account::new(task));
            }
        }
        self.unknown.clear();
        let part = self.missed_by_all();
        self.payers.clear();
        for (task, missed) in missed {
            let account = self.accounts.get_mut(&task.pid).filter(|_| !task.kthread);
            let rate = account.map_or(0.0, |account| account.owe(missed * part));
            self.payers.extend((rate > 0.0).then_some((task.pid, rate)));
        }
    }

    /// Which part of what tasks seem to miss nobody was charged. The controller counts a line that
    /// is written back for the core that evicts it, and a request to a device for the one that
    /// submits it; then another task has paid for what a task seems to miss.
    fn missed_by_all(&self) -> f64 {
        let missed = self
            .accounts
            .values()
            .map(|account| account.recently_missed);
        let by_some: f64 = missed.clone().map(|bytes| bytes.max(0.0)).sum();
        let by_all: f64 = missed.sum();
        if by_some > 0.0 {
            (by_all / by_some).max(0.0)
        } else {
            0.0
        }
    }

    fn counted(&mut self, pid: u32, bytes: u64) {
        match self.accounts.get_mut(&pid) {
            Some(account) => account.counted += bytes,
            None => *self.unknown.entry(pid).or_default() += bytes,
        }
    }

    /// What is to be charged now: (thread id, bytes).
    fn due(&mut self, now: Instant) -> Vec<(u32, u64)> {
        let since = now.saturating_duration_since(self.charged);
        if since < PART {
            return Vec::new();
        }
        // After a pause, payments go on as before.
        let since = since.min(PAID_AT_ONCE);
        self.charged = now;
        let mut due = Vec::new();
        for (pid, rate) in &self.payers {
            let Some(account) = self.accounts.get_mut(pid) else {
                continue;
            };
            let bytes = (rate * since.as_secs_f64()).min(account.owed) as u64;
            account.owed -= bytes as f64;
            account.paid += bytes;
            due.extend((bytes != 0).then_some((*pid, bytes)));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeScheduler;

    /// A task, and the time.
    struct Machine {
        missed: Missed,
        task: TaskUsage,
        now: Instant,
    }

    impl Machine {
        fn new() -> Self {
            let mut machine = Self {
                missed: Missed::default(),
                task: TaskUsage {
                    pid: 7,
                    bytes: 5000,
                    ..TaskUsage::default()
                },
                now: Instant::now(),
            };
            machine.missed.counted(7, 1);
            machine.missed.compare(&[machine.task], machine.now);
            machine
        }

        /// The next scan, 0.1 s later: until then the task ran, and was charged `charged` for its
        /// events, while the controller counted `counted`. Returns what is paid after it.
        fn scan(&mut self, charged: u64, counted: u64) -> Vec<u64> {
            self.task.cpu_ns += 100;
            self.task.bytes += charged;
            self.missed.counted(7, counted);
            self.sleep()
        }

        /// The next scan, before which the task slept.
        fn sleep(&mut self) -> Vec<u64> {
            self.missed.compare(&[self.task], self.now);
            let mut parts = Vec::new();
            for _ in 0..20 {
                self.now += Duration::from_millis(5);
                let due = self.missed.due(self.now);
                parts.extend(due.into_iter().map(|(_, bytes)| bytes));
            }
            self.task.bytes += parts.iter().sum::<u64>();
            parts
        }

        /// Returns what was charged in all during `scans` scans.
        fn charged(&mut self, scans: u32, charged: u64, counted: u64) -> u64 {
            let begin = self.task.bytes;
            (0..scans).for_each(|_| drop(self.scan(charged, counted)));
            self.task.bytes - begin
        }
    }

    #[test]
    fn what_events_miss_is_charged() {
        let mut machine = Machine::new();
        machine.charged(10, 63_000, 100_000);
        let charged = machine.charged(20, 63_000, 100_000);
        assert!((1_990_000..=2_000_000).contains(&charged), "{charged}");
    }

    #[test]
    fn it_is_charged_from_half_a_second_on() {
        let mut machine = Machine::new();
        let paid = (1..10).find(|_| !machine.scan(63_000, 100_000).is_empty());
        assert!(paid.is_some_and(|scan| scan <= 5), "scan {paid:?}");
    }

    #[test]
    fn it_is_charged_in_small_parts() {
        let mut machine = Machine::new();
        let mut most = 0;
        for _ in 0..40 {
            let parts = machine.scan(63_000, 100_000);
            assert!(parts.len() <= 10, "{}", parts.len());
            most = most.max(parts.into_iter().max().unwrap_or(0));
        }
        assert!((3600..=3700).contains(&most), "a tenth of a scan: {most}");
    }

    #[test]
    fn what_is_counted_for_another_core_s_evictions_is_not_charged() {
        let mut machine = Machine::new();
        assert_eq!(machine.charged(100, 97_000, 100_000), 9_700_000);
    }

    #[test]
    fn what_one_scan_sees_early_or_late_is_not_charged() {
        let mut machine = Machine::new();
        let mut paid = 0;
        for i in 0..100 {
            let shifted = [20_000, 0, 10_000][i % 3];
            paid += machine.scan(100_000, 90_000 + shifted).len();
        }
        assert_eq!(paid, 0);
    }

    #[test]
    fn a_surplus_of_charges_soon_hides_nothing_any_more() {
        let mut machine = Machine::new();
        machine.charged(30, 500_000, 100_000);
        machine.charged(15, 50_000, 100_000);
        let charged = machine.charged(20, 50_000, 100_000);
        assert!((1_980_000..=2_000_000).contains(&charged), "{charged}");
    }

    #[test]
    fn a_task_that_sleeps_pays_later() {
        let mut machine = Machine::new();
        machine.charged(30, 50_000, 100_000);
        let owed = machine.missed.accounts[&7].owed;
        assert!(owed > 0.0);
        // It sleeps. What it paid last becomes visible when it runs again.
        let paid = machine.missed.accounts[&7].paid;
        machine.task.bytes -= paid;
        for _ in 0..20 {
            assert_eq!(machine.sleep(), []);
        }
        machine.task.bytes += paid;
        let charged = machine.charged(60, 50_000, 100_000);
        assert!((5_950_000..=6_250_000).contains(&charged), "{charged}");
    }

    /// Charges and counts of two tasks in each of 40 scans. Returns what each was charged in the
    /// last 20.
    fn charged_beside(mut tasks: [TaskUsage; 2], told: [(u64, u64); 2]) -> [u64; 2] {
        let mut missed = Missed::default();
        let mut now = Instant::now();
        let mut begin = [0; 2];
        for scan in 0..40 {
            if scan == 20 {
                begin = tasks.map(|task| task.bytes);
            }
            for (task, (charged, counted)) in tasks.iter_mut().zip(told) {
                task.cpu_ns += 100;
                task.bytes += charged;
                missed.counted(task.pid, counted);
            }
            missed.compare(&tasks, now);
            for _ in 0..10 {
                now += Duration::from_millis(10);
                for (pid, bytes) in missed.due(now) {
                    let task = tasks.iter_mut().find(|task| task.pid == pid);
                    task.expect("it was scanned").bytes += bytes;
                }
            }
        }
        [tasks[0].bytes - begin[0], tasks[1].bytes - begin[1]]
    }

    fn two_tasks() -> [TaskUsage; 2] {
        [7, 8].map(|pid| TaskUsage {
            pid,
            ..TaskUsage::default()
        })
    }

    /// Its copies are written back for the core of the other task.
    #[test]
    fn what_a_task_has_paid_is_not_charged_to_the_one_it_is_counted_for() {
        let told = [(30_000, 25_000), (20_000, 25_000)];
        assert_eq!(charged_beside(two_tasks(), told), [600_000, 400_000]);
    }

    #[test]
    fn what_nobody_has_paid_is_charged_to_those_who_miss_it() {
        let told = [(30_000, 25_000), (20_000, 35_000)];
        let [first, second] = charged_beside(two_tasks(), told);
        assert_eq!(first, 600_000);
        assert!((590_000..=600_000).contains(&second), "{second}");
    }

    #[test]
    fn a_kernel_thread_owes_nothing() {
        let [mut thread, task] = two_tasks();
        thread.kthread = true;
        let told = [(0, 25_000), (20_000, 20_000)];
        assert_eq!(charged_beside([thread, task], told), [0, 400_000]);
    }

    #[test]
    fn a_scan_waits_for_the_counts_of_its_time() {
        let mut missed = Missed::default();
        missed.scanned(two_tasks().into(), Instant::now());
        assert!(missed.waits());
        missed.settle(true, &mut FakeScheduler::default());
        assert!(!missed.waits());
        missed.scanned(two_tasks().into(), Instant::now());
        missed.reconnected();
        assert!(!missed.waits());
    }

    #[test]
    fn copied_labels_tell_nothing_of_what_events_miss() {
        let mut scheduler = FakeScheduler {
            has_pmu: true,
            ..FakeScheduler::default()
        };
        let mut missed = Missed::default();
        missed.booked.push((7, 9000));
        missed.settle(false, &mut scheduler);
        assert!(missed.unknown.is_empty());
        missed.booked.push((7, 9000));
        missed.settle(true, &mut scheduler);
        assert_eq!(missed.unknown, [(7, 9000)].into());
        assert!(scheduler.charged.is_empty());
    }

    #[test]
    fn another_task_with_the_same_thread_id_begins_anew() {
        let mut machine = Machine::new();
        machine.charged(30, 50_000, 100_000);
        machine.task.bytes = 10;
        assert_eq!(machine.scan(0, 9000), []);
        machine.missed.compare(&[], machine.now);
        assert!(machine.missed.accounts.is_empty());
    }
}

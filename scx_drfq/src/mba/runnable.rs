// SPDX-License-Identifier: GPL-2.0-only
//! How many tasks run or wait for a CPU, those included that ended before the agent looked at them.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use drfq_stats::sample::{TaskSample, TaskState};

use super::{entities::sharing, gauge::INTERVAL_MIN};

/// CPU time and time of waiting for a CPU (s).
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// CPUs that are online.
    cpus: usize,
    ran_s: f64,
    /// None: the kernel does not tell it.
    waited_s: Option<f64>,
}

/// What there was at one moment.
#[derive(Debug, Default)]
pub struct Look {
    /// The tasks that share bandwidth.
    pub tasks: Vec<TaskSample>,
    /// All others: kernel threads and the agent's.
    others: Vec<TaskSample>,
    /// What all tasks of the machine used since boot; none: that is not known.
    machine: Option<Times>,
    /// What the tasks waited and the machine has not counted yet (s): it counts a wait when it ends.
    uncounted_waits_s: f64,
}

impl Look {
    /// Divides all tasks of the machine whose `/` is `root`. `agent`: the ids of its processes.
    pub fn new(tasks: Vec<TaskSample>, agent: &[u32], root: &Path) -> Self {
        let (tasks, others) = sharing(tasks, agent);
        Self {
            tasks,
            others,
            machine: Times::of_machine(root),
            uncounted_waits_s: 0.0,
        }
    }

    /// Mean number of tasks that share bandwidth and ran or waited for a CPU since `before`. A task
    /// that waits for a pace wants no CPU. Kernels that do not record waiting leave the number at
    /// this moment.
    pub fn runnable(&mut self, before: &Self, interval: Duration) -> f64 {
        if self.tasks.iter().all(|task| task.wait_ns == 0) {
            let wants =
                |task: &&TaskSample| matches!(task.state, TaskState::Queued | TaskState::Running);
            return self.tasks.iter().filter(wants).count() as f64;
        }
        let since = Since::new(before, interval);
        let wanted_s: f64 = self.tasks.iter().map(|task| since.wanted_s(task)).sum();
        (wanted_s + self.ended_s(before, &since)) / interval.max(INTERVAL_MIN).as_secs_f64()
    }

    /// CPU time and waits of tasks that have ended since (s): what the machine counted beyond the
    /// tasks that there are.
    fn ended_s(&mut self, before: &Self, since: &Since) -> f64 {
        let (Some(machine), Some(machine_before)) = (self.machine, before.machine) else {
            return 0.0;
        };
        let present = || self.tasks.iter().chain(&self.others);
        // It is a count of ticks, and was read at another moment than the tasks.
        let most_s = machine.cpus as f64 * since.interval.as_secs_f64();
        let ran_s = (machine.ran_s - machine_before.ran_s).min(most_s);
        let mut ended_s = ran_s - present().map(|task| since.ran_s(task)).sum::<f64>();
        // The machine's count does not tell what of the waits was one for a pace.
        let throttled = present().any(|task| since.throttled_s(task) > 0.0);
        if let (Some(now_s), Some(then_s)) = (machine.waited_s, machine_before.waited_s) {
            let waited_s: f64 = present().map(|task| since.waited_s(task)).sum();
            let others_s = now_s - then_s - waited_s - before.uncounted_waits_s;
            self.uncounted_waits_s = (-others_s).max(0.0);
            if !throttled {
                ended_s += others_s.max(0.0);
            }
        }
        ended_s.max(0.0)
    }
}

impl From<Vec<TaskSample>> for Look {
    /// Of a machine that has no other tasks, and tells nothing of those that ended.
    fn from(tasks: Vec<TaskSample>) -> Self {
        Self {
            tasks,
            ..Self::default()
        }
    }
}

impl Times {
    fn of_machine(root: &Path) -> Option<Self> {
        let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
        let waits = fs::read_to_string(root.join("proc/schedstat")).ok();
        // SAFETY: the call has no preconditions.
        let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Some(Self {
            cpus: online(&stat),
            ran_s: busy_ticks(&stat)? as f64 / ticks_per_s.max(1) as f64,
            waited_s: waits.and_then(|text| waited_ns(&text)).map(seconds),
        })
    }
}

/// The ticks that tasks ran for, on all CPUs, as `/proc/stat` tells: in user mode, niced, and in the
/// kernel (Documentation/filesystems/proc.rst).
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks = line.split_whitespace().take(3).map(str::parse::<u64>);
    ticks.sum::<Result<u64, _>>().ok()
}

/// The CPUs that `/proc/stat` has a line for: those that are online.
fn online(stat: &str) -> usize {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    lines.filter(|rest| !rest.starts_with(' ')).count()
}

/// The time that tasks waited for a CPU (ns), on all CPUs: the eighth number of each
/// (Documentation/scheduler/sched-stats.rst).
fn waited_ns(schedstat: &str) -> Option<u64> {
    let cpus = schedstat.lines().filter_map(|line| {
        let (number, counts) = line.strip_prefix("cpu")?.split_once(' ')?;
        number.parse::<u32>().ok()?;
        Some(counts.split_whitespace().nth(7)?.parse::<u64>().ok())
    });
    cpus.sum::<Option<u64>>().filter(|&sum| sum > 0)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// What tasks did since an earlier look.
struct Since<'a> {
    before: BTreeMap<u32, &'a TaskSample>,
    interval: Duration,
}

impl<'a> Since<'a> {
    fn new(before: &'a Look, interval: Duration) -> Self {
        let all = before.tasks.iter().chain(&before.others);
        Self {
            before: all.map(|task| (task.pid, task)).collect(),
            interval,
        }
    }

    /// The rise of a count of times (s). All of it if the task is younger than the earlier look, and
    /// nothing if it is older but was not there: what it did since is not known.
    fn rise_s(&self, task: &TaskSample, count: fn(&TaskSample) -> u64) -> f64 {
        let before = self.before.get(&task.pid);
        let same = before.filter(|before| before.is_of(task));
        let age = Duration::from_nanos(task.at_ns.saturating_sub(task.started_ns));
        match same {
            Some(before) => seconds(task.rise(Some(before), count)),
            None if task.started_ns > 0 && age <= self.interval => seconds(count(task)),
            None => 0.0,
        }
    }

    fn ran_s(&self, task: &TaskSample) -> f64 {
        self.rise_s(task, |task| task.cpu_ns)
    }

    fn waited_s(&self, task: &TaskSample) -> f64 {
        self.rise_s(task, |task| task.wait_ns)
    }

    fn throttled_s(&self, task: &TaskSample) -> f64 {
        self.rise_s(task, |task| task.throttled_ns)
    }

    /// CPU time, and waits but those for a pace. Two clocks may disagree a little. The interval
    /// bounds it: the tasks are read at other moments, and with many CPUs the small excesses of all
    /// add up to a task.
    fn wanted_s(&self, task: &TaskSample) -> f64 {
        let waited_s = self.waited_s(task) - self.throttled_s(task);
        (self.ran_s(task) + waited_s.max(0.0)).min(self.interval.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_millis(500);

    fn task(pid: u32, cpu_ms: u64, wait_ms: u64, state: TaskState) -> TaskSample {
        TaskSample {
            pid,
            tgid: pid,
            cpu_ns: cpu_ms * 1_000_000,
            wait_ns: wait_ms * 1_000_000,
            state,
            ..TaskSample::default()
        }
    }

    fn runnable(before: &[TaskSample], now: &[TaskSample]) -> f64 {
        let look = |tasks: &[TaskSample]| Look::from(tasks.to_vec());
        look(now).runnable(&look(before), HALF)
    }

    #[test]
    fn runnable_tasks_are_those_that_ran_or_waited() {
        let before = [
            task(1, 100, 100, TaskState::Queued),
            task(2, 0, 0, TaskState::Blocked),
        ];
        let now = [
            task(1, 400, 300, TaskState::Queued),
            task(2, 50, 0, TaskState::Blocked),
            task(3, 900, 900, TaskState::Queued), // what it did since is not known
        ];
        assert!((runnable(&before, &now) - 1.1).abs() < 1e-9);
        // A task that waits for a pace wants no CPU, even where two clocks disagree a little.
        let mut paced = now.clone();
        paced[0].throttled_ns = 150_000_000;
        paced[1].throttled_ns = 1;
        assert!((runnable(&before, &paced) - 0.8).abs() < 1e-9);
        let unknown = [
            task(1, 400, 0, TaskState::Queued),
            task(2, 50, 0, TaskState::Blocked),
        ];
        assert!((runnable(&before, &unknown) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_task_that_began_since_the_last_look_counts_from_its_begin() {
        let before = [task(1, 0, 0, TaskState::Queued)];
        let young = TaskSample {
            started_ns: 9_600_000_000,
            at_ns: 9_700_000_000,
            ..task(2, 40, 60, TaskState::Queued)
        };
        let hog = task(1, 400, 100, TaskState::Queued);
        assert!((runnable(&before, &[hog.clone(), young.clone()]) - 1.2).abs() < 1e-9);
        // Another task had its id.
        let reused = [before[0].clone(), task(2, 30, 20, TaskState::Queued)];
        assert!((runnable(&reused, &[hog, young]) - 1.2).abs() < 1e-9);
    }

    /// A hog, and what the machine counted besides the hog.
    fn looked(hog_ms: u64, ran_s: f64, waited_s: Option<f64>) -> Look {
        let mut agent = task(9, hog_ms / 10, 1, TaskState::Blocked);
        agent.kthread = true;
        Look {
            tasks: vec![task(1, hog_ms, 1, TaskState::Running)],
            others: vec![agent],
            machine: Some(Times {
                cpus: 64,
                ran_s,
                waited_s,
            }),
            ..Look::default()
        }
    }

    #[test]
    fn tasks_that_began_and_ended_between_two_looks_count() {
        let before = looked(0, 100.0, Some(50.0));
        for (ran_s, waited_s, expected) in [
            (0.55, Some(0.0), 1.0), // the hog and the agent
            (1.55, None, 3.0),      // and two CPUs of others
            (1.55, Some(0.5), 4.0), // which waited besides
            (0.3, Some(0.0), 1.0),  // a kernel that counts less tells nothing
        ] {
            let mut now = looked(500, 100.0 + ran_s, waited_s.map(|waited| 50.0 + waited));
            let mean = now.runnable(&before, HALF);
            assert!((mean - expected).abs() < 1e-9, "{mean}, not {expected}");
        }
        // A wait that may be one for a pace is no wait for a CPU.
        let mut now = looked(500, 101.55, Some(50.5));
        now.tasks[0].throttled_ns = 1;
        assert!((now.runnable(&before, HALF) - 3.0).abs() < 1e-3);
    }

    #[test]
    fn a_wait_that_lasts_is_not_one_of_another_task_when_it_ends() {
        // A thread of the kernel waits for a CPU. The machine counts that when it ends.
        let looked = |hog_ms: u64, waited_ms: u64, counted_s: f64| {
            let mut look = looked(
                hog_ms,
                100.0 + hog_ms as f64 * 1.1e-3,
                Some(50.0 + counted_s),
            );
            look.others[0].wait_ns = waited_ms * 1_000_000;
            look
        };
        let mut before = looked(0, 1, 0.0);
        for (hog_ms, waited_ms, counted_s) in [
            (500, 400, 0.0),
            (1000, 900, 0.0),
            (1500, 1001, 1.0),
            (2000, 1001, 1.0),
        ] {
            let mut now = looked(hog_ms, waited_ms, counted_s);
            let mean = now.runnable(&before, HALF);
            assert!((mean - 1.0).abs() < 1e-9, "{mean} at {hog_ms} ms");
            before = now;
        }
    }

    #[test]
    fn as_many_hogs_as_cpus_are_no_more_than_these_whatever_the_moments_of_reading() {
        let cpus = 128;
        let looked = |hogs_ms: u64, ran_s: f64| Look {
            tasks: (0..cpus)
                .map(|cpu| task(cpu, hogs_ms, 1, TaskState::Running))
                .collect(),
            others: Vec::new(),
            machine: Some(Times {
                cpus: cpus as usize,
                ran_s: f64::from(cpus) * ran_s,
                waited_s: None,
            }),
            ..Look::default()
        };
        // The counts cover between 490 and 510 of 500 ms.
        for (hogs_ms, ran_s) in [(504, 0.504), (510, 0.490), (490, 0.510), (500, 0.5)] {
            let mean = looked(1000 + hogs_ms, 1.0 + ran_s).runnable(&looked(1000, 1.0), HALF);
            assert!(
                (125.0..128.001).contains(&mean),
                "{hogs_ms}, {ran_s}: {mean}"
            );
        }
    }

    #[test]
    fn the_kernels_counts_of_all_cpus_are_read() {
        let stat = "cpu  300 20 80 4000 5 6 7 8 9 0\ncpu0 150 10 40 2000 0 0 0 0 0 0\n";
        assert_eq!((busy_ticks(stat), online(stat)), (Some(400), 1));
        let schedstat = "version 17\ntimestamp 4294944104\n\
            cpu0 0 0 0 0 0 0 7000 3000 90\ndomain0 MC 3 0 0 0\n\
            cpu1 0 0 0 0 0 0 9000 2000 80\ndomain0 MC 3 0 0 0\n";
        assert_eq!(waited_ns(schedstat), Some(5000));
        for text in ["", "version 17\ncpu0 0 0\n", "cpu0 0 0 0 0 0 0 7 x 9\n"] {
            assert_eq!((busy_ticks(text), waited_ns(text)), (None, None), "{text}");
        }
        let root = tempfile::tempdir().unwrap();
        assert!(Times::of_machine(root.path()).is_none());
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/stat"), stat).unwrap();
        let times = Times::of_machine(root.path()).unwrap();
        assert!(times.ran_s > 0.0 && times.waited_s.is_none());
    }
}

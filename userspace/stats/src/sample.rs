// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler counted up to one moment.

use std::collections::HashSet;

use drfq_controller_link::link_stats::LinkStats;
use serde::{Deserialize, Serialize};

use crate::mba_report::Mba;

/// One task as the scheduler accounts for it. `struct drfq_task_stat` of bpf/intf.h
/// explains the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TaskSample {
    pub pid: u32,
    pub tgid: u32,
    pub comm: String,
    pub weight: u32,
    pub nice: i32,
    pub state: TaskState,
    pub flags: u32,
    pub kthread: bool,
    pub cpu_ns: u64,
    pub charged_ns: u64,
    pub wait_ns: u64,
    pub bytes: u64,
    pub dma_bytes: u64,
    pub cpu_vt_ns: u64,
    pub mem_vt_ns: u64,
    /// Virtual time of its traffic, in the unit of a memory controller's registers.
    pub register_vtime: u64,
    pub held_ns: u64,
    pub max_held_ns: u64,
    pub at_ns: u64,
    pub started_ns: u64,
    pub runs: u64,
    pub throttled_ns: u64,
    pub pace: u32,
}

impl TaskSample {
    /// S: the later of its two virtual times, even across a wrap (drfq_start).
    pub fn start_ns(&self) -> u64 {
        let memory_is_later = (self.cpu_vt_ns.wrapping_sub(self.mem_vt_ns) as i64) < 0;
        if memory_is_later {
            self.mem_vt_ns
        } else {
            self.cpu_vt_ns
        }
    }

    /// Whether both samples are of one task. Thread ids are used again.
    pub fn is_of(&self, other: &Self) -> bool {
        self.pid == other.pid && self.started_ns == other.started_ns
    }

    /// How far a count has risen since `before`, an earlier sample with this thread id: all of it if
    /// that was of another task. A thread that takes the place of its process's main thread by
    /// execve(2) has the id and the start of the main one, and its own counts. How far those have
    /// risen is not known, so nothing counts. The kernel's waits may go back by microseconds, for
    /// they are read while they change.
    pub fn rise(&self, before: Option<&Self>, count: fn(&Self) -> u64) -> u64 {
        match before.filter(|before| before.is_of(self)) {
            None => count(self),
            Some(before) if self.goes_on_from(before) => count(self).saturating_sub(count(before)),
            Some(_) => 0,
        }
    }

    /// Whether its counts are those of the same thread as `before`, a sample of the same task.
    fn goes_on_from(&self, before: &Self) -> bool {
        let known = before.at_ns > 0 && self.at_ns >= before.at_ns;
        let credible = |ran_ns| !known || ran_ns <= most_ran_ns(self.at_ns - before.at_ns);
        let ran = self.cpu_ns.checked_sub(before.cpu_ns);
        ran.is_some_and(credible) && before.runs <= self.runs
    }
}

/// The most CPU time that a thread has within an interval, as the kernel counts it (ns). On a CPU
/// without ticks it adds the time up once a second.
pub const fn most_ran_ns(interval_ns: u64) -> u64 {
    let late_ns = 2_000_000_000;
    interval_ns
        .saturating_add(interval_ns / 10)
        .saturating_add(late_ns)
}

/// State of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// It waits for something other than a CPU.
    #[default]
    Blocked,
    /// It waits for a CPU.
    Queued,
    /// Delayed wake-up holds it because of its debt.
    Held,
    /// It waits because its group has used up a quota or a pace.
    Throttled,
    /// It runs.
    Running,
}

impl TaskState {
    /// The word that users see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Throttled => "throttled",
            Self::Running => "running",
        }
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CpuSample {
    pub cpu: u32,
    /// Its last-level cache, counted from 0.
    pub llc: u32,
    /// Thread id of the running task; 0 if this scheduler runs none there.
    pub pid: u32,
    /// S of the running packet (ns of virtual time).
    pub vtime_ns: u64,
    /// Packets started since the scheduler was loaded.
    pub switches: u64,
    /// Tasks taken from the queue of another LLC since then.
    pub steals: u64,
}

/// Everything that the scheduler counted up to one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC (ns).
    pub at_ns: u64,
    /// V (ns of virtual time).
    pub vtime_ns: u64,
    /// CPUs that run a packet now.
    pub busy_cpus: u32,
    /// Counts of `EVENTS` since the scheduler was loaded.
    pub events: Vec<u64>,
    /// The CPUs that are online.
    pub cpus: Vec<CpuSample>,
    /// All tasks; empty if only the system was sampled.
    pub tasks: Vec<TaskSample>,
    /// Rules that give weights, whatever they match.
    pub weight_rules: u32,
    /// The link of `--controller`.
    pub controller: LinkStats,
    /// The link of `--shadow`.
    pub shadow: LinkStats,
    /// The loop of `--mba`.
    pub mba: Mba,
}

/// Facts that do not change while the scheduler is loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// When the scheduler was loaded, CLOCK_MONOTONIC (ns).
    pub loaded_at_ns: u64,
    /// What the user called this run; 0: nothing.
    pub run_id: u64,
    /// c.
    pub nr_cpus: u32,
    /// m (bytes per second); none if unknown, so memory traffic is not charged.
    pub mem_bytes_per_s: Option<u64>,
    /// What counts memory traffic, or why nothing does.
    pub mem_source: String,
    /// Whether a software event stands in for memory traffic.
    pub mem_stand_in: bool,
    /// Whether memory traffic is measured.
    pub mem_measured: bool,
    /// Whether nice values have the weights of the thesis, where a higher one is a larger weight.
    pub thesis_weights: bool,
}

/// The scheduler as it was loaded. After CPU hotplug it is loaded again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What does not change until the next load.
    pub facts: Facts,
    /// Where the first intervals begin.
    pub first: Sample,
}

/// Sets the state of the tasks whose thread ids are in `running`.
pub fn mark_running(tasks: &mut [TaskSample], running: &HashSet<u32>) {
    for task in tasks.iter_mut().filter(|task| running.contains(&task.pid)) {
        task.state = TaskState::Running;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_rises_from_zero_only_for_another_task() {
        let task = |started_ns, cpu_ns, wait_ns| TaskSample {
            started_ns,
            cpu_ns,
            wait_ns,
            ..TaskSample::default()
        };
        let before = task(5, 100, 70);
        let rise = |now: TaskSample| now.rise(Some(&before), |task| task.wait_ns);
        assert_eq!(rise(task(5, 110, 90)), 20);
        assert_eq!(rise(task(5, 110, 69)), 0, "the kernel's reading went back");
        assert_eq!(rise(task(6, 150, 90)), 90, "the id was used again");
        assert_eq!(task(5, 30, 20).rise(None, |task| task.wait_ns), 20);
    }

    #[test]
    fn a_thread_that_takes_the_main_threads_place_adds_nothing() {
        let second = 1_000_000_000;
        let task = |cpu_ns, at_ns| TaskSample {
            started_ns: 5,
            cpu_ns,
            at_ns,
            bytes: cpu_ns,
            ..TaskSample::default()
        };
        let before = task(100 * second, 1000 * second);
        for (what, cpu_ns, rise) in [
            ("the same thread", 101 * second, second),
            ("one of whose ticks were late", 102 * second, 2 * second),
            ("another one, an hour old", 3700 * second, 0),
            ("another one, which ran less", 30 * second, 0),
        ] {
            let now = task(cpu_ns, 1001 * second);
            assert_eq!(now.rise(Some(&before), |task| task.cpu_ns), rise, "{what}");
            assert_eq!(now.rise(Some(&before), |task| task.bytes), rise, "{what}");
        }
    }
}

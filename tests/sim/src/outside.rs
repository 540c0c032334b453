// SPDX-License-Identifier: GPL-2.0-only
//! What happens to tasks and CPUs from outside: system calls of other tasks, wake-ups by them, a
//! higher class that takes a CPU.

use serde::{Deserialize, Serialize};

use crate::cpuset::CpuSet;
use crate::engine::{Event, Sim};
use crate::kernel::{CgroupId, Place, TaskId};
use crate::task::TaskSpec;
use crate::trace::Trace;

/// Something that is done from outside. Tasks are numbered in the order of their creation; what
/// concerns a task that does not exist yet, or has ended, is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// `setpriority()`.
    Renice {
        /// The task.
        task: TaskId,
        /// -20 to 19.
        nice: i32,
    },
    /// `sched_setaffinity()`.
    Affinity {
        /// The task.
        task: TaskId,
        /// Where it may run from now on.
        allowed: CpuSet,
    },
    /// A write to `cgroup.procs`.
    Move {
        /// The task.
        task: TaskId,
        /// The group.
        group: CgroupId,
    },
    /// A write to `cpu.weight`.
    GroupWeight {
        /// The group.
        group: CgroupId,
        /// 1 to 10,000.
        weight: u32,
    },
    /// A write to `cpu.max`.
    Quota {
        /// The group.
        group: CgroupId,
        /// us; 0 stands for `max`.
        quota_us: u64,
        /// 1,000 to 1,000,000 us.
        period_us: u64,
    },
    /// A write to `cpu.idle`.
    Idle {
        /// The group.
        group: CgroupId,
        /// Whether it is idle from now on.
        idle: bool,
    },
    /// A rule of the agent gives a group a weight.
    RuleGroup {
        /// The group.
        group: CgroupId,
        /// In units of 1 / `DRFQ_WEIGHT_ONE`, at least 1.
        weight: u32,
    },
    /// A rule of the agent gives a task a weight.
    RuleTask {
        /// The task.
        task: TaskId,
        /// In units of 1 / `DRFQ_WEIGHT_ONE`; 0: that of its nice value again.
        weight: u32,
    },
    /// The agent sets how much memory traffic a group of tasks may move.
    Pace {
        /// 1 to [`PACES`].
        index: u32,
        /// At least 1; `None`: any amount.
        bytes_per_s: Option<u64>,
    },
    /// The agent puts a task into such a group.
    PaceGroup {
        /// The task.
        task: TaskId,
        /// 0 (none) to [`PACES`].
        index: u32,
    },
    /// A task of a higher class takes a CPU.
    Take {
        /// The CPU.
        cpu: usize,
        /// For so long, ns.
        ns: u64,
    },
    /// The scheduler ends and is loaded again.
    Restart,
}

/// How many groups of tasks have paces in a case.
pub const PACES: u32 = 3;

impl Outside {
    /// The cgroup that it concerns.
    pub fn group_mut(&mut self) -> Option<&mut CgroupId> {
        match self {
            Self::Move { group, .. }
            | Self::GroupWeight { group, .. }
            | Self::Quota { group, .. }
            | Self::Idle { group, .. }
            | Self::RuleGroup { group, .. } => Some(group),
            _ => None,
        }
    }

    /// The cgroup that it concerns.
    pub fn group(mut self) -> Option<CgroupId> {
        self.group_mut().map(|group| *group)
    }

    /// Whether tasks may wait for a time that a limit sets.
    pub fn limits(self) -> bool {
        matches!(self, Self::Quota { .. } | Self::Pace { .. })
    }
}

impl Sim {
    /// Does `outside` at `at_ns`, which is not in the past.
    pub fn plan(&mut self, at_ns: u64, outside: Outside) {
        self.outside.push(outside);
        let index = self.outside.len() - 1;
        self.push(at_ns, Event::Outside(index));
    }

    /// The tasks of `spec` move to `group` 1 ns after they arrive.
    pub fn plan_joins(&mut self, spec: usize, group: CgroupId) {
        self.joins.push((spec, group));
    }

    pub(crate) fn join(&mut self, task: TaskId, spec: usize) {
        if let Some((_, group)) = self.joins.iter().find(|join| join.0 == spec).copied() {
            self.plan(self.now_ns + 1, Outside::Move { task, group });
        }
    }

    fn lives(&self, task: TaskId) -> bool {
        let found = self.tasks.get(task);
        found.is_some_and(|t| t.report.exited_at_ns.is_none())
    }

    pub(crate) fn outside(&mut self, index: usize) {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
        match self.outside[index] {
            Outside::Renice { task, nice } if self.lives(task) => {
                self.kernel.renice(self.now_ns, task, nice);
            }
            Outside::Affinity { task, allowed } if self.lives(task) => {
                self.set_affinity_from_outside(task, allowed);
            }
            Outside::Move { task, group } if self.lives(task) => {
                self.kernel.cgroup_move(self.now_ns, task, group);
            }
            Outside::RuleTask { task, weight } if self.lives(task) => {
                self.kernel.rule_task(task, weight);
            }
            Outside::PaceGroup { task, index } if self.lives(task) => {
                self.kernel.pace_group(task, index);
            }
            Outside::Renice { .. }
            | Outside::Affinity { .. }
            | Outside::Move { .. }
            | Outside::RuleTask { .. }
            | Outside::PaceGroup { .. } => {}
            Outside::GroupWeight { group, weight } => self.kernel.cgroup_set_weight(group, weight),
            Outside::Quota {
                group,
                quota_us,
                period_us,
            } => self.kernel.cgroup_set_quota(group, quota_us, period_us),
            Outside::Idle { group, idle } => self.kernel.cgroup_set_idle(group, idle),
            Outside::RuleGroup { group, weight } => self.kernel.rule_cgroup(group, weight),
            Outside::Pace { index, bytes_per_s } => self.kernel.pace(index, bytes_per_s),
            Outside::Take { cpu, ns } => self.take_cpu(cpu, ns),
            Outside::Restart => self.restart(),
        }
    }

    fn set_affinity_from_outside(&mut self, task: TaskId, allowed: CpuSet) {
        if allowed.count(self.cpus.len()) == 0 {
            return;
        }
        let ran_on = self.cpu_of(task);
        self.tasks[task].allowed = allowed;
        self.kernel.set_affinity(self.now_ns, task, allowed);
        if let Some(cpu) = ran_on
            && self.kernel.place(task) != Place::Running
        {
            self.leaves(cpu);
            self.waits(task, false);
        }
    }

    fn take_cpu(&mut self, cpu: usize, ns: u64) {
        if self.cpus[cpu].taken {
            return;
        }
        let ran = self.cpus[cpu].current;
        self.leaves(cpu);
        self.cpus[cpu].taken = true;
        self.kernel.take_cpu(self.now_ns, cpu);
        if let Some(task) = ran {
            self.waits(task, false);
        }
        self.push(self.now_ns + ns, Event::Give(cpu));
    }

    pub(crate) fn give_cpu(&mut self, cpu: usize) {
        self.account(cpu);
        self.cpus[cpu].taken = false;
        self.kernel.give_cpu(cpu);
        self.schedule(cpu);
    }

    /// The running task sleeps for at most `ns`.
    pub(crate) fn sleeps(&mut self, task: TaskId, ns: u64) {
        self.tasks[task].sleeps += 1;
        let sleep = self.tasks[task].sleeps;
        self.push(self.now_ns + ns, Event::Wake(task, sleep));
    }

    pub(crate) fn sleep_ends(&mut self, task: TaskId, sleep: u64) {
        if self.tasks[task].sleeps != sleep {
            return;
        }
        self.wake(task, None, false);
    }

    fn wake(&mut self, task: TaskId, waker_cpu: Option<usize>, sync: bool) {
        self.tasks[task].sleeps += 1;
        self.tasks[task].waits_for_wakeup = false;
        self.waits(task, true);
        self.kernel.wake(self.now_ns, task, waker_cpu, sync);
    }

    /// The task that runs on `cpu` wakes the tasks of a spec that wait.
    pub(crate) fn wake_waiting(&mut self, cpu: usize, spec: usize, sync: bool) {
        for task in 0..self.tasks.len() {
            if self.tasks[task].spec == spec && self.tasks[task].waits_for_wakeup {
                self.wake(task, Some(cpu), sync);
            }
        }
    }

    /// A task that is created now.
    pub fn add(&mut self, spec: TaskSpec) {
        self.specs.push(spec);
        self.arrive(self.specs.len() - 1, None);
        self.follow();
    }

    /// Whether every task has ended.
    pub fn all_ended(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.all(|task| task.report.exited_at_ns.is_some())
    }

    /// Every task, also one that does not exist yet, ends as soon as it runs.
    pub fn end_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
        for spec in &mut self.specs {
            spec.trace = Trace::once([]);
        }
        for task in &mut self.tasks {
            task.trace = Trace::once([]);
            task.step = 0;
            task.left_ns = 0;
        }
        for cpu in 0..self.cpus.len() {
            self.arm(cpu);
        }
    }

    /// Counts the time of `cpu` up to now by the simulator's own clock.
    pub(crate) fn account_time(&mut self, cpu: usize) {
        let now = self.now_ns;
        let cpu = &mut self.cpus[cpu];
        let passed = now - std::mem::replace(&mut cpu.accounted_to_ns, now);
        match cpu.current {
            Some(task) => self.tasks[task].ran_ns += passed,
            None if cpu.taken => cpu.taken_ns += passed,
            None => cpu.idle_ns += passed,
        }
    }
}

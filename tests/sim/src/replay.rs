// SPDX-License-Identifier: GPL-2.0-only
//! Replays a recorded run of the kernel: the same wake-ups, blocks, forks, ticks and times, and at
//! each decision the question whether the simulator decides as the kernel did.
//!
//! After a difference the machine is brought to where the kernel was, so one difference does not
//! cause others by a task that runs elsewhere. Accounts are never corrected: what the scheduler
//! charges follows from the times of the trace alone.

use std::collections::HashMap;

use crate::config::Config;
use crate::cpuset::CpuSet;
use crate::kernel::{CgroupId, Kernel, Place, TaskId};

pub mod event;
pub mod order;
mod outcome;
mod paths;
mod steps;
pub mod strand;

use event::{Event, Identity, Recording, What};
pub use outcome::{Difference, Outcome, ROUNDING_NS};
use paths::Running;
use steps::TaskIdentity;
use strand::{Path, Point};

const ENQUEUE_WAKEUP: i64 = 1;
const DEQUEUE_SLEEP: i64 = 1;
/// Of enqueue and dequeue alike: a change of the task, which the trace has as an event.
const SAVE_RESTORE: i64 = 2;
/// A CPU was selected, and the task is queued by its waker: in 7.3, and in 6.16. A task that its own
/// CPU queues after an interrupt does not have it.
const RQ_SELECTED: i64 = 0x100000 | 0x400;
const ENQ_CPU_SELECTED: u64 = 1 << 10;
const WAKE_FLAGS: i64 = 4 | 8 | 16;
const PF_KTHREAD: i64 = 0x0020_0000;
const NICE_0_PRIO: i64 = 120;

/// What the kernel did at a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picked {
    /// It runs the task with this thread id.
    Task(i64),
    Idle,
    /// The CPU went on with what it had.
    Same,
    /// A task of a higher class runs.
    Higher,
}

struct Replay<'a> {
    recording: &'a Recording,
    kernel: Kernel,
    tasks: HashMap<i64, TaskId>,
    pids: Vec<i64>,
    identities: HashMap<i64, Identity>,
    groups: HashMap<i64, CgroupId>,
    /// What each CPU runs in the simulator, and whether a higher class has it.
    running: Vec<Option<TaskId>>,
    taken: Vec<bool>,
    /// The path that each CPU is in.
    paths: Vec<Option<Running>>,
    /// CPUs that were selected for tasks not queued yet.
    selected: HashMap<i64, usize>,
    /// The clock at which the kernel took tasks from their queues to change them.
    saved: HashMap<i64, u64>,
    /// How much later S of the tasks is that ran before the recording began, if that is known; and
    /// what this replay finds.
    late: HashMap<i64, u64>,
    adopted: HashMap<i64, Option<u64>>,
    outcome: Outcome,
}

/// Replays a recording with the scheduler's defaults, or with what `change` makes of them.
///
/// A task that ran before the recording began has an unknown part of a tick behind it. A first
/// replay finds that part from the S of the task's next packet.
///
/// # Errors
/// If the scheduler asks to be ended.
pub fn replay(recording: &Recording, change: impl Fn(&mut Config)) -> Result<Outcome, String> {
    let (_, late) = replay_once(recording, &change, HashMap::new())?;
    replay_once(recording, &change, late).map(|(outcome, _)| outcome)
}

/// V was read some time before the recording began, and may have advanced since. Sets it to
/// what the first packet with another S tells, if more packets start at the kernel's S then.
///
/// # Errors
/// If the scheduler asks to be ended.
pub fn find_first_v(mut recording: Recording) -> Result<Recording, String> {
    let before = replay(&recording, |_| {})?;
    let read_ns = recording.v_ns;
    let mut apart = before.apart_ns.iter().map(|(.., late_ns)| *late_ns);
    if let Some(late_ns) = apart.find(|late_ns| late_ns.unsigned_abs() > ROUNDING_NS) {
        recording.v_ns = read_ns.wrapping_add_signed(late_ns);
        let after = replay(&recording, |_| {})?;
        if after.exact_within(ROUNDING_NS) <= before.exact_within(ROUNDING_NS) {
            recording.v_ns = read_ns;
        }
    }
    Ok(recording)
}

/// Returns also how much later than here S of each task from before the recording was, virtual ns.
fn replay_once(
    recording: &Recording,
    change: &impl Fn(&mut Config),
    late: HashMap<i64, u64>,
) -> Result<(Outcome, HashMap<i64, u64>), String> {
    let mut config = Config::new(recording.cpus).llcs(recording.llcs);
    config.v_origin_ns = recording.v_ns;
    change(&mut config);
    let mut replay = Replay {
        recording,
        kernel: Kernel::new(&config),
        tasks: HashMap::new(),
        pids: Vec::new(),
        identities: HashMap::new(),
        groups: HashMap::new(),
        running: vec![None; recording.cpus],
        taken: vec![false; recording.cpus],
        paths: vec![None; recording.cpus],
        selected: HashMap::new(),
        saved: HashMap::new(),
        late,
        adopted: HashMap::new(),
        outcome: Outcome::default(),
    };
    for group in &recording.groups {
        let parent = replay.groups.get(&group.parent).copied();
        let id = replay.kernel.cgroup_new(parent, group.weight);
        replay.groups.insert(group.id, id);
    }
    replay.kernel.replay_begin();
    for cpu in 0..recording.cpus {
        replay.adopt(cpu);
    }
    for (index, event) in recording.events.iter().enumerate() {
        while replay.kernel.timer_due_ns() <= event.at_ns {
            let due_ns = replay.kernel.timer_due_ns();
            replay.kernel.timer_fire(due_ns);
        }
        replay.step(index, event);
        replay.kernel.take_rescheds();
        if let Some(error) = replay.kernel.error() {
            return Err(format!("at {} ns: {error}", event.at_ns));
        }
    }
    let late = replay.adopted.into_iter();
    let late = late.filter_map(|(pid, late)| late.map(|late| (pid, late)));
    Ok((replay.outcome, late.collect()))
}

/// S of the first packet of `pid` from event `index` on.
fn first_start(recording: &Recording, index: usize, pid: i64) -> Option<u64> {
    let later = &recording.events[index..];
    later.iter().find_map(|event| match event.what {
        What::Next(next, _, true, start) if next == pid => Some(start),
        _ => None,
    })
}

impl Replay<'_> {
    fn name(&self, task: Option<TaskId>) -> String {
        task.map_or("idle".into(), |task| self.pids[task].to_string())
    }

    /// Who `pid` is from event `index` on.
    fn identity_of(&self, index: usize, pid: i64) -> Option<Identity> {
        let later = &self.recording.events[index..];
        let next = later.iter().find_map(|event| match event.what {
            What::Identity(identity) if identity.pid == pid => Some(identity),
            _ => None,
        });
        self.identities.get(&pid).copied().or(next)
    }

    fn create(&mut self, index: usize, at_ns: u64, pid: i64, parent: Option<TaskId>) -> TaskId {
        let start_ns = first_start(self.recording, index, pid);
        self.create_at(index, (at_ns, start_ns), pid, parent)
    }

    /// A new task, and its S if that is known.
    fn create_at(
        &mut self,
        index: usize,
        (at_ns, start_ns): (u64, Option<u64>),
        pid: i64,
        parent: Option<TaskId>,
    ) -> TaskId {
        let identity = self.identity_of(index, pid).unwrap_or(Identity {
            pid,
            tgid: pid,
            prio: NICE_0_PRIO,
            policy: 0,
            flags: 0,
            mask: -1,
            cgroup: 0,
            parent: 0,
        });
        let allowed = CpuSet::of(identity.mask as u128);
        let cpu = (0..self.recording.cpus)
            .find(|cpu| allowed.has(*cpu))
            .unwrap_or(0);
        let kthread = identity.flags & PF_KTHREAD != 0;
        let cpu = parent.map_or(cpu, |parent| self.kernel.task_cpu(parent));
        let task = self.kernel.task_new(at_ns, parent, allowed, cpu, kthread);
        self.pids.push(pid);
        self.tasks.insert(pid, task);
        let is_agent = identity.tgid == self.recording.agent;
        let is_stats = self.recording.agent_stats == Some(identity.tgid);
        let known = TaskIdentity {
            prio: identity.prio as i32,
            policy: identity.policy as u32,
            flags: identity.flags as u32,
            start_ns,
            leader: self.tasks.get(&identity.tgid).copied(),
        };
        self.kernel.replay_set_identity(task, &known);
        if is_agent {
            self.kernel.set_agent(task);
        }
        if is_stats {
            self.kernel.set_agent_stats(task);
        }
        if let Some(group) = self.groups.get(&identity.cgroup) {
            self.kernel.cgroup_move(at_ns, task, *group);
        }
        task
    }

    fn task(&mut self, index: usize, at_ns: u64, pid: i64) -> TaskId {
        match self.tasks.get(&pid) {
            Some(task) => *task,
            None => self.create(index, at_ns, pid, None),
        }
    }

    /// Whether the kernel moves a dequeued task to another run queue by itself, for `ops.dispatch`.
    fn is_moved_by_dispatch(&self, index: usize, pid: i64) -> bool {
        let later = self.recording.events[index + 1..].iter();
        let mut of_task = later.filter_map(|event| match event.what {
            What::Enqueue(p, _, _, moved) if p == pid => Some(moved),
            What::Dequeue(p, ..) if p == pid => Some(false),
            _ => None,
        });
        of_task.next() == Some(true)
    }

    /// What the kernel did at the pick of event `index`.
    fn picked(&self, index: usize, cpu: usize) -> Picked {
        for (i, event) in self.recording.events.iter().enumerate().skip(index + 1) {
            match event.what {
                What::Next(pid, on, true, _) if on == cpu => return Picked::Task(pid),
                _ if event.cpu != cpu => {}
                What::Switch(pid, 1) => return Picked::Task(pid),
                What::Switch(_, 0) => return Picked::Idle,
                What::Switch(..) => return Picked::Higher,
                What::Identity(_)
                | What::Enqueued
                | What::Reach(..)
                | What::Put(..)
                | What::Idle(_) => {}
                What::Enqueue(_, _, _, true) => {}
                What::Dequeue(pid, ..) if self.is_moved_by_dispatch(i, pid) => {}
                _ => return Picked::Same,
            }
        }
        Picked::Same
    }

    fn differs(&mut self, event: &Event, text: String, class: &'static str) {
        self.outcome.differences.push(Difference {
            at_ns: event.at_ns,
            cpu: event.cpu,
            text,
            class,
        });
    }

    fn pick(&mut self, index: usize, event: &Event) {
        let cpu = event.cpu;
        let picked = self.picked(index, cpu);
        if picked == Picked::Higher {
            return;
        }
        if std::mem::take(&mut self.taken[cpu]) {
            self.kernel.give_cpu(cpu);
        }
        let expected = match picked {
            Picked::Task(pid) => Some(self.task(index, event.at_ns, pid)),
            Picked::Same => self.running[cpu],
            Picked::Idle | Picked::Higher => None,
        };
        let waiting = self.kernel.replay_nr_queued();
        self.outcome.picks += 1;
        self.outcome.choices += usize::from(waiting > 0);
        self.running[cpu] = expected;
        self.start(event, Path::Schedule, expected);
    }

    fn describe(&self, task: Option<TaskId>) -> String {
        let Some(task) = task else {
            return "idle".into();
        };
        let v = self.kernel.v_ns();
        let behind = self.kernel.account(task).start_ns.wrapping_sub(v) as i64;
        format!("{} (S = V {behind:+} ns)", self.name(Some(task)))
    }

    pub(super) fn decides_otherwise(
        &mut self,
        event: &Event,
        expected: Option<TaskId>,
        got: Option<TaskId>,
    ) {
        let class = self.class_of(expected, got);
        let text = format!(
            "the kernel ran {}, the simulator {}",
            self.describe(expected),
            self.describe(got)
        );
        self.differs(event, text, class);
    }

    fn class_of(&self, expected: Option<TaskId>, got: Option<TaskId>) -> &'static str {
        let start = |task: TaskId| self.kernel.account(task).start_ns;
        match (expected, got) {
            (Some(a), Some(b)) => {
                let apart = (start(a).wrapping_sub(start(b)) as i64).unsigned_abs();
                if apart < 100_000 {
                    "S within 0.1 ms"
                } else if self.kernel.place(a) == Place::Nowhere {
                    "the task blocks in the simulator"
                } else {
                    "another task"
                }
            }
            (None, Some(_)) => "idle in the kernel",
            (Some(_), None) => "idle in the simulator",
            (None, None) => "",
        }
    }

    fn enqueue(&mut self, index: usize, event: &Event, pid: i64, cpu: usize, flags: i64) {
        let task = self.task(index, event.at_ns, pid);
        let mut enq_flags = (flags & ENQUEUE_WAKEUP) as u64;
        if flags & RQ_SELECTED != 0 {
            enq_flags |= ENQ_CPU_SELECTED;
        }
        if let Some(selected) = self.selected.remove(&pid) {
            self.outcome.selections += 1;
            if selected != cpu {
                let text = format!("the kernel woke {pid} on {cpu}, the simulator on {selected}");
                self.differs(event, text, "CPU of a wake-up");
            }
        }
        self.start(event, Path::Enqueue(task, cpu, enq_flags), None);
    }

    fn forget_running(&mut self, task: TaskId) {
        for running in &mut self.running {
            if *running == Some(task) {
                *running = None;
            }
        }
    }

    /// What the kernel's clock was.
    fn set_clock(&mut self, event: &Event) {
        let cpu = match event.what {
            What::Enqueue(_, on, ..) | What::Dequeue(_, on, ..) | What::Next(_, on, ..) => on,
            What::Tick(_) | What::Pick | What::Yield | What::Put(..) => event.cpu,
            _ => return,
        };
        self.kernel.replay_set_stolen(cpu, event.stolen_ns);
        self.kernel.strand_set_now(cpu, event.at_ns);
    }

    /// A task that acts on `cpu` before anything else is switched to there ran before the trace
    /// began.
    fn adopt(&mut self, cpu: usize) {
        let first = self
            .recording
            .events
            .iter()
            .find_map(|event| match event.what {
                What::Next(_, on, ..) if on == cpu => Some(None),
                _ if event.cpu != cpu => None,
                What::Tick(pid) | What::Fork(pid, _) => Some(Some(pid)),
                What::Dequeue(pid, on, flags, _) if on == cpu && flags & DEQUEUE_SLEEP != 0 => {
                    Some(Some(pid))
                }
                What::Switch(..) => Some(None),
                _ => None,
            });
        if let Some(pid) = first.flatten() {
            self.adopted.insert(pid, None);
            let late_ns = self.late.get(&pid).copied().unwrap_or(0);
            let start_ns = self.kernel.v_ns().wrapping_add(late_ns);
            let task = self.create_at(0, (0, Some(start_ns)), pid, None);
            self.kernel.replay_adopt(task, cpu);
            self.running[cpu] = Some(task);
        }
    }

    fn step(&mut self, index: usize, event: &Event) {
        let (at_ns, cpu) = (event.at_ns, event.cpu);
        self.set_clock(event);
        if self.begins_path(index, event) {
            self.finish(event);
        }
        match event.what {
            What::Identity(identity) => self.identify(index, identity),
            What::Enqueue(.., true) => {}
            What::Enqueue(pid, _, flags, _) if flags & SAVE_RESTORE != 0 => self.put_back(pid),
            What::Enqueue(pid, on, flags, _) => self.enqueue(index, event, pid, on, flags),
            What::Dequeue(pid, _, flags, _) if flags & SAVE_RESTORE != 0 => {
                self.saved.insert(pid, at_ns);
            }
            What::Dequeue(pid, ..) if self.is_moved_by_dispatch(index, pid) => {
                self.takes(event);
            }
            What::Dequeue(pid, _, flags, _) => {
                let task = self.task(index, at_ns, pid);
                let sleeps = flags & DEQUEUE_SLEEP != 0;
                self.kernel.replay_dequeue(at_ns, task, sleeps);
                self.forget_running(task);
            }
            What::Next(pid, on, true, start) => {
                self.compare_start(event, pid, start);
                self.stage(event, Point::SetNext, false);
                self.next(index, event, pid, on);
            }
            What::Next(..) => {}
            What::Tick(_) => self.start(event, Path::Tick, None),
            What::Select(pid, flags, last) if flags & WAKE_FLAGS & !16 != 0 => {
                let task = self.task(index, at_ns, pid);
                let flags = (flags & WAKE_FLAGS) as u64;
                self.start(event, Path::Select(task, last, flags), Some(task));
            }
            What::Select(..) | What::Enqueued | What::Selected => {}
            What::Reach(point, told) => self.reach(event, point, told),
            What::Idle(idle) => self.stage(event, Point::SetIdle, idle),
            What::Put(pid, stays) => self.put(event, pid, stays),
            What::Kicks => self.kernel.replay_kicks(cpu),
            What::Pick => self.pick(index, event),
            What::Yield => self.kernel.yield_task(at_ns, cpu),
            What::Fork(parent, child) => self.fork(index, cpu, parent, child),
            What::Free(pid) => {
                if let Some(task) = self.tasks.remove(&pid) {
                    self.kernel.replay_exit(at_ns, task);
                    self.forget_running(task);
                }
            }
            What::Allowed(..) | What::Weight(..) | What::Move(..) => self.change(event),
            What::Switch(_, 2) => {
                if !std::mem::replace(&mut self.taken[cpu], true) {
                    self.kernel
                        .take_cpu(self.put_ns(index).unwrap_or(at_ns), cpu);
                    self.running[cpu] = None;
                }
            }
            What::Switch(..) => {}
        }
    }

    /// A change ends. One that the trace has no event of, as that of the session's group at an
    /// exit, still ends the packet and starts another.
    fn put_back(&mut self, pid: i64) {
        if let (Some(at_ns), Some(task)) = (self.saved.remove(&pid), self.tasks.get(&pid)) {
            self.kernel.replay_requeue(at_ns, *task);
        }
    }

    fn put(&mut self, event: &Event, pid: i64, stays: bool) {
        if let Some(task) = self.tasks.get(&pid) {
            self.kernel.replay_set_stays(*task, stays);
        }
        self.stage(event, Point::Insert, false);
    }

    /// The clock at which the CPU of a switch stopped its task. The kernel does not read it again
    /// for a switch that a wake-up asked for.
    fn put_ns(&self, index: usize) -> Option<u64> {
        let (before, rest) = self.recording.events.split_at(index);
        let of_cpu =
            |event: &&Event| event.cpu == rest[0].cpu && !matches!(event.what, What::Identity(_));
        let last = before.iter().rev().find(of_cpu)?;
        matches!(last.what, What::Put(..)).then_some(last.at_ns)
    }

    fn fork(&mut self, index: usize, cpu: usize, parent: i64, child: i64) {
        let parent = self.tasks.get(&parent).copied();
        let parent = parent.filter(|parent| self.running[cpu] == Some(*parent));
        self.identities.remove(&child);
        self.create(index, self.fork_time(index), child, parent);
    }

    /// Takes over who a task is, and its nice value, of whose change a trace may have no event.
    fn identify(&mut self, index: usize, identity: Identity) {
        let before = self.identities.insert(identity.pid, identity);
        let next = self.recording.events.get(index + 1);
        if let (Some(before), Some(next), Some(task)) =
            (before, next, self.tasks.get(&identity.pid))
            && before.prio != identity.prio
        {
            let nice = (identity.prio - NICE_0_PRIO) as i32;
            self.kernel.renice(next.at_ns, *task, nice);
        }
    }

    /// A packet of `pid` starts, with S = `start` in the kernel.
    fn compare_start(&mut self, event: &Event, pid: i64, start: u64) {
        let Some(task) = self.tasks.get(&pid) else {
            return;
        };
        let late = start.wrapping_sub(self.kernel.replay_key(*task));
        if let Some(None) = self.adopted.get(&pid) {
            self.adopted.insert(pid, Some(late));
        }
        self.outcome.packets += 1;
        if late == 0 {
            self.outcome.exact += 1;
        } else {
            self.outcome.apart_ns.push((event.at_ns, pid, late as i64));
        }
    }

    /// The task that the kernel runs now is known from the pick, unless the trace has none.
    fn next(&mut self, index: usize, event: &Event, pid: i64, cpu: usize) {
        let task = self.task(index, event.at_ns, pid);
        if self.running[cpu] != Some(task) {
            if std::mem::take(&mut self.taken[cpu]) {
                self.kernel.give_cpu(cpu);
            }
            self.kernel.replay_force(event.at_ns, cpu, Some(task));
            self.running[cpu] = Some(task);
        }
    }

    fn change(&mut self, event: &Event) {
        let (What::Allowed(pid, _) | What::Weight(pid, _) | What::Move(pid, _)) = event.what else {
            return;
        };
        let at_ns = self.saved.remove(&pid).unwrap_or(event.at_ns);
        match event.what {
            What::Allowed(pid, mask) => {
                if let Some(task) = self.tasks.get(&pid) {
                    let allowed = CpuSet::of(mask as u128);
                    self.kernel.replay_change_cpus(at_ns, *task, allowed);
                }
            }
            What::Weight(pid, prio) => {
                if let Some(identity) = self.identities.get_mut(&pid) {
                    identity.prio = prio;
                }
                if let Some(task) = self.tasks.get(&pid) {
                    let nice = (prio - NICE_0_PRIO) as i32;
                    self.kernel.renice(at_ns, *task, nice);
                }
            }
            What::Move(pid, group) => {
                let to = self.groups.get(&group).copied();
                if let (Some(task), Some(to)) = (self.tasks.get(&pid), to) {
                    self.kernel.cgroup_move(at_ns, *task, to);
                }
            }
            _ => {}
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The events of a recorded run, as `tests/vm/pack_trace.py` writes them.

use std::path::Path;

use super::strand::Point;

/// The task comes from another run queue: in 7.3, and in 6.16. Each kernel leaves the other's bit 0.
const ENQUEUE_MIGRATED: i64 = 0x40000 | 0x40;
const ENQUEUE_WAKEUP: i64 = 1;

/// Who a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Thread id.
    pub pid: i64,
    /// Thread group.
    pub tgid: i64,
    /// The kernel's `static_prio`.
    pub prio: i64,
    /// Scheduling policy.
    pub policy: i64,
    /// `PF_*`.
    pub flags: i64,
    /// The CPUs that it may run on.
    pub mask: i64,
    /// Its cgroup.
    pub cgroup: i64,
    /// Thread id of its parent.
    pub parent: i64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A task is what this says from now on.
    Identity(Identity),
    /// `enqueue_task_scx()`: task, CPU of the run queue, flags, whether `ops.dispatch` moves it.
    Enqueue(i64, usize, i64, bool),
    /// That function returns. The CPU may have begun another path since.
    Enqueued,
    /// `dequeue_task_scx()`: task, CPU of the run queue, flags, `__state`.
    Dequeue(i64, usize, i64, i64),
    /// `set_next_task_scx()`: task, CPU, whether the CPU switches to it, S.
    Next(i64, usize, bool, u64),
    /// `task_tick_scx()`: task.
    Tick(i64),
    /// `select_task_rq_scx()`: task, flags, the CPU that it last ran on.
    Select(i64, i64, usize),
    /// That function returns.
    Selected,
    /// A callback comes to a point: which one, and what the trace tells.
    Reach(Point, u64),
    /// `put_prev_task_scx()` returns: the task, and whether it must not migrate.
    Put(i64, bool),
    /// `scx_update_idle()` begins: whether the CPU idles.
    Idle(bool),
    /// `kick_cpus_irq_workfn()`.
    Kicks,
    /// `pick_task_scx()`.
    Pick,
    /// `yield_task_scx()`.
    Yield,
    /// `scx_fork()`: parent, child.
    Fork(i64, i64),
    /// The task is gone.
    Free(i64),
    /// `set_cpus_allowed_scx()`: task, CPUs.
    Allowed(i64, i64),
    /// `reweight_task_scx()`: task, `static_prio`.
    Weight(i64, i64),
    /// `scx_cgroup_move_task()`: task, cgroup.
    Move(i64, i64),
    /// `sched_switch`: the next task, and 0: idle, 1: `sched_ext`, 2: a higher class.
    Switch(i64, i64),
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The CPU that it happened on.
    pub cpu: usize,
    /// Time since the first event, ns.
    pub at_ns: u64,
    /// Time that interrupts have taken from the run queue's CPU, ns.
    pub stolen_ns: u64,
    /// What happened.
    pub what: What,
}

/// A cgroup of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id in the events.
    pub id: i64,
    /// The id of its parent; 0: the root group.
    pub parent: i64,
    /// `cpu.weight`.
    pub weight: u32,
}

/// A recorded run.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Thread group of the agent.
    pub agent: i64,
    /// Thread group that serves the agent's statistics; older recordings have none.
    pub agent_stats: Option<i64>,
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of last-level caches.
    pub llcs: usize,
    /// V at the beginning, virtual ns.
    pub v_ns: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Parents come before their children.
    pub groups: Vec<Group>,
    /// In the order of the trace ring.
    pub events: Vec<Event>,
}

fn header(recording: &mut Recording, words: &[&str]) -> Option<()> {
    match *words {
        ["agent", pid] => recording.agent = pid.parse().ok()?,
        ["agent_stats", pid] => recording.agent_stats = Some(pid.parse().ok()?),
        ["cpus", n] => recording.cpus = n.parse().ok()?,
        ["llcs", n] => recording.llcs = n.parse().ok()?,
        ["v", ns] => recording.v_ns = ns.parse().ok()?,
        ["kernel", release] => recording.kernel = release.into(),
        ["cgroup", id, parent, weight] => recording.groups.push(Group {
            id: id.parse().ok()?,
            parent: parent.parse().ok()?,
            weight: weight.parse().ok()?,
        }),
        _ => return None,
    }
    Some(())
}

/// The event of a letter and its numbers. One without a time is at `now_ns`.
fn event(kind: &str, n: &[i128], now_ns: u64) -> Option<Event> {
    let int = |i: usize| n.get(i).copied().map(|x| x as i64);
    let cpu_at = |i: usize| int(i).map(|x| x as usize);
    let what = match kind {
        "i" => What::Identity(Identity {
            pid: int(0)?,
            tgid: int(1)?,
            prio: int(2)?,
            policy: int(3)?,
            flags: int(4)?,
            mask: int(5)?,
            cgroup: int(6)?,
            parent: int(7)?,
        }),
        "e" => {
            // What ops.dispatch moves, it moves to its own CPU. A change of affinity is carried
            // out on the CPU that the task leaves.
            let flags = int(5)?;
            let migrated = flags & ENQUEUE_MIGRATED != 0 && flags & ENQUEUE_WAKEUP == 0;
            let moved = int(6)? >= 0 || migrated && cpu_at(0) == cpu_at(4);
            What::Enqueue(int(3)?, cpu_at(4)?, flags, moved)
        }
        "d" => What::Dequeue(int(3)?, cpu_at(4)?, int(5)?, int(6)?),
        "n" => What::Next(int(3)?, cpu_at(4)?, int(5)? != 0, *n.get(6)? as u64),
        "t" => What::Tick(int(3)?),
        "s" => What::Select(int(2)?, int(3)?, cpu_at(4)?),
        "E" => What::Enqueued,
        "S" => What::Selected,
        "l" => What::Reach(Point::Look, int(1)? as u64),
        "K" => What::Reach(Point::Begin, 0),
        "k" => What::Reach(Point::Take, int(1)? as u64),
        "v" => What::Reach(Point::Now, int(1)?.max(0) as u64),
        "o" => What::Reach(Point::Idle, int(1)? as u64),
        "r" => What::Reach(Point::Draw, int(1)? as u64),
        "q" => What::Put(int(3)?, int(4)? != 0),
        "u" => What::Idle(int(1)? != 0),
        "j" => What::Kicks,
        "p" => What::Pick,
        "y" => What::Yield,
        "f" => What::Fork(int(2)?, int(3)?),
        "x" => What::Free(int(2)?),
        "a" => What::Allowed(int(2)?, int(3)?),
        "w" => What::Weight(int(2)?, int(3)?),
        "m" => What::Move(int(2)?, int(3)?),
        "c" => What::Switch(int(3)?, int(4)?),
        _ => return None,
    };
    let clocked = matches!(kind, "e" | "d" | "n" | "t" | "p" | "y" | "q");
    let timed = clocked || matches!(kind, "s" | "f" | "x" | "a" | "w" | "m" | "c");
    Some(Event {
        cpu: if kind == "i" { 0 } else { cpu_at(0)? },
        at_ns: if timed { int(1)?.max(0) as u64 } else { now_ns },
        stolen_ns: if clocked { int(2)?.max(0) as u64 } else { 0 },
        what,
    })
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// Which line is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut recording = Self {
            llcs: 1,
            ..Self::default()
        };
        for (number, line) in text.lines().enumerate() {
            let wrong = || format!("line {}: {line:?} is no event", number + 1);
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "#" {
                header(&mut recording, &words[1..]).ok_or_else(wrong)?;
                continue;
            }
            let numbers: Result<Vec<i128>, _> = words[1..].iter().map(|w| w.parse()).collect();
            let numbers = numbers.map_err(|_| wrong())?;
            let now_ns = recording.events.last().map_or(0, |event| event.at_ns);
            let event = event(words[0], &numbers, now_ns).ok_or_else(wrong)?;
            recording.events.push(event);
        }
        if recording.cpus == 0 || recording.events.is_empty() {
            return Err("the recording names no CPUs, or has no event".into());
        }
        Ok(recording)
    }

    /// Reads a compressed recording.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error: String| format!("cannot read {}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
        let decoder = ruzstd::decoding::StreamingDecoder::new(file);
        let decoder = decoder.map_err(|error| wrong(error.to_string()))?;
        let text = std::io::read_to_string(decoder).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Callbacks that run in parts (`native/strand.h`), as safe Rust.

use crate::kernel::{Kernel, Machine, Task, TaskId};

/// A place where a callback waits for the trace (`enum strand_point`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The path has ended.
    Done,
    /// A look at a DSQ.
    Look,
    /// A function begins to take a task from a DSQ.
    Begin,
    /// The task leaves the DSQ.
    Unlink,
    /// It is on the local DSQ.
    Take,
    /// `scx_bpf_now()`.
    Now,
    /// The choice of an idle CPU.
    Idle,
    /// `bpf_get_prandom_u32()`.
    Draw,
    /// The next task is known.
    Decided,
    /// An insertion takes effect.
    Insert,
    /// The CPU's idle bit changes.
    SetIdle,
    /// The next packet starts.
    SetNext,
}

const POINTS: [Point; 12] = [
    Point::Done,
    Point::Look,
    Point::Begin,
    Point::Unlink,
    Point::Take,
    Point::Now,
    Point::Idle,
    Point::Draw,
    Point::Decided,
    Point::Insert,
    Point::SetIdle,
    Point::SetNext,
];

/// A path of the kernel, with the callbacks in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `ops.select_cpu` of a task that was last on a CPU, with wake flags.
    Select(TaskId, usize, u64),
    /// `enqueue_task_scx()` of a task on the run queue of a CPU, with flags.
    Enqueue(TaskId, usize, u64),
    /// `__schedule()`.
    Schedule,
    /// `task_tick_scx()`.
    Tick,
    /// `scx_update_idle()`: whether the CPU idles.
    UpdateIdle(bool),
}

#[repr(C)]
struct Call {
    path: u32,
    cpu: i32,
    on: i32,
    flags: u64,
    task: *mut Task,
}

unsafe extern "C" {
    fn replay_start(m: *mut Machine, now_ns: u64, call: *const Call);
    fn strand_point_of(m: *const Machine, cpu: i32) -> u32;
    fn strand_detail(m: *const Machine, cpu: i32) -> u64;
    fn strand_resume(m: *mut Machine, cpu: i32, told: *const u64);
    fn strand_finish(m: *mut Machine, cpu: i32);
    fn strand_result(m: *const Machine, cpu: i32) -> i64;
    fn strand_set_now(m: *mut Machine, cpu: i32, now_ns: u64);
}

impl Kernel {
    /// Starts `path` on `cpu`, up to its first point.
    pub fn strand_start(&mut self, now_ns: u64, cpu: usize, path: Path) {
        let (number, on, flags, task) = match path {
            Path::Select(task, last, flags) => (0, last, flags, Some(task)),
            Path::Enqueue(task, on, flags) => (1, on, flags, Some(task)),
            Path::Schedule => (2, cpu, 0, None),
            Path::Tick => (3, cpu, 0, None),
            Path::UpdateIdle(idle) => (4, cpu, u64::from(idle), None),
        };
        let call = Call {
            path: number,
            cpu: cpu as i32,
            on: on as i32,
            flags,
            task: task.map_or(std::ptr::null_mut(), |task| self.task_pointer(task)),
        };
        // SAFETY: machine and task live; the call is copied.
        self.with(|m| unsafe { replay_start(m, now_ns, &raw const call) });
    }

    /// Where the strand of `cpu` stands, and the DSQ that it is about to look at.
    pub fn strand_point(&self, cpu: usize) -> (Point, u64) {
        // SAFETY: the machine lives.
        let point = POINTS[self.with(|m| unsafe { strand_point_of(m, cpu as i32) }) as usize];
        if point != Point::Look {
            return (point, 0);
        }
        // SAFETY: the machine lives, and the CPU has a strand.
        (
            point,
            self.with(|m| unsafe { strand_detail(m, cpu as i32) }),
        )
    }

    /// Goes on to the next point. `told`: what the trace tells.
    pub fn strand_resume(&mut self, cpu: usize, told: Option<u64>) {
        let told = told.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the machine lives, and the CPU has a strand.
        self.with(|m| unsafe { strand_resume(m, cpu as i32, told) });
    }

    /// Goes on to the end.
    pub fn strand_finish(&mut self, cpu: usize) {
        // SAFETY: the machine lives, and the CPU has a strand.
        self.with(|m| unsafe { strand_finish(m, cpu as i32) });
    }

    /// The selected CPU, or the number of the next task.
    pub fn strand_result(&self, cpu: usize) -> Option<usize> {
        // SAFETY: the machine lives, and the CPU has a strand.
        usize::try_from(self.with(|m| unsafe { strand_result(m, cpu as i32) })).ok()
    }

    /// The clock of the run queue of `cpu` is known.
    pub fn strand_set_now(&mut self, cpu: usize, now_ns: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { strand_set_now(m, cpu as i32, now_ns) });
    }
}

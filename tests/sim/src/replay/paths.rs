// SPDX-License-Identifier: GPL-2.0-only
//! The paths of the kernel that a replay runs in parts, in the order of the trace.

use super::event::{Event, What};
use super::strand::{Path, Point};
use super::{Replay, SAVE_RESTORE};
use crate::kernel::TaskId;

/// A path that a CPU is in.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    path: Path,
    /// Of a selection, the task. Of a pick, what the kernel picked.
    task: Option<TaskId>,
    /// The last stage that the trace has told of.
    stage: Point,
    decided: bool,
}

impl Replay<'_> {
    /// Whether an event comes when the CPU's last path is over.
    pub(super) fn begins_path(&self, index: usize, event: &Event) -> bool {
        match event.what {
            What::Enqueue(_, _, flags, moved) => !moved && flags & SAVE_RESTORE == 0,
            What::Dequeue(pid, _, flags, _) => {
                flags & SAVE_RESTORE == 0 && !self.is_moved_by_dispatch(index, pid)
            }
            What::Tick(_) | What::Select(..) | What::Pick | What::Yield => true,
            What::Fork(..) | What::Free(_) | What::Switch(..) => true,
            What::Allowed(..) | What::Weight(..) | What::Move(..) => true,
            What::Enqueued | What::Selected => {
                let path = self.paths[event.cpu].map(|running| running.path);
                match path {
                    Some(Path::Enqueue(..)) => event.what == What::Enqueued,
                    Some(Path::Select(..)) => event.what == What::Selected,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// The CPU begins a path. `task`: see [`Running`].
    pub(super) fn start(&mut self, event: &Event, path: Path, task: Option<TaskId>) {
        self.kernel.strand_start(event.at_ns, event.cpu, path);
        self.paths[event.cpu] = Some(Running {
            path,
            task,
            stage: Point::Done,
            decided: false,
        });
        self.settle(event);
    }

    /// Goes on from a point.
    fn resume(&mut self, event: &Event, told: Option<u64>) {
        self.kernel.strand_resume(event.cpu, told);
        self.settle(event);
    }

    /// Ends the path that the CPU is in.
    pub(super) fn finish(&mut self, event: &Event) {
        while self.paths[event.cpu]
            .is_some_and(|running| running.path == Path::Schedule && !running.decided)
        {
            self.resume(event, None);
        }
        if self.paths[event.cpu].is_some() {
            self.kernel.strand_finish(event.cpu);
            self.settle(event);
        }
    }

    /// Compares a decision once it is made, and a path's result once it has ended.
    fn settle(&mut self, event: &Event) {
        let cpu = event.cpu;
        let Some(mut running) = self.paths[cpu] else {
            return;
        };
        match self.kernel.strand_point(cpu).0 {
            Point::Decided => {
                running.decided = true;
                self.paths[cpu] = Some(running);
                let got = self.kernel.strand_result(cpu);
                if got == running.task {
                    self.resume(event, None);
                    return;
                }
                self.decides_otherwise(event, running.task, got);
                self.kernel.strand_finish(cpu);
                self.kernel.replay_force(event.at_ns, cpu, running.task);
                self.paths[cpu] = None;
            }
            Point::Done => {
                if let (Path::Select(..), Some(task)) = (running.path, running.task)
                    && let Some(chosen) = self.kernel.strand_result(cpu)
                {
                    self.selected.insert(self.pids[task], chosen);
                }
                self.paths[cpu] = None;
            }
            _ => {}
        }
    }

    /// A callback of the CPU comes to a point in the kernel.
    pub(super) fn reach(&mut self, event: &Event, point: Point, told: u64) {
        if point == Point::Take {
            self.takes(event);
        }
        let (at, detail) = self.kernel.strand_point(event.cpu);
        if at == point && (at != Point::Look || detail == told) {
            self.resume(event, Some(told));
        } else {
            self.outcome.strays += 1;
        }
    }

    /// The CPU has taken a task from a queue, and moves it from another run queue to its own.
    pub(super) fn takes(&mut self, event: &Event) {
        for point in [Point::Begin, Point::Unlink] {
            if self.kernel.strand_point(event.cpu).0 == point {
                self.resume(event, None);
            }
        }
    }

    /// The path of the CPU comes to a stage in the kernel: what is before it is over.
    pub(super) fn stage(&mut self, event: &Event, stage: Point, idle: bool) {
        let Some(running) = self.paths[event.cpu] else {
            if stage == Point::SetIdle && !(idle && self.running[event.cpu].is_some()) {
                self.start(event, Path::UpdateIdle(idle), None);
                self.resume(event, None);
            }
            return;
        };
        if running.stage >= stage {
            return;
        }
        while self.paths[event.cpu].is_some() && self.kernel.strand_point(event.cpu).0 < stage {
            self.resume(event, None);
        }
        if let Some(running) = &mut self.paths[event.cpu] {
            running.stage = stage;
        }
        if self.kernel.strand_point(event.cpu).0 == stage {
            self.resume(event, None);
        }
    }

    /// The clock that a forked task's account starts from: the next one that its CPU read.
    pub(super) fn fork_time(&self, index: usize) -> u64 {
        let fork = &self.recording.events[index];
        let mut later = self.recording.events[index + 1..]
            .iter()
            .filter(|event| event.cpu == fork.cpu);
        match later.next().map(|event| event.what) {
            Some(What::Reach(Point::Now, now_ns)) => now_ns,
            _ => fork.at_ns,
        }
    }
}

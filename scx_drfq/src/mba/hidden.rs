// SPDX-License-Identifier: GPL-2.0-only
//! Threads that /proc hides from the agent, which has no CAP_SYS_PTRACE, as with hidepid=2. It tells
//! of them what it tells of threads that have ended.

use std::collections::HashSet;

use drfq_stats::sample::TaskSample;

/// What a user should know where most processes are hidden.
pub const HIDDEN: &str = "most processes cannot be found in /proc; is it mounted with hidepid?";

/// Threads that have ended, as /proc tells.
#[derive(Default)]
pub struct Ended {
    now: HashSet<u32>,
    /// Those of the last look, and when they began.
    before: HashSet<(u32, u64)>,
}

impl Ended {
    /// Notes a thread.
    pub fn note(&mut self, tid: u32) {
        self.now.insert(tid);
    }

    /// Ends a look, which found `tasks`. Returns how many of them had ended at the look before, as
    /// /proc told. They are there still, so it hides them.
    pub fn hidden(&mut self, tasks: &[TaskSample]) -> usize {
        let id = |task: &TaskSample| (task.pid, task.started_ns);
        let hidden = |task: &&TaskSample| self.before.contains(&id(task));
        let count = match self.before.is_empty() {
            true => 0,
            false => tasks.iter().filter(hidden).count(),
        };
        let now = std::mem::take(&mut self.now);
        let ended = tasks.iter().filter(|task| now.contains(&task.pid));
        self.before = ended.map(id).collect();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: u32, started_ns: u64) -> TaskSample {
        TaskSample {
            pid,
            started_ns,
            ..TaskSample::default()
        }
    }

    #[test]
    fn a_thread_that_ended_and_is_there_is_hidden() {
        let mut ended = Ended::default();
        let tasks = [task(1, 5), task(2, 6)];
        ended.note(1);
        assert_eq!(ended.hidden(&tasks), 0);
        ended.note(1);
        assert_eq!(ended.hidden(&tasks), 1);
        assert_eq!(ended.hidden(&tasks), 1);
        assert_eq!(ended.hidden(&tasks), 0);
    }

    #[test]
    fn short_threads_and_their_ids_that_are_used_again_are_not_hidden() {
        let mut ended = Ended::default();
        for look in 0..4 {
            let tasks = [task(1, look), task(look as u32 + 2, 5)];
            tasks.iter().for_each(|task| ended.note(task.pid));
            assert_eq!(ended.hidden(&tasks), 0);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What must hold after every event.

use crate::engine::Sim;
use crate::kernel::{Kernel, Machine, Place, TaskId};

/// The period of the scheduler's timer (`bpf/timer.bpf.h`), which ends what no CPU ends.
const TIMER_PERIOD_NS: u64 = 100_000_000;

unsafe extern "C" {
    fn machine_miscounted_urgent(m: *mut Machine) -> i32;
}

impl Kernel {
    /// A CPU whose count of urgent tasks (`bpf/urgent.bpf.h`) is wrong.
    fn miscounted_urgent(&self) -> Option<usize> {
        // SAFETY: the machine lives.
        let cpu = self.with(|m| unsafe { machine_miscounted_urgent(m) });
        usize::try_from(cpu).ok()
    }
}

impl Sim {
    /// The promises that hold after every event.
    pub(crate) fn check(&mut self) {
        if let Some(error) = self.kernel.error() {
            self.violation(&format!("the scheduler gave up: {error}"));
        }
        for cpu in 0..self.cpus.len() {
            if let Some(task) = self.cpus[cpu].current
                && !self.tasks[task].allowed.has(cpu)
            {
                self.violation(&format!("task {task} runs where it may not"));
            }
        }
        if let Some(cpu) = self.kernel.miscounted_urgent() {
            self.violation(&format!("CPU {cpu} counts its urgent tasks wrong"));
        }
        self.check_tasks();
        if self.kernel.any_cpu_is_idle() {
            self.check_idle();
        } else {
            self.beside_idle.clear();
        }
    }

    /// Checks each task that lives, or that exited since the last check.
    fn check_tasks(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.resize(self.tasks.len(), false);
        for task in self.cpus.iter().filter_map(|cpu| cpu.current) {
            runs[task] = true;
        }
        let mut live = std::mem::take(&mut self.live);
        self.most_live = self.most_live.max(live.len());
        let forks = self.most_live.saturating_sub(self.specs.len()) as u64;
        let added_ns = forks * self.config.wait_per_fork_ns;
        let wait_bound_ns = self.config.wait_bound_ns.saturating_add(added_ns);
        for &task in &live {
            self.check_task(task, runs[task], wait_bound_ns);
        }
        live.retain(|&task| self.tasks[task].report.exited_at_ns.is_none());
        self.live = live;
        for task in self.cpus.iter().filter_map(|cpu| cpu.current) {
            runs[task] = false;
        }
        self.runs = runs;
    }

    /// A task is where it should be, and not for longer than it may. `runs`: a CPU runs it.
    /// `wait_bound_ns`: its longest wait.
    fn check_task(&mut self, task: TaskId, runs: bool, wait_bound_ns: u64) {
        let t = &self.tasks[task];
        let place = self.kernel.place(task);
        let waits_ns = t.waits_since_ns.map(|since| self.now_ns - since);
        let held_ns = t.held_since_ns.map(|since| self.now_ns - since);
        let right = match place {
            Place::Running => runs,
            Place::Queued | Place::Throttled | Place::Local => waits_ns.is_some(),
            Place::Held => held_ns.is_some(),
            Place::Nowhere => !runs && waits_ns.is_none() && held_ns.is_none(),
        };
        if !right {
            self.violation(&format!("task {task} is lost: {place:?}, runs: {runs}"));
        }
        if waits_ns.is_some_and(|waits| waits > wait_bound_ns) {
            self.violation(&format!(
                "task {task} waits for more than {wait_bound_ns} ns"
            ));
        }
        // If no CPU idles, one that switches ends the hold.
        let bound = self.hold_bound_ns() + self.config.slice_ns + self.config.tick_ns;
        if held_ns.is_some_and(|held| held > bound) && !self.all_taken() {
            self.violation(&format!("task {task} is held beyond the bound"));
        }
    }

    /// Longest hold beside an idle CPU, ns: the scheduler's timer ends it if no CPU does.
    fn hold_bound_ns(&self) -> u64 {
        self.config.hold_max_ns + TIMER_PERIOD_NS + self.config.resched_ns
    }

    fn all_taken(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.taken)
    }

    /// A task waits where a CPU that it may use looks.
    pub(crate) fn check_queue(&mut self, task: TaskId) {
        let allowed = self.tasks[task].allowed;
        let Some(queue) = self.kernel.queue_of(task) else {
            return;
        };
        if !(0..self.cpus.len()).any(|c| allowed.has(c) && self.kernel.queue_of_cpu(c) == queue) {
            self.violation(&format!(
                "task {task} waits on queue {queue}, which it may not use"
            ));
        }
    }

    /// What waits while a CPU idles.
    fn check_idle(&mut self) {
        let nr_cpus = self.cpus.len();
        let idle: Vec<usize> = (0..nr_cpus)
            .filter(|cpu| self.kernel.cpu_is_idle(*cpu))
            .collect();
        let mut broken = Vec::new();
        let mut beside_idle = Vec::new();
        let bound = self.hold_bound_ns();
        for &task in &self.live {
            let t = &self.tasks[task];
            let place = self.kernel.place(task);
            if !matches!(place, Place::Queued | Place::Held) {
                continue;
            }
            let Some(cpu) = idle.iter().find(|cpu| t.allowed.has(**cpu)) else {
                continue;
            };
            if place == Place::Queued {
                let before = self.beside_idle.iter().find(|waiter| waiter.0 == task);
                beside_idle.push((task, before.map_or(self.now_ns, |waiter| waiter.1)));
            }
            let held_ns = t.held_since_ns.map_or(0, |since| self.now_ns - since);
            if place == Place::Held && held_ns > bound {
                broken.push(format!("task {task} is held while CPU {cpu} idles"));
            }
        }
        self.beside_idle = beside_idle;
        for text in broken {
            self.violation(&text);
        }
    }

    /// Nothing happens before `at_ns`: no task stays queued while a CPU idles that may run it. A
    /// CPU that was woken for one task may take another one. It then wakes the next CPU
    /// (`bpf/idle.bpf.h`), so a task waits for as many wake-ups as there are CPUs at most.
    pub(crate) fn check_beside_idle(&mut self, at_ns: u64) {
        let bound = self.cpus.len() as u64 * self.config.resched_ns;
        let late = self
            .beside_idle
            .iter()
            .find(|(_, since)| since + bound < at_ns);
        if let Some((task, since)) = late.copied() {
            self.violation(&format!(
                "task {task} is queued beside an idle CPU since {since} ns"
            ));
            self.beside_idle.clear();
        }
    }
}

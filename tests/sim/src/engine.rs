// SPDX-License-Identifier: GPL-2.0-only
//! The kernel: time, ticks, slices, blocking, and the order in which
//! `sched_ext` calls its scheduler (`kernel/sched/ext.c`): dispatch comes before
//! the previous packet's stopping, that before its enqueue, and running last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::Config;
use crate::cpu::{Cpu, TaskId};
use crate::memory::Memory;
use crate::queue::VtimeQueue;
use crate::report::{Counters, Report};
use crate::task::{Task, TaskSpec, TaskState};
use crate::timer::TIMER_PERIOD_NS;
use crate::trace::{Rng, Step};

/// Violations beyond this many are dropped.
const MAX_VIOLATIONS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step of the running packet of this generation ends.
    StepEnd(usize, u64),
    /// Its slice does, with exact slices.
    SliceEnd(usize, u64),
    Resched(usize),
    Wake(TaskId),
    Arrive(usize),
    Tick(usize),
    Watch,
    /// The agent writes the controller's registers.
    Publish,
}

/// A simulation. The same config and specs give the same report, always.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) config: Config,
    pub(crate) now_ns: u64,
    pub(crate) v_ns: u64,
    pub(crate) busy_cpus: u32,
    pub(crate) v_scanned_at_ns: Option<u64>,
    pub(crate) v_stale: bool,
    pub(crate) timer_periods: u64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) queues: Vec<VtimeQueue>,
    pub(crate) held: VtimeQueue,
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    pub(crate) random: Rng,
    specs: Vec<TaskSpec>,
    violations: Vec<String>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
}

impl Sim {
    /// A machine with `specs` to run.
    ///
    /// # Panics
    /// If a spec may run on no CPU of the machine.
    pub fn new(config: Config, specs: Vec<TaskSpec>) -> Self {
        let nr_cpus = config.nr_cpus();
        for spec in &specs {
            assert_ne!(
                spec.allowed.count(nr_cpus),
                0,
                "{} may run nowhere",
                spec.name
            );
        }
        let v_ns = config.v_origin_ns;
        let mut sim = Self {
            now_ns: 0,
            v_ns,
            busy_cpus: 0,
            v_scanned_at_ns: None,
            v_stale: false,
            timer_periods: 0,
            cpus: config
                .llc_of_cpu
                .iter()
                .map(|llc| Cpu::new(*llc, v_ns))
                .collect(),
            tasks: Vec::new(),
            queues: vec![VtimeQueue::default(); config.nr_llcs()],
            held: VtimeQueue::default(),
            memory: Memory::new(nr_cpus, config.mem_bytes_per_s),
            counters: Counters::default(),
            random: Rng::new(0),
            violations: Vec::new(),
            events: BinaryHeap::new(),
            pushed: 0,
            config,
            specs,
        };
        for spec in 0..sim.specs.len() {
            if sim.specs[spec].arrival_ns != u64::MAX {
                sim.push(sim.specs[spec].arrival_ns, Event::Arrive(spec));
            }
        }
        for cpu in 0..nr_cpus {
            let number = cpu as u64 + 1;
            let first_ns = if sim.config.skewed_ticks {
                sim.config.tick_ns * number / nr_cpus as u64
            } else {
                // No two interrupts are served at the same nanosecond.
                sim.config.tick_ns + number * 100
            };
            sim.push(first_ns, Event::Tick(cpu));
        }
        sim.push(TIMER_PERIOD_NS, Event::Watch);
        if let Some(update_ns) = sim.config.controller_update_ns {
            sim.push(update_ns, Event::Publish);
        }
        sim
    }

    /// Runs until `end_ns` since the start and reports.
    pub fn run_until(&mut self, end_ns: u64) -> Report {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at > end_ns {
                break;
            }
            self.events.pop();
            self.now_ns = at;
            self.handle(event);
            self.check();
        }
        self.now_ns = end_ns;
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
        self.report()
    }

    fn report(&self) -> Report {
        Report {
            now_ns: self.now_ns,
            v_ns: self.v_ns,
            tasks: self.tasks.iter().map(|t| t.report.clone()).collect(),
            counters: self.counters.clone(),
            violations: self.violations.clone(),
        }
    }

    /// S of each task now, ns of virtual time.
    pub fn starts(&self) -> Vec<u64> {
        self.tasks.iter().map(|t| t.flow.start()).collect()
    }

    /// V now, ns of virtual time.
    pub fn v_ns(&self) -> u64 {
        self.v_ns
    }

    /// Whether `task`, in the order of creation, is held now.
    pub fn is_held(&self, task: TaskId) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|t| t.state == TaskState::Held)
    }

    /// The CPU that runs `task` now.
    pub fn cpu_of(&self, task: TaskId) -> Option<usize> {
        self.cpus.iter().position(|c| c.current == Some(task))
    }

    pub(crate) fn violation(&mut self, text: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations
                .push(format!("at {} ns: {text}", self.now_ns));
        }
    }

    /// The promises that hold after every event.
    fn check(&mut self) {
        let mut broken = Vec::new();
        let free = self.cpus.iter().any(|c| c.idle);
        let queues = if free { self.queues.as_slice() } else { &[] };
        for (_, task) in queues.iter().flat_map(VtimeQueue::iter) {
            let allowed = self.tasks[task].allowed;
            let mut free =
                (0..self.cpus.len()).filter(|c| self.cpus[*c].current.is_none() && allowed.has(*c));
            // Unless one was woken and is on its way.
            if free.clone().all(|c| self.cpus[c].idle)
                && let Some(cpu) = free.next()
            {
                broken.push(format!("task {task} is queued and CPU {cpu} idles"));
            }
        }
        for (cpu, task) in self
            .cpus
            .iter()
            .enumerate()
            .filter_map(|(i, c)| Some((i, c.current?)))
        {
            if !self.tasks[task].allowed.has(cpu) {
                broken.push(format!("task {task} runs on CPU {cpu}, where it may not"));
            }
        }
        // The watch timer is what ends a hold when no CPU acts.
        let bound = self.config.hold_max_ns + TIMER_PERIOD_NS + self.config.resched_ns;
        for (_, task) in self.held.iter() {
            let since = self.tasks[task].held_since_ns.unwrap_or(self.now_ns);
            let cpu_free =
                (0..self.cpus.len()).any(|c| self.cpus[c].idle && self.tasks[task].allowed.has(c));
            if self.now_ns - since > bound && cpu_free {
                broken.push(format!("task {task} is held beyond the bound"));
            }
        }
        for text in broken {
            self.violation(text);
        }
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at_ns, self.pushed, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::StepEnd(cpu, generation) if self.cpus[cpu].generation == generation => {
                self.account(cpu);
                self.step_end(cpu);
            }
            Event::SliceEnd(cpu, generation) if self.cpus[cpu].generation == generation => {
                self.tick_cpu(cpu);
                if self.cpus[cpu].slice_ns == 0 {
                    self.schedule(cpu);
                }
            }
            Event::StepEnd(..) | Event::SliceEnd(..) => {}
            Event::Resched(cpu) => {
                self.cpus[cpu].resched = false;
                self.schedule(cpu);
            }
            Event::Wake(task) => self.wake(task, true),
            Event::Arrive(spec) => self.arrive(spec, None),
            Event::Tick(cpu) => {
                self.push(self.now_ns + self.config.tick_ns, Event::Tick(cpu));
                self.tick_cpu(cpu);
                if self.cpus[cpu].current.is_some() && self.cpus[cpu].slice_ns == 0 {
                    self.resched(cpu);
                }
            }
            Event::Watch => {
                self.push(self.now_ns + TIMER_PERIOD_NS, Event::Watch);
                self.timer_fire();
            }
            Event::Publish => self.publish(),
        }
    }

    /// What the agent writes: `virtualTime_coreId` is ns >> 22 (4.5.3).
    fn publish(&mut self) {
        let registers = self.cpus.iter().map(|cpu| cpu.slot.charged_vtime_ns >> 22);
        self.memory.serve_by(self.now_ns, registers.collect());
        if let Some(update_ns) = self.config.controller_update_ns {
            self.push(self.now_ns + update_ns, Event::Publish);
        }
    }

    /// `update_curr()`: brings the running task's times up to now.
    fn account(&mut self, id: usize) {
        let cpu = &mut self.cpus[id];
        let Some(task) = cpu.current else {
            return;
        };
        let ran = self.now_ns - cpu.accounted_ns;
        cpu.accounted_ns = self.now_ns;
        cpu.slice_ns = cpu.slice_ns.saturating_sub(ran);
        self.tasks[task].report.cpu_ns += ran;
        self.tasks[task].left_ns = self.tasks[task].left_ns.saturating_sub(ran);
    }

    fn tick_cpu(&mut self, cpu: usize) {
        self.account(cpu);
        if let Some(task) = self.cpus[cpu].current {
            self.tick(cpu, task);
        }
    }

    /// Asks `cpu` to switch soon.
    pub(crate) fn resched(&mut self, cpu: usize) {
        if !self.cpus[cpu].resched {
            self.cpus[cpu].resched = true;
            self.push(self.now_ns + self.config.resched_ns, Event::Resched(cpu));
        }
    }

    fn arrive(&mut self, spec: usize, parent: Option<TaskId>) {
        let nr_cpus = self.cpus.len();
        let spec = self.specs[spec].clone();
        let task = self.tasks.len();
        let cpu = (0..nr_cpus)
            .map(|i| (task + i) % nr_cpus)
            .find(|c| spec.allowed.has(*c));
        self.tasks
            .push(Task::new(&spec, cpu.unwrap_or(0), self.v_ns));
        self.init_task(task, parent);
        self.enter_step(task);
        self.wake(task, false);
    }

    fn wake(&mut self, task: TaskId, wakeup: bool) {
        self.tasks[task].waits_since_ns = Some(self.now_ns);
        self.tasks[task].waits_woken = wakeup;
        let choice = self.tasks[task].allowed.count(self.cpus.len()) > 1;
        if !self.select_cpu(task, wakeup) {
            self.enqueue(task, wakeup, choice);
        }
    }

    /// `__schedule()`, with the running task, if any, still runnable.
    fn schedule(&mut self, cpu: usize) {
        self.account(cpu);
        let prev = self.cpus[cpu].current;
        if prev.is_some() && self.cpus[cpu].slice_ns > 0 {
            return;
        }
        if self.cpus[cpu].local.is_empty() {
            self.dispatch(cpu, prev);
        }
        let Some(next) = self.cpus[cpu].local.pop_front() else {
            match prev {
                Some(_) => self.arm(cpu),
                None => {
                    self.cpus[cpu].idle = true;
                    if !std::mem::replace(&mut self.cpus[cpu].idles, true) {
                        self.update_idle(cpu, true);
                    }
                }
            }
            return;
        };
        if let Some(prev) = prev {
            self.put(cpu, prev);
        }
        if std::mem::take(&mut self.cpus[cpu].idles) {
            self.update_idle(cpu, false);
        }
        self.start(cpu, next);
    }

    /// The running task leaves `cpu` and waits.
    fn put(&mut self, cpu: usize, prev: TaskId) {
        self.stopping(cpu, prev, true);
        self.memory.demand(self.now_ns, cpu, 0);
        self.cpus[cpu].current = None;
        self.tasks[prev].waits_since_ns = Some(self.now_ns);
        self.tasks[prev].waits_woken = false;
        self.enqueue(prev, false, false);
    }

    fn start(&mut self, cpu: usize, next: TaskId) {
        let now = self.now_ns;
        let t = &mut self.tasks[next];
        t.state = TaskState::Running(cpu);
        t.cpu = cpu;
        if let Some(since) = t.waits_since_ns.take() {
            t.report.max_wait_ns = t.report.max_wait_ns.max(now - since);
            if t.waits_woken {
                t.report.wake_latencies_ns.push(now - since);
            }
        }
        let c = &mut self.cpus[cpu];
        c.current = Some(next);
        c.idle = false;
        c.accounted_ns = now;
        c.slice_ns = self.config.slice_ns;
        self.running(cpu, next);
        self.arm(cpu);
    }

    /// Sets the timers and the memory demand of the packet that runs on `cpu`.
    fn arm(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].current else {
            return;
        };
        self.cpus[cpu].generation += 1;
        let generation = self.cpus[cpu].generation;
        let t = &self.tasks[task];
        let demand = match t.trace.steps.get(t.step) {
            Some(Step::Run { bytes_per_s, .. }) => *bytes_per_s,
            _ => 0,
        };
        let left = t.left_ns;
        self.memory.demand(self.now_ns, cpu, demand);
        self.push(
            self.now_ns.saturating_add(left),
            Event::StepEnd(cpu, generation),
        );
        if self.config.exact_slices {
            let end = self.now_ns + self.cpus[cpu].slice_ns;
            self.push(end, Event::SliceEnd(cpu, generation));
        }
    }

    /// Prepares the task's present step.
    fn enter_step(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        if t.step >= t.trace.steps.len() && t.trace.repeat {
            t.step = 0;
        }
        t.left_ns = match t.trace.steps.get(t.step) {
            Some(Step::Run { ns, .. }) => *ns,
            _ => 0,
        };
    }

    fn next_step(&mut self, task: TaskId) {
        self.tasks[task].step += 1;
        self.enter_step(task);
    }

    /// The running task of `cpu` has finished its time on a CPU, and acts.
    fn step_end(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].current else {
            return;
        };
        let t = &self.tasks[task];
        if matches!(t.trace.steps.get(t.step), Some(Step::Run { .. })) && t.left_ns == 0 {
            self.next_step(task);
        }
        let t = &self.tasks[task];
        match t.trace.steps.get(t.step).copied() {
            Some(Step::Run { .. }) => self.arm(cpu),
            Some(Step::Sleep { ns, dma_bytes }) => {
                self.next_step(task);
                self.block(cpu, task);
                self.tasks[task].pending_dma_bytes += dma_bytes;
                self.push(self.now_ns + ns, Event::Wake(task));
            }
            Some(Step::Yield) => {
                self.next_step(task);
                self.yield_task(cpu, task);
                self.schedule(cpu);
            }
            Some(Step::Affinity(allowed)) => {
                self.next_step(task);
                self.set_affinity(cpu, task, allowed);
            }
            Some(Step::Spawn(spec)) => {
                self.next_step(task);
                self.arm(cpu);
                self.arrive(spec, Some(task));
            }
            None => {
                self.block(cpu, task);
                self.exit_task(task);
                self.tasks[task].state = TaskState::Exited;
                self.tasks[task].report.exited_at_ns = Some(self.now_ns);
            }
        }
    }

    fn block(&mut self, cpu: usize, task: TaskId) {
        self.stopping(cpu, task, false);
        self.memory.demand(self.now_ns, cpu, 0);
        self.cpus[cpu].current = None;
        self.cpus[cpu].generation += 1;
        self.tasks[task].state = TaskState::Blocked;
        self.schedule(cpu);
    }

    /// The running task changes its own affinity, and moves if it must.
    fn set_affinity(&mut self, cpu: usize, task: TaskId, allowed: crate::CpuSet) {
        let nr_cpus = self.cpus.len();
        let Some(home) = (0..nr_cpus).find(|c| allowed.has(*c)) else {
            // The kernel refuses an affinity without a CPU.
            self.arm(cpu);
            return;
        };
        self.tasks[task].allowed = allowed;
        if allowed.has(cpu) {
            self.arm(cpu);
            return;
        }
        self.cpus[cpu].generation += 1;
        let shift = self.vtime_of_cpu(home).wrapping_sub(self.vtime_of_cpu(cpu));
        self.tasks[task].flow.shift(shift);
        self.tasks[task].cpu = home;
        self.put(cpu, task);
        self.schedule(cpu);
    }
}

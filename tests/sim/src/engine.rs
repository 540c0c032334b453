// SPDX-License-Identifier: GPL-2.0-only
//! What happens when: the steps of the tasks, ticks, interrupts, the scheduler's timer. What the
//! kernel and the scheduler do about it is [`crate::kernel`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::Config;
use crate::cpuset::CpuSet;
use crate::kernel::{CgroupId, Kernel, NEVER, Place, TaskId};
use crate::memory::Memory;
use crate::outside::Outside;
use crate::report::{Counters, Report};
use crate::task::{Task, TaskSpec};
use crate::trace::Step;

/// Violations beyond this many are dropped.
const MAX_VIOLATIONS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A step of the running packet of this generation ends.
    StepEnd(usize, u64),
    /// Its slice does, with exact slices.
    SliceEnd(usize, u64),
    /// A CPU switches, some time after it was asked to.
    Schedule(usize),
    /// A sleep ends, unless the task was woken earlier: the number counts its sleeps.
    Wake(TaskId, u64),
    /// What is done from outside, by its index.
    Outside(usize),
    /// A higher class gives a CPU back.
    Give(usize),
    Arrive(usize),
    Tick(usize),
    /// The scheduler's timer.
    Timer,
    /// The agent writes the controller's registers.
    Publish,
}

/// A CPU as the simulator follows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) current: Option<TaskId>,
    /// Counts packets, so that events of an earlier one are recognised.
    generation: u64,
    /// An [`Event::Schedule`] is on its way.
    pub(crate) schedule_pending: bool,
    /// A task of a higher class runs.
    pub(crate) taken: bool,
    /// Up to where the CPU's time is accounted for, ns, and the parts of it in which it was idle
    /// or taken.
    pub(crate) accounted_to_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) taken_ns: u64,
}

/// A simulation. The same config and specs give the same report, always.
#[derive(Debug)]
pub struct Sim {
    pub(crate) config: Config,
    pub(crate) now_ns: u64,
    pub(crate) kernel: Kernel,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    /// Tasks that the next check looks at.
    pub(crate) live: Vec<TaskId>,
    /// How many tasks have lived at a time.
    pub(crate) most_live: usize,
    /// Whether a CPU runs each task, during a check.
    pub(crate) runs: Vec<bool>,
    /// Tasks that are queued while a CPU idles that may run them, each with the time since when,
    /// ns.
    pub(crate) beside_idle: Vec<(TaskId, u64)>,
    pub(crate) memory: Memory,
    pub(crate) specs: Vec<TaskSpec>,
    /// What is done from outside.
    pub(crate) outside: Vec<Outside>,
    /// Specs whose tasks join a group, and which.
    pub(crate) joins: Vec<(usize, CgroupId)>,
    pub(crate) violations: Vec<String>,
    pub(crate) v_ns: u64,
    /// Tasks that were held after the last event.
    pub(crate) nr_held: usize,
    pub(crate) timer_due_ns: u64,
    pub(crate) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(crate) pushed: u64,
}

impl Sim {
    /// A machine with `specs` to run.
    ///
    /// # Panics
    /// If a spec may run on no CPU of the machine.
    pub fn new(config: Config, specs: Vec<TaskSpec>) -> Self {
        let nr_cpus = config.nr_cpus();
        for spec in &specs {
            let cpus = spec.allowed.count(nr_cpus);
            assert_ne!(cpus, 0, "{} may run nowhere", spec.name);
        }
        let mut sim = Self {
            now_ns: 0,
            kernel: Kernel::new(&config),
            cpus: vec![Cpu::default(); nr_cpus],
            tasks: Vec::new(),
            live: Vec::new(),
            most_live: 0,
            runs: Vec::new(),
            beside_idle: Vec::new(),
            memory: Memory::new(nr_cpus, config.mem_bytes_per_s),
            violations: Vec::new(),
            v_ns: config.v_origin_ns,
            nr_held: 0,
            timer_due_ns: NEVER,
            events: BinaryHeap::new(),
            pushed: 0,
            config,
            specs,
            outside: Vec::new(),
            joins: Vec::new(),
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
        sim.arm_timer();
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
            if self.config.checked {
                self.check_beside_idle(at);
            }
            self.events.pop();
            self.now_ns = at;
            self.handle(event);
            self.follow();
            if self.config.checked {
                self.check();
            }
        }
        self.check_beside_idle(end_ns);
        self.now_ns = end_ns;
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
        self.report()
    }

    fn report(&self) -> Report {
        let so_far = self.tasks.iter().map(|t| t.report_at(self.now_ns));
        let mut tasks: Vec<_> = so_far.collect();
        for (task, report) in tasks.iter_mut().enumerate() {
            report.dma_bytes = self.kernel.account(task).dma_bytes;
        }
        Report {
            now_ns: self.now_ns,
            v_ns: self.kernel.v_ns(),
            tasks,
            counters: Counters::read(&self.kernel),
            violations: self.violations.clone(),
        }
    }

    /// S of each task, in the order of creation.
    pub fn starts(&self) -> Vec<u64> {
        let tasks = 0..self.tasks.len();
        tasks.map(|t| self.kernel.account(t).start_ns).collect()
    }

    /// V now, ns of virtual time.
    pub fn v_ns(&self) -> u64 {
        self.kernel.v_ns()
    }

    /// Whether `task`, in the order of creation, is held now.
    pub fn is_held(&self, task: TaskId) -> bool {
        task < self.tasks.len() && self.kernel.place(task) == Place::Held
    }

    /// How many tasks were created so far.
    pub fn nr_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The CPU that runs `task` now.
    pub fn cpu_of(&self, task: TaskId) -> Option<usize> {
        self.cpus.iter().position(|c| c.current == Some(task))
    }

    /// The kernel, for what no step of a task does; then [`Sim::run_until`] goes on.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Acts on the kernel now, as a task outside the simulation does: `setpriority()`, a write to
    /// a cgroup's file.
    pub fn act<T>(&mut self, act: impl FnOnce(&mut Kernel, u64) -> T) -> T {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
        let result = act(&mut self.kernel, self.now_ns);
        self.follow();
        result
    }

    pub(crate) fn violation(&mut self, text: &str) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations
                .push(format!("at {} ns: {text}", self.now_ns));
        }
    }

    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at_ns, self.pushed, event)));
    }

    fn arm_timer(&mut self) {
        let due_ns = self.kernel.timer_due_ns();
        if due_ns != NEVER && due_ns != self.timer_due_ns {
            self.timer_due_ns = due_ns;
            self.push(due_ns, Event::Timer);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::StepEnd(cpu, generation) if self.cpus[cpu].generation == generation => {
                self.account(cpu);
                self.step_end(cpu);
            }
            Event::SliceEnd(cpu, generation) if self.cpus[cpu].generation == generation => {
                self.tick(cpu);
                if self.kernel.slice_left_ns(cpu) == 0 {
                    self.schedule(cpu);
                }
            }
            Event::StepEnd(..) | Event::SliceEnd(..) => {}
            Event::Schedule(cpu) => {
                self.cpus[cpu].schedule_pending = false;
                self.schedule(cpu);
            }
            Event::Wake(task, sleep) => self.sleep_ends(task, sleep),
            Event::Outside(index) => self.outside(index),
            Event::Give(cpu) => self.give_cpu(cpu),
            Event::Arrive(spec) => self.arrive(spec, None),
            Event::Tick(cpu) => {
                self.push(self.now_ns + self.config.tick_ns, Event::Tick(cpu));
                self.tick(cpu);
            }
            // One that was armed again for another moment does not expire now.
            Event::Timer if self.kernel.timer_due_ns() > self.now_ns => {}
            Event::Timer => self.kernel.timer_fire(self.now_ns),
            Event::Publish => self.publish(),
        }
    }

    /// Takes over what the kernel did: CPUs that must switch, holds that began or ended, V.
    pub(crate) fn follow(&mut self) {
        for cpu in self.kernel.take_rescheds() {
            if !std::mem::replace(&mut self.cpus[cpu].schedule_pending, true) {
                self.push(self.now_ns + self.config.resched_ns, Event::Schedule(cpu));
            }
        }
        self.arm_timer();
        if self.kernel.nr_held() > 0 || self.nr_held > 0 {
            self.follow_holds();
        }
        let v = self.kernel.v_ns();
        if (v.wrapping_sub(self.v_ns) as i64) < 0 {
            self.violation(&format!("V went back from {} to {v}", self.v_ns));
        }
        self.v_ns = v;
    }

    fn follow_holds(&mut self) {
        self.nr_held = self.kernel.nr_held();
        for task in 0..self.tasks.len() {
            let held = self.kernel.place(task) == Place::Held;
            let now = self.now_ns;
            let t = &mut self.tasks[task];
            match (held, t.held_since_ns) {
                (true, None) => {
                    t.held_since_ns = Some(now);
                    t.hold_began_ns.get_or_insert(now);
                    t.waits_since_ns = None;
                }
                (false, Some(since)) => {
                    t.held_since_ns = None;
                    t.report.holds_ns.push(now - since);
                    self.check_queue(task);
                    if self.cpus.iter().all(|c| c.current != Some(task)) {
                        self.waits(task, true);
                    }
                }
                _ => {}
            }
        }
    }

    /// The agent copies the CPUs' labels to the registers.
    fn publish(&mut self) {
        let cpus = 0..self.cpus.len();
        let registers = cpus.map(|cpu| self.kernel.register_vtime(cpu));
        self.memory.serve_by(self.now_ns, registers.collect());
        if let Some(update_ns) = self.config.controller_update_ns {
            self.push(self.now_ns + update_ns, Event::Publish);
        }
    }

    /// Brings the running task's time and the traffic of its CPU up to now.
    pub(crate) fn account(&mut self, cpu: usize) {
        let given = self.memory.take(self.now_ns, cpu);
        self.kernel.count_traffic(cpu, given);
        self.kernel.update_curr(self.now_ns, cpu);
        self.account_time(cpu);
        let Some(task) = self.cpus[cpu].current else {
            return;
        };
        let t = &mut self.tasks[task];
        t.report.bytes += given;
        t.report.cpu_ns = self.kernel.task_cpu_ns(task);
        let ran = t.report.cpu_ns - t.seen_cpu_ns;
        t.seen_cpu_ns = t.report.cpu_ns;
        t.left_ns = t.left_ns.saturating_sub(ran);
    }

    fn tick(&mut self, cpu: usize) {
        self.account(cpu);
        self.kernel.tick(self.now_ns, cpu, cpu);
    }

    pub(crate) fn waits(&mut self, task: TaskId, woken: bool) {
        self.tasks[task].waits_since_ns = Some(self.now_ns);
        self.tasks[task].waits_woken = woken;
    }

    pub(crate) fn arrive(&mut self, spec: usize, parent: Option<TaskId>) {
        let nr_cpus = self.cpus.len();
        let number_of_spec = spec;
        let spec = self.specs[spec].clone();
        let number = self.tasks.len();
        let cpu = (0..nr_cpus)
            .map(|i| (number + i) % nr_cpus)
            .find(|c| spec.allowed.has(*c))
            .unwrap_or(0);
        let task = self
            .kernel
            .task_new(self.now_ns, parent, spec.allowed, cpu, spec.kthread);
        self.kernel.set_weight(task, spec.weight);
        self.tasks.push(Task::new(&spec, number_of_spec));
        self.live.push(task);
        self.enter_step(task);
        self.waits(task, false);
        self.kernel.wake_new(self.now_ns, task);
        if parent.is_none() {
            self.join(task, number_of_spec);
        }
    }

    /// `__schedule()`.
    pub(crate) fn schedule(&mut self, cpu: usize) {
        self.account(cpu);
        let next = self.kernel.schedule(self.now_ns, cpu);
        self.switch_to(cpu, next);
    }

    /// `next` runs on `cpu` from now on.
    pub(crate) fn switch_to(&mut self, cpu: usize, next: Option<TaskId>) {
        let prev = self.cpus[cpu].current;
        if next == prev {
            self.arm(cpu);
            return;
        }
        self.cpus[cpu].generation += 1;
        self.cpus[cpu].current = next;
        if let Some(prev) = prev {
            self.waits(prev, false);
        }
        match next {
            Some(next) => self.start(cpu, next),
            None => self.memory.demand(self.now_ns, cpu, 0),
        }
    }

    fn start(&mut self, cpu: usize, next: TaskId) {
        let now = self.now_ns;
        let t = &mut self.tasks[next];
        if let Some(since) = t.hold_began_ns.take() {
            t.report.max_hold_to_run_ns = t.report.max_hold_to_run_ns.max(now - since);
        }
        if let Some(since) = t.waits_since_ns.take() {
            t.report.max_wait_ns = t.report.max_wait_ns.max(now - since);
            if t.waits_woken {
                t.report.wake_latencies_ns.push(now - since);
            }
        }
        self.arm(cpu);
    }

    /// Sets the events and the memory demand of the packet that runs on `cpu`.
    pub(crate) fn arm(&mut self, cpu: usize) {
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
        let end_ns = self.now_ns.saturating_add(t.left_ns);
        self.memory.demand(self.now_ns, cpu, demand);
        self.push(end_ns, Event::StepEnd(cpu, generation));
        if self.config.exact_slices {
            let end_ns = self.now_ns + self.kernel.slice_left_ns(cpu);
            self.push(end_ns, Event::SliceEnd(cpu, generation));
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
                self.leaves(cpu);
                self.kernel.block(self.now_ns, cpu);
                if dma_bytes > 0 {
                    self.tasks[task].dma_added_bytes += dma_bytes;
                    self.tasks[task].last_dma_bytes = dma_bytes;
                    self.kernel.add_dma(task, dma_bytes);
                }
                self.sleeps(task, ns);
                self.schedule(cpu);
            }
            Some(Step::Wait { ns }) => {
                self.next_step(task);
                self.leaves(cpu);
                self.kernel.block(self.now_ns, cpu);
                self.tasks[task].waits_for_wakeup = true;
                self.sleeps(task, ns);
                self.schedule(cpu);
            }
            Some(Step::Wake { spec, sync }) => {
                self.next_step(task);
                self.wake_waiting(cpu, spec, sync);
                self.arm(cpu);
            }
            Some(Step::Yield) => {
                self.next_step(task);
                self.kernel.yield_task(self.now_ns, cpu);
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
                self.leaves(cpu);
                self.kernel.exit(self.now_ns, cpu);
                self.tasks[task].report.exited_at_ns = Some(self.now_ns);
                self.schedule(cpu);
            }
        }
    }

    /// The running task of `cpu` runs there no more.
    pub(crate) fn leaves(&mut self, cpu: usize) {
        self.memory.demand(self.now_ns, cpu, 0);
        self.cpus[cpu].current = None;
        self.cpus[cpu].generation += 1;
    }

    /// The running task changes its own affinity, and moves if it must.
    fn set_affinity(&mut self, cpu: usize, task: TaskId, allowed: CpuSet) {
        // The kernel refuses an affinity without a CPU.
        if allowed.count(self.cpus.len()) > 0 {
            self.tasks[task].allowed = allowed;
            self.kernel.set_affinity(self.now_ns, task, allowed);
        }
        if self.kernel.place(task) == Place::Running {
            self.arm(cpu);
        } else {
            self.leaves(cpu);
            self.waits(task, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::Place;
    use crate::{Config, MS, Sim, TaskSpec, Trace};

    /// Three hogs on two CPUs. CPU 0 takes the third far beyond V, while the one that it ran
    /// waits, `waits_at` ns after the third. Returns V, and S of what CPU 1 runs and of the third.
    fn take_far_beyond_v(waits_at: i64) -> (u64, u64, u64) {
        let hogs = (0..3).map(|i| TaskSpec::new(format!("hog{i}"), Trace::hog()));
        let mut sim = Sim::new(Config::new(2), hogs.collect());
        let cap_ns = sim.config.conf.cap_ns;
        sim.run_until(30 * MS);
        let waits = sim.cpus[0].current.expect("a hog runs");
        let kernel = sim.kernel();
        let taken = (0..3).find(|t| kernel.place(*t) == Place::Queued);
        let taken = taken.expect("the third hog waits");
        let start = kernel.v_ns().wrapping_add(cap_ns + 100 * MS);
        kernel.test_queue(waits, 0, start.wrapping_add_signed(waits_at));
        kernel.test_run(taken, 0, start);
        assert_eq!(kernel.event_count("CAPPED"), 0);
        (
            kernel.v_ns(),
            kernel.slot_vtime_ns(1),
            kernel.slot_vtime_ns(0),
        )
    }

    #[test]
    fn a_packet_taken_out_of_order_does_not_pull_v() {
        let (v, other, _) = take_far_beyond_v(-(MS as i64));
        assert_eq!(v, other);
    }

    #[test]
    fn a_packet_that_is_the_earliest_pulls_v() {
        let (v, _, start) = take_far_beyond_v(MS as i64);
        assert_eq!(v, start - Config::new(2).conf.cap_ns);
    }
}

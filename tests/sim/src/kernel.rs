// SPDX-License-Identifier: GPL-2.0-only
//! The model of the kernel, with the shipped BPF code inside (`native/machine.h`), as safe Rust.
//!
//! The scheduler's variables are globals of one compiled copy. A [`Kernel`] has its own values of
//! them, and the kernels of one thread take turns. A second thread waits for its first kernel until
//! the first thread has none left.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Config;
use crate::cpuset::CpuSet;
use crate::options::{Options, with_options};

/// No timer is due.
pub const NEVER: u64 = u64::MAX;

const MASK_WORDS: usize = 1024 / 64;

/// A task's account (`struct scheduler_task`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// S, virtual ns.
    pub start_ns: u64,
    /// Virtual time of the memory account, virtual ns.
    pub bus_vt_ns: u64,
    /// Charged traffic of CPU and DMA, bytes.
    pub bytes: u64,
    /// The part of it that DMA moved, bytes.
    pub dma_bytes: u64,
    /// CPU time that was charged, ns.
    pub charged_ns: u64,
    /// Total of all holds that ended, ns.
    pub held_ns: u64,
    /// Effective weight in units of 1 / `DRFQ_WEIGHT_ONE`.
    pub weight: u32,
    /// Whether `DRFQ_TASK_HELD` is set.
    pub held: u32,
}

#[repr(C)]
pub(crate) struct Cgroup {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct Machine {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct Task {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn machine_new(options: *const Options, jiffy_ns: u64, smt: bool) -> *mut Machine;
    fn machine_free(m: *mut Machine);
    fn machine_error(m: *const Machine) -> *const c_char;
    fn machine_take_rescheds(m: *mut Machine, cpus: *mut i32) -> u32;
    fn machine_timer_due_ns(m: *const Machine) -> u64;
    fn machine_timer_fire(m: *mut Machine, now_ns: u64);
    fn machine_task_new(
        m: *mut Machine,
        now_ns: u64,
        parent: *mut Task,
        allowed: *const u64,
        cpu: i32,
        kthread: bool,
    ) -> *mut Task;
    fn machine_task_cpu(p: *const Task) -> i32;
    fn machine_task_number(p: *const Task) -> u32;
    fn machine_task_cpu_ns(p: *const Task) -> u64;
    fn machine_adopt_running(m: *mut Machine, now_ns: u64, p: *mut Task, cpu: i32);
    fn machine_task_queue(m: *const Machine, p: *const Task) -> i32;
    fn scheduler_queue_of_cpu(cpu: i32) -> u32;
    fn machine_wake_new(m: *mut Machine, now_ns: u64, p: *mut Task);
    fn machine_wake(m: *mut Machine, now_ns: u64, p: *mut Task, waker_cpu: i32, sync: bool);
    fn machine_block(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_exit(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_yield(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_schedule(m: *mut Machine, now_ns: u64, cpu: i32) -> *mut Task;
    fn machine_take_cpu(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_take_idle_cpu(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_give_cpu(m: *mut Machine, cpu: i32);
    fn machine_switch_above(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_tick(m: *mut Machine, now_ns: u64, from: i32, cpu: i32);
    fn machine_update_curr(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_slice_left_ns(m: *const Machine, cpu: i32) -> u64;
    fn machine_set_affinity(m: *mut Machine, now_ns: u64, p: *mut Task, allowed: *const u64);
    fn machine_renice(m: *mut Machine, now_ns: u64, p: *mut Task, nice: i32);
    fn machine_set_agent(m: *mut Machine, p: *const Task);
    fn machine_set_agent_stats(m: *mut Machine, p: *const Task);
    fn machine_set_rcu_nesting(m: *mut Machine, p: *mut Task, nesting: i32);
    fn machine_cgroup_new(m: *mut Machine, parent: *mut Cgroup, weight: u32) -> *mut Cgroup;
    fn machine_cgroup_set_weight(m: *mut Machine, cgroup: *mut Cgroup, weight: u32);
    fn machine_cgroup_move(m: *mut Machine, now_ns: u64, p: *mut Task, to: *mut Cgroup);
    fn machine_task_wait_ns(m: *mut Machine, now_ns: u64, p: *mut Task) -> u64;
    fn machine_count_traffic(m: *mut Machine, cpu: i32, bytes: u64);
    fn machine_add_dma(m: *mut Machine, p: *mut Task, bytes: u64);
    fn machine_set_weight(m: *mut Machine, p: *mut Task, weight: u32);
    fn machine_v_ns(m: *mut Machine) -> u64;
    fn machine_bus_v_ns(m: *mut Machine) -> u64;
    fn machine_register_vtime(m: *mut Machine, cpu: i32) -> u64;
    fn machine_slot_vtime_ns(m: *mut Machine, cpu: i32) -> u64;
    fn machine_event_count(m: *mut Machine, name: *const c_char) -> u64;
    fn machine_task_view(m: *mut Machine, p: *mut Task, view: *mut Account);
    fn machine_task_place(m: *const Machine, p: *const Task) -> u32;
    fn machine_nr_held(m: *const Machine) -> u32;
    fn machine_any_cpu_is_idle(m: *const Machine) -> bool;
    fn machine_cpu_is_idle(m: *const Machine, cpu: i32) -> bool;
}

/// Held while kernels live: the C side's globals belong to one thread at a time.
static LOCK: Mutex<()> = Mutex::new(());

thread_local! {
    /// The lock, and how many kernels of this thread need it.
    static HELD: RefCell<(usize, Option<MutexGuard<'static, ()>>)> =
        const { RefCell::new((0, None)) };
}

/// Keeps other threads from having a kernel while it lives.
#[derive(Debug)]
struct Turn(PhantomData<*mut ()>);

impl Turn {
    /// Waits until no other thread has a kernel.
    fn take() -> Self {
        HELD.with_borrow_mut(|(kernels, guard)| {
            // The C side is consistent between calls, whatever a test did meanwhile.
            guard.get_or_insert_with(|| LOCK.lock().unwrap_or_else(PoisonError::into_inner));
            *kernels += 1;
        });
        Self(PhantomData)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|(kernels, guard)| {
            *kernels -= 1;
            if *kernels == 0 {
                *guard = None;
            }
        });
    }
}

/// Where a task is, as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Blocked, or gone.
    Nowhere,
    /// On the queue of an LLC.
    Queued,
    /// On the queue of held tasks.
    Held,
    /// On the queue of tasks whose groups have used up a quota or a pace.
    Throttled,
    /// On the local queue of a CPU.
    Local,
    /// On a CPU.
    Running,
}

/// A task of one [`Kernel`], by its number there.
pub type TaskId = usize;

/// A cgroup of one [`Kernel`], by its number there.
pub type CgroupId = usize;

/// One simulated kernel with the scheduler loaded.
#[derive(Debug)]
pub struct Kernel {
    machine: *mut Machine,
    pub(crate) tasks: Vec<*mut Task>,
    pub(crate) groups: Vec<*mut Cgroup>,
    nr_cpus: usize,
    /// Dropped last.
    _turn: Turn,
}

pub(crate) fn mask(allowed: CpuSet, nr_cpus: usize) -> [u64; MASK_WORDS] {
    let mut words = [0; MASK_WORDS];
    for cpu in (0..nr_cpus).filter(|cpu| allowed.has(*cpu)) {
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    words
}

impl Kernel {
    /// Loads the scheduler with the options of `config`.
    ///
    /// # Panics
    /// If the scheduler refuses to load.
    pub fn new(config: &Config) -> Self {
        let turn = Turn::take();
        // SAFETY: the options live through the call.
        let machine = with_options(config, |options| unsafe {
            machine_new(options, config.tick_ns, config.smt)
        });
        let kernel = Self {
            machine,
            tasks: Vec::new(),
            groups: Vec::new(),
            nr_cpus: config.nr_cpus(),
            _turn: turn,
        };
        assert_eq!(kernel.error(), None);
        kernel
    }

    /// Runs `act` with the machine; other threads' kernels wait.
    pub(crate) fn with<T>(&self, act: impl FnOnce(*mut Machine) -> T) -> T {
        act(self.machine)
    }

    /// The task, for the C side.
    pub(crate) fn task_pointer(&self, task: TaskId) -> *mut Task {
        self.tasks[task]
    }

    /// The task's number.
    pub(crate) fn number_of(&self, task: *const Task) -> TaskId {
        // SAFETY: a task of this machine.
        unsafe { machine_task_number(task) as TaskId }
    }

    /// Why the scheduler asked the kernel to end it.
    pub fn error(&self) -> Option<String> {
        self.with(|m| {
            // SAFETY: the machine lives; the text is its own and ends in NUL.
            let text = unsafe { machine_error(m) };
            if text.is_null() {
                return None;
            }
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(text) };
            Some(text.to_string_lossy().into_owned())
        })
    }

    /// The CPUs that must schedule; each is told once.
    pub fn take_rescheds(&mut self) -> Vec<usize> {
        let mut cpus = [0; CpuSet::CPUS];
        // SAFETY: the machine lives and has no more CPUs than that.
        let nr = self.with(|m| unsafe { machine_take_rescheds(m, cpus.as_mut_ptr()) }) as usize;
        cpus[..nr].iter().map(|cpu| *cpu as usize).collect()
    }

    /// When the scheduler's timer is due, ns, or [`NEVER`].
    pub fn timer_due_ns(&self) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_timer_due_ns(m) })
    }

    /// The scheduler's timer expires.
    pub fn timer_fire(&mut self, now_ns: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_timer_fire(m, now_ns) });
    }

    /// A new task, not awake yet, forked by `parent`, or by a task outside `sched_ext` on `cpu`.
    pub fn task_new(
        &mut self,
        now_ns: u64,
        parent: Option<TaskId>,
        allowed: CpuSet,
        cpu: usize,
        kthread: bool,
    ) -> TaskId {
        let words = mask(allowed, self.nr_cpus);
        let parent = parent.map_or(std::ptr::null_mut(), |task| self.tasks[task]);
        let (words, cpu) = (words.as_ptr(), cpu as i32);
        // SAFETY: the machine and the parent live; the mask has the length of a cpumask.
        let task =
            self.with(|m| unsafe { machine_task_new(m, now_ns, parent, words, cpu, kthread) });
        self.tasks.push(task);
        self.tasks.len() - 1
    }

    /// `task_cpu()`.
    pub fn task_cpu(&self, task: TaskId) -> usize {
        let p = self.tasks[task];
        // SAFETY: the task lives as long as the machine.
        self.with(|_| unsafe { machine_task_cpu(p) }) as usize
    }

    /// `sum_exec_runtime`, ns.
    pub fn task_cpu_ns(&self, task: TaskId) -> u64 {
        let p = self.tasks[task];
        // SAFETY: as in task_cpu.
        self.with(|_| unsafe { machine_task_cpu_ns(p) })
    }

    /// The task runs on `cpu` while the scheduler is loaded from another CPU.
    pub fn adopt_running(&mut self, now_ns: u64, task: TaskId, cpu: usize) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_adopt_running(m, now_ns, p, cpu as i32) });
    }

    /// The number of the CPU's queue.
    pub fn queue_of_cpu(&self, cpu: usize) -> usize {
        // SAFETY: the scheduler is loaded.
        self.with(|_| unsafe { scheduler_queue_of_cpu(cpu as i32) }) as usize
    }

    /// The queue on which the task is; a CPU's queue counts as that of its neighbours.
    pub fn queue_of(&self, task: TaskId) -> Option<usize> {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        usize::try_from(self.with(|m| unsafe { machine_task_queue(m, p) })).ok()
    }

    /// `wake_up_new_task()`.
    pub fn wake_new(&mut self, now_ns: u64, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_wake_new(m, now_ns, p) });
    }

    /// `try_to_wake_up()`, by `waker_cpu`, or by an interrupt where the task slept.
    pub fn wake(&mut self, now_ns: u64, task: TaskId, waker_cpu: Option<usize>, sync: bool) {
        let p = self.tasks[task];
        let waker = waker_cpu.map_or(-1, |cpu| cpu as i32);
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_wake(m, now_ns, p, waker, sync) });
    }

    /// The running task of `cpu` blocks. Then the CPU must schedule.
    pub fn block(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe { machine_block(m, now_ns, cpu as i32) });
    }

    /// The running task of `cpu` ends. Then the CPU must schedule.
    pub fn exit(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: as in block.
        self.with(|m| unsafe { machine_exit(m, now_ns, cpu as i32) });
    }

    /// The running task of `cpu` calls `sched_yield()`. Then the CPU must schedule.
    pub fn yield_task(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: as in block.
        self.with(|m| unsafe { machine_yield(m, now_ns, cpu as i32) });
    }

    /// `__schedule()`: the task that runs on `cpu` from now on.
    pub fn schedule(&mut self, now_ns: u64, cpu: usize) -> Option<TaskId> {
        // SAFETY: the machine lives.
        let next = self.with(|m| unsafe { machine_schedule(m, now_ns, cpu as i32) });
        if next.is_null() {
            return None;
        }
        Some(self.number_of(next))
    }

    /// A task of a higher class takes `cpu`.
    pub fn take_cpu(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_take_cpu(m, now_ns, cpu as i32) });
    }

    /// The same for a CPU that idles, on a kernel before 6.19, which does not tell of it.
    pub fn take_idle_cpu(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_take_idle_cpu(m, now_ns, cpu as i32) });
    }

    /// On `cpu` one task of a higher class follows another one (Linux from 6.19 on tells of it).
    pub fn switch_above(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_switch_above(m, now_ns, cpu as i32) });
    }

    /// It gives the CPU back. Then the CPU must schedule.
    pub fn give_cpu(&mut self, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_give_cpu(m, cpu as i32) });
    }

    /// The tick of `cpu`, on the CPU `from`: another one if the tick of `cpu` rests (`nohz_full`).
    pub fn tick(&mut self, now_ns: u64, from: usize, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_tick(m, now_ns, from as i32, cpu as i32) });
    }

    /// Brings the times of the running task of `cpu` up to now.
    pub fn update_curr(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_update_curr(m, now_ns, cpu as i32) });
    }

    /// What is left of the slice of the running task of `cpu`, ns.
    pub fn slice_left_ns(&self, cpu: usize) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_slice_left_ns(m, cpu as i32) })
    }

    /// `sched_setaffinity()`.
    pub fn set_affinity(&mut self, now_ns: u64, task: TaskId, allowed: CpuSet) {
        let words = mask(allowed, self.nr_cpus);
        let p = self.tasks[task];
        // SAFETY: machine and task live; the mask has the length of a cpumask.
        self.with(|m| unsafe { machine_set_affinity(m, now_ns, p, words.as_ptr()) });
    }

    /// `setpriority()`.
    pub fn renice(&mut self, now_ns: u64, task: TaskId, nice: i32) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_renice(m, now_ns, p, nice) });
    }

    /// The task is the agent.
    pub fn set_agent(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_set_agent(m, p) });
    }

    /// The task is the agent's process that serves statistics.
    pub fn set_agent_stats(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_set_agent_stats(m, p) });
    }

    /// The task enters or leaves a read section of RCU, in which it may be preempted.
    pub fn set_rcu_reader(&mut self, task: TaskId, reads: bool) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_set_rcu_nesting(m, p, reads.into()) });
    }

    /// A group with this `cpu.weight` below another, or below the root group.
    pub fn cgroup_new(&mut self, parent: Option<CgroupId>, weight: u32) -> CgroupId {
        let parent = parent.map_or(std::ptr::null_mut(), |group| self.groups[group]);
        // SAFETY: machine and parent live.
        let group = self.with(|m| unsafe { machine_cgroup_new(m, parent, weight) });
        self.groups.push(group);
        self.groups.len() - 1
    }

    /// Writes `cpu.weight`.
    pub fn cgroup_set_weight(&mut self, group: CgroupId, weight: u32) {
        let group = self.groups[group];
        // SAFETY: machine and group live.
        self.with(|m| unsafe { machine_cgroup_set_weight(m, group, weight) });
    }

    /// Writes the task to `cgroup.procs`.
    pub fn cgroup_move(&mut self, now_ns: u64, task: TaskId, to: CgroupId) {
        let (p, to) = (self.tasks[task], self.groups[to]);
        // SAFETY: machine, task and group live.
        self.with(|m| unsafe { machine_cgroup_move(m, now_ns, p, to) });
    }

    /// The time that the task iterator says the task has waited for a CPU, ns.
    pub fn task_wait_ns(&mut self, now_ns: u64, task: TaskId) -> u64 {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_task_wait_ns(m, now_ns, p) })
    }

    /// The traffic counter of `cpu` has counted `bytes` more.
    pub fn count_traffic(&mut self, cpu: usize, bytes: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_count_traffic(m, cpu as i32, bytes) });
    }

    /// A device moves `bytes` for the task.
    pub fn add_dma(&mut self, task: TaskId, bytes: u64) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_add_dma(m, p, bytes) });
    }

    /// Gives the task a weight that no nice value has, in units of 1 / `DRFQ_WEIGHT_ONE`.
    pub fn set_weight(&mut self, task: TaskId, weight: u32) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_set_weight(m, p, weight) });
    }

    /// V, virtual ns.
    pub fn v_ns(&self) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_v_ns(m) })
    }

    /// B, virtual ns.
    pub fn bus_v_ns(&self) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_bus_v_ns(m) })
    }

    /// What `cpu` published for the controller's register `virtualTime_coreId`.
    pub fn register_vtime(&self, cpu: usize) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_register_vtime(m, cpu as i32) })
    }

    /// S of the packet on `cpu`, virtual ns.
    pub fn slot_vtime_ns(&self, cpu: usize) -> u64 {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_slot_vtime_ns(m, cpu as i32) })
    }

    /// How often an event of `DRFQ_EVENTS` was counted.
    ///
    /// # Panics
    /// If there is no event of that name.
    pub fn event_count(&self, name: &str) -> u64 {
        let text = CString::new(name).expect("an event's name has no NUL");
        // SAFETY: the machine lives; the text ends in NUL.
        let count = self.with(|m| unsafe { machine_event_count(m, text.as_ptr()) });
        assert_ne!(count, u64::MAX, "bpf/intf.h has no event {name}");
        count
    }

    /// The task's account.
    pub fn account(&self, task: TaskId) -> Account {
        let mut view = Account::default();
        let p = self.tasks[task];
        // SAFETY: machine and task live; view is a struct scheduler_task.
        self.with(|m| unsafe { machine_task_view(m, p, &raw mut view) });
        view
    }

    /// Where the task is.
    pub fn place(&self, task: TaskId) -> Place {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        match self.with(|m| unsafe { machine_task_place(m, p) }) {
            1 => Place::Queued,
            2 => Place::Held,
            3 => Place::Local,
            4 => Place::Running,
            5 => Place::Throttled,
            _ => Place::Nowhere,
        }
    }

    /// How many tasks are held.
    pub fn nr_held(&self) -> usize {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_nr_held(m) }) as usize
    }

    /// Whether any CPU idles.
    pub fn any_cpu_is_idle(&self) -> bool {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_any_cpu_is_idle(m) })
    }

    /// Whether `cpu` idles. Something may have claimed it.
    pub fn cpu_is_idle(&self, cpu: usize) -> bool {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_cpu_is_idle(m, cpu as i32) })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: made by machine_new and not freed before; tasks are freed with it.
        self.with(|m| unsafe { machine_free(m) });
    }
}

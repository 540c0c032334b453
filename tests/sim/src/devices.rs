// SPDX-License-Identifier: GPL-2.0-only
//! What devices and counters do, which no step of a task does: requests through stacked block
//! devices, dirty pages, counters that die.

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, Machine, Task, TaskId};

unsafe extern "C" {
    fn machine_add_counted(m: *mut Machine, p: *mut Task, bytes: u64);
    fn machine_count_writes(m: *mut Machine, cpu: i32, bytes: u64);
    fn machine_counter_dies(m: *mut Machine, cpu: i32);
    fn machine_counter_opens(m: *mut Machine, now_ns: u64, cpu: i32);
    fn machine_counter_waits(m: *mut Machine, cpu: i32, ns: u64);
    fn machine_delay(
        m: *mut Machine,
        p: *const Task,
        thread: *const Task,
        at: *const Page,
        op: u32,
        bytes: u32,
        refused: bool,
    );
    fn machine_dirty(m: *mut Machine, p: *const Task, at: *const Page);
    fn machine_join(p: *mut Task, leader: *mut Task);
    fn machine_pass_on(
        m: *mut Machine,
        p: *const Task,
        thread: *const Task,
        at: *const Page,
        passing: *const Passing,
    );
    fn machine_pass_through(m: *mut Machine, cpu: i32, bytes: u32, told: PassThrough);
    fn machine_serve_ring(p: *mut Task, submitter: *mut Task);
    fn machine_refuse(m: *mut Machine, cpu: i32, bytes: u32);
    fn machine_skip(m: *mut Machine, first: bool, second: bool);
    fn machine_split(m: *mut Machine, cpu: i32, bytes: u32, parts: u32);
    fn machine_submit(
        m: *mut Machine,
        cpu: i32,
        bytes: u32,
        layers: u32,
        in_place: bool,
        partition: bool,
    );
    fn machine_work(p: *mut Task, local: bool);
    fn machine_write_out(m: *mut Machine, p: *const Task, at: *const Page, op: u32, bytes: u32);
}

/// `enum file_page_tail`: how a request tells of a page.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// It is the first one of its folio.
    #[default]
    Head,
    /// It is not; it tells the address of the first one.
    ByAddress,
    /// It is not; it tells the mask that gives this address.
    ByMask,
}

/// `struct file_page`: a page of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Page {
    /// Where its folio begins, pages.
    pub index: u64,
    /// The file's number, from 0 to 3.
    pub file: u32,
    /// Where it is in its folio.
    pub tail: Tail,
    /// The file is a block device.
    pub block_device: bool,
    /// It is a copy that does not tell of the file.
    pub copied: bool,
}

/// `REQ_OP_READ` and `REQ_OP_WRITE`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// To memory.
    Read,
    /// From memory.
    Write,
}

/// `enum pass_through`: by what the kernel tells of a command of a program's own making.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassThrough {
    /// `blk_execute_rq`.
    Executed,
    /// `blk_execute_rq_nowait`.
    ExecutedNowait,
    /// The tracepoint `block_rq_issue`: BPF follows no functions.
    Issued,
}

impl PassThrough {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Executed, Self::ExecutedNowait, Self::Issued];
}

/// `enum stripe_disk`: which disk of a stripe a request is for. The upper one is for the middle one.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StripeDisk {
    /// It is of no stripe.
    #[default]
    None,
    /// The first one.
    First,
    /// The middle one.
    Middle,
    /// The last one.
    Last,
}

impl StripeDisk {
    /// The disks of a stripe.
    pub const ALL: [Self; 3] = [Self::First, Self::Middle, Self::Last];
}

/// `struct passing`: how a stacked device passes a request on from a kernel thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Passing {
    /// Its direction.
    pub transfer: Transfer,
    /// Its length.
    pub bytes: u32,
    /// The lower request shares the pages of the upper one (raid1).
    pub clones: bool,
    /// It has copies, and leads to the upper one (dm-crypt).
    pub copies: bool,
    /// The same in another way (raid1, where a disk writes behind the others).
    pub behind: bool,
    /// It comes so late that other requests use the memory of the upper one.
    pub reused: bool,
    /// A second disk gets what the first one got, when the upper one has ended.
    pub twice: bool,
    /// It is of a stripe (raid5), and for this disk.
    pub disk: StripeDisk,
}

/// How a request reaches its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Way {
    /// Stacked devices above the device.
    pub layers: u32,
    /// They remap the request instead of making another one (md raid0, NVMe multipath).
    pub in_place: bool,
    /// The device is a partition.
    pub partition: bool,
}

impl Kernel {
    /// A memory controller counts `bytes` that a CPU moved for the task.
    pub fn add_counted(&mut self, task: TaskId, bytes: u64) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_add_counted(m, p, bytes) });
    }

    /// The second traffic counter of `cpu` has counted `bytes` more.
    pub fn count_writes(&mut self, cpu: usize, bytes: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_count_writes(m, cpu as i32, bytes) });
    }

    /// The traffic counter of `cpu` dies, as a pinned one does that the kernel evicts.
    pub fn counter_dies(&mut self, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_counter_dies(m, cpu as i32) });
    }

    /// Another counter takes the place of that of `cpu`.
    pub fn counter_opens(&mut self, now_ns: u64, cpu: usize) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_counter_opens(m, now_ns, cpu as i32) });
    }

    /// Of the time that the counter of `cpu` has been open, it had no hardware for so long, in addition:
    /// others had it.
    pub fn counter_waits(&mut self, cpu: usize, ns: u64) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_counter_waits(m, cpu as i32, ns) });
    }

    /// The kernel skips the first or the second program of each pair from now on.
    pub fn skip_programs(&mut self, first: bool, second: bool) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_skip(m, first, second) });
    }

    /// `task`, which runs, dirties a page.
    pub fn dirty(&mut self, task: TaskId, page: Page) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_dirty(m, p, &raw const page) });
    }

    /// `task`, which runs, submits a request of `bytes` that begin with a page.
    pub fn write_out(&mut self, task: TaskId, page: Page, transfer: Transfer, bytes: u32) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_write_out(m, p, &raw const page, transfer as u32, bytes) });
    }

    /// `task`, which runs, submits a request of 4096 bytes that begins with a page, and a limit delays
    /// it. `thread` queues it then.
    pub fn delay(&mut self, task: TaskId, thread: TaskId, page: Page, transfer: Transfer) {
        self.delay_then(task, thread, page, transfer, false);
    }

    /// The same, and then the request would have to wait, which it must not (`RWF_NOWAIT`).
    pub fn delay_and_refuse(&mut self, task: TaskId, thread: TaskId, page: Page, op: Transfer) {
        self.delay_then(task, thread, page, op, true);
    }

    fn delay_then(
        &mut self,
        task: TaskId,
        thread: TaskId,
        page: Page,
        transfer: Transfer,
        refused: bool,
    ) {
        let (p, thread) = (self.tasks[task], self.tasks[thread]);
        // SAFETY: machine and tasks live.
        self.with(|m| unsafe {
            machine_delay(
                m,
                p,
                thread,
                &raw const page,
                transfer as u32,
                4096,
                refused,
            );
        });
    }

    /// `task`, which runs, submits a request that begins with a page; `thread` passes it on.
    pub fn pass_on(&mut self, task: TaskId, thread: TaskId, page: Page, passing: Passing) {
        let (p, thread) = (self.tasks[task], self.tasks[thread]);
        // SAFETY: machine and tasks live.
        self.with(|m| unsafe {
            machine_pass_on(m, p, thread, &raw const page, &raw const passing);
        });
    }

    /// `task` is a thread of the process of `leader`.
    pub fn join(&mut self, task: TaskId, leader: TaskId) {
        let (p, leader) = (self.tasks[task], self.tasks[leader]);
        // SAFETY: the tasks live.
        self.with(|_| unsafe { machine_join(p, leader) });
    }

    /// `task` is a thread of io_uring: a worker for `submitter`, or one that polls.
    pub fn serve_ring(&mut self, task: TaskId, submitter: Option<TaskId>) {
        let p = self.tasks[task];
        let submitter = submitter.map_or(std::ptr::null_mut(), |id| self.tasks[id]);
        // SAFETY: the tasks live.
        self.with(|_| unsafe { machine_serve_ring(p, submitter) });
    }

    /// `task`, a kernel thread, works for a queue of work. `local`: it writes what others wrote to a
    /// device of its own (the loop driver).
    pub fn work(&mut self, task: TaskId, local: bool) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_work(p, local) });
    }

    /// The running task of `cpu` sends a device a command of its own making, which moves `bytes`.
    pub fn pass_through(&mut self, cpu: usize, bytes: u32, told: PassThrough) {
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe { machine_pass_through(m, cpu as i32, bytes, told) });
    }

    /// The running task of `cpu` submits `bytes` to a stacked device, which remaps the request part
    /// by part (md raid0).
    ///
    /// # Panics
    /// If there are no parts, or more than bytes.
    pub fn split(&mut self, cpu: usize, bytes: u32, parts: u32) {
        assert!(
            (1..=bytes).contains(&parts),
            "{parts} parts of {bytes} bytes"
        );
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe { machine_split(m, cpu as i32, bytes, parts) });
    }

    /// `bytes` that the running task of `cpu` has submitted to a device would have to wait, and must
    /// not (`RWF_NOWAIT`): the request ends.
    pub fn refuse(&mut self, cpu: usize, bytes: u32) {
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe { machine_refuse(m, cpu as i32, bytes) });
    }

    /// The running task of `cpu` submits `bytes` to a device.
    pub fn submit(&mut self, cpu: usize, bytes: u32, way: Way) {
        let cpu = cpu as i32;
        // SAFETY: the machine lives; the caller runs a task there.
        self.with(|m| unsafe {
            machine_submit(m, cpu, bytes, way.layers, way.in_place, way.partition);
        });
    }
}

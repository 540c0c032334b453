// SPDX-License-Identifier: GPL-2.0-only
//! Who must pay for what devices move, by an account that the scheduler does not see.

use std::collections::HashMap;

use crate::devices::{Page, Passing, StripeDisk, Transfer};
use crate::engine::Sim;
use crate::fuzz::Traffic;
use crate::fuzz::traffic::SOCKETS;
use crate::kernel::TaskId;
use crate::network::Packet;

/// Pages of a stretch, whose dirtier is remembered: `DIRTIER_STRETCH_SHIFT` of `bpf/dirtier.bpf.h`.
const STRETCH: u64 = 512;
/// Bytes of a socket that are charged without waiting for its next use: `NET_BATCH_BYTES` of
/// `bpf/net.bpf.h`.
const BATCH_BYTES: u64 = 16384;

/// A task that pays, with its main thread, each as the owner of its id at a time.
#[derive(Clone, Copy, Debug)]
struct Payer {
    task: (TaskId, u64),
    main: (TaskId, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    user: Option<Payer>,
    waiting_bytes: u64,
    /// A device has moved a packet of it.
    known: bool,
    /// A kernel thread uses it.
    serves_kernel: bool,
    /// The kernel made it for itself.
    kernels_own: bool,
}

/// Bytes by what becomes of them: the scheduler's counts of the same names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    dma: u64,
    unattributed: u64,
    ended: u64,
    written_back: u64,
    net: u64,
    net_charged: u64,
}

/// The account of a case's traffic.
#[derive(Debug, Default)]
pub struct Books {
    /// For each task, in the order of creation.
    charged: Vec<u64>,
    totals: Totals,
    /// How often the id of a task had a new owner.
    owners: HashMap<TaskId, u64>,
    mains: HashMap<TaskId, TaskId>,
    submitters: HashMap<TaskId, TaskId>,
    /// Kernel threads that work for a queue of work, and whether they are a loop device's.
    workers: HashMap<TaskId, bool>,
    dirtiers: HashMap<(u32, u64), Payer>,
    sockets: [Socket; SOCKETS as usize],
}

fn running(sim: &Sim, cpu: usize) -> Option<TaskId> {
    sim.cpus.get(cpu).and_then(|cpu| cpu.current)
}

fn lives(sim: &Sim, task: TaskId) -> bool {
    let found = sim.tasks.get(task);
    found.is_some_and(|t| t.report.exited_at_ns.is_none())
}

fn is_kthread(sim: &Sim, task: TaskId) -> bool {
    sim.specs[sim.tasks[task].spec].kthread
}

impl Books {
    /// Does what `event` tells on the machine and in the account.
    pub fn act(&mut self, sim: &mut Sim, event: Traffic) {
        match event {
            Traffic::Leave { cpu, packet } => {
                sim.act(|kernel, _| kernel.packet_leaves(cpu, packet));
                self.move_packet(sim, packet);
            }
            Traffic::Arrive { cpu, packet } => {
                sim.act(|kernel, _| kernel.packet_arrives(cpu, packet));
                if !packet.looped_back {
                    self.move_packet(sim, packet);
                }
            }
            Traffic::Submit { cpu, .. }
            | Traffic::Split { cpu, .. }
            | Traffic::Command { cpu, .. }
            | Traffic::Dirty { cpu, .. }
            | Traffic::WriteOut { cpu, .. }
            | Traffic::PassOn { cpu, .. }
            | Traffic::Use { cpu, .. } => {
                if let Some(task) = running(sim, cpu) {
                    self.call(sim, task, event);
                }
            }
            _ => self.change(sim, event),
        }
    }

    /// `task`, which runs, causes the event.
    fn call(&mut self, sim: &mut Sim, task: TaskId, event: Traffic) {
        match event {
            Traffic::Submit { cpu, bytes, way } => {
                sim.act(|kernel, _| kernel.submit(cpu, bytes, way));
                self.request(sim, task, None, Transfer::Read, bytes);
            }
            Traffic::Split { cpu, bytes, parts } => {
                sim.act(|kernel, _| kernel.split(cpu, bytes, parts));
                self.request(sim, task, None, Transfer::Read, bytes);
            }
            Traffic::Command { cpu, bytes, told } => {
                sim.act(|kernel, _| kernel.pass_through(cpu, bytes, told));
                self.request(sim, task, None, Transfer::Read, bytes);
            }
            Traffic::Dirty { page, .. } => {
                sim.act(|kernel, _| kernel.dirty(task, page));
                self.dirty(sim, task, page);
            }
            Traffic::WriteOut {
                page,
                transfer,
                bytes,
                ..
            } => {
                sim.act(|kernel, _| kernel.write_out(task, page, transfer, bytes));
                let payer = self.dirtier(page, transfer);
                self.request(sim, task, payer, transfer, bytes);
            }
            Traffic::PassOn {
                thread,
                page,
                passing,
                ..
            } => {
                if let Some(thread) = running(sim, thread) {
                    sim.act(|kernel, _| kernel.pass_on(task, thread, page, passing));
                    self.pass_on(sim, [task, thread], page, passing);
                }
            }
            Traffic::Use { socket, sends, .. } => {
                sim.act(|kernel, _| kernel.use_socket(task, socket, sends));
                self.use_socket(sim, task, socket as usize);
            }
            _ => {}
        }
    }

    /// A task or a socket becomes something else.
    fn change(&mut self, sim: &mut Sim, event: Traffic) {
        let pays = |task| lives(sim, task) && !is_kthread(sim, task);
        match event {
            Traffic::KernelSocket { socket } => {
                sim.act(|kernel, _| kernel.kernel_socket(socket));
                self.sockets[socket as usize].kernels_own = true;
            }
            Traffic::Serve { task, submitter } if pays(task) => {
                let submitter = submitter.filter(|other| *other != task && pays(*other));
                sim.act(|kernel, _| kernel.serve_ring(task, submitter));
                match submitter {
                    Some(other) => self.submitters.insert(task, other),
                    None => self.submitters.remove(&task),
                };
            }
            Traffic::Work { task, local } if lives(sim, task) && is_kthread(sim, task) => {
                sim.act(|kernel, _| kernel.work(task, local));
                self.workers.insert(task, local);
            }
            Traffic::Join { task, leader } if task != leader && pays(task) && pays(leader) => {
                let alone = |task| !self.mains.contains_key(&task);
                if alone(task) && alone(leader) && self.mains.values().all(|main| *main != task) {
                    sim.act(|kernel, _| kernel.join(task, leader));
                    self.mains.insert(task, leader);
                }
            }
            Traffic::ReuseId { task } if task < sim.tasks.len() => {
                sim.act(|kernel, _| kernel.reuse_id(task));
                *self.owners.entry(task).or_default() += 1;
            }
            _ => {}
        }
    }

    fn owner(&self, task: TaskId) -> (TaskId, u64) {
        (task, self.owners.get(&task).copied().unwrap_or(0))
    }

    /// Who pays for what `task` moves.
    fn payer(&self, task: TaskId) -> Payer {
        let task = self.submitters.get(&task).copied().unwrap_or(task);
        Payer {
            task: self.owner(task),
            main: self.owner(self.mains.get(&task).copied().unwrap_or(task)),
        }
    }

    /// Charges the payer, or its main thread if it has ended. Returns whether one of them lives.
    fn charge(&mut self, sim: &Sim, payer: Payer, bytes: u64) -> bool {
        let both = [payer.task, payer.main];
        let found = both
            .into_iter()
            .find(|(task, owner)| lives(sim, *task) && self.owner(*task).1 == *owner);
        if let Some((task, _)) = found {
            self.charged.resize(sim.tasks.len(), 0);
            self.charged[task] += bytes;
        }
        found.is_some()
    }

    /// `task` submits a request to a device. If it is a kernel thread, it does so for `payer`.
    fn request(
        &mut self,
        sim: &Sim,
        task: TaskId,
        payer: Option<Payer>,
        transfer: Transfer,
        bytes: u32,
    ) {
        let bytes = u64::from(bytes);
        self.totals.dma += bytes;
        if !is_kthread(sim, task) {
            // A worker's submitter may have ended. A task that runs pays itself.
            if !self.charge(sim, self.payer(task), bytes) {
                self.totals.unattributed += bytes;
            }
            return;
        }
        // What a loop device writes was paid for when it was written to it.
        match payer.filter(|_| !self.is_loop(task)) {
            None => self.totals.unattributed += bytes,
            Some(payer) if !self.charge(sim, payer, bytes) => self.totals.ended += bytes,
            Some(_) if transfer == Transfer::Write => self.totals.written_back += bytes,
            Some(_) => {}
        }
    }

    fn is_loop(&self, task: TaskId) -> bool {
        self.workers.get(&task) == Some(&true)
    }

    fn dirty(&mut self, sim: &Sim, task: TaskId, page: Page) {
        let stretch = (page.file, page.index / STRETCH);
        if !is_kthread(sim, task) {
            self.dirtiers.insert(stretch, self.payer(task));
        } else if self.workers.get(&task) != Some(&false) || page.block_device {
            self.dirtiers.remove(&stretch);
        }
    }

    fn dirtier(&self, page: Page, transfer: Transfer) -> Option<Payer> {
        let known = transfer == Transfer::Write && !page.copied;
        let stretch = (page.file, page.index / STRETCH);
        known.then(|| self.dirtiers.get(&stretch).copied())?
    }

    /// The first task submits a request to a stacked device. The second one passes it on.
    fn pass_on(&mut self, sim: &Sim, tasks: [TaskId; 2], page: Page, passing: Passing) {
        let [task, thread] = tasks;
        let in_stripe = passing.disk != StripeDisk::None;
        let tells = passing.clones || passing.copies || passing.behind || in_stripe;
        let leads_up = tells && !passing.reused;
        let dirtier = self.dirtier(page, passing.transfer);
        let payer = if leads_up && !is_kthread(sim, task) {
            Some(self.payer(task))
        } else if leads_up && self.is_loop(task) {
            None
        } else {
            dirtier.filter(|_| leads_up)
        };
        for _ in 0..1 + u32::from(passing.twice) {
            self.request(sim, thread, payer, passing.transfer, passing.bytes);
        }
    }

    /// A card moves a packet, for its socket if it has one.
    fn move_packet(&mut self, sim: &Sim, packet: Packet) {
        if packet.by_cpu {
            return;
        }
        self.totals.net += u64::from(packet.bytes);
        let Some(socket) = self.sockets.get_mut(packet.socket as usize) else {
            return;
        };
        if socket.kernels_own {
            return;
        }
        socket.known = true;
        socket.waiting_bytes += u64::from(packet.bytes);
        if socket.waiting_bytes >= BATCH_BYTES {
            self.settle(sim, packet.socket as usize);
        }
    }

    /// Charges what waits in a socket to its user.
    fn settle(&mut self, sim: &Sim, number: usize) {
        let socket = self.sockets[number];
        let Some(user) = socket.user.filter(|_| !socket.serves_kernel) else {
            return;
        };
        if self.charge(sim, user, socket.waiting_bytes) {
            self.totals.net_charged += socket.waiting_bytes;
            self.sockets[number].waiting_bytes = 0;
        }
    }

    fn use_socket(&mut self, sim: &Sim, task: TaskId, number: usize) {
        let user = self.payer(task);
        let socket = &mut self.sockets[number];
        if !socket.known || socket.serves_kernel {
            return;
        }
        if is_kthread(sim, task) {
            socket.serves_kernel = true;
            return;
        }
        // The scheduler looks again only when another task uses it.
        if socket.user.is_none_or(|known| known.task != user.task) {
            socket.user = Some(user);
        }
        self.settle(sim, number);
    }

    /// Compares the scheduler's books with this account. Once all tasks have ended, nothing is left
    /// to charge.
    pub fn check(&mut self, sim: &mut Sim, all_ended: bool) {
        let count = |name| sim.kernel.event_count(name);
        let engine_bytes = |sim: &Sim, task: TaskId| sim.tasks[task].dma_added_bytes;
        // What the steps of kernel threads move has no account either.
        let of_steps: u64 = (0..sim.tasks.len())
            .filter(|task| is_kthread(sim, *task))
            .map(|task| engine_bytes(sim, task))
            .sum();
        let got = Totals {
            dma: count("DMA_BYTES"),
            unattributed: count("DMA_UNATTRIBUTED_BYTES") - of_steps,
            ended: count("DMA_ENDED_BYTES"),
            written_back: count("DMA_WRITTEN_BACK_BYTES"),
            net: count("NET_BYTES"),
            net_charged: count("NET_CHARGED_BYTES"),
        };
        if got != self.totals {
            sim.violation(&format!(
                "the scheduler counts {got:?} of devices, not {:?}",
                self.totals
            ));
        }
        self.charged.resize(sim.tasks.len(), 0);
        for task in 0..sim.tasks.len() {
            // Kernel threads move data for others.
            let moved = if is_kthread(sim, task) {
                0
            } else {
                self.charged[task] + engine_bytes(sim, task)
            };
            let charged = sim.kernel.account(task).dma_bytes;
            let ended = all_ended || !lives(sim, task);
            if charged > moved || (ended && charged < moved) {
                sim.violation(&format!(
                    "devices moved {moved} bytes for task {task}, charged {charged}"
                ));
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What devices move, and what makes them, as data of a case.

use serde::{Deserialize, Serialize};

use crate::devices::{Page, PassThrough, Passing, StripeDisk, Tail, Transfer, Way};
use crate::kernel::TaskId;
use crate::network::{NO_SOCKET, Packet};
use crate::trace::Rng;

/// Sockets and files of a machine: `NATIVE_SOCKETS` and `NATIVE_FILES`.
pub const SOCKETS: u64 = 4;
const FILES: u64 = 4;
/// The file that is a block device.
const BLOCK_DEVICE: u32 = 3;

/// An event of devices, or of the tasks that use them. Tasks are numbered in the order of their
/// creation. An event is left out that needs a task which does not exist, has ended or does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// What runs on `cpu` submits a request.
    Submit {
        /// The CPU.
        cpu: usize,
        /// Its length.
        bytes: u32,
        /// How it reaches its device.
        way: Way,
    },
    /// The same to a device that remaps it in parts.
    Split {
        /// The CPU.
        cpu: usize,
        /// Its length.
        bytes: u32,
        /// So many.
        parts: u32,
    },
    /// What runs on `cpu` sends a device a command of its own making.
    Command {
        /// The CPU.
        cpu: usize,
        /// What it moves.
        bytes: u32,
        /// How the kernel tells of it.
        told: PassThrough,
    },
    /// What runs on `cpu` dirties a page.
    Dirty {
        /// The CPU.
        cpu: usize,
        /// The page.
        page: Page,
    },
    /// What runs on `cpu` submits a request that begins with a page.
    WriteOut {
        /// The CPU.
        cpu: usize,
        /// The page.
        page: Page,
        /// Its direction.
        transfer: Transfer,
        /// Its length.
        bytes: u32,
    },
    /// The same to a stacked device; what runs on `thread` passes it on.
    PassOn {
        /// The CPU.
        cpu: usize,
        /// The CPU of the device's thread.
        thread: usize,
        /// The page.
        page: Page,
        /// In which way.
        passing: Passing,
    },
    /// A packet leaves from `cpu`, whatever it runs.
    Leave {
        /// The CPU.
        cpu: usize,
        /// The packet.
        packet: Packet,
    },
    /// A packet arrives at `cpu`, whatever it runs.
    Arrive {
        /// The CPU.
        cpu: usize,
        /// The packet.
        packet: Packet,
    },
    /// What runs on `cpu` sends or receives on a socket.
    Use {
        /// The CPU.
        cpu: usize,
        /// The socket.
        socket: u32,
        /// It sends.
        sends: bool,
    },
    /// The kernel takes a socket for itself.
    KernelSocket {
        /// The socket.
        socket: u32,
    },
    /// A task becomes a worker of io_uring for another one, or for none.
    Serve {
        /// The task.
        task: TaskId,
        /// The other one.
        submitter: Option<TaskId>,
    },
    /// A kernel thread works for a queue of work.
    Work {
        /// The thread.
        task: TaskId,
        /// It is a loop device's.
        local: bool,
    },
    /// A task becomes a thread of the process of another one.
    Join {
        /// The task.
        task: TaskId,
        /// The main thread.
        leader: TaskId,
    },
    /// The id of a task gets a new owner.
    ReuseId {
        /// The task.
        task: TaskId,
    },
}

fn bytes(rng: &mut Rng) -> u32 {
    512 * rng.log_below(512) as u32
}

fn page(rng: &mut Rng) -> Page {
    let file = rng.below(FILES) as u32;
    Page {
        index: rng.below(4) * 300,
        file,
        tail: [Tail::Head, Tail::ByAddress, Tail::ByMask][rng.below(3) as usize],
        block_device: file == BLOCK_DEVICE,
        copied: rng.below(8) == 0,
    }
}

fn transfer(rng: &mut Rng) -> Transfer {
    if rng.below(3) == 0 {
        Transfer::Read
    } else {
        Transfer::Write
    }
}

fn packet(rng: &mut Rng, joined: u32) -> Packet {
    let socket = rng.below(SOCKETS + 1);
    let tcp = rng.below(2) == 0;
    Packet {
        // Each of the joined ones has headers.
        bytes: 100 * joined.max(1) + rng.log_below(20_000) as u32,
        joined,
        header_bytes: if tcp { 20 + 4 * rng.below(4) as u32 } else { 8 },
        socket: if socket < SOCKETS {
            socket as u32
        } else {
            NO_SOCKET
        },
        tcp,
        by_cpu: rng.below(8) == 0,
        looped_back: false,
        above_card: false,
        modem: rng.below(8) == 0,
    }
}

fn arriving(rng: &mut Rng) -> Packet {
    let joined = rng.below(6) as u32;
    let mut packet = packet(rng, joined);
    packet.looped_back = rng.below(8) == 0;
    packet.above_card = !packet.by_cpu && rng.below(4) == 0;
    packet
}

fn request(rng: &mut Rng, cpu: usize) -> Traffic {
    let bytes = bytes(rng);
    match rng.below(5) {
        0..=2 => Traffic::Submit {
            cpu,
            bytes,
            way: Way {
                layers: rng.below(3) as u32,
                in_place: rng.below(2) == 0,
                partition: rng.below(3) == 0,
            },
        },
        3 => Traffic::Split {
            cpu,
            bytes,
            parts: rng.range(1, 5) as u32,
        },
        _ => Traffic::Command {
            cpu,
            bytes,
            told: PassThrough::ALL[rng.below(3) as usize],
        },
    }
}

fn passing(rng: &mut Rng) -> Passing {
    let passing = Passing {
        transfer: transfer(rng),
        bytes: bytes(rng),
        clones: rng.below(2) == 0,
        copies: rng.below(2) == 0,
        behind: rng.below(4) == 0,
        reused: rng.below(4) == 0,
        twice: false,
        disk: StripeDisk::None,
    };
    if rng.below(3) == 0 {
        return Passing {
            disk: StripeDisk::ALL[rng.below(3) as usize],
            ..passing
        };
    }
    Passing {
        // Copies of dm-crypt keep the upper request, and clones its vector.
        twice: !passing.copies && !passing.reused && rng.below(2) == 0,
        ..passing
    }
}

fn writing(rng: &mut Rng, cpu: usize, cpus: usize) -> Traffic {
    let page = page(rng);
    match rng.below(8) {
        0..=2 => Traffic::Dirty { cpu, page },
        3..=5 => Traffic::WriteOut {
            cpu,
            page,
            transfer: transfer(rng),
            bytes: bytes(rng),
        },
        _ => Traffic::PassOn {
            cpu,
            thread: rng.below(cpus as u64) as usize,
            page,
            passing: passing(rng),
        },
    }
}

fn network(rng: &mut Rng, cpu: usize) -> Traffic {
    let socket = rng.below(SOCKETS) as u32;
    match rng.below(25) {
        0..=7 => Traffic::Leave {
            cpu,
            packet: packet(rng, 1),
        },
        8..=15 => Traffic::Arrive {
            cpu,
            packet: arriving(rng),
        },
        16..=23 => Traffic::Use {
            cpu,
            socket,
            sends: rng.below(2) == 0,
        },
        _ => Traffic::KernelSocket { socket },
    }
}

/// Tasks become something else.
fn change(rng: &mut Rng, tasks: usize) -> Traffic {
    let task = rng.below(tasks as u64) as usize;
    let other = rng.below(tasks as u64) as usize;
    match rng.below(13) {
        0..=3 => Traffic::Work {
            task,
            local: rng.below(2) == 0,
        },
        4..=7 => Traffic::Join {
            task,
            leader: other,
        },
        8 => Traffic::ReuseId { task },
        _ => Traffic::Serve {
            task,
            submitter: (rng.below(4) > 0).then_some(other),
        },
    }
}

/// A random event on a machine of so many CPUs and at first so many tasks.
pub fn traffic(rng: &mut Rng, cpus: usize, tasks: usize) -> Traffic {
    let cpu = rng.below(cpus as u64) as usize;
    match rng.below(24) {
        0..=4 => request(rng, cpu),
        5..=12 => writing(rng, cpu, cpus),
        13..=18 => network(rng, cpu),
        _ => change(rng, tasks),
    }
}

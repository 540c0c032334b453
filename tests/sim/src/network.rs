// SPDX-License-Identifier: GPL-2.0-only
//! What network devices do: packets that leave and arrive, and tasks that use sockets.

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, Machine, Task, TaskId};

unsafe extern "C" {
    fn machine_kernel_socket(m: *mut Machine, socket: u32);
    fn machine_packet_arrives(m: *mut Machine, cpu: i32, packet: *const Packet);
    fn machine_packet_leaves(m: *mut Machine, cpu: i32, packet: *const Packet);
    fn machine_socket_state(m: *mut Machine, socket: u32, state: u32);
    fn machine_reuse_id(p: *mut Task);
    fn machine_use_socket(m: *mut Machine, p: *const Task, socket: u32, sends: bool);
}

/// A packet's socket if it is for none of this machine.
pub const NO_SOCKET: u32 = u32::MAX;

/// `struct packet`: a packet that a network device moves.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Packet {
    /// On the cable, all headers included, bytes.
    pub bytes: u32,
    /// Packets that the kernel made one of; 0: it does not tell.
    pub joined: u32,
    /// Of TCP or UDP.
    pub header_bytes: u32,
    /// From 0 to 3, or `NO_SOCKET`.
    pub socket: u32,
    /// It is TCP; else UDP.
    pub tcp: bool,
    /// It crosses no device (loopback).
    pub by_cpu: bool,
    /// The card's own multicast comes back by the kernel.
    pub looped_back: bool,
    /// It reaches its socket by way of a VLAN.
    pub above_card: bool,
    /// It has no link layer, of which the kernel then knows no header.
    pub modem: bool,
}

impl Kernel {
    /// The kernel makes a socket (0 to 3) for itself.
    pub fn kernel_socket(&mut self, socket: u32) {
        // SAFETY: the machine lives, and has the socket.
        self.with(|m| unsafe { machine_kernel_socket(m, socket) });
    }

    /// A connection gets into this state (`skc_state`).
    pub fn socket_state(&mut self, socket: u32, state: u32) {
        // SAFETY: the machine lives, and has the socket.
        self.with(|m| unsafe { machine_socket_state(m, socket, state) });
    }

    /// A packet leaves, while `cpu` runs whatever it runs.
    pub fn packet_leaves(&mut self, cpu: usize, packet: Packet) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_packet_leaves(m, cpu as i32, &raw const packet) });
    }

    /// A packet arrives, while `cpu` runs whatever it runs.
    pub fn packet_arrives(&mut self, cpu: usize, packet: Packet) {
        // SAFETY: the machine lives.
        self.with(|m| unsafe { machine_packet_arrives(m, cpu as i32, &raw const packet) });
    }

    /// `task`, which runs, sends or receives on a socket.
    pub fn use_socket(&mut self, task: TaskId, socket: u32, sends: bool) {
        let p = self.tasks[task];
        // SAFETY: machine and task live.
        self.with(|m| unsafe { machine_use_socket(m, p, socket, sends) });
    }

    /// The thread id of `task` has a new owner.
    pub fn reuse_id(&mut self, task: TaskId) {
        let p = self.tasks[task];
        // SAFETY: the task lives.
        self.with(|_| unsafe { machine_reuse_id(p) });
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Packets of network devices, and who pays for them.

use drfq_sim::network::{NO_SOCKET, Packet};
use drfq_sim::{Config, MS, Sim, Step, TaskSpec, Trace};

const KTHREAD: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

/// A packet of socket 0, long enough to be charged at once.
const PACKET: Packet = Packet {
    bytes: 20_000,
    joined: 1,
    header_bytes: 32,
    socket: 0,
    tcp: true,
    by_cpu: false,
    looped_back: false,
    above_card: false,
    modem: false,
};

/// A kernel thread and two tasks that run on a CPU each; `first` is what the first one does.
fn machine(first: Trace) -> Sim {
    let config = Config {
        checked: false,
        ..Config::new(3).memory(4_000_000_000)
    };
    let tasks = vec![
        TaskSpec::new("kthread", Trace::hog()).kthread(),
        TaskSpec::new("first", first),
        TaskSpec::new("second", Trace::hog()),
    ];
    let mut sim = Sim::new(config, tasks);
    sim.run_until(10 * MS);
    sim
}

/// What the first and the second task are charged for; then what devices moved, and what of it
/// was charged.
fn books(sim: &mut Sim) -> [u64; 4] {
    let tasks = sim.run_until(100 * MS).tasks;
    assert_eq!(tasks[KTHREAD].dma_bytes, 0);
    [
        tasks[FIRST].dma_bytes,
        tasks[SECOND].dma_bytes,
        sim.kernel().event_count("NET_BYTES"),
        sim.kernel().event_count("NET_CHARGED_BYTES"),
    ]
}

#[test]
fn the_task_that_uses_a_socket_pays_for_its_packets_whatever_runs_meanwhile() {
    let mut sim = machine(Trace::hog());
    sim.kernel().packet_leaves(FIRST, PACKET);
    sim.kernel().use_socket(FIRST, 0, true);
    sim.kernel().packet_leaves(SECOND, PACKET);
    sim.kernel().packet_arrives(SECOND, PACKET);
    assert_eq!(books(&mut sim), [60_000, 0, 60_000, 60_000]);
}

/// Those of both versions of IP, one of whole packets, and any where BPF follows no functions.
#[test]
fn a_task_uses_a_socket_of_any_kind() {
    for (socket, sends) in (0..4).flat_map(|socket| [(socket, true), (socket, false)]) {
        let mut sim = machine(Trace::hog());
        sim.kernel()
            .packet_arrives(SECOND, Packet { socket, ..PACKET });
        sim.kernel().use_socket(FIRST, socket, sends);
        let charged = [20_000, 0, 20_000, 20_000];
        assert_eq!(books(&mut sim), charged, "{socket} {sends}");
    }
}

#[test]
fn packets_that_nobody_has_used_yet_wait_in_their_socket() {
    let mut sim = machine(Trace::hog());
    for _ in 0..3 {
        sim.kernel().packet_arrives(FIRST, PACKET);
    }
    assert_eq!(books(&mut sim), [0, 0, 60_000, 0]);
    sim.kernel().use_socket(SECOND, 0, false);
    sim.kernel().use_socket(FIRST, 0, false);
    let charged = sim.run_until(200 * MS).tasks;
    assert_eq!(
        [charged[FIRST].dma_bytes, charged[SECOND].dma_bytes],
        [0, 60_000]
    );
}

#[test]
fn a_socket_belongs_to_the_task_that_used_it_last() {
    let mut sim = machine(Trace::hog());
    let other = Packet {
        socket: 1,
        bytes: 17_000,
        ..PACKET
    };
    sim.kernel().packet_arrives(FIRST, PACKET);
    sim.kernel().packet_arrives(FIRST, other);
    sim.kernel().use_socket(FIRST, 0, false);
    sim.kernel().use_socket(FIRST, 1, false);
    sim.kernel().packet_arrives(FIRST, other);
    sim.kernel().use_socket(SECOND, 0, true);
    sim.kernel().packet_leaves(FIRST, PACKET);
    assert_eq!(books(&mut sim), [54_000, 20_000, 74_000, 74_000]);
}

#[test]
fn what_moves_after_its_task_has_ended_waits_for_the_next_one() {
    let mut sim = machine(Trace::once([Step::Run {
        ns: 12 * MS,
        bytes_per_s: 0,
    }]));
    sim.kernel().packet_leaves(FIRST, PACKET);
    sim.kernel().use_socket(FIRST, 0, true);
    sim.run_until(20 * MS);
    sim.kernel().packet_leaves(SECOND, PACKET);
    assert_eq!(books(&mut sim), [20_000, 0, 40_000, 20_000]);
    sim.kernel().use_socket(SECOND, 0, false);
    assert_eq!(sim.run_until(200 * MS).tasks[SECOND].dma_bytes, 20_000);
}

#[test]
fn a_kernel_thread_that_uses_a_socket_does_not_pay() {
    let mut sim = machine(Trace::hog());
    sim.kernel().packet_leaves(KTHREAD, PACKET);
    sim.kernel().use_socket(KTHREAD, 0, true);
    sim.kernel().packet_leaves(KTHREAD, PACKET);
    // Nor does a task whose call the kernel serves by that socket.
    sim.kernel().use_socket(FIRST, 0, true);
    sim.kernel().packet_leaves(FIRST, PACKET);
    assert_eq!(books(&mut sim), [0, 0, 60_000, 0]);
}

#[test]
fn nobody_pays_for_packets_of_a_socket_that_the_kernel_made_for_itself() {
    let mut sim = machine(Trace::hog());
    sim.kernel().kernel_socket(0);
    sim.kernel().packet_arrives(FIRST, PACKET);
    sim.kernel().use_socket(FIRST, 0, true);
    sim.kernel().packet_leaves(FIRST, PACKET);
    assert_eq!(books(&mut sim), [0, 0, 40_000, 0]);
}

#[test]
fn short_packets_are_charged_many_at_once_and_the_rest_at_the_next_use() {
    let mut sim = machine(Trace::hog());
    let short = Packet {
        bytes: 1000,
        ..PACKET
    };
    sim.kernel().packet_arrives(FIRST, short);
    sim.kernel().use_socket(FIRST, 0, false);
    for _ in 0..20 {
        sim.kernel().packet_leaves(SECOND, short);
    }
    assert_eq!(books(&mut sim), [18_000, 0, 21_000, 18_000]);
    sim.kernel().use_socket(FIRST, 0, false);
    assert_eq!(sim.run_until(200 * MS).tasks[FIRST].dma_bytes, 21_000);
}

/// Its user calls nothing for it any more.
#[test]
fn short_packets_of_a_connection_that_closes_are_charged_at_once() {
    const ESTABLISHED: u32 = 1;
    const FIN_WAIT1: u32 = 4;
    const FIN_WAIT2: u32 = 5;
    const LAST_ACK: u32 = 9;
    const CLOSING: u32 = 11;
    for (state, charged) in [
        (ESTABLISHED, 1000),
        (FIN_WAIT1, 4000),
        (FIN_WAIT2, 1000),
        (LAST_ACK, 4000),
        (CLOSING, 4000),
    ] {
        let mut sim = machine(Trace::hog());
        let short = Packet {
            bytes: 1000,
            ..PACKET
        };
        sim.kernel().socket_state(0, ESTABLISHED);
        sim.kernel().packet_arrives(SECOND, short);
        sim.kernel().use_socket(FIRST, 0, true);
        sim.kernel().packet_leaves(FIRST, short);
        sim.kernel().socket_state(0, state);
        sim.kernel().packet_leaves(FIRST, short);
        sim.kernel().packet_arrives(SECOND, short);
        assert_eq!(books(&mut sim), [charged, 0, 4000, charged], "{state}");
    }
}

#[test]
fn a_packet_is_charged_that_reaches_its_socket_by_way_of_a_device_above_the_card() {
    let mut sim = machine(Trace::hog());
    let packet = Packet {
        above_card: true,
        ..PACKET
    };
    sim.kernel().packet_arrives(FIRST, packet);
    sim.kernel().use_socket(FIRST, 0, false);
    assert_eq!(books(&mut sim), [20_000, 0, 20_000, 20_000]);
}

#[test]
fn a_packet_without_a_link_layer_counts_as_long_as_it_is() {
    for joined in [1, 4] {
        let mut sim = machine(Trace::hog());
        let packet = Packet {
            modem: true,
            joined,
            ..PACKET
        };
        sim.kernel().packet_arrives(FIRST, packet);
        sim.kernel().use_socket(FIRST, 0, false);
        sim.kernel().packet_leaves(FIRST, packet);
        let sent = 20_000 - u64::from(joined - 1) * 52;
        let total = 20_000 + sent;
        assert_eq!(books(&mut sim), [total, 0, total, total]);
    }
}

/// What is forwarded, and what is for no socket.
#[test]
fn packets_without_a_socket_are_counted() {
    let mut sim = machine(Trace::hog());
    let packet = Packet {
        socket: NO_SOCKET,
        ..PACKET
    };
    sim.kernel().packet_arrives(FIRST, packet);
    sim.kernel().packet_leaves(FIRST, packet);
    assert_eq!(books(&mut sim), [0, 0, 40_000, 0]);
}

#[test]
fn packets_that_cross_no_device_are_free() {
    let mut sim = machine(Trace::hog());
    let packet = Packet {
        by_cpu: true,
        ..PACKET
    };
    sim.kernel().packet_leaves(FIRST, packet);
    sim.kernel().packet_arrives(FIRST, packet);
    let packet = Packet {
        looped_back: true,
        ..PACKET
    };
    sim.kernel().packet_arrives(FIRST, packet);
    sim.kernel().use_socket(FIRST, 0, false);
    assert_eq!(books(&mut sim), [0; 4]);
}

/// Each of the packets crossed the cable with headers of its own.
#[test]
fn joined_packets_count_with_all_their_headers() {
    for (tcp, header_bytes) in [(true, 20), (true, 32), (false, 8)] {
        for joined in [0, 1, 2, 44] {
            let mut sim = machine(Trace::hog());
            let packet = Packet {
                bytes: 65_000,
                joined,
                header_bytes,
                tcp,
                ..PACKET
            };
            sim.kernel().packet_arrives(FIRST, packet);
            sim.kernel().use_socket(FIRST, 0, false);
            assert_eq!(books(&mut sim), [65_000, 0, 65_000, 65_000], "{packet:?}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Which BPF programs follow the traffic of devices on this kernel.

use libbpf_rs::Link;

use crate::{
    bpf_skel::{BpfSkel, OpenBpfSkel},
    kernel_btf::{bio_traced_flag, has_function, has_tracepoint},
};

/// Hook at which a packet reaches its socket. Any kernel with CONFIG_SECURITY_NETWORK has it.
const RECEIVE: &str = "security_sock_rcv_skb";

/// Leaves out the programs that the user does not want (`charged` is false) or that the kernel
/// has no hooks for.
pub fn configure(skel: &mut OpenBpfSkel, charged: bool) {
    let traced_flag = charged.then(bio_traced_flag).flatten();
    let dirtiers = charged && has_tracepoint("writeback_dirty_folio");
    let sockets = ["sock_send_length", "sock_recv_length"];
    let network = charged && sockets.iter().all(|name| has_tracepoint(name));
    if let Some(rodata) = skel.maps.rodata_data.as_deref_mut() {
        rodata.bio_traced_flag = traced_flag.unwrap_or(0);
        rodata.tracks_dirtiers = dirtiers.into();
    }
    let progs = &mut skel.progs;
    progs.drfq_bio_queue.set_autoload(charged);
    progs.drfq_bio_queue2.set_autoload(charged);
    progs.drfq_rq_issue.set_autoload(charged);
    progs.drfq_rq_issue2.set_autoload(charged);
    progs.drfq_bio_remap.set_autoload(traced_flag.is_some());
    progs.drfq_bio_remap2.set_autoload(traced_flag.is_some());
    progs.drfq_dirty.set_autoload(dirtiers);
    progs.drfq_dirty2.set_autoload(dirtiers);
    progs.drfq_skb_send.set_autoload(network);
    progs.drfq_skb_arrive.set_autoload(network);
    progs.drfq_sock_send.set_autoload(network);
    progs.drfq_sock_recv.set_autoload(network);
    progs
        .drfq_skb_socket
        .set_autoload(network && has_function(RECEIVE));
    progs.drfq_skb_socket.set_autoattach(false);
    let _ = skel.maps.net_sockets.set_autocreate(network);
}

/// Attaches what a kernel may refuse, though it has the hook: some architectures let BPF follow
/// tracepoints, but no functions. Returns what the user should know, too.
pub fn attach(skel: &BpfSkel) -> (Option<Link>, Option<String>) {
    let progs = &skel.progs;
    if !progs.drfq_skb_send.autoload() {
        return (None, None);
    }
    let reason = match progs.drfq_skb_socket.autoload() {
        true => match progs.drfq_skb_socket.attach() {
            Ok(link) => return (Some(link), None),
            Err(error) => error.to_string(),
        },
        false => format!("this kernel has no function {RECEIVE}"),
    };
    let effect = "received packets are counted and charged to no task, because the program that \
                  finds their socket is not attached";
    (None, Some(format!("{effect}: {reason}")))
}

// SPDX-License-Identifier: GPL-2.0-only
//! Which BPF programs follow the traffic of devices on this kernel.

use std::fmt::Display;

use anyhow::{Context, Result};
use libbpf_rs::{Link, OpenProgramMut};

use crate::{
    bpf_skel::{BpfSkel, OpenBpfSkel},
    kernel_btf::KernelTypes,
};

/// Hook at which a packet reaches its socket. Any kernel with CONFIG_SECURITY_NETWORK has it.
const RECEIVE: &str = "security_sock_rcv_skb";

/// May delay a request of a cgroup with a limit (`io.max`). Any kernel with `CONFIG_BLK_DEV_THROTTLING`
/// has it.
const DELAY: &str = "__blk_throtl_bio";

/// By what a driver begins requests that no bio asks for.
const PASSES_THROUGH: [&str; 2] = ["blk_execute_rq", "blk_execute_rq_nowait"];

/// By what tasks send and receive. The kernel's BTF lacks those that are in a module.
const USES: [&str; 5] = [
    "inet_sendmsg",
    "inet6_sendmsg",
    "inet_recvmsg",
    "inet6_recvmsg",
    "packet_sendmsg",
];

/// The same on sockets of every family. They cost each message between processes, too.
const TRACED_USES: [&str; 2] = ["sock_send_length", "sock_recv_length"];

/// What a kernel may refuse.
pub struct Hooks {
    /// Of what it has not refused.
    pub links: Vec<Link>,
    /// What of device traffic is not charged, for the user.
    pub uncharged: Option<String>,
}

/// Leaves out the programs that the user does not want (`charged` is false) or that the kernel
/// has no hooks for.
pub fn configure(skel: &mut OpenBpfSkel, charged: bool) {
    let kernel = charged.then(KernelTypes::read);
    let traced_flag = kernel.as_ref().and_then(KernelTypes::bio_traced_flag);
    let dirtiers = kernel
        .as_ref()
        .is_some_and(|kernel| kernel.has_tracepoint("writeback_dirty_folio"));
    if let Some(rodata) = skel.maps.rodata_data.as_deref_mut() {
        rodata.bio_traced_flag = traced_flag.unwrap_or(0);
        rodata.tracks_dirtiers = dirtiers.into();
    }
    let progs = &mut skel.progs;
    progs.drfq_bio_queue.set_autoload(charged);
    progs.drfq_bio_queue2.set_autoload(charged);
    let ends = kernel
        .as_ref()
        .is_some_and(|kernel| kernel.has_tracepoint("block_bio_complete"));
    progs.drfq_bio_end.set_autoload(ends);
    progs.drfq_bio_remap.set_autoload(traced_flag.is_some());
    progs.drfq_bio_remap2.set_autoload(traced_flag.is_some());
    progs.drfq_dirty.set_autoload(dirtiers);
    progs.drfq_dirty2.set_autoload(dirtiers);
    let limits = kernel
        .as_ref()
        .is_some_and(|kernel| kernel.has_function(DELAY));
    progs.drfq_bio_limit.set_autoload(limits);
    progs.drfq_bio_limit.set_autoattach(false);
    configure_passthrough(skel, kernel.as_ref());
    configure_network(skel, kernel.as_ref());
}

fn configure_passthrough(skel: &mut OpenBpfSkel, charged_on: Option<&KernelTypes>) {
    let charged = charged_on.is_some();
    let functions = charged_on
        .is_some_and(|kernel| PASSES_THROUGH.iter().all(|name| kernel.has_function(name)));
    let progs = &mut skel.progs;
    let refusable = [
        (&mut progs.drfq_rq_execute, functions),
        (&mut progs.drfq_rq_execute2, functions),
        (&mut progs.drfq_rq_nowait, functions),
        (&mut progs.drfq_rq_nowait2, functions),
        // Whether the kernel refuses the functions shows when these, too, must be loaded.
        (&mut progs.drfq_rq_issue, charged),
        (&mut progs.drfq_rq_issue2, charged),
    ];
    load_without_attaching(refusable);
}

/// Loads each program that has a hook. [`attach`] attaches it.
fn load_without_attaching<'a, 'obj: 'a>(
    refusable: impl IntoIterator<Item = (&'a mut OpenProgramMut<'obj>, bool)>,
) {
    for (prog, loaded) in refusable {
        prog.set_autoload(loaded);
        prog.set_autoattach(false);
    }
}

fn configure_network(skel: &mut OpenBpfSkel, charged_on: Option<&KernelTypes>) {
    let kernel =
        charged_on.filter(|kernel| TRACED_USES.iter().all(|name| kernel.has_tracepoint(name)));
    let network = kernel.is_some();
    let functions = kernel.is_some_and(|kernel| USES.iter().all(|name| kernel.has_function(name)));
    let received = kernel.is_some_and(|kernel| kernel.has_function(RECEIVE));
    let progs = &mut skel.progs;
    progs.drfq_skb_send.set_autoload(network);
    progs.drfq_skb_arrive.set_autoload(network);
    let refusable = [
        (&mut progs.drfq_skb_socket, received),
        (&mut progs.drfq_inet_send, functions),
        (&mut progs.drfq_inet6_send, functions),
        (&mut progs.drfq_inet_recv, functions),
        (&mut progs.drfq_inet6_recv, functions),
        (&mut progs.drfq_packet_send, functions),
        // Whether the kernel refuses the functions shows when these, too, must be loaded.
        (&mut progs.drfq_sock_send, network),
        (&mut progs.drfq_sock_recv, network),
    ];
    load_without_attaching(refusable);
    let _ = skel.maps.net_sockets.set_autocreate(network);
}

/// Attaches what a kernel may refuse, though it has the hook: some architectures let BPF follow
/// tracepoints, but no functions.
///
/// # Errors
/// The kernel refuses a tracepoint.
pub fn attach(skel: &BpfSkel) -> Result<Hooks> {
    let mut hooks = attach_network(skel)?;
    hooks.links.extend(attach_passthrough(skel)?);
    let limited = &skel.progs.drfq_bio_limit;
    if limited.autoload() {
        match limited.attach() {
            Ok(link) => hooks.links.push(link),
            Err(error) => log::info!("what io.max delays is charged to no submitter: {error}"),
        }
    }
    Ok(hooks)
}

fn attach_passthrough(skel: &BpfSkel) -> Result<Vec<Link>> {
    let progs = &skel.progs;
    if !progs.drfq_rq_issue.autoload() {
        return Ok(Vec::new());
    }
    // The kernel runs the programs of a function in the reverse order (kernel/bpf/trampoline.c).
    let functions = [
        &progs.drfq_rq_execute2,
        &progs.drfq_rq_execute,
        &progs.drfq_rq_nowait2,
        &progs.drfq_rq_nowait,
    ];
    let known = progs.drfq_rq_execute.autoload();
    let traced = [&progs.drfq_rq_issue, &progs.drfq_rq_issue2];
    attach_either(known.then_some(&functions), &traced, |prog| prog.attach())
        .context("cannot attach to the tracepoint block_rq_issue")
}

fn attach_network(skel: &BpfSkel) -> Result<Hooks> {
    let progs = &skel.progs;
    if !progs.drfq_skb_send.autoload() {
        return Ok(Hooks {
            links: Vec::new(),
            uncharged: None,
        });
    }
    let functions = [
        &progs.drfq_inet_send,
        &progs.drfq_inet6_send,
        &progs.drfq_inet_recv,
        &progs.drfq_inet6_recv,
        &progs.drfq_packet_send,
    ];
    let known = progs.drfq_inet_send.autoload();
    let traced = [&progs.drfq_sock_send, &progs.drfq_sock_recv];
    let mut links = attach_either(known.then_some(&functions), &traced, |prog| prog.attach())
        .context("cannot attach to the tracepoints of sockets")?;
    let received = match progs.drfq_skb_socket.autoload() {
        true => progs.drfq_skb_socket.attach().map_err(|e| e.to_string()),
        false => Err(format!("this kernel has no function {RECEIVE}")),
    };
    let uncharged = match received {
        Ok(link) => {
            links.push(link);
            None
        }
        Err(reason) => Some(format!(
            "received packets are counted and charged to no task, because the program that finds \
             their socket is not attached: {reason}"
        )),
    };
    Ok(Hooks { links, uncharged })
}

/// Attaches all the programs of functions, or, if these are unknown or the kernel refuses one, all
/// those of tracepoints. With both, each call would cost twice.
fn attach_either<P, L, E: Display>(
    functions: Option<&[P]>,
    traced: &[P],
    attach: impl Fn(&P) -> Result<L, E>,
) -> Result<Vec<L>, E> {
    let all = |progs: &[P]| progs.iter().map(&attach).collect::<Result<Vec<L>, E>>();
    match functions.map(all) {
        Some(Ok(links)) => Ok(links),
        Some(Err(error)) => {
            log::info!("tracepoints tell of device traffic where functions cannot: {error}");
            all(traced)
        }
        None => all(traced),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use super::*;

    const FUNCTIONS: &[&str] = &["a", "b", "c"];
    const TRACED: &[&str] = &["x", "y"];

    /// An attached program, until it is dropped.
    struct Attached(&'static str, Rc<Cell<u32>>);

    impl Drop for Attached {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }

    /// What is attached to a kernel that refuses some, or why nothing is.
    fn attached(
        functions: Option<&[&'static str]>,
        refused: &[&str],
    ) -> Result<Vec<&'static str>, String> {
        let count = Rc::new(Cell::new(0));
        let links = attach_either(functions, TRACED, |name| {
            if refused.contains(name) {
                return Err(format!("{name} is refused"));
            }
            count.set(count.get() + 1);
            Ok(Attached(name, count.clone()))
        })?;
        assert_eq!(count.get() as usize, links.len());
        Ok(links.iter().map(|link| link.0).collect())
    }

    #[test]
    fn functions_tell_who_uses_a_socket_or_else_tracepoints_and_never_both() {
        assert_eq!(attached(Some(FUNCTIONS), &[]), Ok(FUNCTIONS.to_vec()));
        assert_eq!(attached(None, &[]), Ok(TRACED.to_vec()));
        for refused in FUNCTIONS {
            let found = attached(Some(FUNCTIONS), &[refused]);
            assert_eq!(found, Ok(TRACED.to_vec()));
        }
    }

    #[test]
    fn a_refused_tracepoint_is_an_error() {
        let refused = attached(Some(FUNCTIONS), &["c", "y"]);
        assert_eq!(refused, Err("y is refused".into()));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The callbacks of the BPF scheduler that a kernel does not have, or does not want.

use anyhow::{Result, ensure};

/// The callbacks in `bpf/main.bpf.c`, and whether the scheduler cannot work without them. Each of
/// these loses the order of S, or more:
///
/// - `init` makes the queues and the timer, and `init_task` the account. Without them every task
///   goes to the kernel's FIFO.
/// - `enable` reads a task's affinity and group, which nothing else does before its first change.
/// - `enqueue` puts tasks into the queues, and `dispatch` takes them out. No other callback does.
/// - `running` publishes the S that V follows, and `update_idle` removes it from a CPU that has no
///   packet. Without one of them V stands still.
/// - `stopping` charges a packet that ends, and `tick` one that goes on: `dispatch` compares its
///   charged S with the queue's head, and a hog that is never charged keeps its CPU.
/// - `exit` tells the agent that the kernel ended the scheduler, and whether to load it again.
const CALLBACKS: [(&str, bool); 28] = [
    ("select_cpu", false),
    ("enqueue", true),
    ("dispatch", true),
    ("running", true),
    ("tick", true),
    ("stopping", true),
    ("update_idle", true),
    ("cpu_release", false),
    ("yield", false),
    ("set_weight", false),
    ("set_cpumask", false),
    ("init_task", true),
    ("exit_task", false),
    ("enable", true),
    ("disable", false),
    ("cgroup_init", false),
    ("cgroup_exit", false),
    ("cgroup_move", false),
    ("cgroup_set_weight", false),
    ("cgroup_set_bandwidth", false),
    ("cgroup_set_idle", false),
    ("cpu_online", false),
    ("cpu_offline", false),
    ("dump", false),
    ("dump_cpu", false),
    ("dump_task", false),
    ("init", true),
    ("exit", true),
];

/// The callbacks to leave out. `has` tells whether the kernel's `sched_ext_ops` has a member.
/// `reenqueues_anywhere`: the kernel lets a tracepoint do what `cpu_release` is for, and warns of
/// `cpu_release`.
///
/// # Errors
/// The kernel lacks a callback that the scheduler needs.
pub fn left_out(
    has: impl Fn(&str) -> bool,
    reenqueues_anywhere: bool,
) -> Result<Vec<&'static str>> {
    let mut left_out = Vec::new();
    for (name, needed) in CALLBACKS {
        let present = has(name);
        ensure!(
            present || !needed,
            "this kernel's sched_ext has no {name}, which the scheduler needs; run an older kernel \
             or a newer scx_drfq"
        );
        if !present || (name == "cpu_release" && reenqueues_anywhere) {
            left_out.push(name);
        }
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_callbacks_of_the_bpf_program() {
        let source = include_str!("../../bpf/main.bpf.c");
        let members = source.lines().filter_map(|line| {
            let (name, value) = line.trim_start().strip_prefix('.')?.split_once('=')?;
            value.contains("(void *)").then(|| name.trim_end())
        });
        let listed = CALLBACKS.map(|(name, _)| name);
        assert_eq!(members.collect::<Vec<_>>(), listed);
    }

    #[test]
    fn an_old_kernel_gets_every_callback() {
        assert!(left_out(|_| true, false).unwrap().is_empty());
    }

    #[test]
    fn a_kernel_that_warns_of_cpu_release_does_not_get_it() {
        assert_eq!(left_out(|_| true, true).unwrap(), ["cpu_release"]);
    }

    #[test]
    fn a_missing_callback_that_is_not_needed_is_left_out() {
        let groups = left_out(|name| !name.starts_with("cgroup"), false).unwrap();
        assert_eq!(
            groups,
            [
                "cgroup_init",
                "cgroup_exit",
                "cgroup_move",
                "cgroup_set_weight",
                "cgroup_set_bandwidth",
                "cgroup_set_idle"
            ]
        );
    }

    #[test]
    fn a_missing_callback_that_is_needed_is_named() {
        let error = left_out(|name| name != "running", true).unwrap_err();
        assert!(error.to_string().contains("has no running"), "{error}");
    }
}

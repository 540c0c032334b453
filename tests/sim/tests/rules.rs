// SPDX-License-Identifier: GPL-2.0-only
//! Weights that the agent's rules give to tasks and cgroups.

mod common;

use common::hogs;
use drfq_sim::ffi::weight_one;
use drfq_sim::{Config, MS, SEC, Sim, Step, TaskSpec, Trace};

/// Runs from `from_s` to `to_s`; the shares of that time.
fn shares(sim: &mut Sim, from_s: u64, to_s: u64) -> Vec<f64> {
    let before = sim.run_until(from_s * SEC);
    sim.run_until(to_s * SEC).shares_since(&before)
}

fn assert_ratio(shares: &[f64], expected: f64) {
    let ratio = shares[0] / shares[1];
    assert!((ratio / expected - 1.0).abs() < 0.02, "{shares:?}");
}

/// Weight 1, and two hogs of that weight that have shared a CPU for a second.
fn two_equal_hogs() -> (u32, Sim) {
    let one = weight_one();
    let mut sim = Sim::new(Config::new(1), hogs(&[one, one]));
    sim.run_until(SEC);
    (one, sim)
}

#[test]
fn a_task_has_the_weight_of_its_rule_until_the_rule_is_gone() {
    let (one, mut sim) = two_equal_hogs();
    sim.act(|kernel, _| kernel.rule_task(0, 3 * one));
    assert_ratio(&shares(&mut sim, 2, 42), 3.0);
    sim.act(|kernel, now_ns| kernel.renice(now_ns, 0, 19));
    assert_ratio(&shares(&mut sim, 42, 82), 3.0);
    sim.act(|kernel, now_ns| {
        kernel.renice(now_ns, 0, 0);
        kernel.rule_task(0, 0);
    });
    assert_ratio(&shares(&mut sim, 83, 123), 1.0);
}

#[test]
fn a_rule_of_a_task_counts_in_its_group() {
    let (one, mut sim) = two_equal_hogs();
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, group);
        kernel.cgroup_move(now_ns, 1, group);
        kernel.rule_task(0, 3 * one);
    });
    assert_ratio(&shares(&mut sim, 2, 42), 3.0);
}

#[test]
fn a_group_has_the_weight_of_its_rule() {
    let (one, mut sim) = two_equal_hogs();
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, group);
        kernel.rule_cgroup(group, 4 * one);
    });
    assert_ratio(&shares(&mut sim, 2, 52), 4.0);
    // A later write to cpu.weight counts until the agent looks again.
    sim.act(|kernel, _| kernel.cgroup_set_weight(0, 200));
    assert_ratio(&shares(&mut sim, 52, 92), 2.0);
}

#[test]
fn a_new_weight_of_an_inner_group_leaves_the_outer_one_its_share() {
    let (_, mut sim) = two_equal_hogs();
    let mut inner = 0;
    sim.act(|kernel, now_ns| {
        let outer = kernel.cgroup_new(None, 100);
        inner = kernel.cgroup_new(Some(outer), 100);
        kernel.cgroup_move(now_ns, 0, inner);
    });
    assert_ratio(&shares(&mut sim, 2, 22), 1.0);
    sim.act(|kernel, _| kernel.cgroup_set_weight(inner, 25));
    assert_ratio(&shares(&mut sim, 22, 62), 1.0);
}

#[test]
fn a_child_follows_the_rule_of_its_parent() {
    let one = weight_one();
    let run = Step::Run {
        ns: 100 * MS,
        bytes_per_s: 0,
    };
    let parent = TaskSpec::new("parent", Trace::once([run, Step::Spawn(1), run]));
    let child = TaskSpec::new("child", Trace::hog()).arrival(u64::MAX);
    let mut sim = Sim::new(Config::new(1), vec![parent, child]);
    sim.run_until(MS);
    sim.act(|kernel, _| kernel.rule_task(0, 3 * one));
    sim.run_until(150 * MS);
    // The simulator gives a new task the weight of its spec. A change of its nice value
    // brings back the rule.
    let child = sim.nr_tasks() - 1;
    sim.act(|kernel, now_ns| kernel.renice(now_ns, child, 5));
    sim.run_until(SEC);
    assert_eq!(sim.kernel().account(child).weight, 3 * one);
}

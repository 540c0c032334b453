// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler is loaded again, after hotplug or an upgrade: what tasks owe and are owed goes on.

mod common;

use common::{cpus_used, hogs, nice, reader};
use drfq_sim::ffi::weight_one;
use drfq_sim::outside::Outside;
use drfq_sim::reference::fair_cpus;
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, Step, TaskSpec, Trace, US};

/// 5 GB/s.
const MEM: u64 = 5_000_000_000;

/// Plans a restart every `period_ns`, up to `end_ns`.
fn plan_restarts(sim: &mut Sim, period_ns: u64, end_ns: u64) {
    plan_restarts_from(sim, period_ns, period_ns, end_ns);
}

fn plan_restarts_from(sim: &mut Sim, start_ns: u64, period_ns: u64, end_ns: u64) {
    for at_ns in (start_ns..end_ns).step_by(period_ns as usize) {
        sim.plan(at_ns, Outside::Restart);
    }
}

/// Each load lets a packet of the kernel's slice, 20 ms, run on each CPU out of order.
#[test]
fn hogs_share_by_weight_while_the_scheduler_is_loaded_again_and_again() {
    for (cpus, weights) in [
        (1, vec![1, 3]),
        (1, vec![1, 1, 8]),
        (2, vec![1, 2, 3, 4]),
        (4, vec![1, 1, 2, 2, 3, 3, 4, 4]),
    ] {
        let weights: Vec<u32> = weights.iter().map(|w| w * weight_one()).collect();
        let fair = fair_cpus(&weights, cpus);
        for period_ms in [250, 1000] {
            let mut sim = Sim::new(Config::new(cpus), hogs(&weights));
            plan_restarts(&mut sim, period_ms * MS, 20 * SEC);
            let report = sim.run_until(20 * SEC);
            assert_eq!(report.violations, Vec::<String>::new());
            for (got, fair) in cpus_used(&report).iter().zip(&fair) {
                let off = (got / fair - 1.0).abs();
                assert!(
                    off < 0.01,
                    "{weights:?}, {period_ms} ms: {got:.4} CPUs, fair {fair:.4}"
                );
            }
        }
    }
}

/// A device moves data for a minute for one of two hogs on CPU 0, so it runs only where it is rescued,
/// or in the bypass.
#[test]
fn a_debtor_that_runs_in_the_bypass_still_owes() {
    let pinned = |spec: TaskSpec, cpu| spec.allowed(CpuSet::one(cpu));
    let hogs = hogs(&[weight_one(); 2]).into_iter();
    let mut specs: Vec<_> = hogs.map(|spec| pinned(spec, 0)).collect();
    // Its switches make V go on while the debtor still runs.
    let sleeper = TaskSpec::new("sleeper", Trace::sleeper(MS, MS));
    specs.push(pinned(sleeper, 1));
    let mut sim = Sim::new(Config::new(2).memory(MEM), specs);
    sim.run_until(SEC);
    sim.act(|kernel, _| kernel.add_dma(0, 60 * MEM));
    plan_restarts_from(&mut sim, 2 * SEC, SEC, 20 * SEC);
    let before = sim.run_until(1500 * MS).tasks[0].cpu_ns;
    let got = sim.run_until(20 * SEC).tasks[0].cpu_ns - before;
    assert!(got < SEC, "the debtor got {got} ns of 18.5 s");
}

/// Nobody runs between the two restarts, so all that the first one leaves is the same after the
/// second one.
#[test]
fn what_a_restart_leaves_is_not_changed_by_another_one() {
    let weights = [nice(-5), nice(0), nice(5), nice(19), nice(0)];
    let mut specs = hogs(&weights);
    specs.push(TaskSpec::new("mover", Trace::memory_hog(2 * MEM)));
    specs.push(reader(MEM / 100));
    let nr_tasks = specs.len();
    let mut sim = Sim::new(Config::new(2).memory(MEM), specs);
    let mut widest_ns = 0;
    for at_ms in (100..2000).step_by(13) {
        let mut left = Vec::new();
        for _ in 0..2 {
            sim.plan(at_ms * MS, Outside::Restart);
            sim.run_until(at_ms * MS);
            let accounts: Vec<_> = (0..nr_tasks)
                .map(|task| sim.kernel().account(task))
                .collect();
            let starts = accounts.iter().map(|a| a.start_ns);
            let (first, last) = (starts.clone().min(), starts.max());
            widest_ns = widest_ns.max(last.unwrap_or(0) - first.unwrap_or(0));
            assert!(accounts.iter().all(|a| at_ms < 500 || a.charged_ns > 0));
            left.push(accounts);
        }
        assert_eq!(left[0], left[1], "after {at_ms} ms");
    }
    assert!(widest_ns > 10 * MS, "no task is ahead: {widest_ns} ns");
}

#[test]
fn groups_keep_their_weights() {
    let mut sim = Sim::new(Config::new(1), hogs(&[weight_one(); 3]));
    let group = sim.act(|kernel, _| kernel.cgroup_new(None, 400));
    sim.plan(MS, Outside::Move { task: 0, group });
    plan_restarts(&mut sim, 250 * MS, 20 * SEC);
    let report = sim.run_until(20 * SEC);
    let fair = fair_cpus(&[4, 1, 1].map(|w| w * weight_one()), 1);
    for (got, fair) in cpus_used(&report).iter().zip(&fair) {
        assert!((got / fair - 1.0).abs() < 0.01, "{got:.4}, fair {fair:.4}");
    }
}

/// The agent gives the weights of its rules anew, by a configuration that may be another one.
#[test]
fn a_rule_of_the_last_load_gives_no_weight() {
    let mut sim = Sim::new(Config::new(1), hogs(&[weight_one(); 2]));
    // By its nice value, not by what a test gave it.
    sim.plan(MS, Outside::Renice { task: 0, nice: 0 });
    sim.run_until(SEC);
    sim.act(|kernel, _| kernel.rule_task(0, 4 * weight_one()));
    sim.run_until(2 * SEC);
    assert_eq!(sim.kernel().account(0).weight, 4 * weight_one());
    sim.plan(2 * SEC, Outside::Restart);
    sim.run_until(3 * SEC);
    assert_eq!(sim.kernel().account(0).weight, weight_one());
}

#[test]
fn what_devices_moved_before_a_restart_is_charged_after_it() {
    let mut sim = Sim::new(Config::new(1).memory(MEM), vec![reader(0)]);
    sim.run_until(5 * MS);
    sim.act(|kernel, _| kernel.add_dma(0, MEM));
    sim.plan(6 * MS, Outside::Restart);
    sim.run_until(7 * MS);
    assert_eq!(sim.kernel().account(0).dma_bytes, 0);
    assert_eq!(sim.run_until(20 * MS).tasks[0].dma_bytes, MEM);
}

/// Each of four hogs on two CPUs pays for all that it runs, up to the moment of the restart.
#[test]
fn what_runs_until_a_restart_is_charged() {
    let weights = [1, 2, 3, 4].map(|w| w * weight_one());
    let mut sim = Sim::new(Config::new(2), hogs(&weights));
    for at_ms in (101..2000).step_by(203) {
        sim.run_until(at_ms * MS - 1);
        let before = [0, 1, 2, 3].map(|task| sim.kernel().account(task));
        sim.plan(at_ms * MS, Outside::Restart);
        sim.run_until(at_ms * MS);
        for (task, before) in before.iter().enumerate() {
            let after = sim.kernel().account(task);
            let charged_ns = after.charged_ns - before.charged_ns;
            let paid_ns = (after.start_ns - before.start_ns) * 2 * (task as u64 + 1);
            assert!(
                paid_ns.abs_diff(charged_ns) < US,
                "{paid_ns} for {charged_ns} ns"
            );
        }
    }
}

/// The kernel tells of no CPU that becomes idle while it bypasses the scheduler.
#[test]
fn a_cpu_that_became_idle_in_the_bypass_does_not_stay_busy() {
    let task = || {
        let run = Step::Run {
            ns: 6 * MS,
            bytes_per_s: 0,
        };
        TaskSpec::new("task", Trace::once([run]))
    };
    let mut sim = Sim::new(Config::new(2), vec![task(), task()]);
    sim.run_until(5 * MS);
    assert_eq!(sim.kernel().busy_cpus(), 2);
    sim.act(|kernel, now_ns| kernel.bypass(now_ns, true));
    sim.run_until(20 * MS);
    assert!(sim.kernel().cpu_is_idle(0) && sim.kernel().cpu_is_idle(1));
    sim.act(|kernel, now_ns| kernel.bypass(now_ns, false));
    assert_eq!(sim.kernel().busy_cpus(), 0);
}

// SPDX-License-Identifier: GPL-2.0-only
//! cpu.max and cpu.idle of cgroups.

mod common;

use common::hogs;
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::{CgroupId, Kernel};
use drfq_sim::outside::Outside;
use drfq_sim::trace::Rng;
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, TaskSpec, Trace, US};

/// Half of what the kernel's watchdog allows a task to wait, ns.
const LONG_WAIT_NS: u64 = 15 * SEC;

/// Hogs of weight 1 on `cpus`, of which the first `grouped` are in a group made by `make`.
fn grouped(
    cpus: usize,
    nr_hogs: usize,
    grouped: usize,
    make: impl FnOnce(&mut Kernel) -> CgroupId,
) -> Sim {
    let mut sim = Sim::new(Config::new(cpus), hogs(&vec![weight_one(); nr_hogs]));
    sim.run_until(SEC / 10);
    sim.act(|kernel, now_ns| {
        let group = make(kernel);
        (0..grouped).for_each(|task| kernel.cgroup_move(now_ns, task, group));
    });
    sim
}

/// Makes a group with this cpu.max (us).
fn quota(quota_us: u64, period_us: u64) -> impl FnOnce(&mut Kernel) -> CgroupId {
    move |kernel| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_quota(group, quota_us, period_us);
        group
    }
}

/// The CPUs that each task gets in the `seconds` after a first one.
fn cpus(sim: &mut Sim, seconds: u64) -> Vec<f64> {
    let mut begin = 0;
    sim.act(|_, now_ns| begin = now_ns + SEC);
    let before = sim.run_until(begin);
    let report = sim.run_until(begin + seconds * SEC);
    let used = |(now, then): (&drfq_sim::TaskReport, &drfq_sim::TaskReport)| {
        (now.cpu_ns - then.cpu_ns) as f64 / (seconds * SEC) as f64
    };
    report.tasks.iter().zip(&before.tasks).map(used).collect()
}

fn assert_cpus(what: &str, got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 0.01, "{what}: {got:.4}");
}

#[test]
fn a_group_gets_its_quota_and_others_the_rest() {
    let mut sim = grouped(2, 4, 2, quota(50_000, 100_000));
    let got = cpus(&mut sim, 20);
    assert_cpus("quota", got[..2].iter().sum(), 0.5);
    assert_cpus("others", got[2..].iter().sum(), 1.5);
    // Half of the quota each: both wait and go on by turns.
    assert_cpus("one of two", got[0], 0.25);
}

/// CPU 0 has more weight than CPU 1, so its tasks lie seconds behind V when the quota begins.
#[test]
fn a_pinned_task_behind_v_gets_its_quota() {
    let mut specs = hogs(&[1, 3, 1, 1, 1].map(|weight| weight * weight_one()));
    for (i, spec) in specs.iter_mut().enumerate() {
        *spec = spec.clone().allowed(CpuSet::one(usize::from(i > 2)));
    }
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(20 * SEC);
    sim.act(|kernel, now_ns| {
        let group = quota(10_000, 100_000)(kernel);
        kernel.cgroup_move(now_ns, 0, group);
    });
    assert_cpus("quota", cpus(&mut sim, 20)[0], 0.1);
}

#[test]
fn a_cpu_idles_beside_throttled_tasks_only() {
    let mut sim = grouped(1, 3, 3, quota(30_000, 100_000));
    let got = cpus(&mut sim, 20);
    assert_cpus("quota", got.iter().sum(), 0.3);
}

#[test]
fn the_smaller_quota_of_a_path_holds() {
    let nested = |kernel: &mut Kernel| {
        let parent = kernel.cgroup_new(None, 100);
        let child = kernel.cgroup_new(Some(parent), 100);
        kernel.cgroup_set_quota(parent, 20_000, 100_000);
        kernel.cgroup_set_quota(child, 80_000, 100_000);
        child
    };
    let mut sim = grouped(1, 2, 1, nested);
    assert_cpus("the parent's", cpus(&mut sim, 20)[0], 0.2);
    sim.act(|kernel, _| kernel.cgroup_set_quota(1, 10_000, 100_000));
    assert_cpus("the child's", cpus(&mut sim, 20)[0], 0.1);
    sim.act(|kernel, _| kernel.cgroup_set_quota(0, 0, 0));
    sim.act(|kernel, _| kernel.cgroup_set_quota(1, 0, 0));
    assert_cpus("none", cpus(&mut sim, 20)[0], 0.5);
}

#[test]
fn a_quota_set_later_applies_to_groups_below() {
    let nested = |kernel: &mut Kernel| {
        let parent = kernel.cgroup_new(None, 100);
        let other = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_quota(other, 50_000, 100_000);
        kernel.cgroup_new(Some(parent), 100)
    };
    let mut sim = grouped(1, 2, 1, nested);
    assert_cpus("none", cpus(&mut sim, 20)[0], 0.5);
    sim.act(|kernel, _| kernel.cgroup_set_quota(0, 20_000, 100_000));
    assert_cpus("the parent's", cpus(&mut sim, 20)[0], 0.2);
}

/// The inner group uses its quota at once, and then waits for most of a period. Meanwhile its
/// sibling has the whole weight of the outer group, as much as the hog outside. If the inner group
/// counted, the sibling would have half of that.
#[test]
fn a_throttled_task_counts_for_no_group() {
    let nested = |kernel: &mut Kernel| {
        let outer = kernel.cgroup_new(None, 100);
        let inner = kernel.cgroup_new(Some(outer), 100);
        kernel.cgroup_set_quota(inner, 10_000, 100_000);
        inner
    };
    let mut sim = grouped(1, 3, 1, nested);
    sim.act(|kernel, now_ns| kernel.cgroup_move(now_ns, 1, 0));
    let got = cpus(&mut sim, 40);
    assert_cpus("throttled", got[0], 0.1);
    assert!(got[1] / got[2] > 0.9, "{got:?}");
}

#[test]
fn a_killed_task_does_not_wait_for_its_quota() {
    let mut sim = grouped(1, 2, 2, quota(10_000, 100_000));
    assert_cpus("quota", cpus(&mut sim, 20).iter().sum(), 0.1);
    // It waits for the quota, and the kernel does not queue it again.
    sim.act(|kernel, _| kernel.kill(0));
    let got = cpus(&mut sim, 20);
    assert!(got[0] > 0.99 && got[1] < 0.01, "{got:?}");
}

/// It is alone on its CPU, which idles when the quota is used up.
#[test]
fn an_agent_without_quota_comes_back_in_the_next_period() {
    let mut config = Config::new(1);
    config.wait_bound_ns = SEC / 2;
    let mut sim = Sim::new(config, hogs(&[weight_one()]));
    sim.run_until(SEC / 10);
    sim.kernel().set_agent(0);
    sim.act(|kernel, now_ns| {
        let group = quota(10_000, 100_000)(kernel);
        kernel.cgroup_move(now_ns, 0, group);
    });
    assert_cpus("quota", cpus(&mut sim, 20)[0], 0.1);
    assert_eq!(sim.run_until(30 * SEC).violations, Vec::<String>::new());
}

/// Four CPUs use up to a tick each in excess of 1 ms.
#[test]
fn excess_is_paid_back() {
    let mut sim = grouped(4, 8, 8, quota(1_000, 10_000));
    let got = cpus(&mut sim, 40);
    assert_cpus("quota", got.iter().sum(), 0.1);
}

/// It may hold a lock of the kernel, and others wait for that. A tick of it uses up 40 s of its quota.
#[test]
fn a_task_that_waited_for_ten_seconds_runs_until_a_tick() {
    let mut sim = grouped(1, 1, 1, quota(100, 1_000_000));
    let got = cpus(&mut sim, 60)[0] * 60.0;
    assert!(got > 5.0 * 0.001, "{got:.6} s");
}

#[test]
fn an_idle_group_has_the_weight_of_an_idle_task() {
    let idle = |kernel: &mut Kernel| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_idle(group, true);
        group
    };
    let mut sim = grouped(1, 2, 1, idle);
    let got = cpus(&mut sim, 40);
    assert!((got[0] - 3.0 / 1027.0).abs() < 0.0005, "{got:?}");
    sim.act(|kernel, _| kernel.cgroup_set_idle(0, false));
    assert_cpus("without cpu.idle", cpus(&mut sim, 20)[0], 0.5);
}

/// Tasks of an idle group wait far behind V. What a higher class or a sleeper interrupts waits for a
/// moment in no queue, and must not be forgotten then.
#[test]
fn interruptions_give_an_idle_group_no_more() {
    const IDLE: usize = 4;
    let mut specs = hogs(&[weight_one(); IDLE + 2]);
    for (i, ms) in [7, 31].into_iter().enumerate() {
        let trace = Trace::sleeper(300 * US, ms * MS + i as u64 * 13 * US);
        specs.push(TaskSpec::new(format!("sleeper{i}"), trace));
    }
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(SEC / 10);
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_idle(group, true);
        (0..IDLE).for_each(|task| kernel.cgroup_move(now_ns, task, group));
    });
    let mut rng = Rng::new(1);
    let mut at_ns = SEC;
    while at_ns < 80 * SEC {
        let cpu = rng.range(0, 1) as usize;
        let ns = rng.range(50, 500) * US;
        sim.plan(at_ns, Outside::Take { cpu, ns });
        at_ns += rng.range(2_000, 40_000) * US;
    }
    for _ in 0..15 {
        let got: f64 = cpus(&mut sim, 4)[..IDLE].iter().sum();
        println!("{got:.4}");
        // Some three packets of each in this time.
        assert!(got / 2.0 < 0.01, "{got:.4} CPUs");
    }
}

/// Two threads use up minutes of their quota in a tick. Beside them wait more threads of another
/// group than a look at the throttled ones examines. None is out of sight.
#[test]
fn many_throttled_tasks_hide_none_that_waits_for_longer() {
    const DEEP: usize = 2;
    const CROWD: usize = 1500;
    let mut config = Config::new(4);
    config.wait_bound_ns = LONG_WAIT_NS;
    let mut sim = Sim::new(config, hogs(&[weight_one(); DEEP + CROWD]));
    sim.run_until(SEC / 100);
    sim.act(|kernel, now_ns| {
        let deep = kernel.cgroup_new(None, 100);
        let crowd = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_quota(deep, 100, 1_000_000);
        kernel.cgroup_set_quota(crowd, 10_000, 100_000);
        (0..DEEP).for_each(|task| kernel.cgroup_move(now_ns, task, deep));
        (DEEP..DEEP + CROWD).for_each(|task| kernel.cgroup_move(now_ns, task, crowd));
    });
    let report = sim.run_until(40 * SEC);
    let longest = report.tasks.iter().map(|task| task.max_wait_ns).max();
    println!("longest wait: {longest:?} ns");
    assert_eq!(report.violations, Vec::<String>::new());
}

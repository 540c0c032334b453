// SPDX-License-Identifier: GPL-2.0-only
//! What children have from their parents, heirs from those that end, and what a task keeps when its
//! weight changes.

mod common;

use common::{hogs, nice, run};
use drfq_sim::devices::Way;
use drfq_sim::ffi::{Charging, weight_one};
use drfq_sim::kernel::{Kernel, Place};
use drfq_sim::outside::Outside;
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, Step, TaskSpec, Trace};

/// 1 GB/s: one byte is 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;

const fn on_cpu(ns: u64) -> Step {
    Step::Run { ns, bytes_per_s: 0 }
}

const fn sleep(ns: u64, dma_bytes: u64) -> Step {
    Step::Sleep { ns, dma_bytes }
}

/// A device has moved for the parent what takes five seconds of the memory.
#[test]
fn a_child_of_a_debtor_waits_no_longer_than_an_heir() {
    let steps = [
        on_cpu(MS),
        sleep(10 * MS, 5 * MEM),
        on_cpu(MS),
        Step::Spawn(9),
        on_cpu(MS),
    ];
    let mut specs = hogs(&[weight_one(); 8]);
    specs.push(TaskSpec::new("parent", Trace::once(steps)));
    specs.push(TaskSpec::new("child", Trace::once([on_cpu(MS)])).arrival(u64::MAX));
    let report = run(Config::new(2).memory(MEM), specs, 60);
    let child = &report.tasks[9];
    assert!(child.exited_at_ns.is_some());
    assert!(child.max_wait_ns < SEC / 2, "{} ns", child.max_wait_ns);
}

/// A child of a parent of low weight reads 4 KiB. Only its parent's CPU time is after V.
#[test]
fn a_child_is_no_debtor_for_its_parents_cpu_time() {
    let parent = Trace::once([on_cpu(8 * MS), Step::Spawn(2), on_cpu(MS)]);
    let child = Trace::once([on_cpu(MS / 10), sleep(MS, 4096), on_cpu(MS)]);
    let mut specs = hogs(&[nice(0)]);
    specs.push(TaskSpec::new("parent", parent).weight(nice(19)));
    let child = TaskSpec::new("child", child).weight(nice(19));
    specs.push(child.arrival(u64::MAX));
    let config = Config::new(2).memory(MEM).charging(Charging::Always);
    let report = run(config, specs, 5);
    assert!(report.tasks[2].exited_at_ns.is_some());
    assert_eq!(report.counters.held, 0);
}

/// A shell behind V, whose child of nice 19 uses half a slice.
#[test]
fn a_light_child_does_not_delay_its_parent_behind_v() {
    let shell = Trace::once([
        on_cpu(MS),
        Step::Spawn(11),
        sleep(700 * MS, 0),
        on_cpu(10 * MS),
    ]);
    let bound = |spec: TaskSpec, cpu| spec.allowed(CpuSet::one(cpu));
    let mut specs: Vec<TaskSpec> = hogs(&[weight_one(); 10])
        .into_iter()
        .enumerate()
        .map(|(number, spec)| bound(spec, usize::from(number >= 8)))
        .collect();
    specs.push(bound(TaskSpec::new("shell", shell), 0).arrival(2 * SEC));
    let child = TaskSpec::new("child", Trace::once([on_cpu(2 * MS)])).weight(nice(19));
    specs.push(bound(child, 0).arrival(u64::MAX));
    let config = Config::new(2);
    let round_ns = 10 * (config.slice_ns + config.tick_ns);
    let report = run(config, specs, 8);
    assert!(report.tasks[11].exited_at_ns.is_some());
    let waited_ns = report.tasks[10].max_wait_ns;
    assert!(waited_ns < 2 * round_ns, "the shell waited {waited_ns} ns");
}

/// What it used at a low weight is worth less virtual time at a larger one.
#[test]
fn a_task_whose_weight_rises_runs_in_its_turn() {
    let mut specs = hogs(&[weight_one(); 16]);
    specs.push(TaskSpec::new("low", Trace::hog()).weight(nice(19)));
    let config = Config::new(8);
    let round_ns = 3 * (config.slice_ns + config.tick_ns);
    let mut sim = Sim::new(config, specs);
    let mut now_ns = 5 * SEC;
    sim.run_until(now_ns);
    while sim.kernel().place(16) != Place::Running {
        now_ns += MS;
        sim.run_until(now_ns);
    }
    let from_ns = now_ns + 10 * MS;
    let (task, nice) = (16, 0);
    sim.plan(from_ns, Outside::Renice { task, nice });
    let before_ns = sim.run_until(from_ns).tasks[16].cpu_ns;
    let after_ns = sim.run_until(from_ns + 2 * round_ns).tasks[16].cpu_ns;
    assert!(
        after_ns > before_ns,
        "it ran for {before_ns} ns, and no longer"
    );
}

/// A parent that submits this to devices 5 ms after its begin, and forks before it is charged for it.
fn forks_after_submitting(cpus: usize, requests: &[u32]) -> Sim {
    let steps = [on_cpu(11 * MS / 2), Step::Spawn(1), on_cpu(50 * MS)];
    let specs = vec![
        TaskSpec::new("parent", Trace::once(steps)),
        TaskSpec::new("child", Trace::once([on_cpu(20 * MS)])).arrival(u64::MAX),
    ];
    let mut sim = Sim::new(Config::new(cpus).memory(MEM), specs);
    sim.run_until(5 * MS);
    for &bytes in requests {
        sim.kernel().submit(0, bytes, Way::default());
    }
    sim.run_until(23 * MS / 4);
    sim
}

/// What a task submits to devices, and forks before it is charged for, counts for its child.
#[test]
fn a_child_starts_after_what_devices_move_for_its_parent() {
    let starts = [&[][..], &[1 << 24]].map(|requests| {
        let child = forks_after_submitting(1, requests).kernel().account(1);
        [child.start_ns, child.bus_vt_ns]
    });
    let after = [0, 1].map(|i| (starts[1][i] - starts[0][i]) / MS);
    assert!(after.iter().all(|&ms| ms >= 10), "{after:?} ms later");
}

/// The parent submits what takes seconds of the memory, and forks before it is charged for it.
#[test]
fn a_child_of_a_debtor_is_no_farther_ahead_than_its_parent_will_be() {
    let mut sim = forks_after_submitting(2, &[1 << 30; 3]);
    let b = sim.kernel().bus_v_ns();
    let child_ms = (sim.kernel().account(1).bus_vt_ns - b) / MS;
    assert!(child_ms > 100, "{child_ms} ms ahead of B");
    sim.run_until(20 * MS);
    let b = sim.kernel().bus_v_ns();
    let parent_ms = (sim.kernel().account(0).bus_vt_ns - b) / MS;
    assert!(
        child_ms <= parent_ms,
        "{child_ms} ms and {parent_ms} ms ahead of B"
    );
}

/// A child ends before its parent is charged for what it submitted.
#[test]
fn a_family_pays_once_for_what_devices_move() {
    let starts = [false, true].map(|forks| {
        let mut steps = vec![on_cpu(11 * MS / 2)];
        steps.extend(forks.then_some(Step::Spawn(1)));
        steps.extend([on_cpu(MS / 10), sleep(20 * MS, 0), on_cpu(50 * MS)]);
        let specs = vec![
            TaskSpec::new("parent", Trace::once(steps)),
            TaskSpec::new("child", Trace::once([on_cpu(MS / 5)])).arrival(u64::MAX),
        ];
        let config = Config::new(2).memory(MEM).delta(0);
        let mut sim = Sim::new(config.charging(Charging::Always), specs);
        sim.run_until(5 * MS);
        sim.kernel().submit(0, 1 << 24, Way::default());
        sim.run_until(30 * MS);
        let parent = sim.kernel().account(0);
        [parent.start_ns, parent.bus_vt_ns]
    });
    let [alone, forked] = starts;
    for (alone, forked) in alone.into_iter().zip(forked) {
        let more_ns = forked as i64 - alone as i64;
        assert!(more_ns.abs() < MS as i64, "{more_ns} ns more");
    }
}

const LEADER: usize = 0;
const WORKER: usize = 1;
const CHILD: usize = 2;

/// How much S of a leader that sleeps, and of a thread, grows (virtual ns) when another thread ends that
/// the first one has made, and that has run for 8 ms. `ends`: its maker has ended before.
fn inherited_from_a_thread(ends: bool) -> [u64; 2] {
    let mut kernel = Kernel::new(&Config::new(1));
    for task in [LEADER, WORKER] {
        kernel.task_new(0, None, CpuSet::ALL, 0, false);
        kernel.join(task, LEADER);
    }
    kernel.wake_new(0, WORKER);
    assert_eq!(kernel.schedule(0, 0), Some(WORKER));
    kernel.task_new(0, Some(WORKER), CpuSet::ALL, 0, false);
    kernel.join(CHILD, LEADER);
    kernel.wake_new(0, CHILD);
    if ends {
        kernel.exit(0, 0);
    } else {
        kernel.block(0, 0);
    }
    assert_eq!(kernel.schedule(0, 0), Some(CHILD));
    let starts = |kernel: &mut Kernel| {
        [LEADER, WORKER].map(|task| match ends && task == WORKER {
            true => 0,
            false => kernel.account(task).start_ns,
        })
    };
    let before = starts(&mut kernel);
    kernel.exit(8 * MS, 0);
    let after = starts(&mut kernel);
    [0, 1].map(|i| after[i] - before[i])
}

#[test]
fn the_maker_of_a_thread_is_its_heir_and_the_leader_only_once_that_has_ended() {
    assert_eq!(inherited_from_a_thread(false), [0, 8 * MS]);
    assert_eq!(inherited_from_a_thread(true), [8 * MS, 0]);
}

/// How much S of a task that sleeps grows (virtual ns) when one of its descendants ends that has run
/// for 8 ms. `ended`: the generations between them, which end at once. `reaped`: they are no zombies.
fn inherited_after_generations(ended: usize, reaped: bool) -> u64 {
    let mut kernel = Kernel::new(&Config::new(1));
    kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, 0);
    for maker in 0..=ended {
        assert_eq!(kernel.schedule(0, 0), Some(maker));
        kernel.task_new(0, Some(maker), CpuSet::ALL, 0, false);
        kernel.wake_new(0, maker + 1);
        if maker == 0 {
            kernel.block(0, 0);
            continue;
        }
        kernel.exit(0, 0);
        if reaped {
            kernel.reap(maker);
        }
    }
    assert_eq!(kernel.schedule(0, 0), Some(ended + 1));
    let before = kernel.account(0).start_ns;
    kernel.exit(8 * MS, 0);
    kernel.account(0).start_ns - before
}

#[test]
fn a_task_pays_for_what_its_children_leave_behind() {
    for reaped in [true, false] {
        for ended in [0, 1, 2, 9, 64] {
            let grown = inherited_after_generations(ended, reaped);
            assert_eq!(grown, 8 * MS, "{ended} ended, reaped: {reaped}");
        }
    }
}

/// How much S of a running task grows (virtual ns) when its child ends on another CPU after 8 ms.
/// `refused`: a device has refused one of its requests, which was charged, and it has submitted the
/// same again, which will not be.
fn inherited_beside_requests(refused: bool) -> u64 {
    const BYTES: u32 = 1 << 20;
    let mut kernel = Kernel::new(&Config::new(2).memory(MEM).charging(Charging::Always));
    kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, 0);
    assert_eq!(kernel.schedule(0, 0), Some(0));
    kernel.submit(0, BYTES, Way::default());
    kernel.task_new(0, Some(0), CpuSet::ALL, 0, false);
    kernel.wake_new(0, 1);
    assert_eq!(kernel.schedule(0, 1), Some(1));
    kernel.tick(MS, 0, 0);
    if refused {
        kernel.refuse(0, BYTES);
        kernel.submit(0, BYTES, Way::default());
    }
    let before = kernel.account(0).start_ns;
    kernel.exit(8 * MS, 1);
    kernel.account(0).start_ns - before
}

#[test]
fn requests_that_are_refused_pay_for_no_child() {
    let grown = inherited_beside_requests(false);
    assert!(grown > MS, "{grown}");
    assert_eq!(inherited_beside_requests(true), grown);
}

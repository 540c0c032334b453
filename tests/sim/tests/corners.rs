// SPDX-License-Identifier: GPL-2.0-only
//! Corners of the callbacks: what is done to a task from outside, and how accounts follow.

mod common;

use common::{hogs, nice, reader, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::{Kernel, Place};
use drfq_sim::{Config, CpuSet, MS, SEC, Sim, Step, TaskSpec, Trace};

/// 1 GB/s: one byte is 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;

/// A hog of weight 1 in a new group of `cpu.weight` 100, and its forked child on another CPU.
fn group_of_two() -> Sim {
    let steps = [
        Step::Run {
            ns: 10 * MS,
            bytes_per_s: 0,
        },
        Step::Spawn(1),
        Step::Run {
            ns: u64::MAX / 4,
            bytes_per_s: 0,
        },
    ];
    let child = TaskSpec::new("child", Trace::hog()).arrival(u64::MAX);
    let specs = vec![TaskSpec::new("parent", Trace::once(steps)), child];
    let mut sim = Sim::new(Config::new(4), specs);
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, group);
    });
    sim.run_until(100 * MS);
    sim
}

#[test]
fn a_child_forked_to_an_idle_cpu_halves_the_weight_of_its_sibling() {
    let mut sim = group_of_two();
    assert_eq!(sim.kernel().account(0).weight, weight_one() / 2);
    assert_eq!(sim.kernel().account(1).weight, weight_one() / 2);
}

/// The effective weight of the child in the group of two after `act`, before the parent's tick.
fn child_weight_after(sim: &mut Sim, act: impl FnOnce(&mut Kernel, u64)) -> u32 {
    sim.act(|kernel, now_ns| {
        act(kernel, now_ns);
        // Its charge looks at the group.
        kernel.renice(now_ns, 1, 0);
    });
    sim.kernel().account(1).weight
}

#[test]
fn a_renice_of_a_running_task_leaves_it_counted_in_its_group() {
    let mut sim = group_of_two();
    let weight = child_weight_after(&mut sim, |kernel, now_ns| kernel.renice(now_ns, 0, 0));
    assert_eq!(weight, weight_one() / 2);
}

#[test]
fn a_change_of_a_running_tasks_affinity_leaves_it_counted_in_its_group() {
    let mut sim = group_of_two();
    let weight = child_weight_after(&mut sim, |kernel, now_ns| {
        kernel.set_affinity(now_ns, 0, CpuSet::ALL);
    });
    assert_eq!(weight, weight_one() / 2);
}

/// Before the first tick, which would count it.
#[test]
fn a_task_that_wakes_on_an_idle_cpu_counts_in_its_group_at_once() {
    let specs = vec![
        TaskSpec::new("hog", Trace::hog()),
        TaskSpec::new("sleeper", Trace::sleeper(MS, 5 * MS)),
    ];
    let mut sim = Sim::new(Config::new(4), specs);
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, group);
        kernel.cgroup_move(now_ns, 1, group);
    });
    let mut now_ns = 50 * MS;
    while sim.kernel().place(1) == Place::Running {
        now_ns += MS / 10;
        sim.run_until(now_ns);
    }
    while sim.kernel().place(1) != Place::Running {
        now_ns += MS / 10;
        sim.run_until(now_ns);
    }
    // Its charge looks at the group.
    sim.act(|kernel, now_ns| kernel.renice(now_ns, 0, 0));
    assert_eq!(sim.kernel().account(0).weight, weight_one() / 2);
}

/// A group of two whose parent runs uncounted: it was changed while it was about to sleep, and then
/// did not.
fn group_of_two_with_one_uncounted() -> Sim {
    let mut sim = group_of_two();
    let weight = child_weight_after(&mut sim, |kernel, now_ns| {
        kernel.set_about_to_sleep(0, true);
        kernel.renice(now_ns, 0, 0);
        kernel.set_about_to_sleep(0, false);
    });
    assert_eq!(weight, weight_one());
    sim
}

#[test]
fn a_renice_counts_a_running_task_that_was_not_counted() {
    let mut sim = group_of_two_with_one_uncounted();
    let weight = child_weight_after(&mut sim, |kernel, now_ns| kernel.renice(now_ns, 0, 0));
    assert_eq!(weight, weight_one() / 2);
}

#[test]
fn a_change_of_affinity_counts_a_running_task_that_was_not_counted() {
    let mut sim = group_of_two_with_one_uncounted();
    let weight = child_weight_after(&mut sim, |kernel, now_ns| {
        kernel.set_affinity(now_ns, 0, CpuSet::ALL);
    });
    assert_eq!(weight, weight_one() / 2);
}

#[test]
fn a_tick_counts_a_running_task_that_was_not_counted() {
    let mut sim = group_of_two_with_one_uncounted();
    sim.run_until(110 * MS);
    assert_eq!(sim.kernel().account(1).weight, weight_one() / 2);
}

/// A task that is alone in its group counts in the outer group in its stead. Tasks join it and
/// leave it, and its weight changes.
#[test]
fn a_task_that_is_or_becomes_alone_has_the_weight_of_its_group() {
    let one = weight_one();
    let mut sim = Sim::new(Config::new(4), hogs(&[one; 4]));
    sim.run_until(5 * MS);
    let mut groups = None;
    sim.act(|kernel, now_ns| {
        let outer = kernel.cgroup_new(None, 100);
        let (alone, pair) = (
            kernel.cgroup_new(Some(outer), 100),
            kernel.cgroup_new(Some(outer), 100),
        );
        for (task, group) in [(0, alone), (1, pair), (2, pair), (3, pair)] {
            kernel.cgroup_move(now_ns, task, group);
        }
        groups = Some((alone, pair));
    });
    let (alone, pair) = groups.expect("made above");
    let mut until = 5 * MS;
    let mut weights = |sim: &mut Sim| {
        until += 50 * MS;
        sim.run_until(until);
        [0, 1, 2, 3].map(|task| sim.kernel().account(task).weight)
    };
    let sixth = one / 6;
    assert_eq!(weights(&mut sim), [one / 2, sixth, sixth, sixth]);
    sim.act(|kernel, now_ns| kernel.cgroup_move(now_ns, 3, alone));
    assert_eq!(weights(&mut sim), [one / 4; 4]);
    sim.act(|kernel, now_ns| kernel.cgroup_move(now_ns, 0, pair));
    assert_eq!(weights(&mut sim), [sixth, sixth, sixth, one / 2]);
    sim.act(|kernel, _| kernel.cgroup_set_weight(alone, 300));
    let twelfth = one / 12;
    assert_eq!(weights(&mut sim), [twelfth, twelfth, twelfth, one / 4 * 3]);
}

/// The kernel lets tasks and child groups be in one group if it is threaded.
#[test]
fn a_task_beside_a_child_group_is_not_alone() {
    let one = weight_one();
    let mut sim = Sim::new(Config::new(4), hogs(&[one; 3]));
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let outer = kernel.cgroup_new(None, 100);
        let group = kernel.cgroup_new(Some(outer), 100);
        let other = kernel.cgroup_new(Some(outer), 100);
        let child = kernel.cgroup_new(Some(group), 100);
        for (task, to) in [(0, group), (1, child), (2, other)] {
            kernel.cgroup_move(now_ns, task, to);
        }
    });
    sim.run_until(100 * MS);
    let weights = [0, 1, 2].map(|task| sim.kernel().account(task).weight);
    assert_eq!(weights, [one / 4, one / 4, one / 2]);
}

#[test]
fn a_task_that_joins_one_that_is_alone_shares_its_group_at_once() {
    let mut sim = Sim::new(Config::new(4), hogs(&[weight_one(); 2]));
    let mut group = None;
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let new = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, new);
        group = Some(new);
    });
    sim.run_until(50 * MS);
    assert_eq!(sim.kernel().account(0).weight, weight_one());
    sim.act(|kernel, now_ns| {
        kernel.cgroup_move(now_ns, 1, group.expect("made above"));
        // Its charge looks at the group.
        kernel.renice(now_ns, 1, 0);
    });
    assert_eq!(sim.kernel().account(1).weight, weight_one() / 2);
}

/// Sums are followed upwards for 16 levels. Deeper groups compete in the last one of these.
#[test]
fn tasks_in_deep_groups_leave_no_weight_behind() {
    let one = weight_one();
    let mut specs = hogs(&[one; 2]);
    specs.push(TaskSpec::new("deep", Trace::sleeper(3 * MS, 5 * MS)));
    specs.push(TaskSpec::new("beside", Trace::sleeper(3 * MS, 7 * MS)));
    let mut sim = Sim::new(Config::new(4), specs);
    sim.run_until(MS);
    let mut second = None;
    sim.act(|kernel, now_ns| {
        let mut chain = vec![kernel.cgroup_new(None, 100)];
        for level in 1..20 {
            chain.push(kernel.cgroup_new(Some(chain[level - 1]), 100));
        }
        let beside = kernel.cgroup_new(Some(chain[9]), 100);
        kernel.cgroup_move(now_ns, 2, chain[19]);
        kernel.cgroup_move(now_ns, 3, beside);
        second = Some(chain[1]);
    });
    sim.run_until(SEC);
    sim.act(|kernel, now_ns| {
        let root = kernel.cgroup_new(None, 100);
        for task in [2, 3] {
            kernel.cgroup_move(now_ns, task, root);
        }
        for task in [0, 1] {
            let group = kernel.cgroup_new(second, 100);
            kernel.cgroup_move(now_ns, task, group);
        }
    });
    sim.run_until(SEC + 50 * MS);
    let weights = [0, 1].map(|task| sim.kernel().account(task).weight);
    assert_eq!(weights, [one / 2, one / 2]);
}

/// What a hog gets of a CPU beside sleepers that are alone in their groups of a group of its
/// weight. The groups have weight `asleep` while their task sleeps, and else `awake`.
fn share_beside_groups_of_one(asleep: u32, awake: u32) -> f64 {
    const TASKS: usize = 6;
    let mut specs = hogs(&[weight_one()]);
    for _ in 0..TASKS {
        specs.push(TaskSpec::new("sleeper", Trace::sleeper(MS, 2 * MS)));
    }
    let mut sim = Sim::new(Config::new(1), specs);
    sim.run_until(MS);
    let mut groups = Vec::new();
    sim.act(|kernel, now_ns| {
        let alone = kernel.cgroup_new(None, 100);
        let many = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, alone);
        for task in 1..=TASKS {
            let group = kernel.cgroup_new(Some(many), 100);
            kernel.cgroup_move(now_ns, task, group);
            groups.push((task, group));
        }
    });
    for step in 0..50_000 {
        sim.act(|kernel, _| {
            for (task, group) in &groups {
                let sleeps = kernel.place(*task) == Place::Nowhere;
                kernel.cgroup_set_weight(*group, if sleeps { asleep } else { awake });
            }
        });
        sim.run_until(MS + (step + 1) * MS / 10);
    }
    sim.kernel().account(0).charged_ns as f64 / (5.0 * SEC as f64)
}

/// What counts of a group is what its weight was as its task woke up. So is what it is charged by.
#[test]
fn weights_of_groups_that_change_with_each_wake_up_gain_little() {
    let fair = share_beside_groups_of_one(100, 100);
    let attacked = share_beside_groups_of_one(1, 10_000);
    assert!(fair > 0.4, "{fair:.3}");
    assert!(attacked > 0.9 * fair, "{attacked:.3} of {fair:.3}");
}

#[test]
fn a_group_that_only_sleeping_tasks_left_has_its_whole_weight_again() {
    let run = Step::Run {
        ns: 50 * MS,
        bytes_per_s: 0,
    };
    let sleep = Step::Sleep {
        ns: SEC,
        dma_bytes: 0,
    };
    let specs = vec![
        TaskSpec::new("hog", Trace::hog()),
        TaskSpec::new("sleeper", Trace::repeat([run, sleep])),
    ];
    let mut sim = Sim::new(Config::new(4), specs);
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_move(now_ns, 0, group);
        kernel.cgroup_move(now_ns, 1, group);
    });
    sim.run_until(20 * MS);
    assert_eq!(sim.kernel().account(0).weight, weight_one() / 2);
    sim.run_until(100 * MS);
    assert_eq!(sim.kernel().account(0).weight, weight_one());
}

/// The kernel also tells of changes of tasks that it schedules otherwise. They use no share.
#[test]
fn a_task_of_another_class_does_not_count_in_the_group_that_it_moves_to() {
    let run = Step::Run {
        ns: MS,
        bytes_per_s: 0,
    };
    let sleep = Step::Sleep {
        ns: 10 * SEC,
        dma_bytes: 0,
    };
    let specs = vec![
        TaskSpec::new("hog", Trace::hog()),
        TaskSpec::new("leaves", Trace::repeat([run, sleep])),
        TaskSpec::new("beside", Trace::hog()),
    ];
    let mut sim = Sim::new(Config::new(4), specs);
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        kernel.leave_class(now_ns, 1);
        // A task that is alone in its group counts in the outer one in its stead.
        let outer = kernel.cgroup_new(None, 100);
        let group = kernel.cgroup_new(Some(outer), 100);
        let beside = kernel.cgroup_new(Some(outer), 100);
        kernel.cgroup_move(now_ns, 0, group);
        kernel.cgroup_move(now_ns, 2, beside);
        kernel.cgroup_move(now_ns, 1, group);
        kernel.renice(now_ns, 1, 0);
    });
    sim.run_until(20 * MS);
    assert_eq!(sim.kernel().account(0).weight, weight_one() / 2);
}

#[test]
fn the_weight_of_a_merged_group_leaves_its_parent_alone() {
    let mut sim = Sim::new(Config::new(2), hogs(&[weight_one()]));
    sim.run_until(5 * MS);
    sim.act(|kernel, now_ns| {
        let parent = kernel.cgroup_new(None, 100);
        for _ in 0..4094 {
            kernel.cgroup_new(None, 100);
        }
        let merged = kernel.cgroup_new(Some(parent), 100);
        assert_eq!(kernel.event_count("CGROUPS_MERGED"), 1);
        kernel.cgroup_move(now_ns, 0, parent);
        kernel.cgroup_set_weight(merged, 10_000);
    });
    sim.run_until(50 * MS);
    assert_eq!(sim.kernel().account(0).weight, weight_one());
}

/// A shell of weight 1 whose child of nice 19 uses half a slice, beside two hogs per CPU.
#[test]
fn a_light_child_does_not_delay_its_heavier_parent() {
    let on_cpu = |ns| Step::Run { ns, bytes_per_s: 0 };
    let wait = Step::Sleep {
        ns: 15 * MS,
        dma_bytes: 0,
    };
    let shell = Trace::once([on_cpu(MS), Step::Spawn(9), wait, on_cpu(10 * MS)]);
    let mut specs = hogs(&[weight_one(); 8]);
    specs.push(TaskSpec::new("shell", shell));
    let child = TaskSpec::new("child", Trace::once([on_cpu(2 * MS)])).weight(nice(19));
    specs.push(child.arrival(u64::MAX));
    let config = Config::new(4);
    let bound = 2 * (config.slice_ns + config.tick_ns);
    let report = run(config, specs, 3);
    assert!(report.tasks[9].exited_at_ns.is_some_and(|at| at < 30 * MS));
    // What the child used is worth an eighth of a millisecond to each of the eight hogs.
    let waited_ns = report.tasks[8].max_wait_ns;
    assert!(waited_ns < bound, "the shell waited {waited_ns} ns");
}

#[test]
fn traffic_from_before_the_load_is_charged_to_no_task() {
    let config = Config::new(2).memory(MEM);
    let mut kernel = Kernel::new(&config);
    kernel.count_traffic(0, 1 << 40);
    let task = kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.adopt_running(0, task, 0);
    kernel.tick(4 * MS, 0, 0);
    assert_eq!(kernel.account(task).bytes, 0);
    kernel.count_traffic(0, 1000);
    kernel.tick(8 * MS, 0, 0);
    assert_eq!(kernel.account(task).bytes, 1000);
}

#[test]
fn the_reported_wait_is_on_the_clock_of_the_run_queues() {
    let mut sim = Sim::new(Config::new(1), hogs(&[weight_one(); 2]));
    sim.run_until(SEC + MS);
    let waited: Vec<u64> = sim.act(|kernel, now_ns| {
        (0..2)
            .map(|task| kernel.task_wait_ns(now_ns, task))
            .collect()
    });
    let sum = waited.iter().sum::<u64>();
    assert!(sum.abs_diff(SEC) < 10 * MS, "{waited:?}");
}

#[test]
fn a_reader_whose_clock_stands_before_a_wait_reports_no_wait() {
    let mut sim = Sim::new(Config::new(1), hogs(&[weight_one(); 2]));
    sim.run_until(SEC + MS);
    let before_all = sim.act(|kernel, now_ns| {
        let now = kernel.task_wait_ns(now_ns, 0) + kernel.task_wait_ns(now_ns, 1);
        let early = kernel.task_wait_ns(1, 0) + kernel.task_wait_ns(1, 1);
        now.checked_sub(early)
    });
    assert!(before_all.is_some_and(|ns| ns < 10 * MS), "{before_all:?}");
}

#[test]
fn a_restored_task_goes_on_from_where_it_was_charged_to() {
    let mut sim = Sim::new(Config::new(2), hogs(&[weight_one(); 2]));
    sim.run_until(100 * MS);
    let cpu = sim.cpu_of(0).expect("a CPU for each");
    for (about_to_sleep, at_ms) in [(false, 200), (true, 300)] {
        sim.run_until(at_ms * MS);
        sim.act(|kernel, now_ns| {
            kernel.set_about_to_sleep(0, about_to_sleep);
            kernel.renice(now_ns, 0, 0);
            kernel.set_about_to_sleep(0, false);
        });
        let start_ns = sim.kernel().account(0).start_ns;
        assert_eq!(sim.kernel().slot_vtime_ns(cpu), start_ns);
    }
}

/// Debtors that may use LLC 1 only, released by CPUs of LLC 0 as well.
#[test]
fn a_held_task_is_released_to_the_queue_of_its_own_llc() {
    let mut specs = hogs(&[weight_one(); 6]);
    specs.push(reader(MEM / 16).allowed(CpuSet::of(0b1100)));
    let report = run(Config::new(4).llcs(2).memory(MEM), specs, 20);
    assert!(report.counters.released_vtime > 10);
}

/// The first CPU was idle, and the task is on its local queue when a higher class takes it.
#[test]
fn a_task_dispatched_to_a_cpu_that_a_higher_class_takes_runs_on_another_one() {
    let mut kernel = Kernel::new(&Config::new(2));
    let task = kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, task);
    assert_eq!(kernel.place(task), Place::Local);
    let first = kernel.task_cpu(task);
    kernel.take_rescheds();
    kernel.take_cpu(MS, first);
    let other = 1 - first;
    assert_eq!(kernel.take_rescheds(), [other]);
    assert_eq!(kernel.schedule(MS, other), Some(task));
    assert_eq!(kernel.place(task), Place::Running);
}

/// The waker says that it sleeps soon (`SYNC`), but it has a CPU that no task of ours gets.
#[test]
fn a_task_that_a_higher_class_wakes_runs_on_an_idle_cpu() {
    let mut kernel = Kernel::new(&Config::new(3));
    let sleeper = kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, sleeper);
    let own = kernel.task_cpu(sleeper);
    assert_eq!(kernel.schedule(0, own), Some(sleeper));
    kernel.block(MS, own);
    let hog = kernel.task_new(MS, None, CpuSet::one(own), own, false);
    kernel.wake_new(MS, hog);
    assert_eq!(kernel.schedule(MS, own), Some(hog));
    let (taken, idle) = ((own + 1) % 3, (own + 2) % 3);
    kernel.take_cpu(MS, taken);
    kernel.take_rescheds();
    kernel.wake(2 * MS, sleeper, Some(taken), true);
    assert_eq!(kernel.task_cpu(sleeper), idle);
    assert_eq!(kernel.schedule(2 * MS, idle), Some(sleeper));
}

/// Kernels before 6.19 do not tell of a higher class that takes an idle CPU.
#[test]
fn the_agent_waits_for_no_cpu_that_a_higher_class_took_while_it_idled() {
    let mut kernel = Kernel::new(&Config::new(2));
    let agent = kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.set_agent(agent);
    kernel.wake_new(0, agent);
    let own = kernel.task_cpu(agent);
    assert_eq!(kernel.schedule(0, own), Some(agent));
    kernel.block(MS, own);
    assert_eq!(kernel.schedule(MS, own), None);
    kernel.take_idle_cpu(2 * MS, own);
    let hog = kernel.task_new(2 * MS, None, CpuSet::one(1 - own), 1 - own, false);
    kernel.wake_new(2 * MS, hog);
    assert_eq!(kernel.schedule(2 * MS, 1 - own), Some(hog));
    kernel.wake(3 * MS, agent, None, false);
    assert_eq!(kernel.place(agent), Place::Queued);
    kernel.tick(7 * MS, 1 - own, 1 - own);
    assert_eq!(kernel.schedule(7 * MS, 1 - own), Some(agent));
}

/// It has only its last switch to do, and no rescue could find it in a queue.
#[test]
fn a_reaped_task_runs_on_another_cpu_than_the_one_that_a_higher_class_takes() {
    let mut kernel = Kernel::new(&Config::new(2));
    let task = kernel.task_new(0, None, CpuSet::ALL, 0, false);
    kernel.wake_new(0, task);
    let first = kernel.task_cpu(task);
    kernel.take_rescheds();
    assert_eq!(kernel.schedule(0, first), Some(task));
    kernel.reap(task);
    kernel.take_cpu(MS, first);
    let other = 1 - first;
    assert!(kernel.take_rescheds().contains(&other), "nothing wakes it");
    assert_eq!(kernel.schedule(MS, other), Some(task));
}

/// The kernel ends a scheduler that queues a task again 256 times before it runs. The other task was
/// given the CPU while it idled, and may run elsewhere.
#[test]
fn a_kernel_thread_is_queued_again_once_while_tasks_of_higher_classes_follow_each_other() {
    let mut kernel = Kernel::new(&Config::new(2));
    let own = 0;
    let kthread = kernel.task_new(0, None, CpuSet::one(own), own, true);
    kernel.wake_new(0, kthread);
    assert_eq!(kernel.schedule(0, own), Some(kthread));
    kernel.block(MS, own);
    assert_eq!(kernel.schedule(MS, own), None);
    let other = kernel.task_new(MS, None, CpuSet::ALL, own, false);
    kernel.wake_new(MS, other);
    kernel.take_idle_cpu(MS, own);
    kernel.wake(MS, kthread, None, false);
    assert_eq!(
        [kthread, other].map(|task| kernel.place(task)),
        [Place::Local; 2]
    );
    kernel.switch_above(MS, own);
    assert_ne!(kernel.place(other), Place::Local);
    for step in 2..300 {
        kernel.switch_above(step * MS, own);
    }
    assert_eq!(kernel.place(kthread), Place::Queued);
    assert_eq!(kernel.event_count("REENQUEUED"), 1);
}

/// What a CPU counts is what its own task moves, whoever runs the tick (`sched_tick_remote()`).
#[test]
fn a_tick_from_another_cpu_charges_no_traffic_of_that_cpu() {
    let stream = |cpu, bytes_per_s| {
        TaskSpec::new("stream", Trace::memory_hog(bytes_per_s)).allowed(CpuSet::one(cpu))
    };
    let specs = vec![stream(0, MEM / 2), stream(1, MEM / 10)];
    let mut sim = Sim::new(Config::new(2).memory(MEM), specs);
    for step in 1..100 {
        // Between two ticks, so that each CPU has counted something.
        sim.run_until((4 * step + 2) * MS);
        sim.act(|kernel, now_ns| kernel.tick(now_ns, 0, 1));
    }
    let report = sim.run_until(400 * MS + MS);
    for (task, moved) in report.tasks.iter().enumerate() {
        let charged = sim.kernel().account(task).bytes;
        let open = moved.bytes / 100;
        assert!(
            charged.abs_diff(moved.bytes) <= open,
            "task {task}: {charged} charged, {} moved",
            moved.bytes
        );
    }
}

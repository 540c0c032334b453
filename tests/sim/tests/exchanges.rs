// SPDX-License-Identifier: GPL-2.0-only
//! A CPU exchanges its task for the only one that waits, and another CPU ticks meanwhile. Between
//! `ops.dispatch`, which takes the one, and `ops.enqueue` of the other the queue is empty. Callbacks
//! run in parts here, as on several CPUs.

use drfq_sim::kernel::{Kernel, Place};
use drfq_sim::replay::strand::{Path, Point};
use drfq_sim::{Config, CpuSet, MS};

/// The CPUs of all tasks. A third one is idle, so nothing is contended where no task waits.
const ALLOWED: u128 = 0b011;

/// 1 GB/s: one byte is 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;
/// When the tasks begin, and when CPU 1 exchanges.
const BEGIN: u64 = MS;
const NOW: u64 = 25 * MS;
/// Bytes that the stream has moved by then. Of its resources, memory is the dominant one.
const MOVED: u64 = 20_000_000;

/// Tasks by number.
const STREAM: usize = 0;
const RUNS: usize = 1;
const WAITS: usize = 2;

/// The stream runs on CPU 0, a second task on CPU 1, and a third one waits.
fn two_cpus() -> Kernel {
    let mut kernel = Kernel::new(&Config::new(3).memory(MEM));
    for task in [STREAM, RUNS, WAITS] {
        kernel.task_new(BEGIN, None, CpuSet::of(ALLOWED), task.min(1), false);
        kernel.wake_new(BEGIN, task);
        if task != WAITS {
            assert_eq!(kernel.schedule(BEGIN, task), Some(task));
        }
    }
    // The first tick starts the traffic counter.
    kernel.tick(BEGIN, 0, 0);
    assert_eq!(kernel.place(WAITS), Place::Queued);
    kernel
}

/// How much S of the stream grows at a tick of its CPU, virtual ns.
fn charged_at_tick(kernel: &mut Kernel) -> u64 {
    let before_ns = kernel.account(STREAM).start_ns;
    kernel.count_traffic(0, MOVED);
    kernel.tick(NOW, 0, 0);
    kernel.account(STREAM).start_ns - before_ns
}

/// CPU 1 exchanges its task for the waiting one, up to point number `points`. Returns whether it
/// came so far.
fn exchange(kernel: &mut Kernel, end_packet: fn(&mut Kernel), points: usize) -> bool {
    end_packet(kernel);
    kernel.strand_start(NOW, 1, Path::Schedule);
    for _ in 0..points {
        if kernel.strand_point(1).0 == Point::Done {
            return false;
        }
        kernel.strand_resume(1, None);
    }
    true
}

/// How many of the points of an exchange find the queue empty. At each, the stream is charged for
/// its traffic.
fn empty_points(end_packet: fn(&mut Kernel)) -> usize {
    let mut empty = 0;
    for points in 0.. {
        let mut kernel = two_cpus();
        if !exchange(&mut kernel, end_packet, points) {
            assert_eq!(kernel.place(WAITS), Place::Running);
            assert_eq!(kernel.place(RUNS), Place::Queued);
            break;
        }
        let point = kernel.strand_point(1);
        let queued = |task| kernel.place(task) == Place::Queued;
        empty += usize::from(!queued(RUNS) && !queued(WAITS));
        assert_eq!(charged_at_tick(&mut kernel), MOVED, "at {point:?}");
    }
    empty
}

#[test]
fn traffic_is_charged_while_another_cpu_ends_a_slice_in_favour_of_the_only_waiting_task() {
    assert!(empty_points(|kernel| kernel.tick(NOW, 1, 1)) > 2);
}

#[test]
fn traffic_is_charged_while_a_task_on_another_cpu_yields_to_the_only_waiting_one() {
    assert!(empty_points(|kernel| kernel.yield_task(NOW, 1)) > 2);
}

#[test]
fn traffic_is_not_charged_once_the_task_of_an_exchange_runs_again_and_none_waits() {
    let mut kernel = two_cpus();
    exchange(&mut kernel, |kernel| kernel.tick(NOW, 1, 1), usize::MAX);
    kernel.block(NOW, 1);
    assert_eq!(kernel.schedule(NOW, 1), Some(RUNS));
    assert!(charged_at_tick(&mut kernel) < MOVED);
}

/// Tasks by number, where one of low weight has run and waits far behind the others.
const FAR: usize = 0;
const BLOCKS: usize = 2;
const DUE: usize = 3;
/// When `FAR` gives its CPU to another task.
const TURN: u64 = BEGIN + 8 * MS;

/// Two tasks of weight 1 run on the two CPUs, and a third one waits.
fn far_task_waits() -> Kernel {
    let mut kernel = Kernel::new(&Config::new(2));
    for task in [FAR, RUNS, BLOCKS, DUE] {
        kernel.task_new(BEGIN, None, CpuSet::of(ALLOWED), task % 2, false);
        if task == FAR {
            kernel.renice(BEGIN, FAR, 19);
        }
        kernel.wake_new(BEGIN, task);
        if task < BLOCKS {
            assert_eq!(kernel.schedule(BEGIN, task), Some(task));
        }
    }
    kernel.tick(TURN, 0, 0);
    assert_eq!(kernel.schedule(TURN, 0), Some(BLOCKS));
    assert_eq!(kernel.place(FAR), Place::Queued);
    kernel.take_rescheds();
    kernel
}

/// At each point of an exchange on CPU 1, CPU 0 becomes free. The task that is due is in no queue for
/// a moment, so CPU 0 may take the far one. It gives the CPU back at once, and V stays.
#[test]
fn a_far_task_gives_way_to_the_one_that_another_cpu_exchanges() {
    let mut taken = 0;
    for points in 0.. {
        let mut kernel = far_task_waits();
        let exchanges = exchange(&mut kernel, |kernel| kernel.tick(NOW, 1, 1), points);
        kernel.block(NOW, 0);
        taken += usize::from(kernel.schedule(NOW, 0) == Some(FAR));
        while exchanges && kernel.strand_point(1).0 != Point::Done {
            kernel.strand_resume(1, None);
        }
        for cpu in kernel.take_rescheds() {
            kernel.schedule(NOW, cpu);
        }
        assert_eq!(kernel.place(FAR), Place::Queued, "after {points} points");
        let far_ns = kernel.account(FAR).start_ns;
        assert!(kernel.v_ns() + 100 * MS < far_ns, "after {points} points");
        if !exchanges {
            break;
        }
    }
    assert!(taken > 0);
}

/// At each point of an exchange on CPU 1, the slice of a far task on CPU 0 ends. The task that is due is
/// in no queue for a moment. The far one keeps its S, and gives the CPU back at once.
#[test]
fn a_far_task_that_goes_on_during_an_exchange_keeps_what_it_owes() {
    for points in 0.. {
        let mut kernel = two_cpus();
        kernel.renice(BEGIN, STREAM, 19);
        kernel.take_rescheds();
        let exchanges = exchange(&mut kernel, |kernel| kernel.tick(NOW, 1, 1), points);
        kernel.tick(NOW, 0, 0);
        let owed_ns = kernel.account(STREAM).start_ns;
        assert!(kernel.v_ns() + 100 * MS < owed_ns, "after {points} points");
        // Where CPU 1 holds the lock that CPU 0 needs for a task, it goes on, too: V follows it.
        let waits = kernel.schedule(NOW, 0) == Some(STREAM);
        while exchanges && kernel.strand_point(1).0 != Point::Done {
            kernel.strand_resume(1, None);
        }
        for cpu in kernel.take_rescheds() {
            kernel.schedule(NOW, cpu);
        }
        assert_eq!(
            kernel.account(STREAM).start_ns,
            owed_ns,
            "after {points} points"
        );
        let queued = kernel.place(STREAM) == Place::Queued;
        assert!(queued || waits, "after {points} points");
        if !exchanges {
            break;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    fake::{FakeController, FakeScheduler},
    id_table::Assignment,
    scheduler_view::RunningTask,
    sweep::{SELDOM, SWEPT_IDS},
};

/// A forwarder that is connected to a fake controller.
fn begin(pids: u64, cores: u64) -> (Forwarder, FakeController, FakeScheduler, Mutex<LinkStats>) {
    let mut forwarder = Forwarder::new(Duration::from_millis(1));
    let mut controller = FakeController::new(pids, cores);
    let stats = Mutex::default();
    forwarder.connect(&mut controller, &stats).unwrap();
    (forwarder, controller, FakeScheduler::default(), stats)
}

fn poll_once(
    forwarder: &mut Forwarder,
    controller: &mut FakeController,
    scheduler: &mut FakeScheduler,
    stats: &Mutex<LinkStats>,
) {
    forwarder.poll(controller, scheduler, stats).unwrap();
}

fn core(pid: u32, vtime: u64) -> RunningTask {
    RunningTask { pid, id: 0, vtime }
}

#[test]
fn registers_change_only_with_the_running_task_or_its_slice() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
    scheduler.running = vec![core(500_000, 7), core(0, 0)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    let id = forwarder.ids.get(500_000);
    assert_eq!(controller.label(0), (u64::from(id), 7));
    assert_eq!(controller.peek(vtime_pid(id)), Ok(7));
    assert_eq!(controller.label(1).0, 0);

    // Nothing changed, so nothing is written.
    let written = controller.writes;
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(controller.writes, written);

    scheduler.running[0] = core(500_000, 8);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(controller.writes, written + 2);
    assert_eq!(controller.label(0), (u64::from(id), 8));
}

#[test]
fn traffic_is_charged_to_the_task_that_ran() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
    scheduler.running = vec![core(10, 1), core(20, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    controller.move_bytes(0, 100);
    controller.move_bytes(1, 7);
    // The tasks swap cores; the bytes counted so far are still theirs.
    scheduler.running = vec![core(20, 1), core(30, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    controller.move_bytes(0, 1);
    controller.move_bytes(1, 50);
    scheduler.running = vec![core(0, 0); 2];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(scheduler.charged, [(10, 100), (20, 8), (30, 50)].into());
    assert_eq!(lock(&stats).traffic.total(), 158);
}

#[test]
fn traffic_of_a_task_that_does_not_run_is_found_within_a_sweep() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
    scheduler.running = vec![core(10, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    let id = forwarder.ids.get(10);
    scheduler.running = vec![core(11, 1)];
    for _ in 0..2 {
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    }
    controller.count(id, 4096);
    for _ in 0..8192 / SWEPT_IDS {
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    }
    assert_eq!(scheduler.charged, [(10, 4096)].into());
}

#[test]
fn tasks_beyond_the_ids_share_one_and_are_not_charged() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(4, 1);
    for pid in 1..=20_000 {
        scheduler.running = vec![core(pid, pid.into())];
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
        controller.move_bytes(0, 1);
    }
    forwarder
        .shutdown(&mut controller, &mut scheduler, &stats)
        .unwrap();
    let traffic = lock(&stats).traffic.clone();
    assert_eq!((traffic.by_pid.len(), traffic.shared), (2, 19_998));
    assert_eq!(traffic.total(), 20_000);
    assert_eq!(
        scheduler.charged.len(),
        2,
        "tasks that share an id are not charged"
    );
}

#[test]
fn the_id_of_an_ended_task_is_read_before_it_is_reused() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(3, 1);
    scheduler.add_tasks(&[10, 20]);
    scheduler.running = vec![core(10, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    controller.move_bytes(0, 5);
    // 10 ends; the scan a second later notices.
    scheduler.tasks.retain(|task| task.pid != 10);
    let (past, _) = forwarder.before.as_mut().unwrap();
    *past -= REBALANCE_INTERVAL;
    forwarder.next_scan = Instant::now();
    scheduler.running = vec![core(20, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(controller.label(0).0, u64::from(SHARED_ID));
    controller.move_bytes(0, 3);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!((controller.label(0).0, forwarder.ids.get(20)), (2, 2));
    controller.move_bytes(0, 8);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    let traffic = lock(&stats).traffic.clone();
    assert_eq!((traffic.by_pid.get(&20), traffic.shared), (Some(&8), 3));
    assert_eq!((scheduler.charged[&10], traffic.total()), (5, 16));
}

#[test]
fn with_a_mailbox_the_scheduler_gets_the_ids_and_the_registers_stay() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
    forwarder.use_mailbox(true);
    let label = |pid, id| RunningTask { pid, id, vtime: 7 };
    scheduler.running = vec![label(10, SHARED_ID), label(0, 0)];
    let mut poll = |scheduler: &mut FakeScheduler| {
        forwarder.poll(&mut controller, scheduler, &stats).unwrap();
        (controller.label(0), controller.label(1))
    };
    assert_eq!(poll(&mut scheduler), ((0, 0), (0, 0)));
    assert_eq!(scheduler.assigned, [(10, 2)]);
    // The CPU has labelled itself. Then another task runs, whose label is old.
    scheduler.running = vec![label(10, 2), label(11, SHARED_ID)];
    poll(&mut scheduler);
    scheduler.running = vec![label(11, 3), label(10, SHARED_ID)];
    poll(&mut scheduler);
    assert_eq!(scheduler.assigned[1..], [(11, 3), (10, 2)]);
    assert_eq!(controller.peek(vtime_pid(2)), Ok(7));
}

/// A core switches to a task after a poll looked at it, and before that poll takes the task's id.
#[test]
fn with_a_mailbox_an_id_that_a_core_took_up_during_a_poll_goes_to_no_other_task() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(3, 1);
    forwarder.use_mailbox(true);
    let label = |pid, id| vec![RunningTask { pid, id, vtime: 7 }];
    scheduler.running = label(10, SHARED_ID);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    // 20 gets the only id.
    scheduler.tasks = vec![TaskUsage::default(); 2];
    for (task, (pid, cpu_ns)) in scheduler.tasks.iter_mut().zip([(10, 0), (20, 1 << 40)]) {
        (task.pid, task.cpu_ns) = (pid, cpu_ns);
    }
    let past = Instant::now() - REBALANCE_INTERVAL;
    forwarder.before = Some((past, [10, 20].map(|pid| (pid, TaskUsage::default())).into()));
    forwarder.next_scan = Instant::now();
    let mut poll = |running| {
        scheduler.running = running;
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
        forwarder.ids.assignment(2)
    };
    let draining = Assignment::Draining(10, Some(20));
    assert_eq!(
        poll(label(0, 0)),
        draining,
        "10 may run with its id already"
    );
    assert_eq!(poll(label(10, 2)), draining, "the core carries it");
    assert_eq!(poll(label(20, SHARED_ID)), Assignment::Task(20));
}

#[test]
fn with_a_mailbox_traffic_of_tasks_that_ran_between_polls_is_read() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
    forwarder.use_mailbox(true);
    for (pid, id) in [(10, 2), (11, 3), (12, 4)] {
        scheduler.running = vec![RunningTask { pid, id, vtime: 1 }];
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    }
    controller.count(2, 100);
    controller.count(3, 10);
    let mut poll = || forwarder.poll(&mut controller, &mut scheduler, &stats);
    (0..8192 / SWEPT_IDS).for_each(|_| poll().unwrap());
    assert_eq!(scheduler.charged, [(10, 100), (11, 10)].into());
}

#[test]
fn with_a_mailbox_polls_are_rare_unless_a_device_moves_memory() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 1);
    forwarder.use_mailbox(true);
    scheduler.has_pmu = true;
    scheduler.add_tasks(&[10]);
    scheduler.device_vtimes = [(2, 77)].into();
    scheduler.tasks[0].vtime = 9;
    let mut seen = Vec::new();
    // The task runs, and sleeps from then on. A scan is followed by a poll without one.
    for (pid, device_bytes) in [(10, 0), (0, 4096), (0, 4096), (0, 8192)] {
        scheduler.running = vec![RunningTask {
            pid,
            id: 2,
            vtime: 5,
        }];
        scheduler.tasks[0].device_bytes = device_bytes;
        forwarder.next_scan = Instant::now();
        let mut poll = || forwarder.poll(&mut controller, &mut scheduler, &stats);
        (0..2).for_each(|_| poll().unwrap());
        let vtime = controller.peek(vtime_pid(2)).unwrap();
        seen.push((forwarder.interval().as_millis(), vtime));
    }
    assert_eq!(seen, [(10, 5), (1, 77), (10, 9), (1, 77)]);
}

#[test]
fn with_a_mailbox_polls_are_frequent_while_tasks_are_charged_by_their_ids() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 1);
    forwarder.use_mailbox(true);
    assert_eq!(forwarder.interval().as_millis(), 1, "nothing is known yet");
    let mut intervals = Vec::new();
    for has_pmu in [false, true, false] {
        scheduler.has_pmu = has_pmu;
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
        intervals.push(forwarder.interval().as_millis());
    }
    assert_eq!(intervals, [1, 10, 1]);
}

#[test]
fn cores_beyond_the_controllers_get_no_id() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 2);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    scheduler.running = (1..=16).map(|pid| core(pid, 1)).collect();
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(forwarder.ids.len(), 2, "cores beyond its own have no label");
}

#[test]
fn an_idle_machine_is_read_once_per_idle_interval_and_then_for_all_tasks() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(8192, 1);
    let mut poll = |running, controller: &mut FakeController, waits| {
        scheduler.running = vec![running];
        forwarder.sweep.wait(waits);
        forwarder.poll(controller, &mut scheduler, &stats).unwrap();
        (controller.batches, scheduler.charged.clone())
    };
    poll(core(10, 1), &mut controller, Duration::ZERO);
    let (batches, _) = poll(core(0, 0), &mut controller, Duration::ZERO);
    controller.count(2, 4096);
    assert_eq!(poll(core(0, 0), &mut controller, Duration::ZERO).0, batches);
    let (now, charged) = poll(core(0, 0), &mut controller, SELDOM);
    assert_eq!((now, charged), (batches + 1, [(10, 4096)].into()));
}

#[test]
fn a_batch_that_fails_half_way_loses_no_traffic() {
    for answered in 0..30 {
        let (mut forwarder, mut controller, mut scheduler, stats) = begin(8, 2);
        scheduler.running = vec![core(10, 1), core(20, 1)];
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
        controller.move_bytes(0, 100);
        controller.move_bytes(1, 10);
        controller.fails_after = Some(answered);
        scheduler.running = vec![core(20, 9), core(10, 9)];
        let _ = forwarder.poll(&mut controller, &mut scheduler, &stats);
        // The connection comes back, and the registers kept their content.
        controller.fails_after = None;
        forwarder.connect(&mut controller, &stats).unwrap();
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
        assert_eq!(
            scheduler.charged,
            [(10, 100), (20, 10)].into(),
            "{answered}"
        );
        assert_eq!(
            controller.label(0),
            (forwarder.ids.get(20).into(), 9),
            "all is written again"
        );
    }
}

#[test]
fn shutdown_clears_every_core_and_charges_the_rest() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(64, 2);
    scheduler.running = vec![core(10, 1), core(20, 1)];
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    controller.move_bytes(1, 3);
    forwarder
        .shutdown(&mut controller, &mut scheduler, &stats)
        .unwrap();
    assert_eq!((controller.label(0).0, controller.label(1).0), (0, 0));
    assert_eq!(scheduler.charged, [(20, 3)].into());
}

/// A forwarder with a mailbox and a task 10 with id 2, for which a device has moved memory.
fn begin_with_device_user(
    pids: u64,
) -> (Forwarder, FakeController, FakeScheduler, Mutex<LinkStats>) {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin(pids, 1);
    forwarder.use_mailbox(true);
    scheduler.add_tasks(&[10]);
    scheduler.device_vtimes = [(2, 77)].into();
    scheduler.tasks[0].device_bytes = 4096;
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(scheduler.assigned, [(10, 2)]);
    (forwarder, controller, scheduler, stats)
}

#[test]
fn a_scheduler_that_is_loaded_again_gets_the_ids_of_device_users() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin_with_device_user(64);
    forwarder
        .shutdown(&mut controller, &mut scheduler, &stats)
        .unwrap();
    scheduler.assigned.clear();
    forwarder.use_mailbox(true);
    poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    assert_eq!(scheduler.assigned, [(10, 2)]);
}

#[test]
fn a_device_user_with_the_thread_id_of_an_ended_one_gets_its_id() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin_with_device_user(64);
    scheduler.assigned.clear();
    scheduler.tasks[0].device_bytes = 512;
    forwarder.next_scan = Instant::now();
    for _ in 0..2 {
        poll_once(&mut forwarder, &mut controller, &mut scheduler, &stats);
    }
    assert_eq!(scheduler.assigned, [(10, 2)]);
}

#[test]
fn an_id_that_requests_carry_goes_to_no_other_task() {
    let (mut forwarder, mut controller, mut scheduler, stats) = begin_with_device_user(3);
    // 20 gets the only id.
    forwarder.ids.release(10, Some(20));
    let mut poll = |scheduler: &mut FakeScheduler, count| {
        controller.count(2, count);
        forwarder.poll(&mut controller, scheduler, &stats).unwrap();
        forwarder.ids.get(20)
    };
    for _ in 0..3 {
        assert_eq!(poll(&mut scheduler, 4096), SHARED_ID);
    }
    assert_eq!(scheduler.charged, [(10, 3 * 4096)].into());
}

#[test]
fn an_id_is_free_once_requests_have_ended() {
    let mut devices = DeviceUsers::default();
    let mut ids = IdTable::new(3);
    let start = Instant::now();
    let task = TaskUsage {
        pid: 10,
        device_bytes: 4096,
        ..TaskUsage::default()
    };
    devices.scanned(&[task], &mut ids, start);
    let ms = |ms| start + Duration::from_millis(ms);
    let carry = [(900, 512), (1800, 0), (1900, 0), (1900, 0)];
    let carry = carry.map(|(at_ms, bytes)| devices.carry(2, bytes, ms(at_ms)));
    assert_eq!(carry, [true, true, false, false]);
    assert!(!devices.carry(3, 4096, start), "no device used it");
}

/// At 100 GB/s a controller without an agent counts so much in six hours.
#[test]
fn a_link_begins_beside_a_controller_that_counted_for_hours() {
    let mut controller = FakeController::new(64, 1);
    controller.count(0, 1 << 51);
    let stats = Mutex::default();
    let mut forwarder = Forwarder::new(Duration::from_millis(1));
    forwarder.connect(&mut controller, &stats).unwrap();
    assert_eq!(lock(&stats).traffic.inherited, 1 << 51);
}

// SPDX-License-Identifier: GPL-2.0-only
//! The agent's link against a real `drfq-mc serve`: what is counted is booked,
//! even if the agent or the server is killed. The scheduler is a FAKE one.
//!
//! The binary is $DRFQ_MC, or gem5-backend/drfq-mc of the target directory,
//! which `just test-rust` builds.

mod common;

use std::time::{Duration, Instant};

use common::{FakeScheduler, Observer, Server, link_to, no_server};
use drfq_controller_link::{
    forwarder::Forwarder, link_stats::LinkState, reconnector::Reconnector, registers::pid_core,
    shadow::Shadow, traffic_accounting::TrafficAccounting,
};

const MS: Duration = Duration::from_millis(1);

fn forwarder() -> Forwarder {
    Forwarder::new(MS)
}

/// The bytes that were booked to tasks. Before the agent writes its ids, the
/// server counts the cores' traffic for no task.
fn of_tasks(traffic: &TrafficAccounting) -> u64 {
    traffic.by_pid.values().sum::<u64>() + traffic.ended + traffic.shared
}

/// The agent has booked every byte that the server counted for an id.
#[test]
fn every_counted_byte_is_booked_while_both_run() {
    if no_server() {
        return;
    }
    let server = Server::start(&["--free-running", "--rate", "0.05"]);
    server.load_cores(&[400_000_000, 1_600_000_000]);
    let mut link = link_to(&server, forwarder);
    let mut scheduler = FakeScheduler::with_running(&[1000, 2000]);
    for poll in 0..300 {
        if poll == 150 {
            scheduler.swap();
        }
        link.poll(&mut scheduler);
        std::thread::sleep(MS);
    }
    link.shutdown(&mut scheduler);
    let traffic = link.stats().lock().unwrap().traffic.clone();
    // The cores' traffic goes on, but is now counted for id 0.
    let counted = server.observe().bytes_of_pids();
    assert!(counted > 0 && scheduler.charged[&1000] > 0 && scheduler.charged[&2000] > 0);
    assert_eq!(of_tasks(&traffic), counted);
}

/// In lock-step the agent has read everything that the server counted before it
/// is killed, except the traffic since the last poll.
#[test]
fn a_killed_server_loses_the_traffic_of_one_poll() {
    if no_server() {
        return;
    }
    let mut server = Server::start(&[]);
    server.load_cores(&[1_000_000_000, 1_000_000_000]);
    let mut link = link_to(&server, forwarder);
    let mut scheduler = FakeScheduler::with_running(&[1000, 2000]);
    let booked = |link: &Reconnector<Forwarder>| link.stats().lock().unwrap().traffic.total();
    for _ in 0..20 {
        link.poll(&mut scheduler);
    }
    let observer = server.observe();
    let (counted, unread) = (observer.bytes(), observer.unread());
    assert!(
        unread > 0 && unread <= counted / 10,
        "{unread} of {counted}"
    );
    assert_eq!(booked(&link) + unread, counted);
    let before = booked(&link);

    server.kill();
    link.poll(&mut scheduler);
    link.poll(&mut scheduler);
    assert!(matches!(
        link.stats().lock().unwrap().state,
        LinkState::Lost(_)
    ));

    server.restart(&[]);
    server.load_cores(&[1_000_000_000, 1_000_000_000]);
    wait_connected(&mut link, &mut scheduler);
    let label = server.observe().peek(pid_core(0));
    assert_ne!(label, 0, "the registers are written again");
    for _ in 0..20 {
        link.poll(&mut scheduler);
    }
    link.shutdown(&mut scheduler);
    assert_eq!(booked(&link), before + server.observe().bytes());
    assert_eq!(link.stats().lock().unwrap().losses, 1);
}

/// Traffic that a killed agent has not read is read by the next agent, as bytes
/// whose task is not known.
#[test]
fn unread_traffic_of_a_killed_agent_is_inherited_by_the_next() {
    if no_server() {
        return;
    }
    let server = Server::start(&[]);
    server.load_cores(&[1_000_000_000, 1_000_000_000]);
    let mut scheduler = FakeScheduler::with_running(&[1000, 2000]);
    let mut link = link_to(&server, forwarder);
    for _ in 0..20 {
        link.poll(&mut scheduler);
    }
    let first = link.stats().lock().unwrap().traffic.total();
    let unread = server.observe().unread();
    drop(link);

    let mut link = link_to(&server, forwarder);
    let traffic = link.stats().lock().unwrap().traffic.clone();
    assert_eq!((traffic.inherited, traffic.total()), (unread, unread));
    for _ in 0..20 {
        link.poll(&mut scheduler);
    }
    link.shutdown(&mut scheduler);
    let second = link.stats().lock().unwrap().traffic.total();
    assert_eq!(first + second, server.observe().bytes());
}

/// A link ends at once when it is told to, clears the cores' ids, and can run
/// again.
#[test]
fn a_stopped_link_clears_its_labels_and_can_run_again() {
    if no_server() {
        return;
    }
    let server = Server::start(&["--free-running", "--rate", "0.05"]);
    server.load_cores(&[500_000_000]);
    let mut link = link_to(&server, forwarder);
    for _ in 0..2 {
        let (stop, stats) = (link.stop(), link.stats());
        let polls = stats.lock().unwrap().polls;
        std::thread::scope(|scope| {
            scope.spawn(|| link.run(&mut FakeScheduler::with_running(&[1000, 2000])));
            wait(|| stats.lock().unwrap().polls > polls + 200);
            wait(|| server.observe().peek(pid_core(0)) != 0);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(server.observe().peek(pid_core(0)), 0);
    }
    let stats = link.stats().lock().unwrap().clone();
    assert_eq!(of_tasks(&stats.traffic), server.observe().bytes_of_pids());
    assert!(stats.cpu_ns > 0 && stats.time_ps > 0);
    println!(
        "CPU time per poll: {:.1} us, over {} polls",
        stats.cpu_ns as f64 / 1e3 / stats.polls as f64,
        stats.polls
    );
}

/// More tasks than registers, on a real server.
#[test]
fn tasks_beyond_the_registers_share_one() {
    if no_server() {
        return;
    }
    let server = Server::start(&[]);
    // Little traffic, because the model is slow.
    server.load_cores(&[10_000_000]);
    let mut link = link_to(&server, forwarder);
    let mut scheduler = FakeScheduler::with_running(&[1]);
    for pid in 1..=8300 {
        scheduler.running[0].pid = pid;
        link.poll(&mut scheduler);
    }
    link.shutdown(&mut scheduler);
    let stats = link.stats().lock().unwrap().clone();
    assert_eq!(stats.ids, 8190);
    let (bytes, rest) = (stats.traffic.total(), server.observe().unread());
    assert!(bytes > 0 && stats.traffic.shared > 0);
    assert_eq!(rest, 0, "all was read");
}

/// Two tasks ask for more than the model has, a third for little. The model
/// prefers the task with the earlier virtual time.
#[test]
fn a_shadow_gives_more_to_the_earlier_virtual_time() {
    if no_server() {
        return;
    }
    let server = Server::start(&[]);
    let mut link = link_to(&server, Shadow::default);
    let mut scheduler = FakeScheduler::default();
    for (pid, vtime) in [(10, 1u64), (20, 1000), (30, 1)] {
        scheduler.add_tasks(pid, vtime);
    }
    for _ in 0..12 {
        // The tasks claim 300 MB and 10 MB in 100 ms of wall clock.
        link.poll(&mut scheduler);
        scheduler.use_bytes_at(&[(10, 3_000_000_000), (20, 3_000_000_000), (30, 100_000_000)]);
    }
    link.poll(&mut scheduler);
    let stats = link.stats().lock().unwrap().clone();
    let given = |pid| stats.traffic.by_pid[&pid] as f64 * 1e3 / stats.time_ps as f64;
    assert_eq!(stats.demand_bytes_per_s.len(), 3);
    let (first, second, small) = (given(10), given(20), given(30));
    println!("bytes/ns: {first:.3} {second:.3} {small:.3}");
    assert!(first > 3.0 * second, "{first} {second}");
    assert!(small > 0.0);
    link.shutdown(&mut scheduler);
    assert_eq!(server.observe().unread(), 0);
}

#[track_caller]
fn wait(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no success within 60 s"
        );
        std::thread::sleep(MS);
    }
}

#[track_caller]
fn wait_connected(link: &mut Reconnector<Forwarder>, scheduler: &mut FakeScheduler) {
    let begun = Instant::now();
    let stats = link.stats();
    while stats.lock().unwrap().state != LinkState::Connected {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no success within 60 s"
        );
        link.poll(scheduler);
        std::thread::sleep(MS);
    }
}

#[test]
fn readers_leave_the_traffic_registers_alone() {
    if no_server() {
        return;
    }
    let server = Server::start(&[]);
    server.load_cores(&[1_000_000_000, 1_000_000_000]);
    let mut link = link_to(&server, forwarder);
    let mut scheduler = FakeScheduler::with_running(&[1000, 2000]);
    for _ in 0..5 {
        link.poll(&mut scheduler);
    }
    // In lock-step, only a poll counts more.
    let unread = server.observe().unread();
    assert!(unread > 0);
    let observers: Vec<Observer> = (0..5).map(|_| server.observe()).collect();
    assert!(observers.iter().all(Observer::cannot_read_traffic));
    assert!(observers.iter().all(|observer| observer.bytes() > unread));
    assert_eq!(server.observe().unread(), unread);
}

// SPDX-License-Identifier: GPL-2.0-only
//! Paces: groups of tasks that wait because they move more than their part.

mod common;

use common::{hogs, reader};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::Kernel;
use drfq_sim::{Config, MS, Report, SEC, Sim, Step, TaskSpec, Trace};

/// 1 GB/s.
const MEM: u64 = 1_000_000_000;

/// A disk reader that moves 0.9 of the memory's bandwidth by itself.
fn disk() -> TaskSpec {
    reader(MEM / 100)
}

/// The tasks on some CPUs, the first `paced` of them in a group with this pace.
fn machine(cpus: usize, specs: Vec<TaskSpec>, paced: usize, bytes_per_s: u64) -> Sim {
    configured(Config::new(cpus).memory(MEM), specs, paced, bytes_per_s)
}

fn configured(config: Config, specs: Vec<TaskSpec>, paced: usize, bytes_per_s: u64) -> Sim {
    let mut sim = Sim::new(config, specs);
    sim.run_until(SEC / 10);
    sim.act(|kernel, _| {
        kernel.pace(1, Some(bytes_per_s));
        (0..paced).for_each(|task| kernel.pace_group(task, 1));
    });
    sim
}

/// What each task moves in `seconds` after the next one (bytes per second).
fn rates(sim: &mut Sim, seconds: u64) -> Vec<f64> {
    let mut begin = 0;
    sim.act(|_, now_ns| begin = now_ns + SEC);
    let before = sim.run_until(begin);
    let report = sim.run_until(begin + seconds * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let bytes = |report: &Report, i: usize| report.tasks[i].bytes + report.tasks[i].dma_bytes;
    (0..report.tasks.len())
        .map(|i| (bytes(&report, i) - bytes(&before, i)) as f64 / seconds as f64)
        .collect()
}

fn assert_rate(what: &str, got: f64, expected: u64) {
    let error = got / expected as f64 - 1.0;
    assert!(error.abs() < 0.01, "{what}: {got:.0} of {expected} bytes/s");
}

#[test]
fn a_reader_of_a_disk_keeps_its_pace_on_an_idle_machine() {
    for part in [2, 4, 16] {
        let mut sim = machine(2, vec![disk()], 1, MEM / part);
        assert_rate("reader", rates(&mut sim, 20)[0], MEM / part);
    }
}

#[test]
fn what_a_reader_paid_for_grows_as_evenly_as_its_pace() {
    // At the lowest pace, a request of 10 MB takes 160 ms.
    for part in [2, 4, 16] {
        let mut sim = machine(2, vec![disk()], 1, MEM / part);
        let mut paid = Vec::new();
        for period in 10..60 {
            sim.run_until(period * SEC / 10);
            sim.act(|kernel, _| paid.push(kernel.pace_paid(1)));
        }
        for (before, after) in paid.iter().zip(&paid[1..]) {
            let error = (after - before) as f64 / (MEM / part / 10) as f64 - 1.0;
            // A wait may end 5 ms late.
            assert!(error.abs() < 0.06, "1/{part}: {error:.3} in {paid:?}");
        }
    }
}

#[test]
fn a_group_below_its_pace_has_paid_for_all() {
    let mut sim = machine(2, vec![disk()], 1, 2 * MEM);
    let report = sim.run_until(2 * SEC);
    let moved = report.tasks[0].bytes + report.tasks[0].dma_bytes;
    sim.act(|kernel, _| {
        let paid = kernel.pace_paid(1);
        assert!(paid <= moved && paid > moved * 9 / 10, "{paid} of {moved}");
    });
}

#[test]
fn a_task_that_copies_keeps_its_pace_and_others_run_as_before() {
    let mut specs = vec![TaskSpec::new("copier", Trace::memory_hog(MEM * 9 / 10))];
    specs.extend(hogs(&[weight_one(); 2]));
    let mut sim = machine(3, specs, 1, MEM / 4);
    assert_rate("copier", rates(&mut sim, 20)[0], MEM / 4);
    let report = sim.run_until(30 * SEC);
    for hog in &report.tasks[1..] {
        assert!(hog.cpu_ns > report.now_ns * 99 / 100, "{}", hog.cpu_ns);
    }
}

#[test]
fn the_tasks_of_a_group_share_its_pace() {
    let mut sim = machine(4, vec![disk(), disk(), disk()], 2, MEM / 4);
    let got = rates(&mut sim, 20);
    assert_rate("group", got[0] + got[1], MEM / 4);
    assert!((got[0] / got[1] - 1.0).abs() < 0.1, "{got:?}");
    assert!(got[2] > 0.8 * MEM as f64, "the third has no pace: {got:?}");
}

#[test]
fn a_task_below_its_pace_never_waits() {
    let mut sim = machine(2, vec![disk()], 1, MEM);
    rates(&mut sim, 5);
    assert_eq!(sim.kernel().event_count("PACED"), 0);
}

#[test]
fn an_idle_group_saves_up_little() {
    let sleep = Step::Sleep {
        ns: 5 * SEC,
        dma_bytes: 0,
    };
    let copy = Step::Run {
        ns: u64::MAX / 4,
        bytes_per_s: MEM * 9 / 10,
    };
    let late = TaskSpec::new("late", Trace::once([sleep, copy]));
    let mut sim = machine(2, vec![late], 1, MEM / 4);
    let moved = sim.run_until(6 * SEC).tasks[0].bytes;
    // 20 ms of the pace, and 4 ms of the copy before the first look.
    assert!(
        moved < MEM / 4 * 104 / 100,
        "{moved} bytes in the first second"
    );
}

#[test]
fn a_task_without_a_pace_waits_no_longer() {
    for ends in [true, false] {
        let mut sim = machine(2, vec![disk()], 1, MEM / 16);
        sim.run_until(5 * SEC);
        sim.act(|kernel, _| match ends {
            true => kernel.pace(1, None),
            false => kernel.pace_group(0, 0),
        });
        assert!(rates(&mut sim, 5)[0] > 0.8 * MEM as f64);
    }
}

#[test]
fn a_child_has_the_pace_of_its_parent() {
    let run = Step::Run {
        ns: 500 * MS,
        bytes_per_s: 0,
    };
    let parent = TaskSpec::new("parent", Trace::once([run, Step::Spawn(1)]));
    let mut sim = machine(2, vec![parent, disk().arrival(u64::MAX)], 1, MEM / 8);
    sim.run_until(SEC);
    let child = sim.nr_tasks() - 1;
    assert_rate("child", rates(&mut sim, 20)[child], MEM / 8);
}

#[test]
fn the_lowest_pace_makes_nobody_wait_for_longer_than_a_hold() {
    let mut sim = machine(2, vec![disk()], 1, 1);
    let config = Config::new(2);
    // A period of the timer is added at each end.
    let most_ns = config.hold_max_ns + 20 * MS;
    let seconds = 10;
    let moved = rates(&mut sim, seconds)[0];
    let turns = moved / (MEM / 100) as f64;
    assert!(
        turns >= SEC as f64 / most_ns as f64 - 0.5,
        "{turns} turns a second"
    );
    assert!(turns <= 4.0, "it hardly waits: {turns} turns a second");
}

/// How long a copier that has used up the pace of 1 byte per second waits after the agent did
/// `change`, in ms.
fn waits_after(change: impl Fn(&mut Kernel)) -> u64 {
    let copier = TaskSpec::new("copier", Trace::memory_hog(MEM * 9 / 10));
    let mut sim = machine(2, vec![copier], 1, 1);
    let used = |sim: &mut Sim, at_ms: u64| sim.run_until(at_ms * MS).tasks[0].cpu_ns;
    // It waits for a hold in each turn. Most of that is left once it has stood for 20 ms.
    let mut stood = 0;
    let mut at_ms = 5000;
    while stood < 20 {
        let before = used(&mut sim, at_ms);
        at_ms += 1;
        let stands = used(&mut sim, at_ms) == before;
        stood = if stands { stood + 1 } else { 0 };
        assert!(at_ms < 6000, "it never waits");
    }
    sim.act(|kernel, _| change(kernel));
    let before = used(&mut sim, at_ms);
    (0..1000)
        .find(|ms| used(&mut sim, at_ms + ms) > before)
        .unwrap_or(1000)
}

#[test]
fn a_looser_pace_releases_its_tasks_at_once() {
    let kept = waits_after(|kernel| kernel.pace(1, Some(1)));
    let ended = waits_after(|kernel| kernel.pace(1, None));
    let looser = waits_after(|kernel| kernel.pace(1, Some(MEM)));
    assert!(kept > 100, "{kept} ms without a change");
    assert!(ended <= 3, "{ended} ms after its end");
    assert!(looser <= 3, "{looser} ms at a looser pace");
}

#[test]
fn a_pace_that_soon_ends_keeps_nobody_waiting() {
    let copier = TaskSpec::new("copier", Trace::memory_hog(MEM * 9 / 10));
    let mut sim = Sim::new(Config::new(2).memory(MEM), vec![copier]);
    sim.run_until(SEC);
    sim.act(|kernel, _| kernel.pace_group(0, 1));
    for turn in 0..20 {
        let begin = SEC + turn * 100 * MS;
        sim.act(|kernel, _| kernel.pace(1, Some(MEM / 8)));
        sim.run_until(begin + 50 * MS);
        sim.act(|kernel, _| kernel.pace(1, None));
        let before = sim.run_until(begin + 53 * MS).tasks[0].cpu_ns;
        let after = sim.run_until(begin + 100 * MS).tasks[0].cpu_ns;
        assert!(after - before > 46 * MS, "{} ns of 47 ms", after - before);
    }
}

/// The least CPU time of 24 copiers of a group with a low pace, in 20 s on two CPUs, in ns.
fn least_of_large_group(hold_max_ns: u64) -> u64 {
    let copiers = vec![TaskSpec::new("copier", Trace::memory_hog(MEM * 9 / 10)); 24];
    let mut config = Config::new(2).memory(MEM);
    config.hold_max_ns = hold_max_ns;
    let mut sim = configured(config, copiers, 24, MEM / 100);
    let report = sim.run_until(20 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let used = report.tasks.iter().map(|task| task.cpu_ns);
    used.min().expect("there are tasks")
}

#[test]
fn no_member_of_a_large_group_waits_for_longer_than_a_hold() {
    let config = Config::new(2);
    // Each has at least a packet of 4 ms in each hold, and the wait for the others. With holds
    // shorter than a jiffy, they get nearly all of the CPUs: 1.67 s each.
    for (hold_max_ns, demanded) in [
        (config.hold_max_ns, 150 * MS),
        (config.tick_ns / 2, 1500 * MS),
    ] {
        let least = least_of_large_group(hold_max_ns);
        assert!(
            least >= demanded,
            "{least} ns in 20 s, holds of {hold_max_ns} ns"
        );
    }
}

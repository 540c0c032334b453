// SPDX-License-Identifier: GPL-2.0-only
//! The memory account: weights of memory hold, with default options, however many CPUs idle and
//! whatever else runs. `drfq_sim::memory` stands in for a memory controller that serves the lowest
//! virtual time first. Its registers are written every ms; packets are charged at each tick (4 ms).

mod common;

use common::{cpus_used, hogs, nice, run};
use drfq_sim::ffi::{Charging, weight_one};
use drfq_sim::{Config, MS, Report, SEC, Sim, Step, TaskSpec, Trace};

/// 4 GB/s, the thesis' memory.
const MEM: u64 = 4_000_000_000;

/// A part of the memory's bandwidth, bytes/s.
fn part(share: f64) -> u64 {
    (MEM as f64 * share) as u64
}

fn controller(cpus: usize) -> Config {
    Config::new(cpus).memory(MEM).controller(MS)
}

/// A stream with a demand of `share` of the memory, and a weight.
fn stream(share: f64, weight: u32) -> TaskSpec {
    TaskSpec::new("stream", Trace::memory_hog(part(share))).weight(weight)
}

/// The shares of the memory that the first tasks got, one for each demand and weight.
fn got(report: &Report, tasks: usize) -> Vec<f64> {
    let all = MEM as f64 * report.now_ns as f64 / SEC as f64;
    let share = |t: &drfq_sim::TaskReport| t.bytes as f64 / all;
    report.tasks[..tasks].iter().map(share).collect()
}

/// Weighted max-min: the shares due to flows with these (demand, weight), of `capacity`.
fn due(flows: &[(f64, f64)], mut capacity: f64) -> Vec<f64> {
    let mut shares = vec![0.0; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        let weight: f64 = open.iter().map(|i| flows[*i].1).sum();
        let level = capacity / weight;
        let (met, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|i| flows[**i].0 <= level * flows[**i].1);
        if met.is_empty() {
            open.iter().for_each(|i| shares[*i] = level * flows[*i].1);
            break;
        }
        for i in met {
            shares[i] = flows[i].0;
            capacity -= flows[i].0;
        }
        open = rest;
    }
    shares
}

/// The largest relative error of the first streams' shares against weighted max-min, in percent.
/// `streams`: (demand, weight in 1/16 of nice 0). `others` run beside them.
fn worst_percent(config: Config, streams: &[(f64, u32)], others: Vec<TaskSpec>) -> f64 {
    let mut specs: Vec<_> = streams
        .iter()
        .map(|(share, w)| stream(*share, w * weight_one() / 16))
        .collect();
    specs.extend(others);
    let report = run(config, specs, 10);
    let got = got(&report, streams.len());
    let left = 1.0 - other_traffic(&report, streams.len());
    let flows: Vec<_> = streams.iter().map(|(d, w)| (*d, f64::from(*w))).collect();
    let due = due(&flows, left);
    let error = |(got, due): (&f64, &f64)| (got / due - 1.0).abs() * 100.0;
    let worst = got.iter().zip(&due).map(error).fold(0.0, f64::max);
    println!("{streams:?}: got {got:.4?}, due {due:.4?}, worst {worst:.2} %");
    worst
}

/// The share of the memory that the tasks after the first ones got.
fn other_traffic(report: &Report, first: usize) -> f64 {
    got(report, report.tasks.len())[first..].iter().sum()
}

/// Weights of two streams, in 1/16.
const RATIOS: [(u32, u32); 6] = [(16, 16), (16, 32), (32, 48), (48, 64), (16, 64), (16, 256)];

/// How many CPUs have no task.
const IDLE_CPUS: [usize; 3] = [0, 2, 250];

/// The same beside other loads. A run with 250 idle CPUs takes seconds of CPU time.
fn idle_cpus_beside_others(ratio: (u32, u32)) -> &'static [usize] {
    match ratio {
        (16, 32) | (16, 256) => &IDLE_CPUS,
        _ => &IDLE_CPUS[..2],
    }
}

/// Every stream and every other task has a CPU, and `idle_cpus` are left: the weights hold.
fn assert_weights_hold(streams: &[(f64, u32)], others: &[TaskSpec], idle_cpus: &[usize]) {
    for idle in idle_cpus {
        let config = controller(streams.len() + others.len() + idle);
        let worst = worst_percent(config, streams, others.to_vec());
        assert!(worst < 1.0, "{streams:?}, {idle} idle CPUs: {worst:.2} %");
    }
}

#[test]
fn two_streams_share_the_memory_by_weight_however_many_cpus_idle() {
    for (a, b) in RATIOS {
        for share in [0.68, 0.95] {
            assert_weights_hold(&[(share, a), (share, b)], &[], &IDLE_CPUS);
        }
    }
}

#[test]
fn spinners_on_other_cpus_do_not_change_the_weights_of_memory() {
    for spinners in [1, 2] {
        for (a, b) in RATIOS {
            let others = hogs(&vec![weight_one(); spinners]);
            let idle = idle_cpus_beside_others((a, b));
            assert_weights_hold(&[(0.95, a), (0.95, b)], &others, idle);
        }
    }
}

#[test]
fn a_light_user_of_memory_does_not_change_the_weights() {
    for (a, b) in RATIOS {
        let streams = [(0.95, a), (0.95, b), (0.02, 16)];
        assert_weights_hold(&streams, &[], idle_cpus_beside_others((a, b)));
    }
}

/// 2 ms of work, then 8 ms of sleep.
fn sleeper(share: f64) -> TaskSpec {
    let steps = [
        Step::Run {
            ns: 2 * MS,
            bytes_per_s: part(share),
        },
        Step::Sleep {
            ns: 8 * MS,
            dma_bytes: 0,
        },
    ];
    TaskSpec::new("sleeper", Trace::repeat(steps))
}

#[test]
fn a_sleeper_does_not_change_the_weights_of_memory() {
    for (a, b) in RATIOS {
        for share in [0.0, 0.5] {
            let idle = idle_cpus_beside_others((a, b));
            assert_weights_hold(&[(0.95, a), (0.95, b)], &[sleeper(share)], idle);
        }
    }
}

/// 100 ms without memory traffic, then 100 ms with 0.3 m.
fn phase_changer() -> TaskSpec {
    let phase = |share| Step::Run {
        ns: 100 * MS,
        bytes_per_s: part(share),
    };
    TaskSpec::new("phases", Trace::repeat([phase(0.0), phase(0.3)]))
}

#[test]
fn a_phase_changer_does_not_change_the_weights_of_memory() {
    for (a, b) in RATIOS {
        let idle = idle_cpus_beside_others((a, b));
        assert_weights_hold(&[(0.95, a), (0.95, b)], &[phase_changer()], idle);
    }
}

#[test]
fn more_streams_than_cpus_share_the_memory_by_weight() {
    for weights in [[16, 16, 16], [16, 32, 48], [16, 16, 48]] {
        let streams = weights.map(|w| (0.95, w));
        let worst = worst_percent(controller(2), &streams, vec![]);
        assert!(worst < 1.0, "{weights:?}: {worst:.2} %");
    }
}

#[test]
fn three_streams_of_weights_1_1_3_share_the_memory_by_weight() {
    assert_weights_hold(&[(0.95, 16), (0.95, 16), (0.95, 48)], &[], &IDLE_CPUS);
}

#[test]
fn a_stream_of_nice_19_gets_its_small_share() {
    let specs = vec![stream(0.95, nice(0)), stream(0.95, nice(19))];
    let report = run(controller(4), specs, 60);
    let got = got(&report, 2);
    // Nice 19 is due 15 / 1039 of the memory; nice 0 wants 0.95 of it.
    let low = (1.0 - 0.95f64).max(15.0 / 1039.0);
    assert!((got[1] / low - 1.0).abs() < 0.01, "{got:?}, due {low:.4}");
}

/// The CPU time (ms) that `first` was short of `fair_cpus` in the first 400 ms after four spinners
/// came to it and another one, on four CPUs. The two had run alone for 5 s.
fn lost_ms(first: TaskSpec, fair_cpus: f64) -> f64 {
    let at = 5 * SEC;
    let mut specs = vec![first, TaskSpec::new("spinner", Trace::hog())];
    specs.extend((0..4).map(|_| TaskSpec::new("late", Trace::hog()).arrival(at)));
    let mut sim = Sim::new(controller(4), specs);
    let before = sim.run_until(at);
    let after = sim.run_until(at + 400 * MS);
    let used = (after.tasks[0].cpu_ns - before.tasks[0].cpu_ns) as f64 / 1e6;
    400.0 * fair_cpus - used
}

#[test]
fn cpu_time_that_no_task_wanted_is_not_paid_for_later() {
    let lost = lost_ms(TaskSpec::new("hog", Trace::hog()), 4.0 / 6.0);
    println!("a hog lost {lost:.1} ms");
    assert!(lost < 5.0, "{lost:.1} ms");
}

#[test]
fn traffic_beside_idle_cpus_is_not_paid_for_with_cpu_time_later() {
    // Of 0.3 m its dominant share is memory: with f of a CPU it has 0.3 f, as much as a spinner
    // with 1.2 f of a CPU. Five spinners and the copier use four CPUs.
    let lost = lost_ms(stream(0.3, weight_one()), 4.0 / 7.0);
    println!("a copier lost {lost:.1} ms");
    assert!(lost < 5.0, "{lost:.1} ms");
}

/// Memory that was used alone is paid for by at most a + the slack once another stream comes.
#[test]
fn memory_that_no_task_wanted_is_not_paid_for_later() {
    let at = 5 * SEC;
    let specs = vec![
        stream(0.95, weight_one()),
        stream(0.95, weight_one()).arrival(at),
    ];
    let mut sim = Sim::new(controller(4), specs);
    let before = sim.run_until(at);
    let after = sim.run_until(at + 400 * MS);
    let bytes = |report: &Report, task: usize| report.tasks.get(task).map_or(0, |t| t.bytes);
    let used = bytes(&after, 0) - bytes(&before, 0);
    let lost = 200.0 - used as f64 / MEM as f64 * 1e3;
    println!("the stream lost {lost:.1} ms of the memory");
    assert!(lost < 12.0, "{lost:.1} ms");
}

/// A task that forks a successor every 10 ms and exits, against a stream.
#[test]
fn a_chain_of_forks_gains_no_memory() {
    let step = Step::Run {
        ns: 10 * MS,
        bytes_per_s: part(0.95),
    };
    let chain = TaskSpec::new("chain", Trace::once([step, Step::Spawn(1)]));
    let report = run(controller(4), vec![stream(0.95, weight_one()), chain], 20);
    let gain = other_traffic(&report, 1) / 0.5 - 1.0;
    println!("the chain gains {:.2} %", gain * 100.0);
    assert!(gain < 0.02, "{gain:.4}");
}

/// A memory controller tells late of what a task has moved, so a short packet may pay for much of it.
#[test]
fn a_child_starts_with_no_more_traffic_than_its_parent_paid_for_last() {
    let run = |ns| Step::Run { ns, bytes_per_s: 0 };
    let sleep = Step::Sleep {
        ns: 9 * MS / 2,
        dma_bytes: 0,
    };
    let parent = [
        run(MS / 50),
        sleep,
        run(3 * MS),
        Step::Spawn(1),
        run(50 * MS),
    ];
    let specs = vec![
        TaskSpec::new("parent", Trace::once(parent)),
        TaskSpec::new("child", Trace::hog()).arrival(u64::MAX),
    ];
    let mut sim = Sim::new(Config::new(2).memory(MEM), specs);
    sim.run_until(MS / 100);
    // 1 ms of the memory.
    sim.kernel().add_counted(0, MEM / 1000);
    sim.run_until(31 * MS / 4);
    let [parent, child] = [0, 1].map(|task| sim.kernel().account(task).bus_vt_ns);
    let most = parent.max(sim.kernel().bus_v_ns()) + 20 * MS;
    assert!(child <= most, "{} ms ahead", (child - parent) / MS);
}

/// The shell waits for each child. All children together are one flow.
#[test]
fn children_one_after_the_other_gain_no_memory() {
    let child_step = Step::Run {
        ns: 10 * MS,
        bytes_per_s: part(0.95),
    };
    let wait = Step::Sleep {
        ns: 30 * MS,
        dma_bytes: 0,
    };
    let work = Step::Run {
        ns: MS / 10,
        bytes_per_s: 0,
    };
    let shell = Trace::repeat([work, Step::Spawn(2), wait]);
    let specs = vec![
        stream(0.95, weight_one()),
        TaskSpec::new("shell", shell),
        TaskSpec::new("child", Trace::once([child_step])).arrival(u64::MAX),
    ];
    let report = run(controller(4), specs, 20);
    let family = other_traffic(&report, 1);
    println!("the family gets {family:.4}");
    assert!(family < 0.51, "{family:.4}");
}

/// The thesis' set 4: one memory-bound task and spinners on all CPUs, more than there are.
#[test]
fn contended_cpus_give_equal_dominant_shares() {
    for cpus in [2, 4] {
        let mut specs = vec![stream(0.9, weight_one())];
        specs.extend(hogs(&vec![weight_one(); 2 * cpus - 1]));
        let report = run(controller(cpus), specs, 60);
        let used = cpus_used(&report);
        let memory = got(&report, 1)[0].max(used[0] / cpus as f64);
        for spinner in &used[1..] {
            let share = spinner / cpus as f64;
            assert!(
                (share / memory - 1.0).abs() < 0.01,
                "{share:.4}, {memory:.4}"
            );
        }
    }
}

/// A device moves 0.9 m for a reader. While a CPU idles, that takes nothing from spinners, so the
/// reader is not held. Once CPUs are contended, its dominant share is that of a spinner.
#[test]
fn a_reader_pays_for_device_traffic_only_while_cpus_are_contended() {
    let mut specs = vec![common::reader(part(0.9) / 100)];
    specs.extend(hogs(&[weight_one(); 3]));
    let device_share = |report: &Report| {
        report.tasks[0].dma_bytes as f64 / MEM as f64 / (report.now_ns as f64 / SEC as f64)
    };
    let alone = run(controller(4), specs[..1].to_vec(), 20);
    let report = run(controller(4), specs.clone(), 20);
    assert_eq!(report.counters.held, 0);
    assert!(device_share(&report) > 0.98 * device_share(&alone));
    let report = run(controller(3), specs, 20);
    let spinner = report.tasks[1].cpu_ns as f64 / report.now_ns as f64 / 3.0;
    let reader = device_share(&report);
    assert!(
        (reader / spinner - 1.0).abs() < 0.02,
        "{reader:.4} of the memory, {spinner:.4}"
    );
}

/// A row of the table: what runs, the streams' (demand, weight), and what runs beside them.
type Scenario = (
    &'static str,
    fn((u32, u32)) -> Vec<(f64, u32)>,
    fn() -> Vec<TaskSpec>,
);

const SCENARIOS: [Scenario; 6] = [
    ("two streams", |(a, b)| vec![(0.95, a), (0.95, b)], Vec::new),
    (
        "and a spinner",
        |(a, b)| vec![(0.95, a), (0.95, b)],
        || hogs(&[weight_one()]),
    ),
    (
        "and a light user of memory",
        |(a, b)| vec![(0.95, a), (0.95, b), (0.02, 16)],
        Vec::new,
    ),
    (
        "and a sleeper",
        |(a, b)| vec![(0.95, a), (0.95, b)],
        || vec![sleeper(0.5)],
    ),
    (
        "and a task of two phases",
        |(a, b)| vec![(0.95, a), (0.95, b)],
        || vec![phase_changer()],
    ),
    (
        "six streams on four CPUs",
        |(a, b)| [a, a, a, b, b, b].map(|w| (0.95, w)).to_vec(),
        Vec::new,
    ),
];

/// The table of docs/results/memory-account.md: the worst error over all ratios, by the rule.
#[test]
fn only_an_account_of_its_own_keeps_the_weights_of_memory() {
    println!("| beside | thesis | thesis with credit | one account | two accounts |");
    println!("|---|---:|---:|---:|---:|");
    let mut worst = [0f64; 4];
    for (name, streams, others) in SCENARIOS {
        let rules = [
            controller(4).delta(0).charging(Charging::Always),
            controller(4).delta(0).charging(Charging::Busy),
            controller(4).charging(Charging::Busy),
            controller(4),
        ];
        let errors = rules.map(|config| {
            RATIOS
                .iter()
                .map(|ratio| worst_percent(config.clone(), &streams(*ratio), others()))
                .fold(0.0, f64::max)
        });
        let cells = errors.map(|error| format!("{error:.2} %"));
        println!("| {name} | {} |", cells.join(" | "));
        worst = std::array::from_fn(|rule| worst[rule].max(errors[rule]));
    }
    let (two, others) = worst.split_last().unwrap();
    assert!(*two < 1.0, "{worst:?}");
    assert!(others.iter().all(|error| *error > 20.0), "{worst:?}");
}

/// A device moves half of the memory's bandwidth for a task, and nobody else wants any.
#[test]
fn what_devices_moved_without_contention_is_not_paid_for_later() {
    for weight in [weight_one(), weight_one() / 4] {
        let reader = common::reader(part(0.5) / 100).weight(weight);
        let mut sim = Sim::new(controller(4), vec![reader]);
        for second in 1..=10 {
            sim.run_until(second * SEC);
            let ahead = sim.kernel().account(0).bus_vt_ns - sim.kernel().bus_v_ns();
            let most = 130 * MS * u64::from(weight_one()) / u64::from(weight);
            assert!(ahead < most, "{} ms after {second} s", ahead / MS);
        }
    }
}

/// Readers of a disk alone: their accounts keep what each used, so a controller can even it out.
#[test]
fn a_reader_that_used_more_stays_behind_the_other_one() {
    let weights = [weight_one(), weight_one() / 4];
    let readers = weights.map(|weight| common::reader(part(0.3) / 100).weight(weight));
    let mut sim = Sim::new(controller(4), readers.to_vec());
    sim.run_until(10 * SEC);
    let b = sim.kernel().bus_v_ns();
    let ahead = [0, 1].map(|task| sim.kernel().account(task).bus_vt_ns.wrapping_sub(b) as i64);
    // The light one used four times its part. The other one is lifted to a / w before B.
    assert!(ahead[1] > 400 * MS as i64, "{ahead:?}");
    assert!(ahead[0] < 0, "{ahead:?}");
}

// SPDX-License-Identifier: GPL-2.0-only
//! Sleeping tasks: how soon they run after a wake-up, and that they neither gain share nor starve
//! other tasks.

mod common;

use common::{cpus_used, hogs, nice, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::{Kernel, Place, TaskId};
use drfq_sim::reference::fair_cpus;
use drfq_sim::{Config, CpuSet, MS, Rng, SEC, Sim, Step, TaskSpec, Trace, US};

#[test]
fn a_light_sleeper_runs_within_a_slice_against_two_hogs_per_cpu() {
    for cpus in [1, 2, 4, 8] {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let steps = (0..50).flat_map(|_| {
                let run_ns = rng.range(10 * US, 2 * MS);
                // Below its fair share of 1/3, so its S is never after V for long.
                let ns = rng.range(4, 40) * run_ns;
                [
                    Step::Run {
                        ns: run_ns,
                        bytes_per_s: 0,
                    },
                    Step::Sleep { ns, dma_bytes: 0 },
                ]
            });
            let mut specs = hogs(&vec![weight_one(); 2 * cpus]);
            specs.push(TaskSpec::new(
                "sleeper",
                Trace::repeat(steps.collect::<Vec<_>>()),
            ));
            let config = Config::new(cpus);
            let bound = config.slice_ns + config.tick_ns;
            let report = run(config, specs, 20);
            let sleeper = &report.tasks[2 * cpus];
            assert!(sleeper.wake_latencies_ns.len() > 100);
            assert!(
                sleeper.max_wake_ns() <= bound,
                "{} ns",
                sleeper.max_wake_ns()
            );
        }
    }
}

/// A task far behind V preempts, so most of its wake-ups run at once.
#[test]
fn a_sleeper_behind_v_preempts_a_hog() {
    let mut specs = hogs(&[weight_one(); 4]);
    specs.push(TaskSpec::new("sleeper", Trace::sleeper(MS, 100 * MS)));
    let config = Config::new(2);
    let at_once = config.resched_ns;
    let report = run(config, specs, 20);
    let latencies = &report.tasks[4].wake_latencies_ns;
    let quick = latencies.iter().filter(|l| **l <= at_once).count();
    assert!(
        quick * 100 >= latencies.len() * 95,
        "{quick} of {}",
        latencies.len()
    );
}

/// A sleeper that uses most of its share is never a slice ahead, which is the margin of one CPU.
#[test]
fn a_task_that_leads_by_less_than_the_margin_preempts_nothing() {
    let preempts = |margin_ns: u64| {
        let mut specs = hogs(&[weight_one(); 2]);
        specs.push(TaskSpec::new("sleeper", Trace::sleeper(3 * MS, MS)));
        let mut config = Config::new(1);
        config.preempt_margin_ns = margin_ns;
        run(config, specs, 20).counters.preempts
    };
    assert!(preempts(0) > 100);
    assert_eq!(preempts(Config::new(1).preempt_margin_ns), 0);
}

/// A waker wakes a task that is behind it every 5 ms, and a hog has the other CPU: how often the
/// task preempts them. On one CPU it would be pinned, and the kernel does not tell of `SYNC` then.
fn preemptions_of_a_waker(sync: bool) -> u64 {
    let work = Step::Run {
        ns: 5 * MS,
        bytes_per_s: 0,
    };
    let answer = [
        Step::Run {
            ns: MS,
            bytes_per_s: 0,
        },
        Step::Wait { ns: SEC },
    ];
    let specs = vec![
        TaskSpec::new("waker", Trace::repeat([work, Step::Wake { spec: 1, sync }])),
        TaskSpec::new("woken", Trace::repeat(answer)),
        TaskSpec::new("hog", Trace::hog()),
    ];
    let report = run(Config::new(2), specs, 10);
    assert!(report.tasks[1].wake_latencies_ns.len() > 1000);
    report.counters.preempts
}

#[test]
fn a_task_behind_its_waker_preempts_it() {
    let preempts = preemptions_of_a_waker(false);
    assert!(preempts > 1000, "{preempts}");
}

#[test]
fn a_synchronous_wake_up_preempts_nothing() {
    assert_eq!(preemptions_of_a_waker(true), 0);
}

const TENTH: u64 = MS / 10;

/// A waker has run on the first CPU since the beginning, without a tick. `other` has run for
/// `other_ns` and waits. `sleeper` has run for 0.2 ms and sleeps. A hog runs on the second CPU. All
/// began at S 0, and 1 ms of running is 0.5 ms of S. Returns `other`, `sleeper` and the CPUs.
fn a_waker_runs(kernel: &mut Kernel, other_ns: u64) -> ([TaskId; 2], [usize; 2]) {
    a_waker_runs_beside(kernel, other_ns, 0)
}

/// The same with a nice value of `other`.
fn a_waker_runs_beside(
    kernel: &mut Kernel,
    other_ns: u64,
    nice_of_other: i32,
) -> ([TaskId; 2], [usize; 2]) {
    let tasks = [0, 1, 2, 3].map(|_| kernel.task_new(0, None, CpuSet::ALL, 0, false));
    kernel.renice(0, tasks[1], nice_of_other);
    for task in tasks {
        kernel.wake_new(0, task);
    }
    let [waker, other, sleeper, hog] = tasks;
    let [own, far] = [waker, other].map(|task| kernel.task_cpu(task));
    assert_eq!(kernel.schedule(0, own), Some(waker));
    assert_eq!(kernel.schedule(0, far), Some(other));
    kernel.block(other_ns, far);
    assert_eq!(kernel.schedule(other_ns, far), Some(sleeper));
    let now_ns = other_ns + 2 * TENTH;
    kernel.block(now_ns, far);
    assert_eq!(kernel.schedule(now_ns, far), Some(hog));
    kernel.wake(now_ns, other, Some(own), false);
    ([other, sleeper], [own, far])
}

/// Its S is the smallest, but another one is before its waker.
#[test]
fn a_task_that_is_woken_synchronously_takes_the_place_of_its_waker() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([other, sleeper], [own, far]) = a_waker_runs(&mut kernel, MS);
    kernel.wake(14 * TENTH, sleeper, Some(own), true);
    assert_eq!(kernel.place(sleeper), Place::Queued);
    kernel.block(15 * TENTH, far);
    assert_eq!(kernel.schedule(15 * TENTH, far), Some(other));
    // The waker makes room.
    kernel.block(16 * TENTH, own);
    assert_eq!(kernel.schedule(16 * TENTH, own), Some(sleeper));
    let start_ns = kernel.account(sleeper).start_ns;
    assert_eq!(kernel.slot_vtime_ns(own), start_ns, "it has its own S");
}

#[test]
fn the_place_of_a_waker_is_at_most_half_a_round_after_its_start() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([other, sleeper], [own, far]) = a_waker_runs(&mut kernel, 3 * MS);
    kernel.wake(35 * TENTH, sleeper, Some(own), true);
    kernel.block(36 * TENTH, far);
    assert_eq!(kernel.schedule(36 * TENTH, far), Some(sleeper));
    kernel.block(37 * TENTH, own);
    assert_eq!(kernel.schedule(37 * TENTH, own), Some(other));
}

/// V stays where the hog began. The packet of the waker began far beyond it.
#[test]
fn a_place_does_not_stay_behind_with_v() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([other, sleeper], [own, far]) = a_waker_runs(&mut kernel, 4 * MS);
    kernel.block(43 * TENTH, own);
    assert_eq!(kernel.schedule(43 * TENTH, own), Some(other));
    let first = 0;
    kernel.wake(44 * TENTH, first, Some(far), false);
    // `other` has run for longer than the first task.
    kernel.wake(48 * TENTH, sleeper, Some(own), true);
    let beyond_v = kernel.slot_vtime_ns(own) - kernel.v_ns();
    assert!(beyond_v > MS, "the packet began {beyond_v} ns after V");
    kernel.block(49 * TENTH, far);
    assert_eq!(kernel.schedule(49 * TENTH, far), Some(first));
}

/// Nothing has waited, so the packet of a waker of nice 19 began at the cap.
#[test]
fn a_place_is_near_v_where_the_packet_is_not() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([other, sleeper], [own, far]) = a_waker_runs(&mut kernel, MS);
    let waker = 0;
    kernel.renice(12 * TENTH, waker, 19);
    // `other` is of nice 19, too, and ends 7 ms after V.
    kernel.block(13 * TENTH, far);
    assert_eq!(kernel.schedule(13 * TENTH, far), Some(other));
    kernel.renice(13 * TENTH, other, 19);
    kernel.block(15 * TENTH, far);
    kernel.wake(16 * TENTH, 3, Some(far), false);
    assert_eq!(kernel.schedule(16 * TENTH, far), Some(3));
    for now_ns in [6 * MS, 11 * MS] {
        kernel.tick(now_ns, own, own);
        assert_eq!(kernel.schedule(now_ns, own), Some(waker));
    }
    assert!(kernel.slot_vtime_ns(own) > kernel.v_ns() + 30 * MS);
    kernel.wake(111 * TENTH, other, Some(far), false);
    assert!(kernel.account(other).start_ns > kernel.v_ns() + 6 * MS);
    kernel.wake(112 * TENTH, sleeper, Some(own), true);
    kernel.block(113 * TENTH, far);
    assert_eq!(kernel.schedule(113 * TENTH, far), Some(sleeper));
}

/// The waker is on the CPU of another cache.
#[test]
fn a_place_stays_near_v_where_other_tasks_wait() {
    let mut kernel = Kernel::new(&Config::new(2).llcs(2));
    let [waker, hog, sleeper, between] =
        [0, 1, 1, 1].map(|cpu| kernel.task_new(0, None, CpuSet::ALL, cpu, false));
    for (now_ns, task, cpu) in [(0, waker, 0), (0, sleeper, 1), (2 * TENTH, between, 1)] {
        kernel.wake_new(now_ns, task);
        assert_eq!(kernel.schedule(now_ns, cpu), Some(task));
        if task == sleeper {
            kernel.block(2 * TENTH, cpu);
        }
    }
    for (cpu, task) in [(1, hog), (0, waker)] {
        kernel.block(3 * MS, cpu);
        if task == waker {
            kernel.wake(3 * MS, waker, Some(0), false);
        } else {
            kernel.wake_new(3 * MS, hog);
        }
        assert_eq!(kernel.schedule(3 * MS, cpu), Some(task));
    }
    kernel.wake(31 * TENTH, between, Some(1), false);
    kernel.wake(32 * TENTH, sleeper, Some(0), true);
    kernel.block(33 * TENTH, 1);
    assert_eq!(kernel.schedule(33 * TENTH, 1), Some(sleeper));
}

/// A waker whose last packet ended while it could run on will hardly block: what it wakes waits at the
/// latest place, half a round (1 ms of S) after the start of the packet.
#[test]
fn a_waker_that_goes_on_lets_others_of_its_round_run_first() {
    let waker = 0;
    // In S: `other` is at 1.2 or 1.8 ms, the waker's packet began at 0.5 or 0.7.
    for (goes_on, other_ns, sleeper_is_first) in [
        (false, 8 * TENTH, true),
        (true, 8 * TENTH, false),
        (true, 12 * TENTH, true),
    ] {
        let mut kernel = Kernel::new(&Config::new(2));
        let ([other, sleeper], [own, far]) = a_waker_runs_beside(&mut kernel, other_ns, 5);
        if goes_on {
            let now_ns = other_ns + 2 * TENTH;
            kernel.take_cpu(now_ns, own);
            kernel.give_cpu(own);
            assert_eq!(kernel.schedule(now_ns, own), Some(waker));
        }
        let now_ns = other_ns + 3 * TENTH;
        kernel.wake(now_ns, sleeper, Some(own), true);
        kernel.block(now_ns, far);
        let first = if sleeper_is_first { sleeper } else { other };
        assert_eq!(kernel.schedule(now_ns, far), Some(first));
    }
}

#[test]
fn a_task_that_must_leave_its_cpu_loses_its_place() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([other, sleeper], [own, far]) = a_waker_runs(&mut kernel, MS);
    kernel.set_affinity(12 * TENTH, other, CpuSet::of(1 << own));
    kernel.wake(14 * TENTH, sleeper, Some(own), true);
    assert_eq!(kernel.task_cpu(sleeper), far);
    kernel.set_affinity(15 * TENTH, sleeper, CpuSet::of(1 << own));
    kernel.block(16 * TENTH, own);
    assert_eq!(kernel.schedule(16 * TENTH, own), Some(sleeper));
}

/// The current task is not its waker.
#[test]
fn a_task_that_an_interrupt_wakes_takes_nobodys_place() {
    let mut kernel = Kernel::new(&Config::new(2));
    let ([_, sleeper], [own, far]) = a_waker_runs(&mut kernel, MS);
    // It interrupts the hog, which has run for longer than `other`.
    assert_eq!(kernel.task_cpu(sleeper), far);
    kernel.wake(26 * TENTH, sleeper, None, true);
    kernel.block(27 * TENTH, own);
    assert_eq!(kernel.schedule(27 * TENTH, own), Some(sleeper));
}

/// Cards wake readers from softirqs, and the kernel calls that synchronous, too. Nobody is about to
/// block.
#[test]
fn a_task_that_an_interrupt_wakes_preempts_a_hog() {
    let mut config = Config::new(2);
    config.checked = false;
    let soon_ns = config.resched_ns + 1;
    let mut specs = hogs(&[weight_one(); 4]);
    let answer = Step::Run {
        ns: MS,
        bytes_per_s: 0,
    };
    specs.push(TaskSpec::new(
        "reader",
        Trace::repeat([answer, Step::Wait { ns: 1000 * SEC }]),
    ));
    let mut sim = Sim::new(config, specs);
    let mut at_once = 0;
    for packet in 1..=100 {
        let now_ns = packet * 100 * MS;
        sim.run_until(now_ns);
        sim.act(|kernel, now_ns| kernel.wake(now_ns, 4, None, true));
        sim.run_until(now_ns + soon_ns);
        at_once += u32::from(sim.cpu_of(4).is_some());
    }
    assert!(at_once >= 95, "{at_once} of 100");
}

/// Groups that share no CPU each have their own order: V follows the first one.
#[test]
fn a_task_takes_no_place_of_a_waker_whose_cpu_is_not_one_of_its_own() {
    let near = CpuSet::of(0b0011);
    let far = CpuSet::of(0b1100);
    let mut specs = hogs(&[weight_one(); 24]);
    for (i, spec) in specs.iter_mut().enumerate() {
        spec.allowed = if i < 4 { near } else { far };
    }
    let work = Step::Run {
        ns: 5 * MS,
        bytes_per_s: 0,
    };
    let wake = Step::Wake {
        spec: 25,
        sync: true,
    };
    let answer = [
        Step::Run {
            ns: 100 * US,
            bytes_per_s: 0,
        },
        Step::Wait { ns: SEC },
    ];
    let mut waker = TaskSpec::new("waker", Trace::repeat([work, wake]));
    waker.allowed = near;
    let mut woken = TaskSpec::new("woken", Trace::repeat(answer));
    woken.allowed = far;
    specs.extend([waker, woken]);
    let config = Config::new(4);
    let bound = 2 * config.slice_ns + config.tick_ns;
    let report = run(config, specs, 30);
    let waits = &report.tasks[25].wake_latencies_ns;
    assert!(waits.len() > 1000);
    assert!(
        report.tasks[25].max_wake_ns() <= bound,
        "{} ns",
        report.tasks[25].max_wake_ns()
    );
}

/// Adds two tasks that wake each other each 20 us. If both start at once, each misses the other's first
/// wake-up, and they wait.
fn add_pair(specs: &mut Vec<TaskSpec>, sync: bool) {
    let first = specs.len();
    for other in [first + 1, first] {
        let steps = [
            Step::Run {
                ns: 20 * US,
                bytes_per_s: 0,
            },
            Step::Wake { spec: other, sync },
            Step::Wait { ns: SEC },
        ];
        specs.push(TaskSpec::new("ping", Trace::repeat(steps)));
    }
}

/// How many CPUs a pair uses beside two hogs per CPU.
fn pair_beside_hogs(cpus: usize, sync: bool) -> f64 {
    let mut specs = hogs(&vec![weight_one(); 2 * cpus]);
    let first = specs.len();
    add_pair(&mut specs, sync);
    let used = cpus_used(&run(Config::new(cpus), specs, 5));
    used[first] + used[first + 1]
}

#[test]
fn a_pair_that_wakes_each_other_synchronously_loses_nothing() {
    for cpus in [2, 64] {
        let (sync, plain) = (pair_beside_hogs(cpus, true), pair_beside_hogs(cpus, false));
        assert!(sync > 0.98 * plain, "{cpus} CPUs: {sync:.4} and {plain:.4}");
    }
}

/// The kernel calls the CPU of a synchronous waker idle while any other CPU idles. Two pairs and a
/// hog may use two of four CPUs.
#[test]
fn pairs_that_wake_each_other_leave_others_of_their_cpus_a_share() {
    let set = CpuSet::of(0b11);
    let mut specs = hogs(&[weight_one()]);
    add_pair(&mut specs, true);
    add_pair(&mut specs, true);
    let specs = specs.into_iter().map(|spec| spec.allowed(set)).collect();
    let used = cpus_used(&run(Config::new(4), specs, 5))[0];
    // If the pairs waited, it would have a CPU.
    assert!(
        (used / 0.4 - 1.0).abs() < 0.01,
        "the hog got {used:.4} CPUs of 0.4"
    );
}

/// A packet of low weight ends far after V. V must not follow it past the tasks that wait.
#[test]
fn a_hog_of_low_weight_does_not_delay_wakeups() {
    let mut specs = hogs(&[nice(0), nice(19)]);
    specs.push(TaskSpec::new("sleeper", Trace::sleeper(MS, 97 * MS)));
    let config = Config::new(1);
    let bound = config.slice_ns + config.tick_ns;
    let report = run(config, specs, 60);
    assert!(
        report.tasks[2].max_wake_ns() <= bound,
        "{} ns",
        report.tasks[2].max_wake_ns()
    );
}

/// How long tasks run among sleepers, s.
const AMONG_SLEEPERS_S: u64 = 30;

/// A packet at each end of that time, as a part of a CPU.
fn ends(config: &Config) -> f64 {
    2.0 * (config.slice_ns + config.tick_ns) as f64 / (AMONG_SLEEPERS_S * SEC) as f64
}

#[test]
fn no_sleep_pattern_gains_more_than_a_fair_share() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let cpus = rng.range(1, 4) as usize;
        let others = rng.range(2 * cpus as u64, 3 * cpus as u64) as usize;
        let mut weights = vec![weight_one(); others + 1];
        for weight in &mut weights {
            *weight = rng.range(weight_one() as u64 / 3, weight_one() as u64 * 3) as u32;
        }
        let steps = rng.range(1, 40) as usize;
        let (max_run, max_sleep) = (MS + rng.log_below(SEC), MS + rng.log_below(SEC));
        let trace = Trace::random_sleeper(&mut rng, steps, max_run, max_sleep);
        let mut config = Config::new(cpus);
        config.exact_slices = rng.below(2) == 0;
        let mut specs = hogs(&weights);
        specs[others].trace = trace;
        let most = fair_cpus(&weights, cpus)[others] + ends(&config);
        let used = cpus_used(&run(config, specs, AMONG_SLEEPERS_S))[others];
        assert!(
            used <= most,
            "seed {seed}: {used:.4} CPUs, at most {most:.4}"
        );
    }
}

/// Many sleepers together do not push a hog below its share.
#[test]
fn hogs_keep_their_share_among_sleepers() {
    for seed in 0..100 {
        let mut rng = Rng::new(1000 + seed);
        let cpus = rng.range(1, 4) as usize;
        let nr_hogs = rng.range(1, 2 * cpus as u64) as usize;
        let sleepers = rng.range(1, 6) as usize;
        let weights: Vec<u32> = vec![weight_one(); nr_hogs + sleepers];
        let mut specs = hogs(&weights);
        for spec in &mut specs[nr_hogs..] {
            spec.trace = Trace::random_sleeper(&mut rng, 20, 50 * MS, 50 * MS);
        }
        let config = Config::new(cpus);
        let least = fair_cpus(&weights, cpus)[0] - ends(&config);
        let used = cpus_used(&run(config, specs, AMONG_SLEEPERS_S));
        for hog in &used[..nr_hogs] {
            assert!(*hog >= least, "seed {seed}: {hog:.4}, at least {least:.4}");
        }
    }
}

/// The longest wait that the rules allow task `i`, ns. It waits with S of at most V + cap + D_i,
/// where D_i is its last packet. Every other flow starts at V - C or later. So it runs for at most
/// w c (cap + C + D_i), and one packet more, before its S is later.
fn longest_wait_ns(config: &Config, weights: &[u32], i: usize) -> u64 {
    let one = f64::from(weight_one());
    let cpus = config.nr_cpus() as f64;
    let packet = (config.slice_ns + config.tick_ns + config.resched_ns) as f64;
    // Best effort charges more only if a CPU is idle, and then no task waits.
    let own = packet / cpus / (f64::from(weights[i]) / one);
    let window = (config.conf.cap_ns + config.conf.wake_credit_ns) as f64 + own;
    let others = weights.iter().enumerate().filter(|(j, _)| *j != i);
    let service: f64 = others
        .map(|(_, w)| f64::from(*w) / one * cpus * window + packet)
        .sum();
    (service / cpus + packet) as u64
}

#[test]
fn no_task_waits_longer_than_the_theory_allows() {
    for seed in 0..200 {
        let mut rng = Rng::new(2000 + seed);
        let cpus = rng.range(1, 4) as usize;
        let tasks = rng.range(cpus as u64 + 1, 4 * cpus as u64) as usize;
        let weights: Vec<u32> = (0..tasks)
            .map(|_| rng.range(weight_one() as u64 / 8, weight_one() as u64 * 4) as u32)
            .collect();
        let mut specs = hogs(&weights);
        for spec in &mut specs {
            if rng.below(2) == 0 {
                spec.trace = Trace::random_sleeper(&mut rng, 10, 100 * MS, 500 * MS);
            }
            spec.arrival_ns = rng.below(SEC);
        }
        let mut config = Config::new(cpus);
        config.rescue_ns = u64::MAX; // the queue alone
        let bounds: Vec<u64> = (0..tasks)
            .map(|i| longest_wait_ns(&config, &weights, i))
            .collect();
        let mut order: Vec<usize> = (0..tasks).collect();
        order.sort_by_key(|i| specs[*i].arrival_ns);
        let report = run(config, specs, 20);
        for (task, i) in report.tasks.iter().zip(order) {
            assert!(
                task.max_wait_ns <= bounds[i],
                "seed {seed}: {} waited {} ns of {}",
                task.name,
                task.max_wait_ns,
                bounds[i]
            );
        }
    }
}

/// A tiny weight among huge ones gets a slice every few minutes. The kernel's watchdog allows 30 s.
#[test]
fn a_rescue_bounds_the_wait_of_a_tiny_weight() {
    let mut weights = vec![nice(-20); 8];
    weights.push(nice(19));
    let config = Config::new(1);
    // It waits for 2 s, the timer finds it within 1 s, and it runs after the present packet.
    let bound = config.rescue_ns + SEC + config.slice_ns + config.tick_ns;
    let report = run(config, hogs(&weights), 60);
    let starved = &report.tasks[8];
    assert!(report.counters.rescued > 0);
    assert!(starved.max_wait_ns <= bound, "{} ns", starved.max_wait_ns);
    assert!(starved.cpu_ns > 0);
}

/// A task that ran far ahead of V while no task waited must not starve once tasks wait.
#[test]
fn a_lead_from_idle_times_delays_by_at_most_the_cap() {
    // Each hog has a CPU. The light one runs far ahead of V, which the heavy one holds back.
    let mut specs = hogs(&[4 * weight_one(), weight_one() / 4]);
    specs.push(TaskSpec::new("late", Trace::hog()).arrival(20 * SEC));
    let config = Config::new(2);
    // It waits until the newcomer, which starts at V, has used the cap and the light hog's packet.
    let own = 4 * (config.slice_ns + config.tick_ns) / 2;
    let bound = 2 * (config.conf.cap_ns + own) + config.slice_ns + config.tick_ns;
    let report = run(config, specs, 40);
    assert!(
        report.tasks[1].max_wait_ns <= bound,
        "{} ns of {bound}",
        report.tasks[1].max_wait_ns
    );
}

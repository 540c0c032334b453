// SPDX-License-Identifier: GPL-2.0-only
//! Random cases.

use crate::cpuset::CpuSet;
use crate::ffi::weight_one;
use crate::fuzz::traffic::traffic;
use crate::fuzz::{Case, Group, TaskCase};
use crate::outside::{Outside, PACES};
use crate::reference::weight;
use crate::trace::{Rng, Step};
use crate::{MS, SEC, US};

/// 5 GB/s.
const MEM: u64 = 5_000_000_000;

/// Weights of nice -20, -5, 0 (more often), 5 and 19, relative to nice 0.
const WEIGHTS: [f64; 7] = [86.68, 3.05, 1.0, 1.0, 1.0, 0.327, 0.0146];

fn chance(rng: &mut Rng, one_in: u64) -> bool {
    rng.below(one_in) == 0
}

fn cpus(rng: &mut Rng, nr_cpus: usize) -> CpuSet {
    match rng.below(3) {
        0 => CpuSet::one(rng.below(nr_cpus as u64) as usize),
        1 => CpuSet::from((1 << nr_cpus) - 1),
        _ => CpuSet::from(rng.range(1, (1 << nr_cpus) - 1)),
    }
}

fn step(rng: &mut Rng, case: &Case, specs: usize) -> Step {
    let moves_memory = case.memory_bytes_per_s > 0;
    match rng.below(20) {
        0 => Step::Yield,
        1 if !case.fair => Step::Affinity(cpus(rng, case.cpus)),
        2 => Step::Wait {
            ns: 100 * US + rng.log_below(50 * MS),
        },
        3 | 4 => Step::Wake {
            spec: rng.below(specs as u64) as usize,
            sync: chance(rng, 2),
        },
        5..=9 => Step::Sleep {
            ns: 50 * US + rng.log_below(100 * MS),
            dma_bytes: u64::from(moves_memory) * rng.below(2) * rng.log_below(MEM / 4),
        },
        _ => Step::Run {
            ns: 10 * US + rng.log_below(40 * MS),
            bytes_per_s: u64::from(moves_memory) * rng.below(2) * rng.log_below(2 * MEM),
        },
    }
}

fn task(rng: &mut Rng, case: &Case, specs: usize, horizon_ns: u64) -> TaskCase {
    let mut steps: Vec<Step> = (0..rng.range(1, 10))
        .map(|_| step(rng, case, specs))
        .collect();
    steps.push(Step::Run {
        ns: 20 * US + rng.log_below(20 * MS),
        bytes_per_s: 0,
    });
    steps.push(Step::Sleep {
        ns: 50 * US + rng.log_below(30 * MS),
        dma_bytes: 0,
    });
    if chance(rng, 3) {
        // It always wants to run.
        steps.retain(|step| !matches!(step, Step::Sleep { .. } | Step::Wait { .. }));
    }
    TaskCase {
        weight: weight(WEIGHTS[rng.below(WEIGHTS.len() as u64) as usize]),
        allowed: if chance(rng, 3) {
            cpus(rng, case.cpus)
        } else {
            CpuSet::from((1 << case.cpus) - 1)
        },
        arrival_ns: Some(rng.below(horizon_ns)),
        kthread: chance(rng, 8),
        group: (!case.groups.is_empty() && chance(rng, 2))
            .then(|| rng.below(case.groups.len() as u64) as usize),
        shares: false,
        repeat: !chance(rng, 6),
        steps,
    }
}

fn outside(rng: &mut Rng, case: &Case) -> Outside {
    let task = rng.below(case.tasks.len() as u64 + 2) as usize;
    let group = |rng: &mut Rng| rng.below(case.groups.len() as u64) as usize;
    match rng.below(16) {
        0 | 1 => Outside::Renice {
            task,
            nice: rng.range(0, 39) as i32 - 20,
        },
        2..=4 => Outside::Affinity {
            task,
            allowed: cpus(rng, case.cpus),
        },
        5 | 6 if !case.groups.is_empty() => Outside::Move {
            task,
            group: group(rng),
        },
        7 if !case.groups.is_empty() => Outside::GroupWeight {
            group: group(rng),
            weight: rng.log_below(10_000) as u32,
        },
        8 if chance(rng, 3) => Outside::Restart,
        9 | 10 if !case.groups.is_empty() => Outside::Quota {
            group: group(rng),
            quota_us: rng.below(4).min(1) * rng.range(1_000, 200_000),
            period_us: 999 + rng.log_below(999_001),
        },
        11 if !case.groups.is_empty() => Outside::Idle {
            group: group(rng),
            idle: chance(rng, 2),
        },
        12 if !case.groups.is_empty() => Outside::RuleGroup {
            group: group(rng),
            weight: rng.log_below(u64::from(weight_one()) * 100) as u32,
        },
        13 => Outside::RuleTask {
            task,
            weight: rng.below(4).min(1) as u32
                * rng.log_below(u64::from(weight_one()) * 100) as u32,
        },
        14 if case.memory_bytes_per_s > 0 => Outside::Pace {
            index: rng.range(1, u64::from(PACES)) as u32,
            bytes_per_s: (!chance(rng, 4)).then(|| rng.log_below(2 * MEM)),
        },
        15 if case.memory_bytes_per_s > 0 => Outside::PaceGroup {
            task,
            index: rng.below(u64::from(PACES) + 1) as u32,
        },
        _ => take(rng, case),
    }
}

fn take(rng: &mut Rng, case: &Case) -> Outside {
    Outside::Take {
        cpu: rng.below(case.cpus as u64) as usize,
        ns: 50 * US + rng.log_below(30 * MS),
    }
}

fn machine(rng: &mut Rng) -> Case {
    let cpus = rng.range(1, 12) as usize;
    Case {
        cpus,
        llcs: rng.range(1, 4.min(cpus as u64)) as usize,
        smt: cpus.is_multiple_of(2) && chance(rng, 2),
        skewed_ticks: chance(rng, 2),
        exact_slices: chance(rng, 3),
        resched_ns: [0, 2 * US, 50 * US][rng.below(3) as usize],
        memory_bytes_per_s: rng.below(2) * MEM,
        duration_ns: [SEC / 2, SEC, 2 * SEC, 5 * SEC][rng.below(4) as usize],
        fair: false,
        groups: Vec::new(),
        tasks: Vec::new(),
        events: Vec::new(),
        traffic: Vec::new(),
    }
}

/// Every CPU has two to four tasks of random weights that may only use it and always want to run.
/// Others come and go beside them.
fn add_sharers(rng: &mut Rng, case: &mut Case) {
    for cpu in 0..case.cpus {
        for _ in 0..rng.range(2, 4) {
            case.tasks.push(TaskCase {
                weight: rng.range(weight_one() as u64 / 4, weight_one() as u64 * 4) as u32,
                allowed: CpuSet::one(cpu),
                arrival_ns: Some(rng.below(MS)),
                kthread: false,
                group: None,
                shares: true,
                repeat: true,
                steps: vec![Step::Run {
                    ns: 3600 * SEC,
                    bytes_per_s: 0,
                }],
            });
        }
    }
}

/// Devices move data, often while tasks come and go.
fn add_traffic(rng: &mut Rng, case: &mut Case) {
    // A device would move it for the worker's submitter.
    for step in case.tasks.iter_mut().flat_map(|task| &mut task.steps) {
        if let Step::Sleep { dma_bytes, .. } = step {
            *dma_bytes = 0;
        }
    }
    // Whose a socket or a dirty page is, the next load of the scheduler must learn again.
    let events = &mut case.events;
    events.retain(|(_, event)| *event != Outside::Restart);
    let tasks = case.tasks.len();
    for task in &mut case.tasks {
        task.kthread |= chance(rng, 4);
    }
    for _ in 0..rng.log_below(400) {
        let at_ns = rng.below(case.duration_ns);
        case.traffic.push((at_ns, traffic(rng, case.cpus, tasks)));
    }
    case.traffic.sort_by_key(|(at_ns, _)| *at_ns);
}

/// The case of a seed.
pub fn generate(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let mut case = machine(&mut rng);
    case.fair = chance(&mut rng, 4);
    let has_traffic = !case.fair && chance(&mut rng, 2);
    if has_traffic {
        case.duration_ns = SEC / 2;
    }
    if case.fair {
        case.cpus = case.cpus.min(4);
        case.llcs = case.llcs.min(case.cpus);
        case.smt = false;
        case.duration_ns = 3 * SEC;
        add_sharers(&mut rng, &mut case);
    } else {
        for i in 0..rng.below(5) as usize {
            let parent = (i > 0 && chance(&mut rng, 2)).then(|| rng.below(i as u64) as usize);
            let weight = rng.log_below(10_000) as u32;
            case.groups.push(Group { weight, parent });
        }
    }
    let sharers = case.tasks.len();
    let others = rng.range(u64::from(!case.fair), 3 * case.cpus as u64 + 4) as usize;
    let horizon_ns = case.duration_ns / 2;
    for _ in 0..others {
        let task = task(&mut rng, &case, sharers + others, horizon_ns);
        case.tasks.push(task);
    }
    // Some tasks are forked by others.
    for child in sharers..sharers + others {
        if child > sharers && chance(&mut rng, 4) {
            let parent = rng.range(sharers as u64, child as u64 - 1) as usize;
            case.tasks[child].arrival_ns = None;
            case.tasks[child].repeat = false;
            let at = rng.below(case.tasks[parent].steps.len() as u64) as usize;
            case.tasks[parent].steps.insert(at, Step::Spawn(child));
        }
    }
    for _ in 0..rng.below(30) {
        let event = if case.fair && chance(&mut rng, 8) {
            Outside::Restart
        } else if case.fair {
            take(&mut rng, &case)
        } else {
            outside(&mut rng, &case)
        };
        case.events.push((rng.below(case.duration_ns), event));
    }
    if has_traffic {
        add_traffic(&mut rng, &mut case);
    } else if !case.fair && chance(&mut rng, 8) {
        // Long enough for a wait that nothing ends.
        case.duration_ns = 2 * case.config().wait_bound_ns;
    }
    case
}

// SPDX-License-Identifier: GPL-2.0-only
//! How the work of a switch and of a wake-up grows with the machine and with what runs on it.

use crate::config::Config;
use crate::count::{Counts, Entry, KINDS, Kind};
use crate::cpuset::CpuSet;
use crate::engine::Sim;
use crate::ffi::weight_one;
use crate::kernel::CgroupId;
use crate::reference::fair_cpus;
use crate::task::TaskSpec;
use crate::trace::{Rng, Step, Trace};
use crate::{MS, SEC, US};

/// Bandwidth of the memory that held tasks owe to, bytes/s: one byte is 1 ns of virtual time.
const MEM: u64 = 1_000_000_000;

/// A machine and what runs on it. Half of the tasks always want to run; the others run for 0.5 ms
/// and sleep for about 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// CPUs, 1 to 256.
    pub cpus: usize,
    /// LLCs, each with the same number of CPUs.
    pub llcs: usize,
    /// Tasks that may run anywhere.
    pub tasks: usize,
    /// cgroups, among which all tasks are spread evenly; 0: all are in the root group. Ten of them
    /// share a parent.
    pub cgroups: usize,
    /// How many cgroups stand in a row between the root group and those parents.
    pub levels: usize,
    /// Further tasks that delayed wake-up holds all the time.
    pub held: usize,
    /// Further tasks that always want to run and may only use the last CPU.
    pub pinned: usize,
    /// Further kernel threads, of which mostly some wait, none of them for long.
    pub kthreads: usize,
}

impl Load {
    /// A load of three tasks for each CPU, in the root group.
    pub fn new(cpus: usize, llcs: usize) -> Self {
        Self {
            cpus,
            llcs,
            tasks: 3 * cpus,
            cgroups: 0,
            levels: 0,
            held: 0,
            pinned: 0,
            kthreads: 0,
        }
    }
}

/// Operations of the callbacks.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Mean for each switch, in the order of [`KINDS`].
    pub per_switch: Vec<f64>,
    /// Mean for each wake-up, in the same order.
    pub per_wakeup: Vec<f64>,
    /// Mean for each tick of a busy CPU, in the same order.
    pub per_tick: Vec<f64>,
    /// Switches, with those from a task to itself.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Ticks of busy CPUs.
    pub ticks: u64,
}

impl Operations {
    /// The mean of one kind for each switch and for each wake-up.
    pub fn of(&self, kind: Kind) -> (f64, f64) {
        (
            self.per_switch[kind as usize],
            self.per_wakeup[kind as usize],
        )
    }
}

fn hog(name: String) -> TaskSpec {
    TaskSpec::new(name, Trace::hog())
}

fn specs(load: &Load) -> Vec<TaskSpec> {
    let mut specs: Vec<TaskSpec> = (0..load.tasks)
        .map(|i| {
            if i % 2 == 0 {
                return hog(format!("hog{i}"));
            }
            let sleep_ns = 8 * MS + (i as u64 * 7919) % 4000 * US;
            TaskSpec::new(format!("sleeper{i}"), Trace::sleeper(500 * US, sleep_ns))
        })
        .collect();
    for i in 0..load.pinned {
        specs.push(hog(format!("pinned{i}")).allowed(CpuSet::one(load.cpus - 1)));
    }
    for i in 0..load.kthreads {
        let trace = Trace::sleeper(100 * US, 10 * MS + i as u64 * US);
        specs.push(TaskSpec::new(format!("kthread{i}"), trace).kthread());
    }
    for i in 0..load.held {
        let steps = [
            Step::Run {
                ns: 20 * US,
                bytes_per_s: 0,
            },
            Step::Sleep {
                ns: MS,
                dma_bytes: 10_000 * MEM,
            },
        ];
        specs.push(TaskSpec::new(format!("held{i}"), Trace::repeat(steps)));
    }
    // Arrivals at different times, so that no two tasks stay in step.
    for (i, spec) in specs.iter_mut().enumerate() {
        spec.arrival_ns = (i as u64 * 104_729) % (10 * MS);
    }
    specs
}

/// A machine under `load` on which every debtor is held until the end.
fn machine(load: &Load) -> Sim {
    let mut config = Config::new(load.cpus).llcs(load.llcs);
    config.checked = false;
    config.skewed_ticks = true;
    if load.held > 0 {
        config.conf.mem_ns_per_byte_q32 = Config::new(1).memory(MEM).conf.mem_ns_per_byte_q32;
        config.hold_max_ns = 10_000 * SEC;
    }
    Sim::new(config, specs(load))
}

/// Spreads all tasks among the groups of `load`.
fn spread(sim: &mut Sim, load: &Load) {
    let cgroups = load.cgroups;
    if cgroups == 0 {
        return;
    }
    let tasks = sim.nr_tasks();
    sim.act(|kernel, now_ns| {
        let top = (0..load.levels).fold(None, |above, _| Some(kernel.cgroup_new(above, 100)));
        let mut parent = None;
        let groups: Vec<CgroupId> = (0..cgroups)
            .map(|i| {
                if i % 10 == 0 {
                    parent = Some(kernel.cgroup_new(top, 100));
                }
                kernel.cgroup_new(parent, 100)
            })
            .collect();
        for task in 0..tasks {
            kernel.cgroup_move(now_ns, task, groups[task % cgroups]);
        }
    });
}

/// Runs `load` until it is steady, and then counts for `window_ns`. Returns the machine, which
/// still counts.
pub fn counted(load: &Load, window_ns: u64) -> Sim {
    let mut sim = machine(load);
    let steady_ns = 100 * MS;
    sim.run_until(20 * MS);
    spread(&mut sim, load);
    sim.run_until(steady_ns);
    Counts::start(sim.kernel());
    sim.run_until(steady_ns + window_ns);
    sim
}

/// Counts the operations of `load` for `window_ns` of simulated time.
pub fn measure(load: &Load, window_ns: u64) -> Operations {
    let mut sim = counted(load, window_ns);
    let counts = Counts::of(sim.kernel());
    let calls = |entry: Entry, callback: &str| {
        let number = crate::count::callbacks()
            .iter()
            .position(|c| *c == callback);
        let number = number.expect("a callback of native/count.h");
        counts.of_callback(entry, number, Kind::Calls)
    };
    // ops.dispatch runs once for each switch, also where the task stays.
    let switches = calls(Entry::Switch, "dispatch");
    let wakeups = counts.entries(Entry::Wake);
    let ticks = calls(Entry::Tick, "tick");
    let per = |entry: Entry, times: u64| {
        let mean = |kind: Kind| counts.sum(entry, kind) as f64 / times.max(1) as f64;
        KINDS.iter().map(|(kind, _)| mean(*kind)).collect()
    };
    Operations {
        per_switch: per(Entry::Switch, switches),
        per_wakeup: per(Entry::Wake, wakeups),
        per_tick: per(Entry::Tick, ticks),
        switches,
        wakeups,
        ticks,
    }
}

/// Three hogs for each CPU, of random weights from 1/4 to 4, for `seconds`: the worst error of a
/// share, relative to the fair one.
pub fn worst_share_error(cpus: usize, llcs: usize, seconds: u64) -> f64 {
    let mut rng = Rng::new(cpus as u64);
    let weights: Vec<u32> = (0..3 * cpus)
        .map(|_| rng.range(u64::from(weight_one()) / 4, u64::from(weight_one()) * 4) as u32)
        .collect();
    let specs = weights
        .iter()
        .enumerate()
        .map(|(i, w)| hog(format!("hog{i}")).weight(*w))
        .collect();
    let mut config = Config::new(cpus).llcs(llcs);
    config.checked = false;
    let report = Sim::new(config, specs).run_until(seconds * SEC);
    let fair = fair_cpus(&weights, cpus);
    let used = report.tasks.iter().map(|t| t.cpu_ns as f64);
    used.zip(fair)
        .map(|(used, fair)| (used / (report.now_ns as f64 * fair) - 1.0).abs())
        .fold(0.0, f64::max)
}

// SPDX-License-Identifier: GPL-2.0-only
//! What happened between two samples.

use std::collections::HashMap;

use drfq_policy::fair_share::{Capacity, Claim, fair_cpus};

use crate::{
    controller_report::{Controller, rate},
    events::EVENTS,
    report::{Cpu, System, Task, Tasks},
    sample::{CpuSample, Facts, Sample, TaskSample, TaskState},
};

/// The weight of nice 0 in a sample (DRFQ_WEIGHT_ONE).
pub const WEIGHT_ONE: u32 = 1 << 20;

/// A task that ran or waited for at least this part of an interval wanted a CPU all
/// the time. A task that blocked for longer wanted what it got.
const BACKLOGGED_MIN: f64 = 0.95;

/// The system over the interval between two samples.
pub fn system(facts: &Facts, prev: &Sample, cur: &Sample) -> System {
    let names = EVENTS.iter().map(|event| event.name.to_owned());
    System {
        at_ns: cur.at_ns,
        interval_ns: interval_ns(prev, cur),
        nr_cpus: facts.nr_cpus,
        busy_cpus: cur.busy_cpus,
        uptime_ns: cur.at_ns.saturating_sub(facts.loaded_at_ns),
        run_id: facts.run_id,
        vtime_ns: cur.vtime_ns,
        vtime_advance_ns: cur.vtime_ns.wrapping_sub(prev.vtime_ns),
        mem_bytes_per_s: facts.mem_bytes_per_s.unwrap_or(0),
        mem_source: facts.mem_source.clone(),
        mem_stand_in: facts.mem_stand_in.into(),
        mem_measured: facts.mem_measured.into(),
        thesis_weights: facts.thesis_weights.into(),
        weight_rules: cur.weight_rules,
        controller: Controller::over(&prev.controller, &cur.controller),
        shadow: Controller::over(&prev.shadow, &cur.shadow),
        mba: cur.mba.clone(),
        events: names.zip(cur.events.iter().copied()).collect(),
    }
}

/// The tasks over the interval between two samples. At most `limit` are listed.
pub fn tasks(facts: &Facts, prev: &Sample, cur: &Sample, limit: usize) -> Tasks {
    let before: HashMap<u32, &TaskSample> = prev.tasks.iter().map(|t| (t.pid, t)).collect();
    // Some kernels do not record how long a task waited.
    let waits_known = cur.tasks.iter().any(|task| task.wait_ns > 0);
    let uses: Vec<Use> = cur
        .tasks
        .iter()
        .map(|task| {
            let before = before.get(&task.pid).copied();
            let before = before.filter(|before| before.is_of(task));
            let present = Present::over(before, task, prev, cur);
            let mut used = Use::over(before, task, &present);
            let wanted_all = used.backlogged || !waits_known;
            used.backlogged = wanted_all && present.counted && task.state != TaskState::Blocked;
            used
        })
        .collect();
    let capacity = Capacity {
        cpus: facts.nr_cpus.into(),
        bytes_per_s: facts.mem_bytes_per_s.map(|bytes| bytes as f64),
    };
    let claims: Vec<Claim> = uses.iter().map(Use::claim).collect();
    let mut list: Vec<Task> = uses
        .iter()
        .zip(fair_cpus(&claims, capacity))
        .map(|(used, fair)| used.report(fair, capacity, prev, cur))
        .collect();
    let nr_tasks = list.len() as u64;
    heaviest_first(&mut list);
    list.truncate(limit);
    Tasks {
        system: system(facts, prev, cur),
        cpus: cpus(prev, cur),
        nr_tasks,
        tasks: list,
    }
}

/// The CPUs over the interval between two samples.
fn cpus(prev: &Sample, cur: &Sample) -> Vec<Cpu> {
    let seconds = interval_ns(prev, cur) as f64 / 1e9;
    let before: HashMap<u32, &CpuSample> = prev.cpus.iter().map(|c| (c.cpu, c)).collect();
    let report = |now: &CpuSample| Cpu {
        cpu: now.cpu,
        llc: now.llc,
        pid: now.pid,
        lag_ns: match now.pid {
            0 => 0,
            _ => now.vtime_ns.wrapping_sub(cur.vtime_ns) as i64,
        },
        switches: now.switches,
        switches_per_s: now
            .switches
            .saturating_sub(before.get(&now.cpu).map_or(0, |before| before.switches))
            as f64
            / seconds,
        steals: now.steals,
    };
    cur.cpus.iter().map(report).collect()
}

/// Puts tasks in the order in which they are served: largest dominant share first.
pub fn heaviest_first(tasks: &mut [Task]) {
    tasks.sort_by(|a, b| {
        b.dominant_pct
            .total_cmp(&a.dominant_pct)
            .then(a.lag_ns.cmp(&b.lag_ns))
            .then(a.pid.cmp(&b.pid))
    });
}

/// Length of the interval (ns), at least 1 so that rates are finite.
fn interval_ns(prev: &Sample, cur: &Sample) -> u64 {
    cur.at_ns.saturating_sub(prev.at_ns).max(1)
}

/// The part of an interval in which a task existed.
///
/// The records of a sample are not all of one moment: the agent may lose its CPU while it
/// reads them. So each task has the interval between its own two records.
struct Present {
    /// The interval of its counts (ns), at least 1.
    interval_ns: f64,
    /// Time that it existed (ns), at most the interval.
    lived_ns: f64,
    /// Whether all that it used while it existed is counted in the interval.
    counted: bool,
}

impl Present {
    fn over(before: Option<&TaskSample>, now: &TaskSample, prev: &Sample, cur: &Sample) -> Self {
        let or = |record: u64, sample: u64| if record > 0 { record } else { sample };
        let end = or(now.at_ns, cur.at_ns);
        let begin = before.map_or(prev.at_ns, |before| or(before.at_ns, prev.at_ns));
        let interval_ns = end.saturating_sub(begin).max(1) as f64;
        let born = now.started_ns > begin;
        let lived_ns = if born {
            end.saturating_sub(now.started_ns).max(1) as f64
        } else {
            interval_ns
        };
        Self {
            interval_ns,
            lived_ns,
            counted: before.is_some() || born,
        }
    }

    fn part(&self) -> f64 {
        (self.lived_ns / self.interval_ns).min(1.0)
    }
}

/// What one task used over an interval.
struct Use<'a> {
    now: &'a TaskSample,
    cpus: f64,
    /// Part of the interval in which it existed.
    present: f64,
    /// Whether it wanted a CPU all the time.
    backlogged: bool,
    bytes_per_s: f64,
    dma_bytes_per_s: f64,
    /// Parts of the interval that it waited for a CPU, and was held.
    waited: f64,
    held: f64,
    wait_per_run_ns: f64,
}

impl<'a> Use<'a> {
    fn over(before: Option<&TaskSample>, now: &'a TaskSample, present: &Present) -> Self {
        let since = |count: fn(&TaskSample) -> u64| now.rise(before, count) as f64;
        let interval_ns = present.interval_ns;
        let per_s = |bytes: f64| bytes * 1e9 / interval_ns;
        let throttled = since(|task| task.throttled_ns);
        let waited = (since(|task| task.wait_ns) - throttled).max(0.0);
        let wanted = since(|task| task.cpu_ns) + waited;
        Self {
            now,
            cpus: since(|task| task.charged_ns) / interval_ns,
            present: present.part(),
            backlogged: wanted >= BACKLOGGED_MIN * present.lived_ns,
            bytes_per_s: per_s(since(|task| task.bytes)),
            dma_bytes_per_s: per_s(since(|task| task.dma_bytes)),
            waited: (waited / interval_ns).min(1.0),
            held: (since(|task| task.held_ns) / interval_ns).min(1.0),
            wait_per_run_ns: waited / since(|task| task.runs).max(1.0),
        }
    }

    /// What it claims. A task that existed for a part of the interval claims that part.
    fn claim(&self) -> Claim {
        let traffic = if self.cpus > 0.0 {
            self.bytes_per_s / self.cpus
        } else {
            0.0
        };
        Claim {
            weight: weight(self.now.weight) * self.present,
            cpus: if self.backlogged {
                self.present
            } else {
                self.cpus.min(1.0)
            },
            bytes_per_s: traffic,
        }
    }

    fn report(&self, fair_cpus: f64, capacity: Capacity, prev: &Sample, cur: &Sample) -> Task {
        let now = self.now;
        let demand = cur.shadow.demand_bytes_per_s.get(&now.pid);
        let counted = cur.controller.traffic.by_pid.get(&now.pid);
        Task {
            pid: now.pid,
            tgid: now.tgid,
            comm: now.comm.clone(),
            weight: weight(now.weight),
            nice: now.nice,
            state: now.state.word().into(),
            kthread: now.kthread.into(),
            cpu_pct: self.cpus * 100.0,
            fair_pct: fair_cpus * 100.0,
            backlogged: self.backlogged.into(),
            mem_bytes_per_s: self.bytes_per_s,
            dma_bytes_per_s: self.dma_bytes_per_s,
            controller_bytes_per_s: rate(&prev.controller, &cur.controller, now.pid),
            shadow_bytes_per_s: rate(&prev.shadow, &cur.shadow, now.pid),
            shadow_demand_bytes_per_s: demand.copied().unwrap_or(0) as f64,
            dominant_pct: capacity.dominant_share(self.cpus, self.bytes_per_s) * 100.0,
            lag_ns: now.start_ns().wrapping_sub(cur.vtime_ns) as i64,
            flags: now.flags,
            cpu_ns: now.cpu_ns,
            charged_ns: now.charged_ns,
            wait_ns: now.wait_ns,
            bytes: now.bytes,
            dma_bytes: now.dma_bytes,
            controller_bytes: counted.copied().unwrap_or(0),
            cpu_vt_ns: now.cpu_vt_ns,
            mem_vt_ns: now.mem_vt_ns,
            held_ns: now.held_ns,
            max_held_ns: now.max_held_ns,
            wait_pct: self.waited * 100.0,
            held_pct: self.held * 100.0,
            runs: now.runs,
            wait_per_run_ns: self.wait_per_run_ns,
        }
    }
}

fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(WEIGHT_ONE)
}

#[cfg(test)]
mod tests;

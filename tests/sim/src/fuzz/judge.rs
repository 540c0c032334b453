// SPDX-License-Identifier: GPL-2.0-only
//! Runs a case and checks what must hold. The simulator's own clock measures CPU time; the
//! scheduler's books are compared with it.

use crate::engine::Sim;
use crate::ffi::weight_one;
use crate::fuzz::Case;
use crate::fuzz::books::Books;
use crate::outside::{Outside, PACES};
use crate::task::TaskSpec;
use crate::trace::Trace;
use crate::{MS, SEC};

/// How often shares are compared, ns.
const SAMPLE_NS: u64 = MS;

/// `SCX_SLICE_DFL`, ns.
const KERNEL_SLICE_NS: u64 = 20 * MS;

/// The longest sleep of a case and the longest time until all its tasks have ended after it, ns.
const END_NS: u64 = SEC;

/// An invariant that a case breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is broken, without numbers: two findings of one kind have the same.
    pub kind: String,
    /// The first violations.
    pub text: Vec<String>,
}

impl Finding {
    fn of(text: Vec<String>) -> Option<Self> {
        let first = text.first()?;
        let without_time = first.split_once(": ").map_or(first.as_str(), |(_, t)| t);
        let kind: String = without_time
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .collect();
        Some(Self { kind, text })
    }
}

/// Forks make tasks without end where children fork. More tasks than this end a case.
const MOST_TASKS: usize = 400;

/// Runs `case`. Returns the invariant that it breaks.
pub fn judge(case: &Case) -> Option<Finding> {
    let mut sim = case.start();
    let mut shares = Shares::new(case);
    let mut books = Books::default();
    let mut traffic = case.traffic.iter().peekable();
    let mut now_ns = 0;
    while now_ns < case.duration_ns && sim.violations.is_empty() && sim.nr_tasks() < MOST_TASKS {
        now_ns += SAMPLE_NS;
        while let Some((at_ns, event)) = traffic.next_if(|(at_ns, _)| *at_ns <= now_ns) {
            sim.run_until(*at_ns);
            books.act(&mut sim, *event);
        }
        sim.run_until(now_ns);
        shares.sample(&mut sim, now_ns);
        books.check(&mut sim, false);
    }
    check_accounts(&mut sim);
    end(case, &mut sim);
    if sim.violations.is_empty() {
        books.check(&mut sim, true);
    }
    Finding::of(sim.violations.clone())
}

/// What the scheduler charged is what ran.
fn check_accounts(sim: &mut Sim) {
    let mut broken = Vec::new();
    let (mut charged_ns, mut late_ns) = (0, 0);
    let packet_ns = sim.config.slice_ns + sim.config.tick_ns + sim.config.resched_ns;
    for task in 0..sim.tasks.len() {
        let account = sim.kernel.account(task);
        let t = &sim.tasks[task];
        charged_ns += account.charged_ns;
        let runs = sim.cpus.iter().any(|cpu| cpu.current == Some(task));
        late_ns += if runs { packet_ns } else { 0 };
        let owed_ns = t.ran_ns.wrapping_sub(account.charged_ns);
        if owed_ns > if runs { packet_ns } else { 0 } {
            broken.push(format!(
                "task {task} ran {} ns and was charged {} ns",
                t.ran_ns, account.charged_ns
            ));
        }
        let owed = t.dma_added_bytes.saturating_sub(account.dma_bytes);
        // A kernel thread submits requests for others and is not charged.
        if owed > t.last_dma_bytes && !sim.specs[t.spec].kthread {
            broken.push(format!(
                "devices moved {} bytes for task {task}, charged {}",
                t.dma_added_bytes, account.dma_bytes
            ));
        }
    }
    let other_ns: u64 = sim.cpus.iter().map(|cpu| cpu.idle_ns + cpu.taken_ns).sum();
    let machine_ns = sim.now_ns * sim.cpus.len() as u64;
    if machine_ns.wrapping_sub(charged_ns + other_ns) > late_ns {
        broken.push(format!(
            "of {machine_ns} ns of the CPUs, {charged_ns} were charged and {other_ns} idle or taken"
        ));
    }
    for text in broken {
        sim.violation(&text);
    }
}

/// Ends all tasks. Then a group that was left empty must give its whole weight to a new task.
fn end(case: &Case, sim: &mut Sim) {
    if !sim.violations.is_empty() {
        return;
    }
    sim.end_all();
    lift_limits(case, sim);
    let bound_ns = END_NS + sim.config.hold_max_ns + sim.config.wait_bound_ns.min(4 * SEC);
    let end_ns = sim.now_ns + bound_ns;
    while sim.now_ns < end_ns && !sim.all_ended() {
        let next_ns = sim.now_ns + 10 * MS;
        sim.run_until(next_ns);
    }
    for task in 0..sim.nr_tasks() {
        if sim.tasks[task].report.exited_at_ns.is_none() {
            let place = sim.kernel.place(task);
            sim.violation(&format!("task {task} does not end: {place:?}"));
        }
    }
    // A weight that changes while a group is looked at would be used from the next charge on.
    let quiet_ns = case.events.iter().map(|(at_ns, outside)| match outside {
        Outside::Take { ns, .. } => at_ns + ns,
        _ => *at_ns,
    });
    sim.run_until(quiet_ns.max().unwrap_or(0).max(sim.now_ns));
    for group in 0..case.groups.len() {
        if sim.violations.is_empty() {
            check_group(case, sim, group);
        }
    }
}

/// Whether the weights that were written to the groups are not theirs at the end.
fn weights_are_written_again(case: &Case) -> bool {
    let other = |event: &Outside| matches!(event, Outside::Idle { .. } | Outside::RuleGroup { .. });
    case.events.iter().any(|(_, event)| other(event))
}

/// Nothing limits tasks any more, and no rule gives groups other weights.
fn lift_limits(case: &Case, sim: &mut Sim) {
    let quiet_ns = case.events.iter().map(|(at_ns, _)| *at_ns).max();
    sim.run_until(quiet_ns.unwrap_or(0).max(sim.now_ns));
    sim.act(|kernel, _| {
        (1..=PACES).for_each(|index| kernel.pace(index, None));
        for (group, made) in case.groups.iter().enumerate() {
            kernel.cgroup_set_quota(group, 0, 100_000);
            if weights_are_written_again(case) {
                kernel.cgroup_set_idle(group, false);
                kernel.cgroup_set_weight(group, made.weight);
            }
        }
    });
}

/// `cpu.weight` of the group's ancestor below the root group, at `now_ns`.
fn top_weight(case: &Case, now_ns: u64, group: usize) -> u32 {
    let mut top = group;
    while let Some(parent) = case.groups[top].parent {
        top = parent;
    }
    if weights_are_written_again(case) {
        return case.groups[top].weight;
    }
    let done = case.events.iter().filter(|(at_ns, _)| *at_ns <= now_ns);
    let mut events: Vec<_> = done.collect();
    events.sort_by_key(|(at_ns, _)| *at_ns);
    let written = events.iter().rev().find_map(|(_, outside)| match outside {
        Outside::GroupWeight { group, weight } if *group == top => Some(*weight),
        _ => None,
    });
    written.unwrap_or(case.groups[top].weight)
}

/// Two new tasks of weight 1 run in the group, and nothing else runs. Each has half of the weight
/// of the ancestor below the root group.
fn check_group(case: &Case, sim: &mut Sim, group: usize) {
    let first = sim.nr_tasks();
    for _ in 0..2 {
        sim.add(TaskSpec::new("probe", Trace::hog()));
    }
    sim.act(|kernel, now_ns| {
        kernel.cgroup_move(now_ns, first, group);
        kernel.cgroup_move(now_ns, first + 1, group);
    });
    // Each of them is charged at least once by then, also on one CPU.
    let until_ns = sim.now_ns + 4 * (sim.config.slice_ns + sim.config.tick_ns);
    sim.run_until(until_ns);
    let wanted = f64::from(top_weight(case, sim.now_ns, group)) / 200.0 * f64::from(weight_one());
    for task in first..first + 2 {
        let got = f64::from(sim.kernel.account(task).weight);
        if (got / wanted - 1.0).abs() > 0.01 && (got - wanted).abs() > 64.0 {
            sim.violation(&format!(
                "group {group} was left active: a task has the weight {got} of {wanted}"
            ));
        }
    }
    sim.end_all();
    let until_ns = sim.now_ns + 100 * MS;
    sim.run_until(until_ns);
}

/// The tasks that must share their CPU by weight. Two tasks, a and b, always want to run on one CPU
/// and no other. Over any time their service, divided by their weights, differs by at most
/// `l / w_a + l / w_b`: theorem 1 of start-time fair queueing (Goyal, Vin and Cheng, 1996).
///
/// Let x be a task's service divided by its weight. While the task waits, S is x, but for a
/// constant (and a factor, the CPUs). Task a gets the CPU only if `S_a <= S_b`, and b waits then,
/// so `x_a - x_b <= l / w_a` until its packet ends. By symmetry `x_a - x_b >= -l / w_b`. All leads
/// lie between these two, so the greatest and the least differ by at most their sum. Other tasks,
/// and classes that take the CPU, only delay both.
///
/// l is the service from the last time that S was exact at such a comparison to the packet's end:
///
/// - a slice. It ends at a tick, so up to a tick is added. A rest of less than half a
///   slice ends at the tick before;
/// - the time from a request for a switch to the switch;
/// - nothing for a preempted task that keeps its CPU because the other task has gone elsewhere.
///   It is compared by S of the last tick and gets a new slice. The slice ends at the second tick
///   from now at the latest, and the last one was less than a tick ago. So from the last tick
///   on it is again at most a slice and a tick, if a slice is whole ticks.
///
/// S follows x, because nothing else moves it: the other task waits, so all service is charged and
/// there is no cap; no move, no traffic, no fork or exit; C, which lifts, is more than the
/// costliest packet, `l / c` at the least weight; and rescues are off. Rounding loses less than 1 ns
/// for each 2^32 ns.
struct Shares {
    /// Pairs on one CPU: specs, weights, and the least and greatest lead of the first, ns.
    pairs: Vec<Pair>,
    /// The kernel's slices, which a packet has out of order each time the scheduler is loaded again,
    /// ns. One may follow before the next packets have made up for the last.
    bypass_ns: u64,
}

struct Pair {
    specs: [usize; 2],
    weights: [f64; 2],
    least_ns: f64,
    greatest_ns: f64,
}

impl Shares {
    fn new(case: &Case) -> Self {
        let mut pairs = Vec::new();
        let sharers: Vec<usize> = (0..case.tasks.len())
            .filter(|spec| case.fair && case.tasks[*spec].shares)
            .collect();
        for (i, a) in sharers.iter().enumerate() {
            for b in &sharers[i + 1..] {
                if case.tasks[*a].allowed == case.tasks[*b].allowed {
                    let one = f64::from(weight_one());
                    pairs.push(Pair {
                        specs: [*a, *b],
                        weights: [*a, *b].map(|spec| f64::from(case.tasks[spec].weight) / one),
                        least_ns: f64::INFINITY,
                        greatest_ns: f64::NEG_INFINITY,
                    });
                }
            }
        }
        let restarts = case
            .events
            .iter()
            .filter(|(_, event)| *event == Outside::Restart);
        let bypass_ns = KERNEL_SLICE_NS * restarts.count() as u64;
        Self { pairs, bypass_ns }
    }

    fn sample(&mut self, sim: &mut Sim, now_ns: u64) {
        if now_ns < 20 * MS {
            return;
        }
        let packet_ns = self.bypass_ns + sim.config.slice_ns + sim.config.tick_ns;
        let packet_ns = (packet_ns + sim.config.resched_ns) as f64;
        for pair in &mut self.pairs {
            // Forked tasks shift the numbers.
            let of_spec = |spec| sim.tasks.iter().find(|task| task.spec == spec);
            let [Some(a), Some(b)] = pair.specs.map(of_spec) else {
                continue;
            };
            let [a, b] = [a.ran_ns as f64, b.ran_ns as f64];
            let [of_a, of_b] = pair.weights;
            let lead_ns = a / of_a - b / of_b;
            pair.least_ns = pair.least_ns.min(lead_ns);
            pair.greatest_ns = pair.greatest_ns.max(lead_ns);
            let bound_ns = packet_ns / of_a + packet_ns / of_b;
            if pair.greatest_ns - pair.least_ns > bound_ns {
                let [a, b] = pair.specs;
                let lead = pair.greatest_ns - pair.least_ns;
                sim.violation(&format!(
                    "the tasks of specs {a} and {b} share a CPU by weight with an error of {lead} ns of {bound_ns}"
                ));
                return;
            }
        }
    }
}

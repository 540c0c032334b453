// SPDX-License-Identifier: GPL-2.0-only
//! The loop that shares memory bandwidth by throttling: every 100 ms it reads what each
//! monitored group moved, asks the policy `drf`, and acts through resctrl (MBA), or through
//! the scheduler's paces. It runs in a thread beside the scheduler.

pub mod access;
pub mod actuator;
mod arrivals;
mod combined;
pub mod entities;
mod gauge;
pub mod guard;
mod hidden;
pub mod hierarchy;
mod ids;
pub mod join;
mod lock;
mod looking;
mod memories;
mod paces;
mod report;
mod rest;
mod runnable;
mod throttle;
pub mod trace;
mod uncounted;
mod weights;

use std::{
    collections::BTreeMap,
    io,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use drfq_policy::drf::{Domain, Group, GroupId, Plan, Snapshot, State, curve::Curve, plan};
use drfq_resctrl::{
    fs::KernelFs,
    info::{Info, Vendor},
};
use drfq_sense::{cpu_model::CpuModel, root, topology};
use drfq_stats::mba_report::Mba;

use self::{
    access::Refused,
    actuator::Actuator,
    arrivals::{Arrivals, LOOK_PERIODS},
    combined::Combined,
    entities::{Key, Usage},
    guard::Guard,
    hierarchy::{Hierarchy, Kernel},
    paces::Paces,
    runnable::Look,
    throttle::Throttle,
    trace::{Recording, Trace},
    uncounted::{Seen, Uncounted},
    weights::Competition,
};
use crate::{
    agent::say,
    bandwidth::Bandwidth,
    capacity::Capacity::Calibrated,
    charge::{self, Mover},
    config::{Config, Entity},
    loader::Window,
    settings::rules::{Bounds, Rule},
    tasks,
};

/// A period of the policy, and its slots.
const PERIOD: Duration = Duration::from_millis(100);
const SLOT: Duration = Duration::from_millis(50);

/// Other programs' changes are looked for once in this many periods.
const AUDIT_PERIODS: u64 = 4 * LOOK_PERIODS;

/// The state after a panic of the loop.
const ENDED: &str = "off: the loop has ended by a defect of scx_drfq, and told it to standard error; \
                     please report it, and restart scx_drfq";

/// What a user should know once [`Guard::cleaner`] has ended.
const NO_CLEANER: &str = "the process drfq-cleaner has ended: if the agent is killed now, its \
                          groups in resctrl stay until the next start of scx_drfq, and a resctrl \
                          that it mounted stays mounted in any case";

/// Charges a thread for traffic of CPUs (bytes). Returns whether the scheduler knows it.
type Charge<'a> = Box<dyn Fn(u32, u64) -> io::Result<bool> + Send + 'a>;

/// A loop that is ready to run.
pub struct Loop<'a> {
    throttle: Box<dyn Throttle + Send + 'a>,
    /// Charges what only MBM counts; none: it charges nothing.
    charge: Option<Charge<'a>>,
    curve: Option<Curve>,
    /// m of each memory (bytes per second); empty if it is not known.
    capacity: Vec<f64>,
    /// No CPU moves more (bytes per second), by what is known or estimated of m.
    most: f64,
    cpus: f64,
    entity: Entity,
    state: String,
    /// Why it must not throttle at the moment.
    hindrance: Option<String>,
    caveat: Option<String>,
    trace: Option<Trace>,
    /// Where resctrl is mounted, if it is used.
    point: Option<PathBuf>,
    /// The process that cleans up after the agent.
    cleaner: Option<u32>,
}

impl<'a> Loop<'a> {
    /// Uses the paces of the scheduler that `window` shows.
    pub fn with_paces(config: &Config, window: Window<'a>) -> Self {
        let m = config.capacity.reliable();
        Self {
            throttle: Box::new(Paces::new(window, Instant::now)),
            charge: None,
            curve: Some(paces::curve()),
            capacity: m.map(|m| m.bytes_per_s() as f64).into_iter().collect(),
            most: f64::INFINITY,
            cpus: config.nr_cpus.into(),
            entity: config.entity,
            state: "hold".into(),
            hindrance: None,
            caveat: None,
            trace: None,
            point: None,
            cleaner: None,
        }
    }

    /// Takes over resctrl for a loaded scheduler. `window`: of it, if it charges memory traffic;
    /// then it also charges what only MBM counts, and paces go on where the levels of MBA end.
    ///
    /// # Errors
    /// Why it cannot monitor.
    pub fn with_resctrl(
        config: &Config,
        guard: &Guard,
        window: Option<Window<'a>>,
    ) -> Result<Self, Refused> {
        let files = KernelFs::open(&guard.point).map_err(|error| error.to_string())?;
        let info = Info::read(&files, vendor()).map_err(|error| error.to_string())?;
        access::check(&info, config.mba)?;
        let (acts, reason) = access::mode(config, guard, &info);
        let classes = usize::from(acts) * (info.num_closids as usize).saturating_sub(1);
        let actuator = Actuator::open(files, &info, classes, Instant::now)
            .map_err(|error| error.to_string())?
            .sharing(&topology::nodes_of_caches(&root()));
        // The loop learns the capacity better than an estimate tells it.
        let sizes = actuator.memories().sizes();
        let domains = config.capacity.domains(sizes.iter().sum());
        let each = |m: Bandwidth| m.bytes_per_s() as f64 / domains.max(1) as f64;
        let most = config.capacity.bandwidth().map(each);
        let largest = sizes.iter().max().map_or(1.0, |&size| size as f64);
        let capacity = config.capacity.reliable().map_or_else(Vec::new, |m| {
            sizes.iter().map(|&size| size as f64 * each(m)).collect()
        });
        // An estimate scales levels that are absolute well enough.
        let mut curve = measured_curve(config, &info)
            .or_else(|| actuator::curve(&info, config.capacity.bandwidth().map(each)))
            .filter(|_| acts);
        let state = access::state(reason, !acts || curve.is_some());
        let hindrance = actuator.hindrance().filter(|_| acts);
        let throttle: Box<dyn Throttle + Send + 'a> = match (&mut curve, window) {
            (Some(curve), Some(window)) => {
                let lowest = curve.min_setting();
                *curve = curve.clone().continued();
                let paces = Paces::new(window, Instant::now);
                Box::new(Combined::new(actuator, paces, lowest))
            }
            _ => Box::new(actuator),
        };
        let charge = window
            .filter(|_| config.charge_mbm)
            .map(|window| -> Charge<'a> {
                Box::new(move |tid, bytes| charge::charge(window.charge, tid, Mover::Cpu, bytes))
            });
        Ok(Self {
            charge,
            curve,
            hindrance,
            caveat: access::caveat(&info, &root()).filter(|_| acts),
            throttle,
            capacity,
            most: most.map_or(f64::INFINITY, |each| largest * each),
            cpus: config.nr_cpus.into(),
            entity: config.entity,
            state,
            trace: None,
            point: Some(guard.point.clone()),
            cleaner: Some(guard.cleaner()),
        })
    }

    /// Records what it does.
    pub fn recorded_in(mut self, recording: Option<&Recording>) -> Self {
        self.trace = recording.and_then(Recording::trace);
        self
    }

    /// `on` (by resctrl), `hold` (by paces), or why it only observes.
    pub fn state(&self) -> String {
        state(&self.state, self.hindrance.as_deref())
    }

    /// What a user should know of the throttle; none if nothing may be throttled.
    pub fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }

    /// Whether it throttles, rather than only observes.
    pub fn acts(&self) -> bool {
        acts(&self.state())
    }

    /// Runs, if there is a loop, while `work` runs. `report` gets the statistics of each period.
    /// `rules` may change meanwhile, and so may `statistics_id`, the process that serves
    /// statistics (0: none).
    pub fn beside<T>(
        ready: Option<Self>,
        window: Window,
        statistics_id: &AtomicU32,
        rules: &Mutex<Vec<Rule>>,
        report: &Mutex<Mba>,
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(ready) = ready else {
            return work();
        };
        let stop = AtomicBool::new(false);
        let cleaner = ready.cleaner;
        thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            scope.spawn(|| {
                let read = || {
                    let mut agent = vec![process::id(), statistics_id.load(Ordering::Relaxed)];
                    agent.extend(cleaner);
                    let tasks = tasks::read(window.tasks).map_err(|error| format!("{error:#}"))?;
                    Ok(Look::new(tasks, &agent, &root()))
                };
                let running = Running::new(ready, Kernel::new(&root()));
                or_ended(report, || running.run(&stop, read, rules, report));
            });
            work()
        })
    }
}

/// Whether a loop whose statistics have this state throttles.
pub fn acts(state: &str) -> bool {
    matches!(state.split(';').next(), Some("on" | "hold"))
}

/// The words for the statistics. `hindrance`: why a loop that could throttle must not.
fn state(state: &str, hindrance: Option<&str>) -> String {
    hindrance.map_or_else(|| state.into(), |reason| format!("observe: {reason}"))
}

/// Runs the loop. The scheduler goes on without one that panics, and its groups are removed as it ends.
fn or_ended(report: &Mutex<Mba>, run: impl FnOnce()) {
    if panic::catch_unwind(AssertUnwindSafe(run)).is_err() {
        *report.lock().unwrap_or_else(PoisonError::into_inner) = Mba {
            state: ENDED.into(),
            ..Mba::default()
        };
    }
}

/// Ends the loop when `work` returns or panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The levels as the calibration measured them; none without one.
fn measured_curve(config: &Config, info: &Info) -> Option<Curve> {
    let bandwidth = info.bandwidth.as_ref()?;
    let Calibrated(_, calibration) = &config.capacity else {
        return None;
    };
    let levels = &calibration.domains.first()?.levels;
    let points: Vec<_> = levels
        .iter()
        .map(|level| (level.setting, level.fraction))
        .collect();
    (!points.is_empty()).then(|| Curve::new(&points, bandwidth.max))
}

/// The vendor of the CPU, whose units differ.
pub fn vendor() -> Vendor {
    Vendor::of_cpu(&CpuModel::read(&root()).vendor)
}

/// A monitored entity.
struct Member {
    id: GroupId,
    weight: f64,
    bounds: Bounds,
    usage: Usage,
    /// Its threads that belong to another program's group.
    foreign: u64,
    /// What it moved in the last period (bytes per second), by domain; none: it has come since.
    bytes_per_s: Option<Vec<f64>>,
}

/// What was moved in a period (bytes per second), by domain.
struct Measured {
    all: Vec<f64>,
    /// By tasks without a group.
    rest: Vec<f64>,
}

/// The loop's state while it runs.
struct Running<'a, H: Hierarchy> {
    /// What it runs with.
    setup: Loop<'a>,
    uncounted: Uncounted,
    seen: Option<Seen>,
    hierarchy: H,
    rules: Vec<Rule>,
    members: BTreeMap<Key, Member>,
    competition: Competition,
    next_id: GroupId,
    policy: State,
    runnable: f64,
    foreign: u64,
    last_look: Look,
    looked: Option<Instant>,
    arrivals: Arrivals,
    /// What each memory can move, as of the last plan (bytes per second).
    full: Vec<f64>,
    periods: u64,
    began: Instant,
}

impl<'a, H: Hierarchy> Running<'a, H> {
    fn new(setup: Loop<'a>, hierarchy: H) -> Self {
        Self {
            setup,
            uncounted: Uncounted::default(),
            seen: None,
            hierarchy,
            rules: Vec::new(),
            members: BTreeMap::new(),
            competition: Competition::default(),
            next_id: 0,
            policy: State::default(),
            runnable: 0.0,
            foreign: 0,
            last_look: Look::default(),
            looked: None,
            arrivals: Arrivals::default(),
            full: Vec::new(),
            periods: 0,
            began: Instant::now(),
        }
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        read: impl Fn() -> Result<Look, String>,
        rules: &Mutex<Vec<Rule>>,
        report: &Mutex<Mba>,
    ) {
        let mut last = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            // Before the tasks are read: whom an audit finds in a group is then among them.
            if self.periods.is_multiple_of(AUDIT_PERIODS) {
                self.audit();
            }
            let now = Instant::now();
            let measured = self.measure();
            self.look_if_due(&measured, &read, rules);
            let plan = self.step(&measured, now - last, report);
            last = now;
            for slot in 0..plan.classes.first().map_or(0, |class| class.slots.len()) {
                if slot > 0 {
                    thread::sleep(
                        (now + SLOT * slot as u32).saturating_duration_since(Instant::now()),
                    );
                }
                self.apply(&plan, slot);
            }
            thread::sleep((now + PERIOD).saturating_duration_since(Instant::now()));
        }
    }

    /// Entities whose groups another program removed get new ones at the next look. What another
    /// program has come to limit itself ends our throttling until it has gone.
    fn audit(&mut self) {
        if let Some(point) = &self.setup.point {
            guard::keep_writable(point);
        }
        let lost = self.setup.throttle.audit();
        self.members.retain(|_, member| !lost.contains(&member.id));
        if self.setup.state == "on" {
            let now = self.setup.throttle.hindrance();
            let before = std::mem::replace(&mut self.setup.hindrance, now);
            match (before, &self.setup.hindrance) {
                (None, Some(reason)) => say(&format!("memory is shared no longer: {reason}")),
                (Some(_), None) => say("memory is shared again"),
                _ => {}
            }
        }
        if self.setup.hindrance.is_some() {
            self.setup.throttle.release();
        }
        if self.setup.cleaner.is_some_and(guard::has_ended) {
            self.setup.cleaner = None;
            self.setup.throttle.fail(NO_CLEANER.into());
        }
    }

    /// Charges what MBM counts and events do not.
    fn charge_uncounted(&mut self) {
        let Some(charge) = &self.setup.charge else {
            return;
        };
        if let Some(seen) = self.seen.take() {
            let (throttle, most) = (&self.setup.throttle, self.setup.most);
            let moved = |id| throttle.bytes(id);
            self.uncounted.take(&seen, moved, most, LOOK_PERIODS);
        }
        if let Some(reason) = self.uncounted.pay(charge) {
            self.setup.throttle.fail(reason);
        }
    }

    /// What each group and the rest moved since the last call.
    fn measure(&mut self) -> Measured {
        let throttle = &mut self.setup.throttle;
        throttle.begin();
        for member in self.members.values_mut() {
            member.bytes_per_s = Some(throttle.traffic(member.id));
        }
        let rest = throttle.rest();
        let mut all = rest.clone();
        for rates in self.measured().filter_map(|(_, m)| m.bytes_per_s.as_ref()) {
            for (all, rate) in all.iter_mut().zip(rates) {
                *all += rate;
            }
        }
        Measured { all, rest }
    }

    /// The members that were there in the last period. The policy would take one that has just come
    /// for one that begins to move more and more.
    fn measured(&self) -> impl Iterator<Item = (&Key, &Member)> {
        let members = self.members.iter();
        members.filter(|(_, member)| member.bytes_per_s.is_some())
    }

    /// One period: plans and reports.
    fn step(&mut self, measured: &Measured, since: Duration, report: &Mutex<Mba>) -> Plan {
        self.charge_uncounted();
        let withheld = self.setup.throttle.withheld();
        let domains = measured.all.iter().enumerate().map(|(index, all)| Domain {
            withheld: withheld.get(index).copied().unwrap_or(0.0),
            bytes_per_s: *all,
            capacity: self.setup.capacity.get(index).copied(),
        });
        let bytes_per_s = |bound: Bandwidth| bound.bytes_per_s() as f64;
        let groups = self.measured().map(|(_, member)| Group {
            id: member.id,
            weight: member.weight,
            min: member.bounds.min.map_or(0.0, bytes_per_s),
            max: member.bounds.max.map_or(f64::INFINITY, bytes_per_s),
            bytes_per_s: member.bytes_per_s.clone().unwrap_or_default(),
        });
        let curve = self
            .setup
            .curve
            .clone()
            .filter(|_| self.setup.hindrance.is_none());
        let snapshot = Snapshot {
            period_s: since.as_secs_f64(),
            cpus: self.setup.cpus,
            runnable: self.runnable,
            // A group keeps its class for a while after it was released.
            classes: curve
                .as_ref()
                .map_or(0, |_| self.setup.throttle.nr_classes()),
            curve,
            domains: domains.collect(),
            groups: groups.collect(),
        };
        let (plan, policy) = plan(&snapshot, &self.policy);
        self.policy = policy;
        // An idle memory has shown little yet.
        let least = Some(self.setup.most).filter(|most| most.is_finite());
        let full = plan.domains.iter().map(|domain| domain.capacity);
        self.full = full.map(|full| full.max(least.unwrap_or(0.0))).collect();
        self.periods += 1;
        self.record(&snapshot, &plan);
        let new = self.report(&snapshot, &plan);
        *report.lock().unwrap_or_else(PoisonError::into_inner) = new;
        plan
    }

    /// Applies a slot of a plan.
    fn apply(&mut self, plan: &Plan, slot: usize) {
        self.setup.throttle.apply(&plan.classes, slot);
        for id in self.setup.throttle.unplaced(&plan.classes) {
            self.policy.unthrottled(id);
        }
    }

    /// Adds the period to the trace. A trace that cannot be written ends.
    fn record(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if self.setup.trace.is_none() {
            return;
        }
        let names: Vec<String> = self
            .measured()
            .map(|(key, m)| report::name(key, &m.usage))
            .collect();
        let at_s = self.began.elapsed().as_secs_f64();
        let trace = self.setup.trace.as_mut();
        if let Some(Err(error)) = trace.map(|trace| trace.add(at_s, &names, snapshot, plan)) {
            self.setup
                .throttle
                .fail(format!("cannot write the trace: {error}"));
            self.setup.trace = None;
        }
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0-only
//! The order of what CPUs did between their points.
//!
//! A recording has the order of the points. What a CPU does from one of its points to the next,
//! as reading how many CPUs are busy or ending another CPU's slice, it may do before or after
//! events of other CPUs that lie between both. A replay does it at once. [`Order::search`] asks
//! what the kernel did: it looks for the event whose effect comes too early, where S or a decision
//! first differs. It leaves alone what the recording does order: what concerns a queue, the idle
//! CPUs, or the same task. A probe at the entry of a function that takes a queue's lock, or at its
//! return, does not tell when it had the lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::event::{Event, Recording, What};
use super::strand::Point;
use super::{Outcome, ROUNDING_NS, replay};
use crate::config::Config;

/// How many places are tried before each error.
const PLACES: usize = 2000;

/// A search ends at so many faults that no event explains. What follows them differs, too.
const GIVEN_UP_MAX: usize = 3;

/// Which events take effect later than they stand in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Order {
    /// Pairs of an event and the event that it follows, by their numbers in the recording.
    moves: Vec<(usize, usize)>,
}

/// The beginning of a file of orders.
const HEADER: &str = "\
# SPDX-License-Identifier: GPL-2.0-only
# Pairs of events of each recording: the first takes effect right after the second. Made by
# cargo run --release -p drfq-sim --example replay -- --search FILE
";

/// Where a replay differs first: time since the first event (ns), a task or -1, and how.
type Fault = (u64, i64, i64);

/// Where S begins to differ by something new, and each other decision, in the order of time.
/// S that differs by the same amount again follows from the first time.
fn faults(outcome: &Outcome) -> Vec<Fault> {
    let near = |a: i64, b: i64| a.abs_diff(b) <= ROUNDING_NS;
    let mut found: Vec<Fault> = Vec::new();
    for &(at_ns, pid, late_ns) in &outcome.apart_ns {
        let known = found.iter().any(|fault| near(fault.2, late_ns));
        if !near(late_ns, 0) && !known {
            found.push((at_ns, pid, late_ns));
        }
    }
    let decisions = outcome.differences.iter();
    found.extend(decisions.map(|d| (d.at_ns, -1, d.cpu as i64)));
    found.sort_unstable();
    found
}

/// The first fault that is not given up, and how few there are.
fn progress(faults: &[Fault], given_up: &BTreeSet<(u64, i64)>) -> (u64, usize) {
    let open = |fault: &&Fault| !given_up.contains(&(fault.0, fault.1));
    let first_ns = faults.iter().find(open).map_or(u64::MAX, |fault| fault.0);
    (first_ns, usize::MAX - faults.len())
}

/// The task that an event is about.
fn task_of(what: What) -> Option<i64> {
    match what {
        What::Enqueue(pid, ..) | What::Dequeue(pid, ..) | What::Next(pid, ..) => Some(pid),
        What::Tick(pid) | What::Select(pid, ..) | What::Put(pid, _) => Some(pid),
        What::Fork(_, pid) | What::Free(pid) | What::Switch(pid, _) => Some(pid),
        What::Allowed(pid, _) | What::Weight(pid, _) | What::Move(pid, _) => Some(pid),
        _ => None,
    }
}

/// Whether an event shows what is on a queue, or changes it.
fn concerns_a_queue(what: What) -> bool {
    let points = [Point::Look, Point::Begin, Point::Unlink, Point::Take];
    match what {
        What::Reach(point, _) => points.contains(&point),
        What::Put(..) | What::Enqueued | What::Enqueue(.., true) => true,
        _ => false,
    }
}

/// Whether an event shows which CPUs idle, or changes it.
fn concerns_idle_cpus(what: What) -> bool {
    matches!(what, What::Idle(_) | What::Reach(Point::Idle, _))
}

/// Whether an event stands where the kernel enters a function. What that does with a queue, with
/// the queue's lock, it does later.
fn is_entry(what: What) -> bool {
    matches!(what, What::Reach(Point::Look | Point::Begin, _))
}

/// Whether an event stands where the kernel has returned from an insertion, which came earlier.
fn is_insertion(what: What) -> bool {
    matches!(what, What::Put(..) | What::Enqueued)
}

/// Whether both events are about the same task.
fn same_task(a: What, b: What) -> bool {
    task_of(a).is_some() && task_of(a) == task_of(b)
}

/// Whether the order of two events is known, the first recorded before the second: both tell the
/// same state.
fn ordered(first: What, second: What) -> bool {
    concerns_a_queue(first) && concerns_a_queue(second) && !is_entry(first)
        || concerns_idle_cpus(first) && concerns_idle_cpus(second)
        || same_task(first, second)
}

/// Each event with each event that it may follow: a later one of another CPU before the next event
/// of its own CPU, with none between whose order is known. An insertion may also follow an earlier
/// event, from the last one of its own CPU on.
fn places(recording: &Recording) -> Vec<(usize, usize)> {
    let events = &recording.events;
    let mut next_of_cpu = HashMap::new();
    let mut found = Vec::new();
    for (index, event) in events.iter().enumerate().rev() {
        let Some(next) = next_of_cpu.insert(event.cpu, index) else {
            continue;
        };
        let later = |after: &usize| !ordered(event.what, events[*after].what);
        let last = (index + 1..next).take_while(later).last().unwrap_or(index);
        found.extend((index + 1..=last).rev().map(|after| (index, after)));
        if is_insertion(events[next].what) {
            let earlier = |after: &usize| !same_task(events[*after + 1].what, events[next].what);
            let first = (index..next - 1).rev().take_while(earlier);
            found.extend(first.map(|after| (next, after)));
        }
    }
    found.sort_unstable();
    found
}

impl Order {
    /// Number of events that are moved.
    pub fn moved(&self) -> usize {
        self.moves.len()
    }

    /// The recording in this order.
    ///
    /// # Errors
    /// If the order is of another recording.
    pub fn apply(&self, recording: &Recording) -> Result<Recording, String> {
        fn emit(
            index: usize,
            follow: &HashMap<usize, Vec<usize>>,
            from: &[Event],
            to: &mut Vec<Event>,
        ) {
            to.extend(from.get(index));
            for next in follow.get(&index).into_iter().flatten() {
                emit(*next, follow, from, to);
            }
        }
        let mut follow: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(event, after) in &self.moves {
            follow.entry(after).or_default().push(event);
        }
        let moved: BTreeSet<usize> = self.moves.iter().map(|m| m.0).collect();
        let mut ordered = recording.clone();
        ordered.events.clear();
        for index in (0..recording.events.len()).filter(|index| !moved.contains(index)) {
            emit(index, &follow, &recording.events, &mut ordered.events);
        }
        if ordered.events.len() != recording.events.len() {
            return Err("the order of events is that of another recording".into());
        }
        Ok(ordered)
    }

    /// Whether each CPU's events stay in their order with `place`: an event may not follow one
    /// that is moved, and what is moved to an earlier place passes no other moved event.
    fn allows(&self, (event, after): (usize, usize)) -> bool {
        let apart = |m: &(usize, usize)| {
            let both_later = event < after && m.0 < m.1;
            let disjoint = event.max(after) < m.0.min(m.1) || m.0.max(m.1) < event.min(after);
            m.0 != after && m.1 != event && (both_later || disjoint || m.0 == event)
        };
        self.moves.iter().all(apart)
    }

    /// With `place`, instead of another one of the same event.
    fn with(&self, place: (usize, usize)) -> Self {
        let mut moves: BTreeMap<usize, usize> = self.moves.iter().copied().collect();
        moves.insert(place.0, place.1);
        Self {
            moves: moves.into_iter().collect(),
        }
    }

    /// Looks for an order in which the simulator does what the kernel did: at the first fault,
    /// the one event that must come later for the next fault to come latest. A fault without such
    /// an event stays, and a few of them end the search.
    ///
    /// `change`: what differs from the scheduler that was recorded.
    ///
    /// # Errors
    /// If the scheduler asks to be ended in the recorded order.
    pub fn search(recording: &Recording, change: impl Fn(&mut Config)) -> Result<Self, String> {
        let run = |order: &Self| replay(&order.apply(recording)?, &change);
        let places = places(recording);
        let mut order = Self::default();
        let mut now = faults(&run(&order)?);
        let mut given_up = BTreeSet::new();
        while let Some(&fault) = now.iter().find(|f| !given_up.contains(&(f.0, f.1)))
            && given_up.len() < GIVEN_UP_MAX
        {
            let before = places.iter().rev().filter(|place| {
                recording.events[place.0].at_ns <= fault.0 && order.allows(**place)
            });
            let tried = before.take(PLACES).filter_map(|place| {
                let other = order.with(*place);
                let found = faults(&run(&other).ok()?);
                let reached = progress(&found, &given_up);
                (reached.0 > fault.0).then_some((reached, other, found))
            });
            match tried.max_by_key(|(reached, ..)| *reached) {
                Some((_, other, found)) => (order, now) = (other, found),
                None => _ = given_up.insert((fault.0, fault.1)),
            }
        }
        Ok(order)
    }
}

/// The orders of several recordings, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Orders(pub BTreeMap<String, Order>);

impl Orders {
    /// Reads a file that [`Orders::text`] made.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error: String| format!("cannot read {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// The order of a recording: as recorded if none is known.
    pub fn of(&self, name: &str) -> Order {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// As a file that [`Orders::read`] reads.
    ///
    /// # Errors
    /// None that is known.
    pub fn text(&self) -> Result<String, String> {
        let lines = toml::to_string(self).map_err(|error| error.to_string())?;
        Ok(format!("{HEADER}{lines}"))
    }
}

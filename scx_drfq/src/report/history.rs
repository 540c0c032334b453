// SPDX-License-Identifier: GPL-2.0-only
//! A recording as series of means, one for each process name or cgroup.

use std::{collections::BTreeMap, mem, ops::Range};

use anyhow::Result;
use drfq_recording::reader::Reader;
use drfq_stats::{events::EVENTS, report::System};
use drfq_view::snapshot::Snapshot;

/// Points of a series.
pub const POINTS: usize = 600;

/// Series that are kept apart; the rest is `others`.
const ENTITIES_MAX: usize = 500;

/// What is measured of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// CPU time (percent of one CPU).
    Cpu,
    /// CPU time in the ideal fair allocation (percent of one CPU).
    Fair,
    /// Memory traffic (bytes per second).
    Bytes,
    /// Time that its tasks waited for a CPU (percent).
    Wait,
    /// Time that its tasks were held (percent).
    Held,
}

const METRICS: usize = 5;

/// Sums of an entity at each point.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity(Vec<[f64; METRICS]>);

/// A recording, or a part of it, as series.
#[derive(Debug)]
pub struct History {
    /// When the first and the last interval may have ended (ns since 1970).
    pub span: (u64, u64),
    /// Snapshots within the span.
    pub snapshots: usize,
    /// Snapshots at each point.
    counts: Vec<u32>,
    /// The entities by name.
    pub entities: BTreeMap<String, Entity>,
    /// Events per second at each point: sums.
    events: BTreeMap<String, Vec<f64>>,
    /// When the scheduler was loaded (ns since 1970), also outside the span.
    pub loads: Vec<u64>,
    /// The last statistics of the system, also from outside the span.
    pub system: System,
    /// Whether there are such statistics.
    begun: bool,
}

impl History {
    /// Reads a recording from its first snapshot. Returns all of it, and what is within the span
    /// `near` (ns since 1970), whose points are closer together.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(reader: &mut Reader, near: Option<(u64, u64)>) -> Result<(Self, Option<Self>)> {
        let (mut whole, mut near) = (Self::new(reader.times()), near.map(Self::new));
        while let Some(snapshot) = reader.read_next()? {
            whole.add(&snapshot);
            near.iter_mut().for_each(|near| near.add(&snapshot));
        }
        Ok((whole, near))
    }

    fn new(span: (u64, u64)) -> Self {
        Self {
            span,
            snapshots: 0,
            counts: vec![0; POINTS],
            entities: BTreeMap::new(),
            events: BTreeMap::new(),
            loads: Vec::new(),
            system: System::default(),
            begun: false,
        }
    }

    /// The point of a time (ns since 1970).
    pub fn point(&self, at_unix_ns: u64) -> usize {
        let length = (self.span.1 - self.span.0).max(1);
        let since = at_unix_ns.clamp(self.span.0, self.span.1) - self.span.0;
        ((u128::from(since) * (POINTS as u128 - 1)) / u128::from(length)) as usize
    }

    /// Adds the snapshot after the last one. One outside the span only tells where the next
    /// interval begins.
    fn add(&mut self, snapshot: &Snapshot) {
        let cur = snapshot.report.system.clone();
        let prev = mem::replace(&mut self.system, cur);
        let cur = &self.system;
        let first = !mem::replace(&mut self.begun, true);
        let loaded = !first && cur.is_of_new_load(&prev);
        if loaded {
            self.loads
                .push(snapshot.at_unix_ns.saturating_sub(cur.uptime_ns));
        }
        if !(self.span.0..=self.span.1).contains(&snapshot.at_unix_ns) {
            return;
        }
        let point = self.point(snapshot.at_unix_ns);
        self.snapshots += 1;
        self.counts[point] += 1;
        if !first && !loaded {
            self.add_events(&prev, point);
        }
        self.add_tasks(snapshot, point);
    }

    /// Adds the events since `prev`.
    fn add_events(&mut self, prev: &System, point: usize) {
        let cur = &self.system;
        let since_ns = cur.uptime_ns.saturating_sub(prev.uptime_ns).max(1);
        let seconds = since_ns as f64 / 1e9;
        for event in EVENTS {
            let count = |system: &System| system.events.get(event.name).copied().unwrap_or(0);
            let happened = count(cur).saturating_sub(count(prev));
            if happened > 0 {
                let series = self.events.entry(event.name.into());
                series.or_insert_with(|| vec![0.0; POINTS])[point] += happened as f64 / seconds;
            }
        }
    }

    fn add_tasks(&mut self, snapshot: &Snapshot, point: usize) {
        for task in &snapshot.report.tasks {
            let used = [
                task.cpu_pct,
                task.fair_pct,
                task.mem_bytes_per_s,
                task.wait_pct,
                task.held_pct,
            ];
            if used.iter().all(|&used| used == 0.0) {
                continue;
            }
            let name = name(snapshot, task.tgid, &task.comm, task.kthread != 0);
            let full = self.entities.len() >= ENTITIES_MAX && !self.entities.contains_key(&name);
            let name = if full { "others".into() } else { name };
            let series = self.entities.entry(name);
            let series = series.or_insert_with(|| Entity(vec![[0.0; METRICS]; POINTS]));
            let sums = &mut series.0[point];
            sums.iter_mut()
                .zip(used)
                .for_each(|(sum, used)| *sum += used);
        }
    }

    /// The means of an entity; none where nothing was recorded.
    pub fn series(&self, entity: &Entity, metric: Metric) -> Vec<Option<f64>> {
        let sums = entity.0.iter().map(|sums| sums[metric as usize]);
        self.means(sums)
    }

    /// The rates of an event (per second).
    pub fn event_series(&self, sums: &[f64]) -> Vec<Option<f64>> {
        self.means(sums.iter().copied())
    }

    fn means(&self, sums: impl Iterator<Item = f64>) -> Vec<Option<f64>> {
        let mean = |(sum, &count): (f64, &u32)| (count > 0).then(|| sum / f64::from(count));
        sums.zip(&self.counts).map(mean).collect()
    }

    /// Whether anything was recorded between two points.
    pub fn recorded(&self, points: Range<usize>) -> bool {
        self.counts[points].iter().any(|&count| count > 0)
    }

    /// The mean of an entity between two points; 0 if nothing was recorded there.
    pub fn mean(&self, entity: &Entity, metric: Metric, points: Range<usize>) -> f64 {
        let sums = entity.0[points.clone()]
            .iter()
            .map(|sums| sums[metric as usize]);
        self.mean_of(sums.sum(), points)
    }

    /// The mean rate of an event between two points (per second); 0 if nothing was recorded there.
    pub fn event_mean(&self, sums: &[f64], points: Range<usize>) -> f64 {
        self.mean_of(sums[points.clone()].iter().sum(), points)
    }

    fn mean_of(&self, sum: f64, points: Range<usize>) -> f64 {
        let count: u32 = self.counts[points].iter().sum();
        sum / f64::from(count.max(1))
    }

    /// The events that happened.
    pub fn events(&self) -> impl Iterator<Item = (&str, &[f64])> {
        let events = self.events.iter();
        events.map(|(name, sums)| (name.as_str(), sums.as_slice()))
    }

    /// The entities with the largest mean of a metric.
    pub fn largest(&self, metric: Metric, count: usize) -> Vec<(&str, &Entity)> {
        let mean = |entity| self.mean(entity, metric, 0..POINTS);
        let mut entities: Vec<_> = self.entities.iter().collect();
        entities.retain(|(_, entity)| mean(entity) > 0.0);
        entities.sort_by(|a, b| mean(b.1).total_cmp(&mean(a.1)).then(a.0.cmp(b.0)));
        entities.truncate(count);
        entities
            .into_iter()
            .map(|(name, entity)| (name.as_str(), entity))
            .collect()
    }
}

/// The name of a task's entity: its cgroup, or the name of its process in the root group.
fn name(snapshot: &Snapshot, tgid: u32, comm: &str, kthread: bool) -> String {
    if kthread {
        return "kernel threads".into();
    }
    match snapshot.processes.get(&tgid) {
        Some(process) if process.cgroup.len() > 1 => process.cgroup.clone(),
        Some(process) => process.name.clone(),
        None => comm.to_owned(),
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use drfq_stats::report::Task;
    use drfq_view::snapshot::Process;

    use super::*;

    pub const SECOND: u64 = 1_000_000_000;

    /// 120 s: `web` alone in its cgroup; a hog joins after 65 s, and rescues begin.
    pub fn noisy() -> History {
        noisy_in((SECOND, 120 * SECOND))
    }

    /// What of it is within a span (ns since 1970).
    pub fn noisy_in(span: (u64, u64)) -> History {
        let mut history = History::new(span);
        for seconds in 1..=120 {
            let noisy = seconds > 65;
            let mut snapshot = Snapshot {
                at_unix_ns: seconds * SECOND,
                ..Snapshot::default()
            };
            let task = |pid, comm: &str, cpu_pct, wait_pct| Task {
                pid,
                tgid: pid,
                comm: comm.into(),
                cpu_pct,
                wait_pct,
                mem_bytes_per_s: cpu_pct * 1e7,
                ..Task::default()
            };
            let process = Process {
                name: "nginx".into(),
                cgroup: "/web<1>".into(),
                ..Process::default()
            };
            snapshot.processes.insert(1, Arc::new(process));
            let report = &mut snapshot.report;
            report.system.uptime_ns = seconds * SECOND;
            let rescued = if noisy { 10 * (seconds - 65) } else { 0 };
            report.system.events.insert("rescued".into(), rescued);
            report.tasks = match noisy {
                false => vec![task(1, "nginx", 90.0, 1.0)],
                true => vec![task(1, "nginx", 50.0, 45.0), task(2, "hog", 50.0, 50.0)],
            };
            history.add(&snapshot);
        }
        history
    }

    #[test]
    fn an_entity_is_a_cgroup_or_a_process_of_the_root_group() {
        let history = noisy();
        let names: Vec<_> = history.entities.keys().collect();
        assert_eq!(names, ["/web<1>", "hog"]);
        let web = &history.entities["/web<1>"];
        let quiet = 0..history.point(60 * SECOND);
        let loud = history.point(66 * SECOND)..POINTS;
        assert!((history.mean(web, Metric::Cpu, quiet) - 90.0).abs() < 0.1);
        assert!((history.mean(web, Metric::Cpu, loud) - 50.0).abs() < 0.1);
        assert_eq!(history.largest(Metric::Cpu, 1)[0].0, "/web<1>");
    }

    #[test]
    fn points_without_snapshots_have_no_value() {
        let history = noisy();
        let series = history.series(&history.entities["hog"], Metric::Cpu);
        assert_eq!(series.iter().flatten().count(), 120);
        assert!((series.iter().flatten().sum::<f64>() - 55.0 * 50.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_outside_the_span_only_tells_where_an_interval_begins() {
        let mut history = History::new((5 * SECOND, 6 * SECOND));
        for at in 1..=9 {
            let mut snapshot = Snapshot {
                at_unix_ns: at * SECOND,
                ..Snapshot::default()
            };
            let report = &mut snapshot.report;
            report.system.uptime_ns = at * SECOND;
            report.system.events.insert("switches".into(), 100 * at);
            report.tasks = vec![Task {
                comm: format!("task {at}"),
                cpu_pct: 1.0,
                ..Task::default()
            }];
            history.add(&snapshot);
        }
        assert_eq!(history.snapshots, 2);
        assert_eq!(
            history.entities.keys().collect::<Vec<_>>(),
            ["task 5", "task 6"]
        );
        let (_, switches) = history.events().next().unwrap();
        assert_eq!(history.event_mean(switches, 0..POINTS), 100.0);
    }

    #[test]
    fn a_new_load_is_found_by_its_time_however_long_it_runs_already() {
        let mut history = History::new((100 * SECOND, 9001 * SECOND));
        for (at, uptime, count) in [(100, 60, 900), (9000, 3600, 5000), (9001, 3601, 5005)] {
            let mut snapshot = Snapshot {
                at_unix_ns: at * SECOND,
                ..Snapshot::default()
            };
            let system = &mut snapshot.report.system;
            (system.at_ns, system.uptime_ns) = (at * SECOND, uptime * SECOND);
            system.events.insert("switches".into(), count);
            history.add(&snapshot);
        }
        assert_eq!(history.loads, [5400 * SECOND]);
        let (_, switches) = history.events().next().unwrap();
        assert_eq!(switches.iter().sum::<f64>(), 5.0);
    }

    #[test]
    fn a_new_load_is_found_and_costs_no_events() {
        let mut history = History::new((SECOND, 10 * SECOND));
        for (at, uptime, count) in [(1, 50, 900), (2, 51, 910), (4, 1, 5), (5, 2, 6)] {
            let mut snapshot = Snapshot {
                at_unix_ns: at * SECOND,
                ..Snapshot::default()
            };
            snapshot.report.system.uptime_ns = uptime * SECOND;
            snapshot
                .report
                .system
                .events
                .insert("switches".into(), count);
            history.add(&snapshot);
        }
        assert_eq!(history.loads, [3 * SECOND]);
        let (_, switches) = history.events().next().unwrap();
        assert_eq!(switches.iter().sum::<f64>(), 11.0);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Statistics as OpenMetrics text.

use std::fmt::{Display, Write};

use drfq_stats::{controller_report::Controller, mba_report::MbaGroup, report::System};
use drfq_version::VERSION;

use super::totals::{Totals, Used};

/// Groups of --mba that are told. Hardware has fewer.
const GROUPS_MAX: usize = 300;

/// A family of metrics.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    counter: bool,
}

impl<'a> Family<'a> {
    fn new(text: &'a mut String, name: &'static str, kind: &str, help: &str) -> Self {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        let units = ["seconds", "bytes", "ratio"];
        if let Some(unit) = units
            .iter()
            .find(|unit| name.ends_with(&format!("_{unit}")))
        {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        let counter = kind == "counter";
        Self {
            text,
            name,
            counter,
        }
    }

    fn add(&mut self, label: Option<(&str, &str)>, value: impl Display) {
        let suffix = if self.counter { "_total" } else { "" };
        let label = label.map_or(String::new(), |(name, value)| {
            format!("{{{name}=\"{}\"}}", escape(value))
        });
        let _ = writeln!(self.text, "{}{suffix}{label} {value}", self.name);
    }
}

/// All metrics.
pub fn metrics(system: &System, totals: &Totals) -> String {
    let mut text = String::new();
    let out = &mut text;
    let _ = writeln!(
        out,
        "# TYPE drfq_build info\n# HELP drfq_build The running version."
    );
    let _ = writeln!(out, "drfq_build_info{{version=\"{}\"}} 1", escape(VERSION));
    machine(out, system);
    cgroups(out, totals);
    links(out, system);
    groups(out, system);
    text + "# EOF\n"
}

/// A metric that a value of `T` has.
struct Metric<T> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&T) -> f64,
}

impl<T> Metric<T> {
    /// Adds the family with a series for each row, which is a label's value and what it labels.
    fn add_to<'r>(
        &self,
        out: &mut String,
        label: Option<&str>,
        rows: impl Iterator<Item = (&'r str, &'r T)>,
    ) where
        T: 'r,
    {
        let mut family = Family::new(out, self.name, self.kind, self.help);
        for (row, of) in rows {
            family.add(label.map(|label| (label, row)), (self.value)(of));
        }
    }
}

macro_rules! metrics {
    ($table:ident: $type:ty; $($name:literal $kind:ident $help:literal $value:expr;)+) => {
        const $table: &[Metric<$type>] = &[$(Metric {
            name: concat!("drfq_", $name),
            kind: stringify!($kind),
            help: $help,
            value: $value,
        }),+];
    };
}

metrics! { MACHINE: System;
    "cpus" gauge "CPUs that the scheduler manages." |system| system.nr_cpus.into();
    "busy_cpus" gauge "CPUs that run a packet now." |system| system.busy_cpus.into();
    "uptime_seconds" gauge "Time since the scheduler was loaded." |system| seconds(system.uptime_ns);
    "memory_bandwidth" gauge "Bandwidth of memory that is charged (bytes per second); 0: unknown."
        |system| system.mem_bytes_per_s as f64;
    "memory_measured" gauge "1 if memory traffic of tasks is measured."
        |system| system.mem_measured.into();
    "memory_stand_in" gauge "1 if a software event stands in for memory traffic."
        |system| system.mem_stand_in.into();
    "mba_domains" gauge "Domains of memory bandwidth." |system| system.mba.domains.into();
    "mba_saturated" gauge "Domains whose memory is saturated."
        |system| system.mba.saturated.into();
    "mba_acting" gauge "Domains in which throttles move." |system| system.mba.acting.into();
}

metrics! { CGROUP: Used;
    "cgroup_cpu_seconds" counter "CPU time that was charged." |used| seconds(used.cpu_ns);
    "cgroup_wait_seconds" counter
        "Time that tasks were runnable without a CPU, with holds and waits for a quota or a pace."
        |used| seconds(used.wait_ns);
    "cgroup_held_seconds" counter "Time that delayed wake-up held tasks."
        |used| seconds(used.held_ns);
    "cgroup_memory_bytes" counter "Memory traffic that was charged, DMA included."
        |used| used.bytes as f64;
    "cgroup_dma_bytes" counter "Part of that traffic that DMA moved."
        |used| used.dma_bytes as f64;
    "cgroup_tasks" gauge "Tasks." |used| used.tasks as f64;
    "cgroup_fair_cpus" gauge "CPUs in the ideal fair allocation since the last scrape."
        |used| used.fair_cpus;
}

metrics! { LINK: Controller;
    "link_connected" gauge "1 if the memory controller is connected."
        |link| link.connected.into();
    "link_bytes" counter "Traffic that the controller counted." |link| link.bytes as f64;
    "link_unattributed_bytes" counter "Part of that traffic that is attributed to no task."
        |link| link.unattributed_bytes as f64;
    "link_polls" counter "Polls of the registers." |link| link.polls as f64;
    "link_losses" counter "Times that the connection was lost." |link| link.losses as f64;
}

metrics! { GROUP: MbaGroup;
    "mba_group_bytes" counter "Traffic of a group since it is monitored."
        |group| group.bytes as f64;
    "mba_group_level_ratio" gauge "Part of its bandwidth that the throttle leaves a group."
        |group| group.level_pct / 100.0;
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn machine(out: &mut String, system: &System) {
    for metric in MACHINE {
        metric.add_to(out, None, std::iter::once(("", system)));
    }
    let help = "Events of the scheduler since it was loaded; scx_drfq --help-stats describes them.";
    let mut family = Family::new(out, "drfq_events", "counter", help);
    for (event, count) in &system.events {
        family.add(Some(("event", event)), count);
    }
}

fn cgroups(out: &mut String, totals: &Totals) {
    for metric in CGROUP {
        let rows = totals.cgroups.iter();
        metric.add_to(
            out,
            Some("cgroup"),
            rows.map(|(name, used)| (&**name, used)),
        );
    }
}

fn links(out: &mut String, system: &System) {
    let links = [
        ("controller", &system.controller),
        ("shadow", &system.shadow),
    ];
    for metric in LINK {
        metric.add_to(out, Some("link"), links.into_iter());
    }
}

fn groups(out: &mut String, system: &System) {
    let all = &system.mba.groups;
    // A name that two groups share is told once.
    let mut seen = std::collections::BTreeSet::new();
    let told: Vec<(&str, &MbaGroup)> = all[..all.len().min(GROUPS_MAX)]
        .iter()
        .filter(|group| seen.insert(&group.name))
        .map(|group| (group.name.as_str(), group))
        .collect();
    for metric in GROUP {
        metric.add_to(out, Some("group"), told.iter().copied());
    }
}

/// A label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use drfq_stats::{
        interval,
        mba_report::MbaGroup,
        sample::{Facts, Sample},
    };

    use super::{super::totals::tests::snapshot, *};

    fn series(text: &str) -> usize {
        text.lines().filter(|line| !line.starts_with('#')).count()
    }

    fn system() -> System {
        let sample = Sample {
            events: vec![3; drfq_stats::events::EVENTS.len()],
            ..Sample::default()
        };
        interval::system(&Facts::default(), &sample, &sample)
    }

    #[test]
    fn each_name_is_announced_once_and_the_text_ends() {
        let mut totals = Totals::default();
        totals.add(&snapshot(&[]));
        totals.add(&snapshot(&[(1, "/a\"\\\n", 2_000_000_000)]));
        let text = metrics(&system(), &totals);
        assert!(
            text.contains("drfq_events_total{event=\"switches\"} 3\n"),
            "{text}"
        );
        assert!(text.contains("drfq_cgroup_cpu_seconds_total{cgroup=\"/a\\\"\\\\\\n\"} 2\n"));
        assert!(text.ends_with("# EOF\n"));
        let mut names: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn at_most_5000_series_whatever_the_machine_runs() {
        let paths: Vec<String> = (0..2000).map(|i| format!("/g{i}")).collect();
        let tasks: Vec<_> = (1u32..)
            .zip(paths.iter().cycle().take(6000))
            .map(|(pid, path)| (pid, path.as_str(), 1))
            .collect();
        let mut totals = Totals::default();
        totals.add(&snapshot(&tasks));
        let mut system = system();
        let group = |i: u32| MbaGroup {
            name: format!("/g{i}"),
            ..MbaGroup::default()
        };
        system.mba.groups = (0..2000).map(group).collect();
        let text = metrics(&system, &totals);
        println!("{text}");
        let count = series(&text);
        assert!(count <= 5000, "{count}");
        // 1,000 tasks in 200 cgroups are all told apart.
        let mut totals = Totals::default();
        let tasks: Vec<_> = (1u32..)
            .zip(paths[..200].iter().cycle().take(1000))
            .map(|(pid, path)| (pid, path.as_str(), 1))
            .collect();
        totals.add(&snapshot(&tasks));
        assert_eq!(totals.cgroups.len(), 200);
    }
}

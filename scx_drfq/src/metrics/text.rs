// SPDX-License-Identifier: GPL-2.0-only
//! Statistics as OpenMetrics text.

use std::fmt::{Display, Write};

use drfq_stats::{controller_report::Controller, report::System};
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

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn machine(out: &mut String, system: &System) {
    let mut gauge = |name, help: &str, value: f64| {
        Family::new(out, name, "gauge", help).add(None, value);
    };
    gauge(
        "drfq_cpus",
        "CPUs that the scheduler manages.",
        system.nr_cpus.into(),
    );
    gauge(
        "drfq_busy_cpus",
        "CPUs that run a packet now.",
        system.busy_cpus.into(),
    );
    gauge(
        "drfq_uptime_seconds",
        "Time since the scheduler was loaded.",
        seconds(system.uptime_ns),
    );
    gauge(
        "drfq_memory_bandwidth",
        "Bandwidth of memory that is charged (bytes per second); 0: unknown.",
        system.mem_bytes_per_s as f64,
    );
    gauge(
        "drfq_memory_measured",
        "1 if memory traffic of tasks is measured.",
        system.mem_measured.into(),
    );
    gauge(
        "drfq_memory_stand_in",
        "1 if a software event stands in for memory traffic.",
        system.mem_stand_in.into(),
    );
    let help = "Events of the scheduler since it was loaded; scx_drfq --help-stats describes them.";
    let mut family = Family::new(out, "drfq_events", "counter", help);
    for (event, count) in &system.events {
        family.add(Some(("event", event)), count);
    }
}

fn cgroups(out: &mut String, totals: &Totals) {
    type Value = fn(&Used) -> f64;
    let families: [(&'static str, &str, &str, Value); 7] = [
        (
            "drfq_cgroup_cpu_seconds",
            "counter",
            "CPU time that was charged.",
            |used| seconds(used.cpu_ns),
        ),
        (
            "drfq_cgroup_wait_seconds",
            "counter",
            "Time that tasks waited for a CPU.",
            |used| seconds(used.wait_ns),
        ),
        (
            "drfq_cgroup_held_seconds",
            "counter",
            "Time that delayed wake-up held tasks.",
            |used| seconds(used.held_ns),
        ),
        (
            "drfq_cgroup_memory_bytes",
            "counter",
            "Memory traffic that was charged, DMA included.",
            |used| used.bytes as f64,
        ),
        (
            "drfq_cgroup_dma_bytes",
            "counter",
            "Part of that traffic that DMA moved.",
            |used| used.dma_bytes as f64,
        ),
        ("drfq_cgroup_tasks", "gauge", "Tasks.", |used| {
            used.tasks as f64
        }),
        (
            "drfq_cgroup_fair_cpus",
            "gauge",
            "CPUs in the ideal fair allocation since the last scrape.",
            |used| used.fair_cpus,
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = Family::new(out, name, kind, help);
        for (cgroup, used) in &totals.cgroups {
            family.add(Some(("cgroup", cgroup)), value(used));
        }
    }
}

fn links(out: &mut String, system: &System) {
    type Value = fn(&Controller) -> u64;
    let families: [(&'static str, &str, &str, Value); 5] = [
        (
            "drfq_link_connected",
            "gauge",
            "1 if the memory controller is connected.",
            |link| link.connected.into(),
        ),
        (
            "drfq_link_bytes",
            "counter",
            "Traffic that the controller counted.",
            |link| link.bytes,
        ),
        (
            "drfq_link_unattributed_bytes",
            "counter",
            "Part of that traffic that is attributed to no task.",
            |link| link.unattributed_bytes,
        ),
        (
            "drfq_link_polls",
            "counter",
            "Polls of the registers.",
            |link| link.polls,
        ),
        (
            "drfq_link_losses",
            "counter",
            "Times that the connection was lost.",
            |link| link.losses,
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = Family::new(out, name, kind, help);
        family.add(Some(("link", "controller")), value(&system.controller));
        family.add(Some(("link", "shadow")), value(&system.shadow));
    }
}

fn groups(out: &mut String, system: &System) {
    let mba = &system.mba;
    let mut gauge = |name, help: &str, value: f64| {
        Family::new(out, name, "gauge", help).add(None, value);
    };
    gauge(
        "drfq_mba_domains",
        "Domains of memory bandwidth.",
        mba.domains.into(),
    );
    gauge(
        "drfq_mba_saturated",
        "Domains whose memory is saturated.",
        mba.saturated.into(),
    );
    gauge(
        "drfq_mba_acting",
        "Domains in which throttles move.",
        mba.acting.into(),
    );
    let heaviest = &mba.groups[..mba.groups.len().min(GROUPS_MAX)];
    let help = "Traffic of a group since it is monitored.";
    let mut family = Family::new(out, "drfq_mba_group_bytes", "counter", help);
    let mut seen = std::collections::BTreeSet::new();
    for group in heaviest.iter().filter(|group| seen.insert(&group.name)) {
        family.add(Some(("group", &group.name)), group.bytes);
    }
    let help = "Part of its bandwidth that the throttle leaves a group.";
    let mut family = Family::new(out, "drfq_mba_group_level_ratio", "gauge", help);
    for group in heaviest.iter().filter(|group| seen.remove(&group.name)) {
        family.add(Some(("group", &group.name)), group.level_pct / 100.0);
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

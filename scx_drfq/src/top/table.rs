// SPDX-License-Identifier: GPL-2.0-only
//! The words and columns of `top`, for the screen and for plain text.

use drfq_stats::{
    mba_report::Mba,
    report::{System, Task, Tasks},
};

use crate::{bandwidth::format_bytes_per_s, link_summary::link_summaries};

/// A column: heading, width, and whether it is flush right.
pub struct Column {
    pub heading: &'static str,
    pub width: u16,
    pub right: bool,
}

const fn left(heading: &'static str, width: u16) -> Column {
    Column {
        heading,
        width,
        right: false,
    }
}

const fn right(heading: &'static str, width: u16) -> Column {
    Column {
        heading,
        width,
        right: true,
    }
}

/// CPU%, FAIR% are percent of one CPU, DOM% of the machine, ERR% of the fair share.
pub const COLUMNS: [Column; 10] = [
    right("PID", 7),
    left("COMM", 15),
    right("WEIGHT", 7),
    right("CPU%", 6),
    right("FAIR%", 6),
    right("ERR%", 6),
    right("MEM", 10),
    right("DOM%", 6),
    right("S-V ms", 9),
    left("STATE", 7),
];

/// The cells of a task, one for each column.
pub fn cells(task: &Task, measured: bool) -> [String; COLUMNS.len()] {
    let entitled = task.backlogged != 0;
    let memory = if measured || task.mem_bytes_per_s > 0.0 {
        format_bytes_per_s(task.mem_bytes_per_s)
    } else {
        "-".into()
    };
    [
        task.pid.to_string(),
        task.comm
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect(),
        format!("{:.3}", task.weight),
        format!("{:.1}", task.cpu_pct),
        // A task that blocks gets what it asks for; it has no entitlement to compare with.
        if entitled {
            format!("{:.1}", task.fair_pct)
        } else {
            "-".into()
        },
        if entitled {
            format!("{:+.1}", error_pct(task))
        } else {
            "-".into()
        },
        memory,
        format!("{:.1}", task.dominant_pct),
        format!("{:.1}", task.lag_ns as f64 / 1e6),
        task.state.clone(),
    ]
}

/// The difference between the share and the fair share (percent of the fair share).
pub fn error_pct(task: &Task) -> f64 {
    if task.fair_pct > 0.0 {
        (task.cpu_pct / task.fair_pct - 1.0) * 100.0
    } else {
        0.0
    }
}

/// The loop of --mba in a few words; empty if it is off.
fn mba_summary(mba: &Mba) -> String {
    if mba.domains == 0 {
        return String::new();
    }
    let (mode, _) = mba.state.split_once([':', ';']).unwrap_or((&mba.state, ""));
    let moved = format!("; mba {mode}: {}", format_bytes_per_s(mba.bytes_per_s));
    if mba.capacity_bytes_per_s <= 0.0 {
        return moved;
    }
    let memory = match (mba.acting, mba.saturated) {
        (0, 0) => "not saturated",
        (0, _) => "saturated",
        _ => "saturated, throttles move",
    };
    let full = format_bytes_per_s(mba.capacity_bytes_per_s);
    format!("{moved} of {full}, {memory}")
}

/// The groups that share memory bandwidth, one line each: traffic, level, dominant
/// share. At most `limit`, the heaviest.
pub fn group_lines(mba: &Mba, limit: usize) -> impl Iterator<Item = String> {
    mba.groups.iter().take(limit).map(|group| {
        format!(
            "group   {:>10}  level {:5.1} %  dominant {:5.1} %  weight {:.4}  {}",
            format_bytes_per_s(group.bytes_per_s),
            group.level_pct,
            group.dominant_pct,
            group.weight,
            group.name.replace(char::is_control, "?"),
        )
    })
}

/// The most groups that are shown above the tasks.
pub const GROUPS_SHOWN: usize = 8;

/// The state of the system in two lines.
pub fn header(system: &System, shown: usize, nr_tasks: u64) -> [String; 2] {
    let bandwidth = match system.mem_bytes_per_s {
        0 => "unknown, traffic is not charged".into(),
        bytes => format_bytes_per_s(bytes as f64),
    };
    let stand_in = if system.mem_stand_in != 0 {
        " (a software event as STAND-IN)"
    } else {
        ""
    };
    [
        format!(
            "scx_drfq  V {:.3} s (+{:.3} in {:.1} s)  c {} CPUs, {} busy  tasks {shown} of {nr_tasks}",
            system.vtime_ns as f64 / 1e9,
            system.vtime_advance_ns as f64 / 1e9,
            system.interval_ns as f64 / 1e9,
            system.nr_cpus,
            system.busy_cpus,
        ),
        format!(
            "memory  m {bandwidth}; counted: {}{stand_in}{}{}",
            system.mem_source,
            link_summaries(system)
                .map(|link| format!("; {link}"))
                .collect::<String>(),
            mba_summary(&system.mba),
        ),
    ]
}

/// One report as plain text.
pub fn plain(tasks: &Tasks) -> String {
    let header = header(&tasks.system, tasks.tasks.len(), tasks.nr_tasks);
    let headings = COLUMNS.each_ref().map(|column| column.heading.to_owned());
    let measured = tasks.system.mem_measured != 0;
    let mut lines = header.to_vec();
    lines.extend(group_lines(&tasks.system.mba, GROUPS_SHOWN));
    lines.push(row(&headings));
    lines.extend(tasks.tasks.iter().map(|task| row(&cells(task, measured))));
    lines.join("\n") + "\n"
}

fn row(cells: &[String]) -> String {
    let cells = cells.iter().zip(&COLUMNS).map(|(cell, column)| {
        let width = usize::from(column.width);
        if column.right {
            format!("{cell:>width$}")
        } else {
            format!("{cell:width$}")
        }
    });
    cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A busy task that has 1 % too much, and a sleeping one.
    pub fn report() -> Tasks {
        let system = System {
            interval_ns: 1_000_000_000,
            nr_cpus: 4,
            busy_cpus: 3,
            vtime_ns: 1_100_000_000_000,
            vtime_advance_ns: 250_000_000,
            mem_source: "page-faults x 4096 B".into(),
            mem_stand_in: 1,
            mem_measured: 1,
            mem_bytes_per_s: 40_000_000_000,
            ..Default::default()
        };
        let hog = Task {
            pid: 1234,
            comm: "hog\x1b".into(),
            weight: 1.0,
            state: "running".into(),
            cpu_pct: 50.5,
            fair_pct: 50.0,
            backlogged: 1,
            mem_bytes_per_s: 85_300_000.0,
            dominant_pct: 12.6,
            lag_ns: -1_500_000,
            ..Default::default()
        };
        let sleeper = Task {
            pid: 5,
            comm: "sleeper".into(),
            weight: 0.335,
            state: "blocked".into(),
            ..Default::default()
        };
        Tasks {
            system,
            cpus: Vec::new(),
            nr_tasks: 90,
            tasks: vec![hog, sleeper],
        }
    }

    #[test]
    fn a_report_becomes_a_table() {
        let expected = "\
scx_drfq  V 1100.000 s (+0.250 in 1.0 s)  c 4 CPUs, 3 busy  tasks 2 of 90
memory  m 40 GB/s; counted: page-faults x 4096 B (a software event as STAND-IN)
    PID COMM             WEIGHT   CPU%  FAIR%   ERR%        MEM   DOM%    S-V ms STATE
   1234 hog?              1.000   50.5   50.0   +1.0  85.3 MB/s   12.6      -1.5 running
      5 sleeper           0.335    0.0      -      -      0 B/s    0.0       0.0 blocked
";
        assert_eq!(plain(&report()), expected);
    }

    #[test]
    fn connected_and_lost_links_are_shown() {
        let mut tasks = report();
        tasks.system.controller.state = "unix:/x: connected".into();
        tasks.system.controller.connected = 1;
        tasks.system.controller.bytes_per_s = 2e9;
        tasks.system.controller.copy_interval_ns = 1.25e6;
        tasks.system.shadow.state = "unix:/y: lost: it does not answer".into();
        let text = plain(&tasks);
        assert!(
            text.contains("; controller 2 GB/s (labels every 1.2 ms); shadow LOST\n"),
            "{text}"
        );
        tasks.system.controller.mailbox = 1;
        let text = plain(&tasks);
        assert!(text.contains("2 GB/s (labels at each switch);"), "{text}");
    }

    #[test]
    fn groups_that_share_bandwidth_are_shown_with_their_levels() {
        use drfq_stats::mba_report::MbaGroup;
        let mut tasks = report();
        tasks.system.mba = Mba {
            state: "on".into(),
            domains: 1,
            saturated: 1,
            acting: 1,
            bytes_per_s: 19e9,
            capacity_bytes_per_s: 20e9,
            groups: vec![MbaGroup {
                name: "/batch.slice".into(),
                weight: 0.25,
                bytes_per_s: 5e9,
                dominant_pct: 25.0,
                level_pct: 34.25,
                ..MbaGroup::default()
            }],
            ..Mba::default()
        };
        let text = plain(&tasks);
        let memory = "; mba on: 19 GB/s of 20 GB/s, saturated, throttles move\n";
        assert!(text.contains(memory), "{text}");
        let group =
            "\ngroup       5 GB/s  level  34.2 %  dominant  25.0 %  weight 0.2500  /batch.slice\n";
        assert!(text.contains(group), "{text}");
        tasks.system.mba.state = "observe: another program has classes in resctrl: 1".into();
        assert!(plain(&tasks).contains("; mba observe: 19 GB/s"));
        tasks.system.mba.capacity_bytes_per_s = 0.0;
        assert!(plain(&tasks).contains("; mba observe: 19 GB/s\n"));
    }

    #[test]
    fn unmeasured_traffic_is_shown_as_a_dash() {
        let mut tasks = report();
        tasks.system.mem_measured = 0;
        tasks.system.mem_stand_in = 0;
        tasks.system.mem_bytes_per_s = 0;
        tasks.system.mem_source = "no PMU".into();
        let text = plain(&tasks);
        assert!(text.contains("memory  m unknown, traffic is not charged; counted: no PMU\n"));
        assert!(!text.contains("0 B/s"), "{text}");
    }
}

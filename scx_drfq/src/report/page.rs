// SPDX-License-Identifier: GPL-2.0-only
//! The page of a report: one file of HTML that needs nothing else.

use std::fmt::Write;

use super::{
    changes::{Change, Changes},
    history::{History, Metric},
    svg::{Chart, Line, escape},
};
use crate::{bandwidth::format_bytes_per_s, local_time};

/// Lines of a chart.
const LINES: usize = 8;

/// Labels below a chart.
const LABELS: u32 = 6;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
h1{font-size:1.5em}h2{font-size:1.15em;margin:1.6em 0 .3em}\
svg{width:100%;height:auto;background:#fff;color:#222}svg text{font-size:11px;fill:#444}\
.grid{stroke:#ddd}.mark{stroke:#a00;stroke-dasharray:4 3}\
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.4em;padding:0;margin:.3em 0}\
.key{width:30px;height:6px;margin-right:.5em;background:none}\
table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;text-align:right}\
th{border-bottom:1px solid #888}td:first-child,th:first-child{text-align:left;overflow-wrap:anywhere}\
.note{color:#666}";

/// The page of a recording.
pub fn page(name: &str, history: &History, changes: &Changes) -> String {
    let name = escape(name);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>scx_drfq: {name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>scx_drfq: {name}</h1>\n<p>{}</p>\n",
        escape(&summary(history))
    );
    let percent = |value: f64| format!("{value:.0} %");
    let rows = [
        (
            "CPU time",
            "Percent of one CPU, by cgroup; processes of the root cgroup by their names.",
            lines(history, Metric::Cpu),
            percent as fn(f64) -> String,
        ),
        (
            "Fair share",
            "CPU time in the ideal fair allocation, percent of one CPU.",
            lines(history, Metric::Fair),
            percent,
        ),
        (
            "Memory bandwidth",
            memory_note(history),
            lines(history, Metric::Bytes),
            format_bytes_per_s,
        ),
        (
            "Waiting for a CPU",
            "Percent of the time, added up over tasks. It is what a service feels as latency.",
            lines(history, Metric::Wait),
            percent,
        ),
        (
            "Held by delayed wake-up",
            "Percent of the time, added up over tasks.",
            lines(history, Metric::Held),
            percent,
        ),
        (
            "Events",
            "Per second. scx_drfq --help-stats describes them.",
            event_lines(history),
            |value| format!("{value:.0}"),
        ),
    ];
    html += &changes_html(changes);
    for (title, note, lines, unit) in rows {
        let _ = write!(
            html,
            "<h2>{title}</h2>\n<p class=\"note\">{}</p>\n",
            escape(note)
        );
        html += &chart(history, changes, &lines, unit);
    }
    html + "</body>\n</html>\n"
}

fn summary(history: &History) -> String {
    let (begin, end) = history.span;
    format!(
        "{} to {}: {} snapshots, {} CPUs, {}. A red line marks a time at which the scheduler was \
         loaded, or the chosen time.",
        local_time::text(begin),
        local_time::text(end),
        history.snapshots,
        history.system.nr_cpus,
        match history.loads.len() {
            0 => "no restart of the scheduler".to_owned(),
            loads => format!("{loads} restarts of the scheduler"),
        },
    )
}

fn memory_note(history: &History) -> &'static str {
    match (history.system.mem_measured, history.system.mem_stand_in) {
        (0, _) => "Not measured: nothing counts memory traffic here. See scx_drfq doctor.",
        (_, 0) => "As it was charged, DMA included.",
        _ => "A software event stands in for memory traffic, so these are no bandwidths.",
    }
}

fn lines(history: &History, metric: Metric) -> Vec<Line> {
    let largest = history.largest(metric, LINES).into_iter();
    largest
        .map(|(name, entity)| Line {
            name: name.to_owned(),
            values: history.series(entity, metric),
        })
        .collect()
}

fn event_lines(history: &History) -> Vec<Line> {
    // These happen all the time, and would hide the rest.
    const COMMON: [&str; 6] = [
        "continued",
        "direct",
        "local_kthreads",
        "queued",
        "switches",
        "wakeups",
    ];
    let mut events: Vec<_> = history
        .events()
        .filter(|(name, _)| !COMMON.contains(name))
        .collect();
    let sum = |sums: &[f64]| sums.iter().sum::<f64>();
    events.sort_by(|a, b| sum(b.1).total_cmp(&sum(a.1)));
    events.truncate(LINES);
    let line = |(name, sums): (&str, &[f64])| Line {
        name: name.to_owned(),
        values: history.event_series(sums),
    };
    events.into_iter().map(line).collect()
}

fn chart(history: &History, changes: &Changes, lines: &[Line], unit: fn(f64) -> String) -> String {
    if lines.is_empty() {
        return "<p>Nothing was recorded.</p>\n".into();
    }
    let (begin, end) = history.span;
    let at = |time: u64| (time.clamp(begin, end) - begin) as f64 / (end - begin).max(1) as f64;
    let label = |i: u32| {
        let part = f64::from(i) / f64::from(LABELS);
        let time = begin + ((end - begin) as f64 * part) as u64;
        let text = local_time::text(time);
        (part, text.rsplit(' ').next().unwrap_or(&text).to_owned())
    };
    let loads = history.loads.iter();
    let mut marks: Vec<_> = loads
        .map(|&load| (at(load), format!("loaded at {}", local_time::text(load))))
        .collect();
    if changes.chosen {
        marks.push((at(changes.at), local_time::text(changes.at)));
    }
    let times: Vec<_> = (0..=LABELS).map(label).collect();
    Chart {
        lines,
        unit,
        times: &times,
        marks: &marks,
    }
    .html()
}

fn changes_html(changes: &Changes) -> String {
    let mut html = format!("<h2>{}</h2>\n", escape(&changes.title()));
    for load in &changes.loads {
        let time = local_time::text(*load);
        let _ = writeln!(html, "<p>scx_drfq was loaded at {time}.</p>");
    }
    if let Some(line) = changes.unrecorded() {
        let _ = writeln!(html, "<p>{line}.</p>");
    }
    html += "<table>\n<tr><th></th><th>CPU</th><th>memory</th><th>waiting</th><th>held</th></tr>\n";
    for change in &changes.entities {
        html += &row(change);
    }
    for (name, before, after) in &changes.events {
        let _ = writeln!(
            html,
            "<tr><td>event {}</td><td colspan=\"4\">{before:.1}/s → {after:.1}/s</td></tr>",
            escape(name)
        );
    }
    html + "</table>\n"
}

fn row(change: &Change) -> String {
    let percent = |pair: (f64, f64)| format!("{:.1} → {:.1} %", pair.0, pair.1);
    let bytes = |bytes: f64| format_bytes_per_s(bytes.round());
    format!(
        "<tr><td>{}</td><td>{}</td><td>{} → {}</td><td>{}</td><td>{}</td></tr>\n",
        escape(&change.name),
        percent(change.cpu),
        bytes(change.bytes.0),
        bytes(change.bytes.1),
        percent(change.wait),
        percent(change.held),
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{changes::around, history::tests::noisy},
        *,
    };

    #[test]
    fn the_page_is_whole_without_other_files() {
        let history = noisy();
        let html = page("a<b", &history, &around(&history, Some(66_000_000_000)));
        for part in [
            "/web&lt;1&gt;",
            "Memory bandwidth",
            "event rescued",
            "class=\"mark\"",
        ] {
            assert!(html.contains(part), "{part}");
        }
        for part in ["http", "<script", "src=", "/web<1>", "NaN", "a<b"] {
            assert!(!html.contains(part), "{part}");
        }
        for tag in ["svg", "table", "ul", "p", "h2"] {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            let opened = html.matches(&format!("{open}>")).count()
                + html.matches(&format!("{open} ")).count();
            assert_eq!(opened, html.matches(&close).count(), "{tag}");
        }
    }
}

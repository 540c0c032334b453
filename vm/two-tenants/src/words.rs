// SPDX-License-Identifier: GPL-2.0-only
//! The demonstration in words and tables, for the screen and for text.

use drfq_view::words::rate_in_words;

use crate::{
    figures::{Figures, change},
    machine::Description,
    sample::{Sample, Scheduler},
    script::{Script, Stage},
};

/// The name of a scheduler.
pub fn name(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Eevdf => "EEVDF",
        Scheduler::Drfq => "scx_drfq",
    }
}

/// What is real and what is modelled.
pub fn modelled(machine: &Description) -> Vec<String> {
    let order = match machine.memory.policy.as_str() {
        "lvtf" => "the thesis' controller, which no processor on the market has",
        _ => "a usual controller (FR-FCFS)",
    };
    vec![
        "Real: a stock Debian kernel, its EEVDF, its resctrl, and scx_drfq.".into(),
        format!(
            "Modelled: cores, caches, {} memory, {order}.",
            machine.memory.dram
        ),
        format!(
            "All times are the machine's own. It is {} times slower than its original.",
            machine.scale
        ),
    ]
}

/// A quantity under each scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub label: &'static str,
    /// Under EEVDF, under scx_drfq, and in the last seconds.
    pub values: [String; 3],
    /// From the first to the second.
    pub change: String,
}

/// The quantities that the demonstration compares.
pub fn rows(script: &Script) -> Vec<Row> {
    type Value = fn(&Figures) -> f64;
    type Words = fn(f64) -> String;
    let time: Words = |ms| format!("{ms:.2} ms");
    let cpus: Words = |cpus| format!("{cpus:.2}");
    let list: [(&str, Value, Words); 7] = [
        ("service  latency, median", |figures| figures.p50_ms, time),
        (
            "         latency, 99 % below",
            |figures| figures.p99_ms,
            time,
        ),
        (
            "         requests a second",
            Figures::requests_per_s,
            |rate| format!("{rate:.0}"),
        ),
        ("         CPUs", |figures| figures.service.cpus, cpus),
        (
            "         memory",
            |figures| figures.service.bytes_per_s,
            rate_in_words,
        ),
        ("hogs     CPUs", |figures| figures.hogs.cpus, cpus),
        (
            "         memory",
            |figures| figures.hogs.bytes_per_s,
            rate_in_words,
        ),
    ];
    let stretches = [script.eevdf, script.drfq, script.now()];
    list.map(|(label, value, words)| Row {
        label,
        values: stretches
            .map(|figures| figures.as_ref().map_or(String::new(), |f| words(value(f)))),
        change: match (&script.eevdf, &script.drfq) {
            (Some(before), Some(after)) => change(value(before), value(after)),
            _ => String::new(),
        },
    })
    .into()
}

/// What happens now.
pub fn stage(script: &Script) -> String {
    let (passed, length) = script.progress();
    let of = match length {
        Some(length) => format!("{passed:.1} of {length:.0} s"),
        None => format!("{passed:.1} s"),
    };
    match script.stage {
        Stage::Boot => "the virtual machine boots".into(),
        Stage::Settle(scheduler) => format!("{}: the loads settle, {of}", name(scheduler)),
        Stage::Measure(scheduler) => format!("{}: measuring, {of}", name(scheduler)),
        Stage::Load => format!("scx_drfq is being loaded, {of}"),
        Stage::Free => "both are measured; now the keys are yours".into(),
    }
}

/// How the machine is set now.
pub fn setting(sample: &Sample) -> String {
    format!(
        "{} runs, {} hogs, weights {} : {} (service : hogs)",
        name(sample.scheduler),
        sample.hogs.processes,
        sample.service.weight,
        sample.hogs.weight
    )
}

/// The conclusion in one sentence; none before both are measured.
pub fn conclusion(script: &Script) -> Option<String> {
    let (before, after) = (script.eevdf?, script.drfq?);
    Some(format!(
        "Under scx_drfq, 99 % of requests took at most {:.1} ms instead of {:.1} ms, and the hogs' traffic \
         changed by {:+.0} %.",
        after.p99_ms,
        before.p99_ms,
        100.0 * (after.hogs.bytes_per_s / before.hogs.bytes_per_s.max(1.0) - 1.0)
    ))
}

/// The comparison as text.
pub fn table(script: &Script) -> String {
    let mut text = format!(
        "{:<30}{:>13}{:>13}  {}\n",
        "", "EEVDF", "scx_drfq", "difference"
    );
    for row in rows(script) {
        let [eevdf, drfq, _] = &row.values;
        text += &format!("{:<30}{eevdf:>13}{drfq:>13}  {}\n", row.label, row.change);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Rates;

    fn figures(p99_ms: f64, hogs: f64) -> Figures {
        Figures {
            seconds: 10.0,
            requests: 1000,
            p50_ms: p99_ms / 2.0,
            p99_ms,
            service: Rates {
                cpus: 0.5,
                bytes_per_s: 1e7,
            },
            hogs: Rates {
                cpus: 2.0,
                bytes_per_s: hogs,
            },
        }
    }

    #[test]
    fn the_table_and_the_conclusion_have_both_figures_and_their_difference() {
        let mut script = Script::new(10);
        script.eevdf = Some(figures(40.0, 2e8));
        assert_eq!(conclusion(&script), None);
        script.drfq = Some(figures(8.0, 1.9e8));
        let text = table(&script);
        assert!(
            text.contains("40.00 ms") && text.contains("8.00 ms"),
            "{text}"
        );
        assert!(text.contains("5.0 times less"), "{text}");
        let words = conclusion(&script).unwrap();
        assert!(words.contains("8.0 ms instead of 40.0 ms"), "{words}");
        assert!(words.contains("-5 %"), "{words}");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Figures of all repeats as a table in Markdown.

use crate::judge::Figure;
use crate::statistic::{half_range, median, worst};
use std::fmt::Write;

/// The figures of one expectation of one case under one scheduler.
pub struct Group {
    /// Name of the case.
    pub case: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Its figures of all repeats.
    pub figures: Vec<Figure>,
    /// Only an excess is an error; what is expected is a limit.
    pub one_sided: bool,
    /// The verdict; `None` for a scheduler that is not judged.
    pub verdict: Option<Result<(), String>>,
}

/// What stands above the table.
pub struct Heading<'a> {
    /// Name of the experiment.
    pub name: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Kernel, CPUs, length and number of runs.
    pub setting: &'a str,
}

/// The whole page.
pub fn render(heading: &Heading, groups: &[Group]) -> String {
    let mut text = format!(
        "## {}\n\n{}\n{}\n\n",
        heading.name, heading.title, heading.setting
    );
    text += "| case | scheduler | what | expected | measured, median ± half range \
             | error, median | error, worst | verdict |\n\
             |---|---|---|--:|--:|--:|--:|---|\n";
    for group in groups {
        for (kind, figures) in kinds(&group.figures) {
            row(&mut text, group, &kind, &figures);
        }
    }
    text
}

/// Copies of a task are one row: `hog-0`, `hog-1` are `hog`.
fn kinds(figures: &[Figure]) -> Vec<(String, Vec<&Figure>)> {
    let mut kinds: Vec<(String, Vec<&Figure>)> = Vec::new();
    for figure in figures {
        let kind = kind_of(&figure.what);
        match kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, list)) => list.push(figure),
            None => kinds.push((kind, vec![figure])),
        }
    }
    kinds
}

fn kind_of(what: &str) -> String {
    let (name, rest) = what.split_once(' ').unwrap_or((what, ""));
    let name = match name.rsplit_once('-') {
        Some((stem, copy)) if copy.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    };
    format!("{name} {rest}").trim().to_string()
}

fn row(text: &mut String, group: &Group, kind: &str, figures: &[&Figure]) {
    let list = |f: fn(&Figure) -> f64| figures.iter().map(|x| f(x)).collect::<Vec<_>>();
    let (expected, measured) = (list(|f| f.expected), list(|f| f.measured));
    let errors = list(|f| f.error_pct.abs());
    let (sign, errors) = match group.one_sided {
        true => ("at most ", String::from("| ")),
        false => (
            "",
            format!("{:.2} % | {:.2} %", median(&errors), worst(&errors)),
        ),
    };
    if expected[0].is_nan() {
        return told(text, group, kind, figures[0].unit, &measured);
    }
    let verdict = match &group.verdict {
        None => "",
        Some(Ok(())) => "ok",
        Some(Err(_)) => "FAILED",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {} | {} | {kind} [{}] | {sign}{:.2} | {:.2} ± {:.2} | {errors} | {verdict} |",
        group.case,
        group.scheduler,
        figures[0].unit,
        median(&expected),
        median(&measured),
        half_range(&measured),
    );
}

/// A row of a figure that nothing is expected of.
fn told(text: &mut String, group: &Group, kind: &str, unit: &str, measured: &[f64]) {
    let (middle, spread) = (median(measured), half_range(measured));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {} | {} | {kind} [{unit}] | | {middle:.2} ± {spread:.2} | | | |",
        group.case, group.scheduler
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_a_row() {
        assert_eq!(kind_of("hog-12"), "hog");
        assert_eq!(kind_of("hog-a"), "hog-a");
        assert_eq!(kind_of("s-0 p99"), "s p99");
        assert_eq!(kind_of("all tasks"), "all tasks");
    }

    #[test]
    fn a_page() {
        let figure = |what: &str, measured: f64| Figure {
            what: what.into(),
            unit: "ms",
            expected: 10.0,
            measured,
            error_pct: 10.0 * (measured - 10.0),
            allowance_pct: 0.0,
        };
        let group = Group {
            case: "c".into(),
            scheduler: "s".into(),
            figures: vec![
                figure("h-0", 10.0),
                figure("h-1", 11.0),
                figure("g-0", 10.0),
            ],
            one_sided: false,
            verdict: Some(Ok(())),
        };
        let heading = Heading {
            name: "n",
            title: "t",
            setting: "k",
        };
        let page = render(&heading, &[group]);
        assert!(page.contains("| c | s | h [ms] | 10.00 | 10.50 ± 0.50 | 5.00 % | 10.00 % | ok |"));
        assert_eq!(page.lines().count(), 9);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Whether measurements keep their limit, and the rows that tell it. Pure.

use crate::measurement::{Expectation, Limit, Measurement};
use crate::rows::{Provenance, Row};
use crate::scenario::Within;
use crate::summary::{median, worst};

/// The measurements of one expectation of one case under one scheduler.
pub struct Group<'a> {
    /// Name of the scenario.
    pub series: &'a str,
    /// Name of the case.
    pub case: &'a str,
    /// Name of the scheduler.
    pub scheduler: &'a str,
    /// Measurements of all runs.
    pub measurements: Vec<Measurement>,
    /// Limit of the errors.
    pub limit: Limit,
    /// The verdict; `None` for a scheduler that is not judged.
    pub verdict: Option<Result<(), String>>,
    /// Number of runs.
    pub runs: usize,
    /// What was measured, and when.
    pub provenance: Provenance,
}

/// Whether the measurements of all runs keep the limit; else why not.
pub fn verdict(measurements: &[Measurement], limit: Limit) -> Result<(), String> {
    if measurements.is_empty() {
        return Err("nothing was measured".into());
    }
    // No comparison below would notice it.
    if let Some(bad) = measurements.iter().find(|m| !m.error_pct.is_finite()) {
        let (what, value, expected) = (&bad.what, bad.value, bad.expectation);
        return Err(format!(
            "the error of {what} is not a number: {value} for {expected:?}"
        ));
    }
    let excess = |error: fn(f64) -> f64| -> Vec<f64> {
        measurements
            .iter()
            .map(|m| error(m.error_pct) - m.allowance_pct)
            .collect()
    };
    let largest = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match limit {
        Limit::AtMost(most) => {
            let top = largest(&excess(|e| e));
            if top <= most {
                return Ok(());
            }
            Err(format!("exceeded by {top:.2} %, {most:.2} % allowed"))
        }
        Limit::Within(Within {
            median_pct,
            worst_pct,
        }) => {
            let over = excess(f64::abs);
            if median(&over) <= median_pct && largest(&over) <= worst_pct {
                return Ok(());
            }
            let errors: Vec<f64> = measurements.iter().map(|m| m.error_pct.abs()).collect();
            let (middle, top) = (median(&errors), worst(&errors));
            Err(format!(
                "median error {middle:.2} % (limit {median_pct} %), \
                 worst {top:.2} % (limit {worst_pct} %)"
            ))
        }
    }
}

impl Group<'_> {
    /// A row for each kind of task: `hog-0` and `hog-1` are both `hog`.
    pub fn rows(&self) -> Vec<Row> {
        let mut kinds: Vec<(String, Vec<&Measurement>)> = Vec::new();
        for one in &self.measurements {
            let kind = kind_of(&one.what);
            match kinds.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, list)) => list.push(one),
                None => kinds.push((kind, vec![one])),
            }
        }
        kinds
            .into_iter()
            .map(|(kind, list)| self.row(kind, &list))
            .collect()
    }

    fn row(&self, kind: String, list: &[&Measurement]) -> Row {
        let all = |f: fn(&Measurement) -> f64| list.iter().map(|m| f(m)).collect::<Vec<_>>();
        let errors = all(|m| m.error_pct.abs());
        let expectations = all(|m| match m.expectation {
            Expectation::None => f64::NAN,
            Expectation::Value(expected) | Expectation::AtMost(expected) => expected,
        });
        let expected = format!("{:.2}", median(&expectations));
        let mut row = Row {
            series: self.series.into(),
            case: self.case.into(),
            what: kind,
            variant: self.scheduler.into(),
            unit: list[0].unit.into(),
            n: self.runs.to_string(),
            commit: self.provenance.commit.clone(),
            date: self.provenance.date.clone(),
            ..Row::default()
        };
        match list[0].expectation {
            Expectation::None => {}
            Expectation::Value(_) => row.expected = expected,
            Expectation::AtMost(_) => row.at_most = expected,
        }
        let judged = !matches!(list[0].expectation, Expectation::None);
        if judged && matches!(self.limit, Limit::Within(_)) {
            row.error_median_pct = format!("{:.2}", median(&errors));
            row.error_worst_pct = format!("{:.2}", worst(&errors));
        }
        row.verdict = match &self.verdict {
            Some(Ok(())) if judged => "ok".into(),
            Some(Err(_)) if judged => "failed".into(),
            _ => String::new(),
        };
        row.with_values(&all(|m| m.value), 2)
    }
}

/// `hog` of `hog-12`; a word that follows the name stays.
fn kind_of(what: &str) -> String {
    let (name, rest) = what.split_once(' ').unwrap_or((what, ""));
    let name = match name.rsplit_once('-') {
        Some((stem, copy)) if copy.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    };
    format!("{name} {rest}").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(what: &str, value: f64, expectation: Expectation) -> Measurement {
        Measurement {
            what: what.into(),
            unit: "ms",
            expectation,
            value,
            error_pct: 10.0 * (value - 10.0),
            allowance_pct: 0.0,
        }
    }

    fn group(
        measurements: Vec<Measurement>,
        verdict: Option<Result<(), String>>,
    ) -> Group<'static> {
        Group {
            series: "e",
            case: "c",
            scheduler: "s",
            measurements,
            limit: Limit::Within(Within {
                median_pct: 1.0,
                worst_pct: 2.0,
            }),
            verdict,
            runs: 1,
            provenance: Provenance {
                commit: "abc".into(),
                date: "2026-01-02".into(),
            },
        }
    }

    #[test]
    fn the_number_of_a_copy_is_no_part_of_its_kind() {
        assert_eq!(kind_of("hog-12"), "hog");
        assert_eq!(kind_of("hog-a"), "hog-a");
        assert_eq!(kind_of("s-0 p99"), "s p99");
        assert_eq!(kind_of("all tasks"), "all tasks");
    }

    #[test]
    fn copies_of_a_task_share_a_row() {
        let expectation = Expectation::Value(10.0);
        let rows = group(
            vec![
                measurement("h-0", 10.0, expectation),
                measurement("h-1", 11.0, expectation),
                measurement("g-0", 10.0, expectation),
            ],
            Some(Ok(())),
        )
        .rows();
        assert_eq!(rows.len(), 2);
        let first = &rows[0];
        assert_eq!((first.what.as_str(), first.value.as_str()), ("h", "10.50"));
        assert_eq!(
            (first.spread.as_str(), first.expected.as_str()),
            ("0.50", "10.00")
        );
        assert_eq!(
            (
                first.error_median_pct.as_str(),
                first.error_worst_pct.as_str()
            ),
            ("5.00", "10.00")
        );
        assert_eq!(
            (first.verdict.as_str(), first.commit.as_str()),
            ("ok", "abc")
        );
    }

    #[test]
    fn a_value_without_a_goal_has_no_verdict() {
        let rows = group(
            vec![measurement("agent", 1.0, Expectation::None)],
            Some(Err("why".into())),
        )
        .rows();
        assert_eq!(
            (rows[0].verdict.as_str(), rows[0].expected.as_str()),
            ("", "")
        );
    }

    #[test]
    fn a_limit_is_no_expected_value() {
        let rows = group(
            vec![measurement("idle", 1.0, Expectation::AtMost(2.0))],
            None,
        )
        .rows();
        assert_eq!(
            (rows[0].at_most.as_str(), rows[0].expected.as_str()),
            ("2.00", "")
        );
    }
}

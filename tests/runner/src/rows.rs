// SPDX-License-Identifier: GPL-2.0-only
//! Measurements as the rows of docs/results/data; its README describes them.

use crate::summary::{half_range, median};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// Name of the file in the output directory.
pub const FILE: &str = "rows.csv";

/// What was measured, and when. A program in the VM cannot ask git or trust
/// its clock, so the caller tells.
#[derive(Debug, Clone, clap::Args)]
pub struct Provenance {
    /// Commit that is measured, for the rows.
    #[arg(long, value_name = "HASH", default_value = "")]
    pub commit: String,
    /// Date of the measurement (YYYY-MM-DD), for the rows.
    #[arg(long, value_name = "DATE", default_value = "")]
    pub date: String,
}

/// One measurement. The fields are columns, in this order; an empty one does
/// not apply.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Table of docs/results/data/series.toml.
    pub series: String,
    /// Name of the case.
    pub case: String,
    /// The quantity.
    pub what: String,
    /// What is compared: the scheduler.
    pub variant: String,
    /// Unit of value, spread and expectation.
    pub unit: String,
    /// The median.
    pub value: String,
    /// How `value` follows from the runs.
    pub statistic: String,
    /// Half of greatest minus least.
    pub spread: String,
    /// What `spread` is.
    pub spread_kind: String,
    /// Empty: the spread tells the range.
    pub least: String,
    /// Empty: the spread tells the range.
    pub greatest: String,
    /// Runs.
    pub n: String,
    /// What the definition gives.
    pub expected: String,
    /// Limit.
    pub at_most: String,
    /// Median absolute error relative to `expected`, percent.
    pub error_median_pct: String,
    /// Largest absolute error relative to `expected`, percent.
    pub error_worst_pct: String,
    /// `ok`, `failed`, or empty when nothing is judged.
    pub verdict: String,
    /// Commit that was measured.
    pub commit: String,
    /// Date of the measurement.
    pub date: String,
}

impl Row {
    /// Takes over median and spread of `values` with so many decimals.
    pub fn with_values(mut self, values: &[f64], decimals: usize) -> Self {
        self.value = format!("{:.decimals$}", median(values));
        self.statistic = "median".into();
        self.spread = format!("{:.decimals$}", half_range(values));
        self.spread_kind = "half range".into();
        self
    }
}

/// Writes `rows` into `dir`.
pub fn write(dir: &Path, rows: &[Row]) -> Result<()> {
    let path = dir.join(FILE);
    let name = path.display();
    let mut writer =
        csv::Writer::from_path(&path).with_context(|| format!("cannot write {name}"))?;
    for row in rows {
        writer
            .serialize(row)
            .with_context(|| format!("cannot write {name}"))?;
    }
    writer
        .flush()
        .with_context(|| format!("cannot write {name}"))
}

/// The rows as a table for a person, one number a cell.
pub fn table(rows: &[Row]) -> String {
    let header = [
        "case", "variant", "what", "unit", "expected", "at most", "median", "spread", "worst %",
        "verdict",
    ];
    let lines: Vec<[&str; 10]> = rows
        .iter()
        .map(|row| {
            [
                &row.case,
                &row.variant,
                &row.what,
                &row.unit,
                &row.expected,
                &row.at_most,
                &row.value,
                &row.spread,
                &row.error_worst_pct,
                &row.verdict,
            ]
            .map(String::as_str)
        })
        .collect();
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].len());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    for line in std::iter::once(&header).chain(&lines) {
        let cells = line.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += padded.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let row = Row {
            series: "s".into(),
            case: "a, b".into(),
            what: "share".into(),
            unit: "%".into(),
            ..Row::default()
        };
        row.with_values(&[1.0, 2.0, 4.0], 2)
    }

    #[test]
    fn the_columns_are_those_of_the_data_files() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[row()]).unwrap();
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/data/pinned.csv");
        let recorded = std::fs::read_to_string(data).unwrap();
        assert_eq!(text.lines().next(), recorded.lines().next());
    }

    #[test]
    fn a_field_with_a_comma_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[row()]).unwrap();
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        let want = "s,\"a, b\",share,,%,2.00,median,1.50,half range,,,,,,,,,,";
        assert_eq!(text.lines().nth(1), Some(want));
    }

    #[test]
    fn columns_of_the_table_are_aligned() {
        let text = table(&[row()]);
        let (header, line) = text.split_once('\n').unwrap();
        assert_eq!(header.find("what"), line.find("share"));
    }
}

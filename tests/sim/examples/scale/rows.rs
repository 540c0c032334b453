// SPDX-License-Identifier: GPL-2.0-only
//! Rows as docs/results/README.md describes them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

const HEADER: &str = "series,case,what,variant,unit,value,statistic,spread,spread_kind,least,\
greatest,n,expected,at_most,error_median_pct,error_worst_pct,verdict,commit,date";

/// One number.
#[derive(Clone, Debug)]
pub struct Row {
    series: String,
    case: String,
    what: String,
    variant: String,
    unit: &'static str,
    value: f64,
    pub at_most: &'static str,
    pub verdict: &'static str,
}

impl Row {
    /// A number of one run, which is deterministic.
    pub fn new(
        series: &str,
        case: &str,
        what: &str,
        variant: &str,
        unit: &'static str,
        value: f64,
    ) -> Self {
        Self {
            series: series.into(),
            case: case.into(),
            what: what.into(),
            variant: variant.into(),
            unit,
            value,
            at_most: "",
            verdict: "",
        }
    }
}

/// What was measured.
#[derive(Default)]
pub struct Rows(Vec<Row>);

/// The first line that a command prints, or an empty text.
fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output();
    let text = run.map(|run| String::from_utf8_lossy(&run.stdout).trim().to_owned());
    text.unwrap_or_default()
}

impl Rows {
    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.0.extend(rows);
    }

    /// Prints the table of one series: a column for each variant.
    pub fn print(&self, series: &str) {
        let rows: Vec<&Row> = self.0.iter().filter(|row| row.series == series).collect();
        let mut columns: Vec<&str> = Vec::new();
        for row in &rows {
            if !columns.contains(&row.variant.as_str()) {
                columns.push(&row.variant);
            }
        }
        println!("\n| {series} | per | {} |", columns.join(" | "));
        println!("|---|---|{}", "---:|".repeat(columns.len()));
        let mut done = BTreeSet::new();
        for row in &rows {
            if !done.insert((&row.case, &row.what)) {
                continue;
            }
            let of_line = |r: &&&Row| (&r.case, &r.what) == (&row.case, &row.what);
            let cells: Vec<String> = rows
                .iter()
                .filter(of_line)
                .map(|r| format!("{:.2}", r.value))
                .collect();
            let cells = cells.join(" | ");
            println!("| {} | {} | {cells} |", row.case, row.what);
        }
    }

    /// Writes all rows to a file, as of the present commit and day.
    pub fn write(&self, path: &Path) -> ExitCode {
        let commit = output("git", &["rev-parse", "--short=7", "HEAD"]);
        let date = output("date", &["-u", "+%F"]);
        let mut text = format!("{HEADER}\n");
        for row in &self.0 {
            let quoted = |text: &str| {
                if text.contains(',') {
                    format!("\"{text}\"")
                } else {
                    text.to_owned()
                }
            };
            let names = [&row.series, &row.case, &row.what, &row.variant].map(|t| quoted(t));
            text += &format!(
                "{},{},{:.2},single,,,,,1,,{},,,{},{commit},{date}\n",
                names.join(","),
                row.unit,
                row.value,
                row.at_most,
                row.verdict
            );
        }
        match std::fs::write(path, text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("scale: error: cannot write {}: {error}", path.display());
                ExitCode::FAILURE
            }
        }
    }
}

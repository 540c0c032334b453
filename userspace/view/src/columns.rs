// SPDX-License-Identifier: GPL-2.0-only
//! The columns of the tables: what they are called, mean and show.

use crate::{
    entity::Entity,
    row::Row,
    words::{decimals, percent, rate},
};

/// A column.
#[derive(Debug)]
pub struct Column {
    /// The name in the file of settings.
    pub name: &'static str,
    /// The heading.
    pub heading: &'static str,
    /// What it means, for the chooser.
    pub text: &'static str,
    /// Its width; the column of names takes what is left.
    pub width: u16,
    /// Flush right, as numbers are.
    pub right: bool,
    /// The cell of a row.
    pub cell: fn(&Row) -> String,
    /// What rows are ordered by.
    pub key: fn(&Row) -> Key<'_>,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Key<'a> {
    Number(f64),
    Text(&'a str),
}

impl Row {
    /// The id of a task or process.
    pub fn pid(&self) -> Option<u32> {
        match self.entity {
            Entity::Task(pid) | Entity::Process(pid) => Some(pid),
            Entity::Cgroup(_) => None,
        }
    }
}

fn weight(row: &Row) -> String {
    match (&row.entity, row.weight) {
        (_, 0.0) => "-".into(),
        (Entity::Cgroup(_), weight) => format!("{weight:.0}"),
        (_, weight) => decimals(weight, 3),
    }
}

fn dashed(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".into(), text)
}

fn milliseconds(ns: f64) -> String {
    match ns / 1e6 {
        0.0 => "-".into(),
        ms if ms < 10.0 => decimals(ms, 2),
        ms => format!("{ms:.0}"),
    }
}

macro_rules! columns {
    ($($name:literal $heading:literal $width:literal $side:ident $text:literal
       $cell:expr, $key:expr;)*) => {
        /// Every column.
        pub static COLUMNS: &[Column] = &[$(Column {
            name: $name,
            heading: $heading,
            text: $text,
            width: $width,
            right: columns!($side),
            cell: $cell,
            key: $key,
        },)*];
    };
    (right) => { true };
    (left) => { false };
}

columns! {
    "pid" "PID" 7 right "thread or process id"
        |row| dashed(row.pid().map(f64::from), |pid| pid.to_string()),
        |row| Key::Number(row.pid().map_or(0.0, f64::from));
    "user" "USER" 8 left "user of the process"
        |row| row.user().to_owned(), |row| Key::Text(row.user());
    "tasks" "TASKS" 6 right "number of tasks"
        |row| row.tasks.to_string(), |row| Key::Number(row.tasks.into());
    "weight" "WEIGHT" 7 right "w of a task (1 is nice 0), or cpu.weight of a cgroup"
        weight, |row| Key::Number(row.weight);
    "cpu" "CPU%" 6 right "CPU time, percent of one CPU"
        |row| decimals(row.cpu_pct, 1), |row| Key::Number(row.cpu_pct);
    "fair" "FAIR%" 6 right "ideal fair CPU time, percent of one CPU; - asks for less"
        |row| dashed(row.entitled.then_some(row.fair_pct), |fair| decimals(fair, 1)),
        |row| Key::Number(if row.entitled { row.fair_pct } else { -1.0 });
    "distance" "DIST%" 7 right "distance from the fair share, percent of it"
        |row| dashed(row.distance_pct(), |distance| {
            let sign = if distance <= -5.0 { "▼" } else if distance >= 5.0 { "▲" } else { "" };
            format!("{sign}{distance:+.0}")
        }),
        |row| Key::Number(row.distance_pct().unwrap_or(0.0));
    "memory" "MEMORY" 8 right "memory traffic, DMA included"
        |row| rate(row.mem_bytes_per_s), |row| Key::Number(row.mem_bytes_per_s);
    "dma" "DMA" 8 right "part of the memory traffic that devices moved"
        |row| rate(row.dma_bytes_per_s), |row| Key::Number(row.dma_bytes_per_s);
    "controller" "CTRL" 9 right "traffic that the memory controller counted"
        |row| rate(row.controller_bytes_per_s), |row| Key::Number(row.controller_bytes_per_s);
    "share" "SHARE%" 7 right "dominant share: percent of the machine"
        |row| decimals(row.dominant_pct(), 1), |row| Key::Number(row.dominant_pct());
    "resource" "RES" 6 left "resource of the dominant share"
        |row| row.dominant().into(), |row| Key::Text(row.dominant());
    "wait" "WAIT%" 6 right "time that tasks waited for a CPU"
        |row| percent(row.wait_pct), |row| Key::Number(row.wait_pct);
    "latency" "WAITms" 7 right "mean wait for a CPU before each run"
        |row| milliseconds(row.wait_per_run_ns), |row| Key::Number(row.wait_per_run_ns);
    "held" "HELD%" 6 right "time that delayed wake-up held tasks"
        |row| percent(row.held_pct), |row| Key::Number(row.held_pct);
    "level" "LEVEL%" 7 right "bandwidth that the throttle leaves"
        |row| dashed(row.level_pct, |level| format!("{level:.0}")),
        |row| Key::Number(row.level_pct.unwrap_or(101.0));
    "lag" "S-V ms" 8 right "distance of its virtual time from the system's"
        |row| decimals(row.lag_ns as f64 / 1e6, 1), |row| Key::Number(row.lag_ns as f64);
    "state" "STATE" 9 left "state of its most active task"
        |row| row.state.word().into(), |row| Key::Text(row.state.word());
    "cgroup" "CGROUP" 24 left "path of its cgroup"
        |row| row.cgroup().to_owned(), |row| Key::Text(row.cgroup());
    "name" "NAME" 16 left "name of the task, process, unit or container"
        |row| row.name.clone(), |row| Key::Text(&row.name);
}

/// The column of a name.
pub fn column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_unique_and_headings_fit() {
        for (at, column) in COLUMNS.iter().enumerate() {
            // The arrow of the order stands behind the heading.
            assert!(column.heading.chars().count() < column.width.into());
            assert!(COLUMNS[..at].iter().all(|other| other.name != column.name));
        }
    }

    #[test]
    fn a_distance_is_told_by_sign_and_symbol_not_only_by_colour() {
        let mut row = Row::new(Entity::Task(1), "a".into());
        let cell = |row: &Row| (column("distance").unwrap().cell)(row);
        assert_eq!(cell(&row), "-");
        (row.entitled, row.fair_pct, row.cpu_pct) = (true, 50.0, 25.0);
        assert_eq!(cell(&row), "▼-50");
        row.cpu_pct = 51.0;
        assert_eq!(cell(&row), "+2");
    }
}

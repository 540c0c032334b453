// SPDX-License-Identifier: GPL-2.0-only
//! What a view shows of each task, as numbers in one text in place of objects. A client that
//! asks ten times a second reads them at a tenth of the cost of [`Tasks`].
//!
//! It is a form between a server and a client of the same version, and no interface.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::{
    interval::WEIGHT_ONE,
    report::{Cpu, System, Task, Tasks},
    sample::TaskState,
};

/// Numbers of a task.
const NUMBERS: usize = 17;

/// Parts of a percent that are told apart.
const PERCENT: f64 = 1e4;

/// The states by their number.
const STATES: [TaskState; 5] = [
    TaskState::Blocked,
    TaskState::Queued,
    TaskState::Held,
    TaskState::Throttled,
    TaskState::Running,
];

/// The system and its tasks, heaviest first.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    pub system: System,
    pub cpus: Vec<Cpu>,
    pub nr_tasks: u64,
    /// The name of each task.
    pub names: Vec<String>,
    /// The numbers of each task, which are whole, with a space behind each.
    pub numbers: String,
}

impl From<Tasks> for Rows {
    fn from(tasks: Tasks) -> Self {
        let mut numbers = String::with_capacity(100 * tasks.tasks.len());
        for number in tasks.tasks.iter().flat_map(numbers_of) {
            // A string takes everything.
            let _ = write!(numbers, "{number} ");
        }
        Self {
            system: tasks.system,
            cpus: tasks.cpus,
            nr_tasks: tasks.nr_tasks,
            names: tasks.tasks.into_iter().map(|task| task.comm).collect(),
            numbers,
        }
    }
}

impl TryFrom<Rows> for Tasks {
    type Error = &'static str;

    /// What no view shows is 0.
    fn try_from(rows: Rows) -> Result<Self, Self::Error> {
        let mut numbers = Numbers(rows.numbers.as_bytes());
        let mut tasks = Vec::with_capacity(rows.names.len());
        for name in rows.names {
            let mut of_task = [0; NUMBERS];
            for number in &mut of_task {
                *number = numbers.next().ok_or("a number of a task is missing")?;
            }
            tasks.push(task_of(name, of_task).ok_or("a task has an unknown state")?);
        }
        Ok(Self {
            system: rows.system,
            cpus: rows.cpus,
            nr_tasks: rows.nr_tasks,
            tasks,
        })
    }
}

/// The numbers of a task. Percentages are in parts, weights as the kernel has them.
fn numbers_of(task: &Task) -> [u64; NUMBERS] {
    let state = STATES.iter().position(|state| state.word() == task.state);
    let whole = |value: f64| value.round() as u64;
    let parts = |percent: f64| whole(percent * PERCENT);
    [
        task.pid.into(),
        task.tgid.into(),
        state.unwrap_or(0) as u64,
        task.kthread.into(),
        task.backlogged.into(),
        whole(task.weight * f64::from(WEIGHT_ONE)),
        parts(task.cpu_pct),
        parts(task.fair_pct),
        whole(task.mem_bytes_per_s),
        whole(task.dma_bytes_per_s),
        whole(task.controller_bytes_per_s),
        whole(task.shadow_bytes_per_s),
        // The sign, so that all numbers are unsigned.
        u64::from(task.lag_ns < 0),
        task.lag_ns.unsigned_abs(),
        parts(task.wait_pct),
        parts(task.held_pct),
        whole(task.wait_per_run_ns),
    ]
}

/// The task of a name and of what `numbers_of` gave; none if its state is unknown.
fn task_of(comm: String, numbers: [u64; NUMBERS]) -> Option<Task> {
    let [pid, tgid, state, kthread, backlogged, weight, cpu, fair, ..] = numbers;
    let [
        ..,
        memory,
        dma,
        controller,
        shadow,
        negative,
        lag,
        wait,
        held,
        latency,
    ] = numbers;
    let percent = |parts: u64| parts as f64 / PERCENT;
    Some(Task {
        pid: pid as u32,
        tgid: tgid as u32,
        comm,
        state: STATES.get(state as usize)?.word().into(),
        kthread: kthread as u32,
        backlogged: backlogged as u32,
        weight: weight as f64 / f64::from(WEIGHT_ONE),
        cpu_pct: percent(cpu),
        fair_pct: percent(fair),
        mem_bytes_per_s: memory as f64,
        dma_bytes_per_s: dma as f64,
        controller_bytes_per_s: controller as f64,
        shadow_bytes_per_s: shadow as f64,
        lag_ns: match negative {
            0 => lag as i64,
            _ => (lag as i64).wrapping_neg(),
        },
        wait_pct: percent(wait),
        held_pct: percent(held),
        wait_per_run_ns: latency as f64,
        ..Task::default()
    })
}

/// Numbers with a space behind each.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut number: u64 = 0;
        for (at, byte) in self.0.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                self.0 = &self.0[at + 1..];
                return (*byte == b' ' && at > 0).then_some(number);
            }
            number = number.wrapping_mul(10).wrapping_add(digit.into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Tasks {
        let task = Task {
            pid: 7,
            tgid: u32::MAX,
            comm: "a b \u{1f980}\n".into(),
            weight: 0.25,
            state: "held".into(),
            kthread: 1,
            cpu_pct: 99.9375,
            fair_pct: 50.5,
            backlogged: 1,
            mem_bytes_per_s: 7.9e9,
            dma_bytes_per_s: 3.0,
            controller_bytes_per_s: 4.0,
            shadow_bytes_per_s: 5.0,
            lag_ns: -1_500_000,
            wait_pct: 0.125,
            held_pct: 12.5,
            wait_per_run_ns: 1e6,
            ..Task::default()
        };
        let least = Task {
            lag_ns: i64::MIN,
            state: "blocked".into(),
            ..Task::default()
        };
        Tasks {
            nr_tasks: 2,
            tasks: vec![task, least],
            ..Tasks::default()
        }
    }

    #[test]
    fn what_a_view_shows_survives() {
        let text = serde_json::to_string(&Rows::from(tasks())).unwrap();
        let rows: Rows = serde_json::from_str(&text).unwrap();
        assert_eq!(Tasks::try_from(rows), Ok(tasks()));
    }

    #[test]
    fn numbers_that_are_cut_or_wrong_are_refused() {
        let rows = Rows::from(tasks());
        for end in 0..rows.numbers.len() {
            let numbers = rows.numbers[..end].to_owned();
            let cut = Rows {
                numbers,
                ..rows.clone()
            };
            assert!(Tasks::try_from(cut).is_err(), "{end} of {}", rows.numbers);
        }
        let before = |wrong: &str| wrong.to_owned() + &rows.numbers;
        let wrong = ["x", "-1 ", " ", "1 2 4 "].map(before);
        let joined = rows.numbers.replacen(' ', "x", 1);
        for numbers in wrong.into_iter().chain([joined]) {
            let wrong = Rows {
                numbers,
                ..rows.clone()
            };
            assert!(Tasks::try_from(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}

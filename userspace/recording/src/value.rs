// SPDX-License-Identifier: GPL-2.0-only
//! Snapshots as JSON values whose differences are small: tasks by thread id, and
//! fractions with six digits.

use anyhow::{Context, Result};
use drfq_stats::interval::heaviest_first;
use drfq_view::snapshot::Snapshot;
use serde_json::{Map, Value};

/// Significant digits of a fraction.
const DIGITS: i32 = 6;

/// The value of a snapshot.
///
/// # Errors
/// Never, because all keys are strings.
pub fn from_snapshot(snapshot: &Snapshot) -> Result<Value> {
    let mut value = serde_json::to_value(snapshot)?;
    shorten(&mut value);
    if let Some(tasks) = value.pointer_mut("/report/tasks") {
        let list = tasks.as_array_mut().map(std::mem::take).unwrap_or_default();
        let by_id = list.into_iter().filter_map(|task| {
            let pid = task.get("pid")?.to_string();
            Some((pid, task))
        });
        *tasks = Value::Object(by_id.collect::<Map<_, _>>());
    }
    Ok(value)
}

/// The snapshot of a value.
///
/// # Errors
/// The value is that of no snapshot.
pub fn to_snapshot(mut value: Value) -> Result<Snapshot> {
    if let Some(tasks) = value.pointer_mut("/report/tasks") {
        let by_id = tasks.as_object_mut().context("tasks are no object")?;
        *tasks = std::mem::take(by_id)
            .into_iter()
            .map(|(_, task)| task)
            .collect();
    }
    let mut snapshot: Snapshot = serde_json::from_value(value)?;
    heaviest_first(&mut snapshot.report.tasks);
    Ok(snapshot)
}

fn shorten(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or(0.0);
            let magnitude = exact.abs().log10().floor();
            if magnitude.is_finite() {
                let scale = 10f64.powi(DIGITS - 1 - magnitude as i32);
                let short = (exact * scale).round() / scale;
                *value = Value::from(if short.is_finite() { short } else { exact });
            }
        }
        _ => {}
    }
}

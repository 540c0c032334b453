// SPDX-License-Identifier: GPL-2.0-only
//! Statistics as JSON, an object per line.

use anyhow::Result;
use drfq_stats::report::Tasks;
use serde::Serialize;

/// The version of the schema. It grows if a field changes its meaning or disappears.
/// New fields do not change it.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    time_ns: u64,
    #[serde(flatten)]
    tasks: &'a Tasks,
}

/// A line without its end. `time_ns`: when the interval ended, since 1970.
///
/// # Errors
/// Never, because all keys are strings.
pub fn line(time_ns: u64, tasks: &Tasks) -> Result<String> {
    let line = Line {
        schema: SCHEMA,
        time_ns,
        tasks,
    };
    Ok(serde_json::to_string(&line)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use drfq_stats::{
        controller_report::Controller,
        interval::tasks,
        mba_report::{Mba, MbaGroup},
        report::{Cpu, System, Task},
        sample::{CpuSample, Facts, Sample, TaskSample},
    };
    use scx_stats::{Meta, StatsMeta};
    use serde_json::Value;

    use super::*;

    fn keys(value: &Value) -> BTreeSet<String> {
        let object = value.as_object().expect("an object");
        object.keys().cloned().collect()
    }

    fn described(meta: &StatsMeta) -> BTreeSet<String> {
        meta.fields.keys().cloned().collect()
    }

    #[test]
    fn each_field_of_a_line_is_described_and_each_description_has_a_field() {
        let cur = Sample {
            events: vec![1; drfq_stats::events::EVENTS.len()],
            tasks: vec![TaskSample::default()],
            cpus: vec![CpuSample::default()],
            mba: Mba {
                groups: vec![MbaGroup::default()],
                ..Mba::default()
            },
            ..Sample::default()
        };
        let report = tasks(&Facts::default(), &Sample::default(), &cur, 10);
        let text = line(7, &report).unwrap();
        assert!(!text.contains('\n'));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["time_ns"], 7);
        let system = &value["system"];
        for (part, meta) in [
            (system, System::described()),
            (&value["tasks"][0], Task::meta()),
            (&value["cpus"][0], Cpu::meta()),
            (&system["controller"], Controller::meta()),
            (&system["shadow"], Controller::meta()),
            (&system["mba"], Mba::meta()),
            (&system["mba"]["groups"][0], MbaGroup::meta()),
        ] {
            assert_eq!(keys(part), described(&meta), "{}", meta.name);
        }
        let mut all = described(&Tasks::meta());
        all.extend(["schema".into(), "time_ns".into()]);
        assert_eq!(keys(&value), all);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What the loop measured and planned, a line of JSON for each period. A test of the
//! policy can replay such a record.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
    sync::Once,
};

use drfq_policy::drf::{Plan, Snapshot};
use serde_json::json;

/// A record that is being written.
pub struct Trace(BufWriter<File>);

impl Trace {
    /// Creates the file, or empties it. When the scheduler is loaded again in this process, the
    /// record goes on in the file, with times from 0 on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        static EMPTIED: Once = Once::new();
        let mut emptied = Ok(());
        EMPTIED.call_once(|| emptied = File::create(path).map(drop));
        emptied?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(BufWriter::new(file)))
    }

    /// Adds a period. `at_s`: time since the loop began. `names`: of the groups, in the
    /// order of the snapshot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(
        &mut self,
        at_s: f64,
        names: &[String],
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> io::Result<()> {
        let domains = snapshot.domains.iter().zip(&plan.domains);
        let domains = domains.map(|(domain, planned)| {
            json!({
                "bytes_per_s": domain.bytes_per_s,
                "withheld": domain.withheld,
                "capacity": domain.capacity,
                "full": planned.capacity,
                "saturated": planned.saturated,
                "acts": planned.acts,
            })
        });
        let groups = names.iter().zip(&snapshot.groups).zip(&plan.groups);
        let groups = groups.map(|((name, group), planned)| {
            let part = |part: &f64| part.is_finite().then_some(*part);
            json!({
                "id": group.id,
                "name": name,
                "weight": group.weight,
                "bytes_per_s": group.bytes_per_s,
                "parts": planned.parts.iter().map(part).collect::<Vec<_>>(),
                "fractions": planned.fractions,
            })
        });
        let used = plan.classes.iter().filter(|class| !class.groups.is_empty());
        let classes = used.map(|class| json!({"groups": class.groups, "slots": class.slots}));
        let line = json!({
            "at_s": at_s,
            "period_s": snapshot.period_s,
            "cpus": snapshot.cpus,
            "runnable": snapshot.runnable,
            "domains": domains.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
            "classes": classes.collect::<Vec<_>>(),
        });
        writeln!(self.0, "{line}")
    }
}

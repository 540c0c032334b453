// SPDX-License-Identifier: GPL-2.0-only
//! What the loop measured and planned, a line of JSON for each period. A test of the
//! policy can replay such a record.

use std::{
    cell::Cell,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use drfq_policy::drf::{Plan, Snapshot};
use serde_json::json;

/// A file for records. Without a loop it keeps what is in it.
pub struct Recording {
    file: File,
    begun: Cell<bool>,
}

impl Recording {
    /// Opens the file. Its directory may be a user's, which the agent cannot write once it has
    /// dropped its privileges.
    ///
    /// # Errors
    /// The file cannot be written; in one line.
    pub fn create(path: &Path) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        // The reader of a pipe that does not read ends the record, and never stops the loop.
        options.custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(|error| {
            format!(
                "nothing is recorded, because {} cannot be written: {error}; check --mba-trace",
                path.display()
            )
        })?;
        Ok(Self {
            file,
            begun: Cell::new(false),
        })
    }

    /// A record for a loop. The first one empties the file. When the scheduler is loaded again in
    /// this process, the next one goes on in it, with times from 0 on.
    pub fn trace(&self) -> Option<Trace> {
        if !self.begun.replace(true) {
            // One that cannot be emptied, such as a pipe, has nothing to lose.
            let _ = self.file.set_len(0);
        }
        Some(Trace(BufWriter::new(self.file.try_clone().ok()?)))
    }
}

/// A record that is being written.
pub struct Trace(BufWriter<File>);

impl Trace {
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

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsRawFd};

    use super::*;

    #[test]
    fn a_record_begins_anew_and_goes_on_when_the_scheduler_is_loaded_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        fs::write(&path, "an older record").unwrap();
        let recording = Recording::create(&path).unwrap();
        for line in ["one", "two"] {
            let mut trace = recording.trace().unwrap();
            writeln!(trace.0, "{line}").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn an_older_record_stays_where_no_loop_runs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        fs::write(&path, "an older record").unwrap();
        drop(Recording::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "an older record");
    }

    #[test]
    fn a_reader_that_does_not_read_ends_the_record() {
        let (_reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let recording = Recording::create(Path::new(&path)).unwrap();
        let mut trace = recording.trace().unwrap();
        let full = (0..100_000).find_map(|_| writeln!(trace.0, "a line of a record").err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = Recording::create(&directory.path().join("none/trace"))
            .err()
            .unwrap();
        assert!(error.contains("none/trace cannot be written"), "{error}");
    }
}

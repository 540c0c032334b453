// SPDX-License-Identifier: GPL-2.0-only
//! Where snapshots come from: the running scheduler, or a recording.

use std::time::Duration;

use anyhow::Result;

use crate::snapshot::Snapshot;

/// A series of snapshots, oldest first.
pub trait Source {
    /// The name of the source for the title: `live`, or the file.
    fn name(&self) -> String;

    /// Time until a snapshot is due; zero if one is due now.
    fn wait(&self) -> Duration;

    /// The snapshot that is due, if one is. It returns none while no snapshot is due,
    /// and after the last one.
    ///
    /// # Errors
    /// The scheduler has ended, or the recording cannot be read.
    fn poll(&mut self) -> Result<Option<Snapshot>>;

    /// The next snapshot of a recording, due or not; none after the last. A live source has the
    /// one that is due.
    ///
    /// # Errors
    /// As [`Source::poll`].
    fn step(&mut self) -> Result<Option<Snapshot>> {
        self.poll()
    }

    /// Whether no further snapshot comes.
    fn over(&self) -> bool;

    /// The times of the first and the last snapshot of a recording (ns since 1970);
    /// none for a live source.
    fn span(&self) -> Option<(u64, u64)> {
        None
    }

    /// Continues a recording at the last snapshot that ended at or before this time (ns
    /// since 1970), or at the first. A live source stays where it is. Returns whether it
    /// moved.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn seek(&mut self, _at_unix_ns: u64) -> Result<bool> {
        Ok(false)
    }
}

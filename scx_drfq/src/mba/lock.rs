// SPDX-License-Identifier: GPL-2.0-only
//! Who owns the groups of scx_drfq in resctrl. They have the same names in each process, so a second
//! one would remove those of the first.

use std::{
    fs::{File, OpenOptions, TryLockError},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::server::open_directories;

/// The file, relative to `/`. It stays: the lock counts, not the file.
const PATH: &str = "run/scx/drfq-resctrl.lock";

/// How often a taken lock is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The lock (flock(2)). Processes that inherit its descriptor keep it, too.
pub struct Lock(File);

impl Lock {
    /// Takes the lock of the machine whose `/` is `root`. Waits for at most `patience` while another
    /// process has it; then there is none.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub fn take(root: &Path, patience: Duration) -> Result<Option<Self>, String> {
        let path = root.join(PATH);
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot lock resctrl's groups: {}: {error}", path.display())
        };
        open_directories(&path).map_err(|error| failed(&error.root_cause()))?;
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(|error| failed(&error))?;
        let end = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self(file))),
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Ok(None),
            }
        }
    }

    /// What a process that shall keep it inherits.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_process_has_it_and_its_end_frees_it() {
        let root = tempfile::tempdir().unwrap();
        let take = |ms| Lock::take(root.path(), Duration::from_millis(ms)).unwrap();
        let first = take(0).unwrap();
        let mode = first.0.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(take(30).is_none());
        // As a child that a killed process leaves.
        let inherited = first.0.try_clone().unwrap();
        drop(first);
        assert!(take(0).is_none());
        drop(inherited);
        assert!(take(0).is_some());
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("run"), "").unwrap();
        let refused = Lock::take(root.path(), Duration::ZERO).err().unwrap();
        assert!(
            refused.starts_with("cannot lock resctrl's groups: "),
            "{refused}"
        );
    }
}

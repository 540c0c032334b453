// SPDX-License-Identifier: GPL-2.0-only
//! Who owns the groups of scx_drfq in resctrl. They have the same names in each process, so a second
//! one would remove those of the first.

use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::server::open_directories;

/// The file, relative to `/`. Nothing of ours removes it: the lock counts, not the file.
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
        let end = Instant::now() + patience;
        loop {
            let file = open(&path).map_err(|error| failed(&error))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Some(Self(file))),
                // Somebody has removed it since: another process may have made and locked a new one.
                Ok(()) => {}
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

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Whether the file is the one that the path names.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: Metadata| (found.dev(), found.ino());
    let named = fs::symlink_metadata(path).map(number);
    matches!((file.metadata().map(number), named), (Ok(own), Ok(named)) if own == named)
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
        // A process that another test forks has the descriptor until it runs its program.
        let again = take(10_000).unwrap();
        // Who removes the file loses the lock, and the next one gets a file that counts.
        std::fs::remove_file(root.path().join(PATH)).unwrap();
        assert!(!is_at(&again.0, &root.path().join(PATH)));
        let next = take(10_000).unwrap();
        assert!(is_at(&next.0, &root.path().join(PATH)));
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

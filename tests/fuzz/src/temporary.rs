// SPDX-License-Identifier: GPL-2.0-only
//! Files in memory, for parsers that read files.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

/// A directory in memory, where there is such a file system.
pub fn directory() -> TempDir {
    let in_memory = TempDir::new_in("/dev/shm");
    in_memory.unwrap_or_else(|_| TempDir::new().expect("a temporary directory"))
}

/// Writes a file below a directory and returns its path.
pub fn write(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).expect("a directory");
    }
    fs::write(&path, bytes).expect("a file");
    path
}

// SPDX-License-Identifier: GPL-2.0-only
//! A directory that stands for `/` in tests.

use std::fs;

use tempfile::TempDir;

/// A directory in the shape of `/` that holds these (path, content) pairs.
pub fn fake_root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

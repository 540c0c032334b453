// SPDX-License-Identifier: GPL-2.0-only
//! Finds out the commit that is built. This script stands in a separate crate,
//! because a build script runs again as a whole. In another crate's script, a new
//! commit would generate that crate's code anew.

use std::{path::Path, process::Command};

/// What the command `scx_drfq` is built from, relative to this directory.
const SOURCES: [&str; 5] = [
    "../../bpf",
    "../../scx_drfq",
    "../../userspace",
    "../../Cargo.toml",
    "../../Cargo.lock",
];

/// Output of a git command, if there is git and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// `-g0123456789ab` or `-g0123456789ab-dirty`; empty where git knows nothing.
fn suffix() -> String {
    let Some(sha) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return String::new();
    };
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let dirty = git(&status).is_some_and(|changes| !changes.is_empty());
    format!("-g{sha}{}", if dirty { "-dirty" } else { "" })
}

fn main() {
    println!("cargo:rustc-env=DRFQ_GIT_SUFFIX={}", suffix());
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    // Git writes it at each commit. With a missing path cargo would always run this.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}

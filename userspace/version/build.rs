// SPDX-License-Identifier: GPL-2.0-only
//! Finds out the commit that is built. A crate of its own does so, because a
//! build script runs again as a whole: nothing else has to be generated anew
//! when a source file or the commit changes.

use std::{path::Path, process::Command};

/// What the command `scx_drfq` is built from, seen from here.
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
    // Written at each commit; a path that is not there would run this always.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}

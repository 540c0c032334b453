// SPDX-License-Identifier: GPL-2.0-only
//! tests/fuzz/run, with other programs in place of cargo and cmake.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};
use tempfile::TempDir;

/// A directory with `program` in its bin and the fuzzers of a former build, which find nothing.
fn built_before(program: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(&root.join("bin/rustc"), "echo host: here");
    write(&root.join("bin").join(program), script);
    for fuzzer in [
        "fuzz/here/release/drfq-libfuzzer",
        "fuzz/gem5-backend/fuzz_trace",
    ] {
        let found = "echo stat::number_of_executed_units: 7";
        write(&root.join(fuzzer), found);
    }
    directory
}

fn write(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether tests/fuzz/run succeeds, and what it prints.
fn fuzz(root: &Path, target: &str) -> (bool, String) {
    let path = format!(
        "{}:{}",
        root.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run"))
        .args([target, "1"])
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", root)
        .env("DRFQ_CACHE", root.join("cache"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text)
}

#[test]
fn what_was_built_is_run() {
    for (program, target) in [("cargo", "rows"), ("cmake", "mc-trace")] {
        let root = built_before(program, "exit 0");
        let (succeeded, text) = fuzz(root.path(), target);
        assert!(succeeded, "{target}: {text}");
        assert!(text.contains("7 executions without a finding"), "{text}");
    }
}

/// A fuzzer of a former build knows nothing of what has changed since.
#[test]
fn a_build_that_fails_is_a_failure() {
    for (program, script, target) in [
        ("cargo", "exit 101", "rows"),
        ("rustc", "exit 1", "rows"),
        ("cmake", "exit 1", "mc-trace"),
        ("cmake", "[ \"$1\" = --build ]", "mc-trace"),
    ] {
        let root = built_before(program, script);
        if program == "rustc" {
            write(&root.path().join("bin/cargo"), "exit 0");
        }
        let (succeeded, text) = fuzz(root.path(), target);
        assert!(!succeeded, "{program}, {script}: {text}");
        assert!(!text.contains("executions"), "{program}, {script}: {text}");
    }
}

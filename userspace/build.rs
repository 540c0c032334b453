// SPDX-License-Identifier: GPL-2.0-only
//! Turns the list of event counters in bpf/intf.h into a Rust table, so that
//! each counter is written down once; and finds out the commit that is built.

use std::{env, fs, path::Path, process::Command};

const INTF_H: &str = "../bpf/intf.h";

/// `X(NAME, "text")`, alone on its line, as (name, text).
fn event(line: &str) -> Option<(&str, &str)> {
    let inner = line.trim().strip_prefix("X(")?;
    let (name, rest) = inner.split_once(',')?;
    let text = rest.trim().strip_prefix('"')?;
    Some((name, &text[..text.rfind("\")")?]))
}

/// Output of a git command, if there is git and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn name_commit() {
    let sha = git(&["rev-parse", "--short=12", "HEAD"]);
    let suffix = sha.map_or(String::new(), |sha| format!("-g{sha}"));
    println!("cargo:rustc-env=DRFQ_GIT_SUFFIX={suffix}");
    // Written at each commit; a path that is not there would run this always.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
}

fn main() {
    name_commit();
    println!("cargo:rerun-if-changed={INTF_H}");
    let header = fs::read_to_string(INTF_H).expect("bpf/intf.h is readable");
    let events: Vec<_> = header.lines().filter_map(event).collect();
    assert!(!events.is_empty(), "bpf/intf.h lists no events");
    let mut table = String::from("&[\n");
    for (name, text) in events {
        let name = name.to_lowercase();
        table += &format!("    Event {{ name: {name:?}, text: {text:?} }},\n");
    }
    table += "]\n";
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("events.rs");
    fs::write(out, table).expect("OUT_DIR is writable");
}

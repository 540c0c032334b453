// SPDX-License-Identifier: GPL-2.0-only
//! Turns the list of event counters in bpf/intf.h into a Rust table, so that
//! each counter is written down once.

use std::{env, fs, path::Path};

const INTF_H: &str = "../../bpf/intf.h";

/// `X(NAME, "text")`, alone on its line, as (name, text).
fn event(line: &str) -> Option<(&str, &str)> {
    let inner = line.trim().strip_prefix("X(")?;
    let (name, rest) = inner.split_once(',')?;
    let text = rest.trim().strip_prefix('"')?;
    Some((name, &text[..text.rfind("\")")?]))
}

fn main() {
    println!("cargo:rerun-if-changed={INTF_H}");
    let header = fs::read_to_string(INTF_H).expect("bpf/intf.h is readable");
    let events: Vec<_> = header.lines().filter_map(event).collect();
    assert!(!events.is_empty(), "bpf/intf.h lists no events");
    let mut table = String::from("&[\n");
    for (name, text) in events {
        let name = name.to_lowercase();
        table += &format!("    SchedulerEvent {{ name: {name:?}, text: {text:?} }},\n");
    }
    table += "]\n";
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("events.rs");
    fs::write(out, table).expect("OUT_DIR is writable");
}

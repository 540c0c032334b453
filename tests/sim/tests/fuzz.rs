// SPDX-License-Identifier: GPL-2.0-only
//! The fuzzer's short form, and every case that it found. `cargo run --release -p drfq-sim --example
//! fuzz` is the long form.

use std::fs;
use std::path::Path;

use drfq_sim::fuzz::{Case, generate, judge};

/// Cases of the short form.
const SEEDS: u64 = 50;

#[test]
fn random_events_break_no_invariant() {
    for seed in 0..SEEDS {
        let finding = judge(&generate(seed));
        assert_eq!(finding, None, "seed {seed}");
    }
}

#[test]
fn cases_that_were_found_break_no_invariant_any_more() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    for entry in fs::read_dir(cases).expect("tests/sim/cases exists") {
        let path = entry.expect("a directory can be read").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a case can be read");
        let case = Case::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(case.is_valid(), "{}", path.display());
        assert_eq!(judge(&case), None, "{}", path.display());
    }
}

#[test]
fn a_case_survives_its_text() {
    for seed in 0..50 {
        let case = generate(seed);
        assert_eq!(Case::parse(&case.text()), Ok(case), "seed {seed}");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Inputs of the fuzz target: readable ones, those that it found, and random ones.

mod fuzz_input;

use std::{fs, path::Path};

use proptest::prelude::*;

#[test]
fn every_small_input_that_reached_new_code_passes() {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let lines = include_str!("corpus.hex").lines();
    let inputs: Vec<Vec<u8>> = lines
        .map(|line| line.as_bytes().chunks(2).map(byte).collect())
        .collect();
    assert!(inputs.len() > 100, "{} inputs", inputs.len());
    for input in inputs {
        fuzz_input::check(&input);
    }
}

#[test]
fn every_readable_input_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        fuzz_input::check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "the corpus has {count} inputs");
}

proptest! {
    #[test]
    fn random_operations_touch_no_foreign_group(mut data in prop::collection::vec(any::<u8>(), 1..200)) {
        data[0] = 3;
        fuzz_input::check(&data);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The kept inputs of every target.

use std::{fs, path::Path};

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))
}

#[test]
fn every_input_keeps_the_rule_of_its_target() {
    for (name, check) in drfq_fuzz::TARGETS {
        let mut count = 0;
        for input in fs::read_dir(corpus().join(name)).unwrap() {
            check(&fs::read(input.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "{name} has no input");
    }
}

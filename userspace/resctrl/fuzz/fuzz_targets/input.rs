// SPDX-License-Identifier: GPL-2.0-only
//! Arbitrary files, and arbitrary sequences of operations.
#![no_main]

#[path = "../../tests/fuzz_input/mod.rs"]
mod fuzz_input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_input::check(data));

// SPDX-License-Identifier: GPL-2.0-only
//! libFuzzer on the target that DRFQ_FUZZ_TARGET names.
#![no_main]

use std::{env, sync::OnceLock};

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let check = CHECK.get_or_init(|| {
        let name = env::var("DRFQ_FUZZ_TARGET").unwrap_or_default();
        let found = drfq_fuzz::TARGETS.iter().find(|target| target.0 == name);
        found.expect("DRFQ_FUZZ_TARGET names a target").1
    });
    check(data);
});

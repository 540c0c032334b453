// SPDX-License-Identifier: GPL-2.0-only
//! What must hold for any input of a parser. `tests/fuzz/run` looks for inputs that break it;
//! `tests/corpus.rs` runs those that are kept.
//!
//! The parsers of the program itself are in no library, so their files are included here.

#[path = "../../../scx_drfq/src/bandwidth.rs"]
#[allow(dead_code)]
mod bandwidth;
mod calibration;
#[path = "../../../scx_drfq/src/connections.rs"]
#[allow(dead_code)]
mod connections;
mod hardware;
mod policy;
mod recording;
#[path = "../../../userspace/resctrl/tests/fuzz_input/mod.rs"]
#[allow(dead_code)]
mod resctrl;
mod rows;
mod scrape;
#[path = "../../../scx_drfq/src/server.rs"]
#[allow(dead_code, missing_docs)]
mod server;
mod settings;
mod statistics;
mod temporary;

/// A rule: what must hold for an input.
pub type Check = fn(&[u8]);

/// The parsers by name, each with its rule.
pub const TARGETS: &[(&str, Check)] = &[
    ("calibration", calibration::check),
    ("configuration", settings::check),
    ("hardware", hardware::check),
    ("policy", policy::check),
    ("recording", recording::check),
    ("resctrl", resctrl::check),
    ("rows", rows::check),
    ("scrape", scrape::check),
    ("statistics", statistics::check),
];

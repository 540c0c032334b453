// SPDX-License-Identifier: GPL-2.0-only
//! The file of a calibration.

#[allow(dead_code, missing_docs)]
#[path = "../../../scx_drfq/src/calibration.rs"]
mod file;

use file::Calibration;

/// No text makes it panic, and what was read survives its file.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(calibration) = toml::from_str::<Calibration>(&text) else {
        return;
    };
    let text = toml::to_string(&calibration).expect("a text");
    let again: Calibration = toml::from_str(&text).expect("our own text");
    // NaN differs from itself.
    assert_eq!(format!("{again:?}"), format!("{calibration:?}"));
}

// SPDX-License-Identifier: GPL-2.0-only
//! What must be true before the scheduler is loaded, checked in the cheap order
//! at its start and in full by `doctor`.

use std::path::Path;

use anyhow::{Result, bail};
use drfq_agent::sense::kernel::{self, KernelBtf, SchedExt};

use crate::privileges;

/// # Errors
/// Why the scheduler cannot be loaded here, in one line that says what to do.
pub fn check(root: &Path) -> Result<()> {
    match SchedExt::detect(root) {
        SchedExt::Missing { config } => {
            bail!(
                "{}",
                kernel::missing(&kernel::release(root), config.as_deref())
            )
        }
        SchedExt::Available { loaded: Some(name) } => bail!("{}", occupied(&name)),
        SchedExt::Available { loaded: None } => {}
    }
    let missing = privileges::missing()?;
    if !missing.is_empty() {
        bail!("{}", unprivileged(&missing));
    }
    Ok(())
}

/// The diagnosis of a scheduler in our place.
pub fn occupied(name: &str) -> String {
    format!("the sched_ext scheduler {name:?} is already loaded; stop it first")
}

/// The diagnosis of missing capabilities.
pub fn unprivileged(missing: &[String]) -> String {
    format!(
        "not privileged: {} missing; run it with sudo",
        missing.join(" and ")
    )
}

/// Why the kernel refused to load it, if that is known.
pub fn explain_refusal(root: &Path) -> Option<String> {
    if let SchedExt::Available { loaded: Some(name) } = SchedExt::detect(root) {
        return Some(occupied(&name));
    }
    kernel::broken_btf(&kernel::release(root), &KernelBtf::detect())
}

// SPDX-License-Identifier: GPL-2.0-only
//! A class of our own whose throttle `calibrate` moves. Whatever ends the process, the cleaner of
//! [`Guard`] removes the class.

use std::{io, path::Path};

use anyhow::{Context, Result};
use drfq_resctrl::{
    fs::{KernelFs, ResctrlFs},
    groups::{Ctrl, Groups},
    info::{Info, Unit, Vendor},
    mount::Mount,
    schemata::{Domain, Resource, Schemata},
};

use crate::mba::{
    guard::Guard,
    join::{can_join, join},
    vendor,
};

/// The class and its levels.
pub struct Throttle {
    groups: Groups<KernelFs>,
    class: Ctrl,
    domains: Vec<Domain>,
    levels: Vec<u32>,
    // Dropped last: the cleaner then finds nothing to do.
    _guard: Guard,
}

impl Throttle {
    /// Makes the class.
    ///
    /// # Errors
    /// Why throttling cannot be measured, in a few words.
    pub fn open(root: &Path) -> Result<Self, String> {
        let guard = Guard::open(root)?;
        if guard.kernel_moves_levels {
            return Err("the mount option mba_MBps lets the kernel move the levels".into());
        }
        let files = KernelFs::open(&guard.point).map_err(|error| error.to_string())?;
        let info = Info::read(&files, vendor()).map_err(|error| error.to_string())?;
        let bandwidth = info
            .bandwidth
            .as_ref()
            .filter(|found| found.unit == Unit::Percent);
        let Some(bandwidth) = bandwidth else {
            return Err("resctrl does not throttle in percent here (MBA)".into());
        };
        let groups = Groups::open(files).map_err(|error| error.to_string())?;
        let class = groups
            .create_ctrl("calibrate")
            .map_err(|error| error.to_string())?;
        can_join(&groups, &class)?;
        Ok(Self {
            domains: bandwidth.domains.clone(),
            levels: bandwidth.steps().collect(),
            groups,
            class,
            _guard: guard,
        })
    }

    /// All levels, ascending; the last one does not throttle.
    pub fn levels(&self) -> Vec<u32> {
        self.levels.clone()
    }

    /// Sets the level of the class.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set(&self, setting: u32) -> Result<()> {
        let values: Vec<_> = self
            .domains
            .iter()
            .map(|&domain| (domain, setting))
            .collect();
        let set = self.groups.set(&self.class, Resource::Mb, &values);
        set.with_context(|| format!("cannot set the throttle to {setting}"))
    }

    /// Puts the calling thread into the class, where limits of the default group do not hold. It leaves
    /// when it ends.
    ///
    /// # Errors
    /// As [`join`].
    pub fn join(&self) -> io::Result<()> {
        join(&self.groups, &self.class)
    }
}

/// The limits that another program has set for the default group, such as `MB:0=50`; none: there are
/// none, or no resctrl is mounted.
pub fn limits(root: &Path) -> Option<String> {
    let files = KernelFs::open(&Mount::find(root)?.point).ok()?;
    limits_in(&files, vendor())
}

fn limits_in(files: &impl ResctrlFs, vendor: Vendor) -> Option<String> {
    let info = Info::read(files, vendor).ok()?;
    let schemata = Schemata::parse(&files.read("schemata").ok()?);
    info.limits(&schemata)
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::fake::{FakeKernel, Shape};

    use super::*;

    #[test]
    fn limits_of_the_default_group_are_found() {
        let kernel = FakeKernel::new(Shape::default());
        assert_eq!(limits_in(&kernel, Vendor::Intel), None);
        kernel.write("schemata", "MB:0=50\n").unwrap();
        let found = limits_in(&kernel, Vendor::Intel).unwrap();
        assert!(found.contains("0=50"), "{found}");
    }
}

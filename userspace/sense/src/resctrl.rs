// SPDX-License-Identifier: GPL-2.0-only
//! What resctrl offers on this machine: whether it can monitor and throttle
//! memory bandwidth, and in which unit (Documentation/filesystems/resctrl.rst).

use std::{fs, path::Path};

use crate::cpu_model::CpuModel;

/// The unit of a number in an `MB:` line of a schemata file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbaUnit {
    /// Percent of the bandwidth, throttled per core.
    Percent,
    /// AMD: absolute, 1/8 GB/s per step.
    EighthGbPerS,
    /// Mount option `mba_MBps`: MiB/s, which a loop in the kernel enforces.
    MibPerS,
}

/// State of resctrl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resctrl {
    /// The kernel was built without it.
    NotInKernel,
    /// The CPU can neither monitor nor throttle bandwidth.
    NotInCpu,
    /// The kernel and the CPU have it, but it is not mounted.
    NotMounted,
    /// It is mounted.
    Mounted {
        /// Memory bandwidth can be monitored (MBM).
        monitors: bool,
        /// Memory bandwidth can be throttled (MBA), in this unit.
        throttles: Option<MbaUnit>,
    },
}

/// CPU flags that give resctrl something to do with memory bandwidth.
const CPU_FLAGS: [&str; 4] = ["rdt_a", "cqm_mbm_total", "cqm_mbm_local", "mba"];

impl Resctrl {
    /// Detects it on the machine whose `/` is `root`.
    pub fn detect(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some((point, options)) = mount(&read("proc/mounts")) {
            let info = root.join(point.trim_start_matches('/')).join("info");
            let features = fs::read_to_string(info.join("L3_MON/mon_features")).unwrap_or_default();
            let unit = unit(&CpuModel::read(root), &options);
            return Self::Mounted {
                monitors: features.lines().any(|feature| feature.starts_with("mbm_")),
                throttles: info.join("MB").exists().then_some(unit),
            };
        }
        let in_kernel = read("proc/filesystems")
            .lines()
            .any(|line| line.ends_with("\tresctrl"));
        // arm64 has no such flags. There the kernel registers resctrl only if the
        // machine has MPAM.
        let flags = CpuModel::read(root).flags;
        let in_cpu = cfg!(not(target_arch = "x86_64"))
            || CPU_FLAGS
                .iter()
                .any(|name| flags.iter().any(|flag| flag == name));
        match (in_kernel, in_cpu) {
            (_, false) => Self::NotInCpu,
            (false, true) => Self::NotInKernel,
            (true, true) => Self::NotMounted,
        }
    }
}

/// Mount point and options of resctrl in the text of /proc/mounts.
fn mount(mounts: &str) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "resctrl").then(|| (point.into(), options.into()))
    })
}

fn unit(model: &CpuModel, options: &str) -> MbaUnit {
    if options.split(',').any(|option| option == "mba_MBps") {
        MbaUnit::MibPerS
    } else if matches!(model.vendor.as_str(), "AuthenticAMD" | "HygonGenuine") {
        MbaUnit::EighthGbPerS
    } else {
        MbaUnit::Percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_root::fake_root;

    const INTEL: (&str, &str) = (
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\nflags\t\t: fpu rdt_a cqm_mbm_total mba\n",
    );
    const AMD: (&str, &str) = (
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\nflags\t\t: fpu rdt_a cqm_mbm_total mba\n",
    );
    const FEATURES: (&str, &str) = (
        "sys/fs/resctrl/info/L3_MON/mon_features",
        "llc_occupancy\nmbm_total_bytes\n",
    );
    const MB: (&str, &str) = ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n");

    fn mounts(options: &str) -> String {
        format!("proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl {options} 0 0\n")
    }

    #[test]
    fn each_vendor_has_its_unit() {
        for (model, options, unit) in [
            (INTEL, "rw,relatime", MbaUnit::Percent),
            (INTEL, "rw,mba_MBps", MbaUnit::MibPerS),
            (AMD, "rw,relatime", MbaUnit::EighthGbPerS),
        ] {
            let mounts = mounts(options);
            let root = fake_root(&[model, FEATURES, MB, ("proc/mounts", &mounts)]);
            let found = Resctrl::detect(root.path());
            assert_eq!(
                found,
                Resctrl::Mounted {
                    monitors: true,
                    throttles: Some(unit)
                }
            );
        }
    }

    #[test]
    fn a_mount_without_features_offers_nothing() {
        let mounts = mounts("rw");
        let root = fake_root(&[INTEL, ("proc/mounts", &mounts)]);
        let found = Resctrl::detect(root.path());
        assert_eq!(
            found,
            Resctrl::Mounted {
                monitors: false,
                throttles: None
            }
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_missing_cpu_feature_kernel_option_or_mount_is_told_apart() {
        let filesystems = ("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n");
        let plain = (
            "proc/cpuinfo",
            "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n",
        );
        assert_eq!(Resctrl::detect(fake_root(&[]).path()), Resctrl::NotInCpu);
        assert_eq!(
            Resctrl::detect(fake_root(&[plain, filesystems]).path()),
            Resctrl::NotInCpu
        );
        assert_eq!(
            Resctrl::detect(fake_root(&[INTEL]).path()),
            Resctrl::NotInKernel
        );
        assert_eq!(
            Resctrl::detect(fake_root(&[INTEL, filesystems]).path()),
            Resctrl::NotMounted
        );
    }
}

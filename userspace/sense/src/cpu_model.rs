// SPDX-License-Identifier: GPL-2.0-only
//! The CPU model.

use std::{fs, path::Path};

/// Size of a cache line if the kernel does not tell it (bytes).
const CACHE_LINE_BYTES: u32 = 64;

/// The CPU model as /proc/cpuinfo names it. Unknown fields are zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// `vendor_id`: `GenuineIntel`, `AuthenticAMD`, `HygonGenuine`.
    pub vendor: String,
    /// `cpu family`.
    pub family: u32,
    /// `model`.
    pub model: u32,
    /// `stepping`.
    pub stepping: u32,
    /// Words of `flags`.
    pub flags: Vec<String>,
}

impl CpuModel {
    /// The model of the first CPU of the machine under `root`.
    pub fn read(root: &Path) -> Self {
        Self::parse(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
    }

    fn parse(cpuinfo: &str) -> Self {
        let value = |key: &str| {
            let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            pairs
                .find(|(name, _)| name.trim() == key)
                .map_or("", |(_, value)| value.trim())
        };
        let number = |key: &str| value(key).parse().unwrap_or(0);
        Self {
            vendor: value("vendor_id").into(),
            family: number("cpu family"),
            model: number("model"),
            stepping: number("stepping"),
            flags: value("flags")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Whether the CPU has a flag of `/proc/cpuinfo`.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }
}

/// Size of a line of the first CPU's first cache (bytes).
pub fn cache_line_bytes(root: &Path) -> u32 {
    let path = "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    let text = fs::read_to_string(root.join(path)).unwrap_or_default();
    text.trim()
        .parse()
        .ok()
        .filter(|bytes| (16..=1024).contains(bytes))
        .unwrap_or(CACHE_LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpuinfo(vendor: &str, family: u32) -> CpuModel {
        CpuModel::parse(&format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 85\n\
             model name\t: Some CPU\nstepping\t: 4\nflags\t\t: fpu rdt_a mba\n\nprocessor\t: 1\nvendor_id\t: Other\n"
        ))
    }

    #[test]
    fn the_first_cpu_of_cpuinfo_is_read() {
        let model = cpuinfo("GenuineIntel", 6);
        assert_eq!((model.vendor.as_str(), model.family), ("GenuineIntel", 6));
        assert_eq!((model.model, model.stepping), (85, 4));
        assert!(model.has("mba") && !model.has("cqm"));
        assert_eq!(CpuModel::parse(""), CpuModel::default());
        assert_eq!(
            CpuModel::read(Path::new("/nonexistent")),
            CpuModel::default()
        );
    }

    #[test]
    fn an_unreadable_line_size_becomes_64() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(cache_line_bytes(root.path()), 64);
        let dir = root.path().join("sys/devices/system/cpu/cpu0/cache/index0");
        fs::create_dir_all(&dir).unwrap();
        for (text, bytes) in [("128\n", 128), ("0\n", 64), ("x\n", 64)] {
            fs::write(dir.join("coherency_line_size"), text).unwrap();
            assert_eq!(cache_line_bytes(root.path()), bytes);
        }
    }
}

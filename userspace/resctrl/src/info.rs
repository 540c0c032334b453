// SPDX-License-Identifier: GPL-2.0-only
//! What this machine's resctrl offers: its `info` directory, the domains of its default
//! group, and the unit of memory bandwidth.

use std::{collections::BTreeMap, io};

use crate::{
    fs::ResctrlFs,
    reading::Event,
    schemata::{Domain, Resource, Schemata, text},
};

/// The maker of the CPU, which decides what a number in an `MB:` line means. No file of
/// resctrl tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Percent, throttled per core.
    Intel,
    /// Absolute, in 1/8 GB/s.
    Amd,
    /// MPAM: percent.
    Arm,
}

impl Vendor {
    /// By the name that an x86 CPU has in `/proc/cpuinfo`. Other CPUs have MPAM, if any.
    pub fn of_cpu(name: &str) -> Self {
        match name {
            "AuthenticAMD" | "HygonGenuine" => Self::Amd,
            _ if cfg!(target_arch = "x86_64") => Self::Intel,
            _ => Self::Arm,
        }
    }
}

/// The unit of a number in an `MB:` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Percent of the bandwidth.
    Percent,
    /// AMD: 1/8 GB/s.
    EighthGbPerS,
    /// Mount option `mba_MBps`: MiB/s, which a loop in the kernel enforces.
    MibPerS,
}

/// How threads of a core with different values are throttled (`thread_throttle_mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThrottleMode {
    /// Both get the lower value.
    Max,
    /// Each gets its own.
    PerThread,
    /// The kernel does not say.
    Unknown,
}

/// Bandwidth allocation: `info/MB` or `info/SMBA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The unit of all values.
    pub unit: Unit,
    /// The lowest value.
    pub min: u32,
    /// Values between two steps are rounded up to the next.
    pub step: u32,
    /// The value without throttling: the highest in the default group.
    pub max: u32,
    /// Classes of this resource, the default group's included.
    pub num_closids: u32,
    /// How threads of a core affect each other.
    pub thread_throttle_mode: ThrottleMode,
    /// Domains that can be throttled.
    pub domains: Vec<Domain>,
}

impl Bandwidth {
    /// The values that differ in hardware, from the lowest to no throttling.
    pub fn steps(&self) -> impl Iterator<Item = u32> + use<> {
        let step = usize::try_from(self.step.max(1)).unwrap_or(usize::MAX);
        (self.min..self.max)
            .step_by(step)
            .chain(std::iter::once(self.max))
    }
}

/// Cache allocation: `info/L3`, `info/L3CODE` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Which cache.
    pub resource: Resource,
    /// All ways.
    pub cbm_mask: u32,
    /// Classes of this resource.
    pub num_closids: u32,
}

/// How counters get to groups (`mbm_assign_mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignMode {
    /// `mbm_event`: by hand or at mkdir, see [`crate::assignment`].
    MbmEvent,
    /// `default`: the hardware gives them to whoever is busy, and takes them away.
    Default,
    /// A mode of a newer kernel.
    Other(String),
}

/// Assignable counters (AMD's ABMC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignable {
    /// The mode now.
    pub mode: AssignMode,
    /// Counters by domain.
    pub counters: BTreeMap<Domain, u32>,
}

/// Monitoring: `info/L3_MON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// Groups that can be monitored, the default group included.
    pub num_rmids: u32,
    /// Events with files in `mon_data`.
    pub events: Vec<Event>,
    /// Assignable counters, if this machine has them.
    pub assignable: Option<Assignable>,
    /// Domains with readings.
    pub domains: Vec<Domain>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Memory bandwidth can be throttled (MBA).
    pub bandwidth: Option<Bandwidth>,
    /// Bandwidth of slow memory can be throttled.
    pub slow_bandwidth: Option<Bandwidth>,
    /// Caches can be divided (CAT).
    pub caches: Vec<Cache>,
    /// Bandwidth or occupancy is monitored.
    pub monitoring: Option<Monitoring>,
    /// Classes that groups can have, the default group included: the smallest number of
    /// all resources. 0: this machine only monitors.
    pub num_closids: u32,
    /// A MON group that moves to another CTRL group keeps its counters. MPAM's RMIDs
    /// depend on the class, so there it does not.
    pub moves_keep_counters: bool,
}

impl Info {
    /// Reads it.
    ///
    /// # Errors
    /// The root directory cannot be read. A single missing or strange file is no error:
    /// what it would have told is taken as absent.
    pub fn read(fs: &impl ResctrlFs, vendor: Vendor) -> io::Result<Self> {
        let names = fs.list("info")?;
        let has = |name: &str| names.iter().any(|found| found == name);
        let schemata = Schemata::parse(&fs.read("schemata").unwrap_or_default());
        let bandwidth = |resource: Resource| {
            has(resource.name()).then(|| bandwidth(fs, vendor, resource, &schemata))
        };
        let caches: Vec<_> = Resource::ALL
            .into_iter()
            .filter(|resource| resource.is_cache() && has(resource.name()))
            .map(|resource| cache(fs, resource))
            .collect();
        let (bandwidth, slow_bandwidth) = (bandwidth(Resource::Mb), bandwidth(Resource::Smba));
        let counts = caches.iter().map(|cache| cache.num_closids);
        let counts = counts.chain(bandwidth.iter().map(|found| found.num_closids));
        let counts = counts.chain(slow_bandwidth.iter().map(|found| found.num_closids));
        Ok(Self {
            num_closids: counts.min().unwrap_or(0),
            monitoring: has("L3_MON").then(|| monitoring(fs)),
            bandwidth,
            slow_bandwidth,
            caches,
            moves_keep_counters: vendor != Vendor::Arm,
        })
    }

    /// The values of a schemata file that leave less than there is, such as `MB:0=50`. `None`:
    /// there are none. New groups have no such limits, whatever the default group has. AMD's
    /// kernel does not tell the most that there is, so a limit that all of its domains had when
    /// this was read is not found.
    pub fn limits(&self, schemata: &Schemata) -> Option<String> {
        let bandwidths = [
            (Resource::Mb, self.bandwidth.as_ref()),
            (Resource::Smba, self.slow_bandwidth.as_ref()),
        ];
        let most = bandwidths.into_iter().filter_map(|(resource, found)| {
            found
                .filter(|found| found.unit != Unit::MibPerS)
                .map(|found| (resource, found.max))
        });
        let ways = self.caches.iter();
        // A mask that could not be read tells nothing.
        let ways = ways.filter(|cache| cache.cbm_mask != 0);
        let most = most.chain(ways.map(|cache| (cache.resource, cache.cbm_mask)));
        let limits: Vec<String> = most
            .filter_map(|(resource, most)| {
                let mut values = schemata.values(resource).to_vec();
                values.retain(|(_, value)| *value != most);
                (!values.is_empty()).then(|| text(resource, &values))
            })
            .collect();
        (!limits.is_empty()).then(|| limits.join(" "))
    }

    /// Whether groups' traffic is monitored.
    pub fn monitors_bandwidth(&self) -> bool {
        self.monitoring
            .as_ref()
            .is_some_and(|found| found.events.contains(&Event::MbmTotal))
    }
}

/// A file of one number below `info`, in this base.
fn number(fs: &impl ResctrlFs, directory: &str, file: &str, radix: u32) -> Option<u32> {
    let text = fs.read(&format!("info/{directory}/{file}")).ok()?;
    let text = text.trim();
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), radix).ok()
}

fn bandwidth(
    fs: &impl ResctrlFs,
    vendor: Vendor,
    resource: Resource,
    schemata: &Schemata,
) -> Bandwidth {
    let name = resource.name();
    let values = schemata.values(resource);
    // A group has this file only with the mount option mba_MBps.
    let by_kernel = resource == Resource::Mb && fs.read("mba_MBps_event").is_ok();
    let unit = match vendor {
        _ if by_kernel => Unit::MibPerS,
        Vendor::Amd => Unit::EighthGbPerS,
        _ => Unit::Percent,
    };
    let highest = values.iter().map(|(_, value)| *value).max();
    let mode = fs.read(&format!("info/{name}/thread_throttle_mode"));
    Bandwidth {
        unit,
        min: number(fs, name, "min_bandwidth", 10).unwrap_or(0),
        step: number(fs, name, "bandwidth_gran", 10).unwrap_or(1).max(1),
        max: match unit {
            Unit::Percent => 100,
            Unit::EighthGbPerS => highest.unwrap_or(0),
            // MBA_MAX_MBPS of the kernel.
            Unit::MibPerS => u32::MAX,
        },
        num_closids: number(fs, name, "num_closids", 10).unwrap_or(0),
        thread_throttle_mode: match mode.as_deref().map(str::trim) {
            Ok("max") => ThrottleMode::Max,
            Ok("per-thread") => ThrottleMode::PerThread,
            _ => ThrottleMode::Unknown,
        },
        domains: values.iter().map(|(domain, _)| *domain).collect(),
    }
}

fn cache(fs: &impl ResctrlFs, resource: Resource) -> Cache {
    let name = resource.name();
    let value = |file, radix| number(fs, name, file, radix).unwrap_or(0);
    Cache {
        resource,
        cbm_mask: value("cbm_mask", 16),
        num_closids: value("num_closids", 10),
    }
}

fn monitoring(fs: &impl ResctrlFs) -> Monitoring {
    let features = fs.read("info/L3_MON/mon_features").unwrap_or_default();
    let has = |event: &Event| features.lines().any(|line| line.trim() == event.name());
    Monitoring {
        num_rmids: number(fs, "L3_MON", "num_rmids", 10).unwrap_or(0),
        events: Event::ALL.into_iter().filter(has).collect(),
        assignable: assignable(fs),
        domains: domains(&fs.list("mon_data").unwrap_or_default()),
    }
}

/// The directory of a domain in `mon_data`.
pub(crate) fn domain_directory(domain: Domain) -> String {
    format!("mon_L3_{domain:02}")
}

/// The ids of the directories of domains, sorted. Others, which vendors' kernels add, are left out.
fn domains(names: &[String]) -> Vec<Domain> {
    let mut ids: Vec<Domain> = names
        .iter()
        .filter_map(|name| name.strip_prefix("mon_L3_"))
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|digits| digits.parse().ok())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn assignable(fs: &impl ResctrlFs) -> Option<Assignable> {
    let modes = fs.read("info/L3_MON/mbm_assign_mode").ok()?;
    let counters = fs.read("info/L3_MON/num_mbm_cntrs").unwrap_or_default();
    Some(Assignable {
        mode: assign_mode(&modes)?,
        counters: by_domain(&counters),
    })
}

/// The mode in brackets.
pub(crate) fn assign_mode(text: &str) -> Option<AssignMode> {
    let name = text
        .lines()
        .find_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'))?;
    Some(match name {
        "mbm_event" => AssignMode::MbmEvent,
        "default" => AssignMode::Default,
        other => AssignMode::Other(other.into()),
    })
}

/// Numbers in the form `0=32;1=32`. Entries of another form are left out.
pub(crate) fn by_domain(text: &str) -> BTreeMap<Domain, u32> {
    text.trim()
        .split(';')
        .filter_map(|entry| {
            let (domain, value) = entry.split_once('=')?;
            Some((domain.trim().parse().ok()?, value.trim().parse().ok()?))
        })
        .collect()
}

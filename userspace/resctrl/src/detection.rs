// SPDX-License-Identifier: GPL-2.0-only
//! Whether this machine has resctrl, and why memory bandwidth is not monitored (MBM) or
//! throttled (MBA).

use std::{fs, path::Path};

use drfq_sense::cpu_model::CpuModel;

use crate::{
    fs::KernelFs,
    info::{AssignMode, Info, Vendor},
    mount::Mount,
    task::TaskGroups,
};

/// State of resctrl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The kernel was built without it.
    NotInKernel,
    /// The CPU has nothing that it could control or monitor.
    NotInCpu,
    /// The kernel and the CPU have it, but it is not mounted.
    NotMounted,
    /// It is mounted, but not in this mount namespace. The kernel refuses a second mount
    /// with EBUSY.
    MountedElsewhere,
    /// It is mounted.
    Mounted(Mount, Box<Info>),
}

/// What was found on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// State of resctrl.
    pub state: State,
    cpu: CpuModel,
    /// Words of the kernel's options `rdt=`.
    rdt: Vec<String>,
}

/// CPU flags that give resctrl something to do.
const CPU_FLAGS: [&str; 9] = [
    "rdt_a",
    "cqm",
    "cqm_llc",
    "cqm_mbm_total",
    "cqm_mbm_local",
    "cat_l3",
    "cat_l2",
    "mba",
    "cqm_occup_llc",
];

impl Detection {
    /// Looks at the machine whose `/` is `root`.
    pub fn new(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let cpu = CpuModel::read(root);
        let options = read("proc/cmdline");
        let rdt = options
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("rdt="))
            .flat_map(|words| words.split(','))
            .map(str::to_owned)
            .collect();
        let state = match mounted(root, &cpu) {
            Some(state) => state,
            None if !cfg!(target_arch = "x86_64") || CPU_FLAGS.iter().any(|flag| cpu.has(flag)) => {
                let known = read("proc/filesystems");
                if !known.lines().any(|line| line.ends_with("\tresctrl")) {
                    // arm64 registers it only on a machine with MPAM, x86 only if a
                    // feature is left after the quirks and the option rdt=.
                    State::NotInKernel
                } else if TaskGroups::parse(&read("proc/self/cpu_resctrl_groups")).is_some() {
                    State::MountedElsewhere
                } else {
                    State::NotMounted
                }
            }
            None => State::NotInCpu,
        };
        Self { state, cpu, rdt }
    }

    /// The properties of a mounted resctrl.
    pub fn info(&self) -> Option<&Info> {
        match &self.state {
            State::Mounted(_, info) => Some(info),
            _ => None,
        }
    }

    /// Why resctrl cannot be used, and what to do. `None`: it can.
    pub fn missing(&self) -> Option<String> {
        Some(match &self.state {
            State::Mounted(..) => return None,
            State::NotMounted => {
                "not mounted; mount it with: mount -t resctrl resctrl /sys/fs/resctrl".into()
            }
            State::MountedElsewhere => "mounted in another mount namespace, and a second mount \
                                        is refused; run in the namespace that has it"
                .into(),
            State::NotInCpu if self.is_virtual() => {
                "this virtual machine does not show RDT; run on the host, or pass RDT through"
                    .into()
            }
            State::NotInCpu => "this CPU has neither Intel RDT, AMD QoS nor MPAM".into(),
            State::NotInKernel => {
                let reason = self.quirk().or_else(|| self.switched_off(""));
                reason.unwrap_or_else(|| not_built_in().into())
            }
        })
    }

    /// Why a mounted resctrl does not monitor memory bandwidth, and what to do. `None`:
    /// it does, or [`Detection::missing`] has the reason.
    pub fn missing_mbm(&self) -> Option<String> {
        let info = self.info()?;
        if info.monitors_bandwidth() {
            return None;
        }
        let reasons = [
            self.quirk(),
            self.switched_off("mbmtotal"),
            self.cpu_lacks("cqm_mbm_total"),
        ];
        Some(reasons.into_iter().flatten().next().unwrap_or_else(|| {
            if info.moves_keep_counters {
                "the kernel offers no mbm_total_bytes; look for \"resctrl\" in dmesg".into()
            } else {
                "the kernel's MPAM driver monitors the occupancy of caches only".into()
            }
        }))
    }

    /// Why a mounted resctrl does not throttle memory bandwidth, and what to do. `None`:
    /// it does, or [`Detection::missing`] has the reason.
    pub fn missing_mba(&self) -> Option<String> {
        if self.info()?.bandwidth.is_some() {
            return None;
        }
        let reason = self.cannot_throttle();
        Some(
            reason
                .unwrap_or_else(|| "the kernel offers no MB; look for \"resctrl\" in dmesg".into()),
        )
    }

    /// Why this machine cannot throttle memory bandwidth, mounted or not. `None`: as far as CPU
    /// and options tell, it can.
    pub fn cannot_throttle(&self) -> Option<String> {
        self.switched_off("mba").or_else(|| self.cpu_lacks("mba"))
    }

    /// A limit of the counters that a user should know.
    pub fn caveat(&self) -> Option<String> {
        let assignable = self.info()?.monitoring.as_ref()?.assignable.as_ref()?;
        let fewest = assignable.counters.values().min();
        Some(match (&assignable.mode, fewest) {
            (AssignMode::MbmEvent, Some(count)) => {
                format!("ABMC: {count} counters are assigned to groups by event")
            }
            (AssignMode::Default, _) => "the hardware takes counters from idle groups; more is \
                                         measured after: echo mbm_event > \
                                         /sys/fs/resctrl/info/L3_MON/mbm_assign_mode"
                .into(),
            _ => "counters are assigned in a way that scx_drfq does not know".into(),
        })
    }

    fn is_virtual(&self) -> bool {
        self.cpu.has("hypervisor")
    }

    /// Kernels disable monitoring on the first steppings of Skylake-SP
    /// (`__check_quirks_intel()` of arch/x86/kernel/cpu/resctrl/core.c), whose counts are
    /// wrong in some cases (erratum SKX99).
    fn quirk(&self) -> Option<String> {
        const SKYLAKE_X: u32 = 0x55;
        let CpuModel {
            family,
            model,
            stepping,
            ..
        } = self.cpu;
        let concerned = self.cpu.vendor == "GenuineIntel"
            && (family, model) == (6, SKYLAKE_X)
            && stepping <= 4
            && !self.rdt.iter().any(|word| word == "mbmtotal");
        concerned.then(|| {
            format!(
                "kernels disable it on Skylake-SP of stepping {stepping}; boot with \
                 rdt=cmt,mbmtotal,mbmlocal"
            )
        })
    }

    /// Whether the option `rdt=` switches a feature off. An empty name: any feature.
    fn switched_off(&self, feature: &str) -> Option<String> {
        let off = |word: &&String| {
            word.strip_prefix('!')
                .is_some_and(|name| feature.is_empty() || name == feature)
        };
        let word = self.rdt.iter().find(off)?;
        Some(format!(
            "the kernel was booted with rdt={word}; boot without it"
        ))
    }

    fn cpu_lacks(&self, flag: &str) -> Option<String> {
        if !cfg!(target_arch = "x86_64") || self.cpu.has(flag) {
            return None;
        }
        Some(if self.is_virtual() {
            format!("this virtual machine does not show the CPU flag {flag}; run on the host")
        } else {
            format!("this CPU lacks it (no flag {flag} in /proc/cpuinfo)")
        })
    }
}

const fn not_built_in() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "this kernel lacks CONFIG_X86_CPU_RESCTRL; boot another one"
    } else {
        "this kernel lacks CONFIG_RESCTRL_FS, or this machine lacks MPAM"
    }
}

fn mounted(root: &Path, cpu: &CpuModel) -> Option<State> {
    let mount = Mount::find(root)?;
    let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let vendor = Vendor::of_cpu(&cpu.vendor);
    let info = Info::read(&KernelFs::at(&point, &root.join("proc")), vendor);
    // An unreadable info directory offers nothing.
    Some(State::Mounted(mount, Box::new(info.unwrap_or_default())))
}

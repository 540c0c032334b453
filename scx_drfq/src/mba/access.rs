// SPDX-License-Identifier: GPL-2.0-only
//! Whether the loop may use resctrl, and why not.

use std::{fs, path::Path};

use drfq_resctrl::{
    detection::{Detection, State},
    info::{Info, ThrottleMode},
};
use drfq_stats::mba_report::{NO_SCALE, NOT_MEASURED};

use super::guard::{self, Guard};
use crate::{
    capacity::{Capacity, MEASURE},
    config::{Config, MbaMode},
};

const NO_MBM: &str = "resctrl counts no memory traffic here";
const NO_MBA: &str = "resctrl does not throttle memory traffic (MBA)";

/// The loop's way to resctrl.
pub enum Access {
    /// It is left alone.
    Off,
    /// It was not mounted, since the loop could only observe. Why.
    Declined(String),
    /// It cannot be used. Why.
    Failed(String),
    /// It is mounted.
    Open(Guard),
}

impl Access {
    /// Opens it as far as `mode` needs it, on the machine whose `/` is `root`. Call it while the
    /// process has a single thread and all privileges.
    pub fn open(mode: MbaMode, capacity: &Capacity, root: &Path) -> Self {
        if mode == MbaMode::Off {
            return guard::clean_left(root).map_or_else(Self::Failed, |()| Self::Off);
        }
        let reliable = capacity.reliable().is_some();
        if mode == MbaMode::Auto
            && let Some(reason) = useless(&Detection::new(root), reliable)
        {
            return Self::Declined(reason);
        }
        Guard::open(root).map_or_else(Self::Failed, Self::Open)
    }
}

/// Why a mount would only let the loop observe. `reliable`: the memory's bandwidth is known.
fn useless(found: &Detection, reliable: bool) -> Option<String> {
    if found.state != State::NotMounted {
        return None;
    }
    let unknown = || (!reliable).then(|| format!("{NOT_MEASURED}; {MEASURE}"));
    found.cannot_throttle().or_else(unknown)
}

/// Why there is no loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// resctrl lacks what the loop needs, which the agent's lines about the machine tell anyway.
    Lacks(&'static str),
    /// Anything else.
    Failed(String),
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl Refused {
    /// A line for the user; none if there is nothing to add.
    pub fn warning(self, mode: MbaMode) -> Option<String> {
        let reason = match self {
            Self::Lacks(_) if mode == MbaMode::Auto => return None,
            Self::Lacks(reason) => reason.into(),
            Self::Failed(reason) => reason,
        };
        Some(format!("memory bandwidth is not shared: {reason}"))
    }
}

/// Checks that the loop has something to do.
///
/// # Errors
/// It has not.
pub fn check(info: &Info, mode: MbaMode) -> Result<(), Refused> {
    if !info.monitors_bandwidth() {
        return Err(Refused::Lacks(NO_MBM));
    }
    if mode != MbaMode::Auto || throttles(info) {
        return Ok(());
    }
    Err(match &info.bandwidth {
        None => Refused::Lacks(NO_MBA),
        Some(_) => Refused::Failed("resctrl has no class beside the default one".into()),
    })
}

/// Whether groups can be throttled: there is MBA, and a class beside the default one.
fn throttles(info: &Info) -> bool {
    info.bandwidth.is_some() && info.num_closids > 1
}

/// Whether to throttle where nothing hinders it, and the words for the statistics.
pub fn mode(config: &Config, guard: &Guard, info: &Info) -> (bool, String) {
    let reason = if config.mba == MbaMode::Observe {
        "observe".into()
    } else if guard.kernel_moves_levels {
        "observe: the mount option mba_MBps lets the kernel move the levels".into()
    } else if !throttles(info) {
        format!("observe: {NO_MBA}")
    } else if config.mba == MbaMode::Auto && config.capacity.reliable().is_none() {
        format!("observe: {NOT_MEASURED}; {MEASURE}")
    } else {
        return (true, "on".into());
    };
    (false, reason)
}

/// The words of [`mode`], or others where levels of MBA are absolute and nothing tells what they are
/// of the memory: they have no scale.
pub fn state(words: String, has_scale: bool) -> String {
    if has_scale {
        return words;
    }
    format!("observe: {NO_SCALE}; {MEASURE}")
}

/// What a user should know of the throttle of the machine whose `/` is `root`.
pub fn caveat(info: &Info, root: &Path) -> Option<String> {
    let shared = info.bandwidth.as_ref()?.thread_throttle_mode == ThrottleMode::Max;
    let siblings = fs::read_to_string(root.join("sys/devices/system/cpu/smt/active"));
    (shared && siblings.is_ok_and(|text| text.trim() == "1")).then(|| {
        "a throttled task slows what runs on the other thread of its core, too \
         (thread_throttle_mode is max); --mba off avoids that"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::{
        fake::{FakeKernel, Shape},
        info::Vendor,
    };

    use super::*;
    use crate::mba::actuator;

    /// A machine with resctrl, whose CPU has these flags.
    #[cfg(target_arch = "x86_64")]
    fn machine(flags: &str, mounts: &str) -> Detection {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        fs::create_dir(&proc).unwrap();
        let cpu = format!("vendor_id\t: GenuineIntel\nflags\t\t: fpu {flags}\n");
        for (file, text) in [
            ("cpuinfo", cpu.as_str()),
            ("filesystems", "nodev\tresctrl\n"),
            ("mounts", mounts),
        ] {
            fs::write(proc.join(file), text).unwrap();
        }
        Detection::new(root.path())
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn resctrl_is_mounted_by_default_only_where_the_loop_can_throttle() {
        let mounted = "resctrl /sys/fs/resctrl resctrl rw 0 0\n";
        for (flags, mounts, reliable, words) in [
            ("rdt_a mba", "", true, None),
            ("rdt_a mba", "", false, Some("scx_drfq calibrate")),
            ("rdt_a cqm_mbm_total", "", true, Some("no flag mba")),
            ("rdt_a cqm_mbm_total", "", false, Some("no flag mba")),
            ("rdt_a mba", mounted, false, None),
        ] {
            let reason = useless(&machine(flags, mounts), reliable);
            assert_eq!(reason.is_some(), words.is_some(), "{flags}: {reason:?}");
            let reason = reason.unwrap_or_default();
            assert!(reason.contains(words.unwrap_or_default()), "{reason}");
        }
    }

    #[test]
    fn levels_without_a_scale_are_not_called_on() {
        assert_eq!(state("on".into(), true), "on");
        let words = state("on".into(), false);
        assert!(words.starts_with("observe: levels"), "{words}");
        let info = Info::read(&FakeKernel::new(Shape::default()), Vendor::Amd).unwrap();
        assert!(actuator::curve(&info, None).is_none());
        assert!(actuator::curve(&info, Some(1e11)).is_some());
    }

    #[test]
    fn throttles_that_siblings_share_are_told_where_there_are_siblings() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/devices/system/cpu/smt");
        let mut info = Info::read(&FakeKernel::new(Shape::default()), Vendor::Intel).unwrap();
        assert_eq!(caveat(&info, root.path()), None);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("active"), "0\n").unwrap();
        assert_eq!(caveat(&info, root.path()), None);
        fs::write(dir.join("active"), "1\n").unwrap();
        let text = caveat(&info, root.path()).unwrap();
        assert!(text.contains("--mba off"), "{text}");
        info.bandwidth.as_mut().unwrap().thread_throttle_mode = ThrottleMode::PerThread;
        assert_eq!(caveat(&info, root.path()), None);
    }

    #[test]
    fn by_default_only_what_resctrl_lacks_is_no_warning() {
        let (auto, on) = (MbaMode::Auto, MbaMode::On);
        let kernel = FakeKernel::new(Shape::default());
        let mut info = Info::read(&kernel, Vendor::Intel).unwrap();
        assert_eq!(check(&info, auto), Ok(()));
        info.num_closids = 1;
        let warning = check(&info, auto).unwrap_err().warning(auto).unwrap();
        assert!(warning.contains("no class"), "{warning}");
        info.bandwidth = None;
        assert_eq!(check(&info, on), Ok(()));
        assert_eq!(check(&info, auto).unwrap_err().warning(auto), None);
        info.monitoring = None;
        assert_eq!(check(&info, auto).unwrap_err().warning(auto), None);
        let warning = check(&info, on).unwrap_err().warning(on).unwrap();
        assert!(warning.contains("counts no memory traffic"), "{warning}");
        let failed = Refused::from("cannot write the file".to_owned());
        let warning = failed.warning(auto).unwrap();
        assert!(warning.ends_with("not shared: cannot write the file"));
    }
}

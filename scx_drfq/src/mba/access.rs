// SPDX-License-Identifier: GPL-2.0-only
//! Whether the loop may use resctrl, and why not.

use drfq_resctrl::info::Info;

use super::guard::Guard;
use crate::{
    capacity::MEASURE,
    config::{Config, MbaMode},
};

const NO_MBM: &str = "resctrl counts no memory traffic here";
const NO_MBA: &str = "resctrl does not throttle memory traffic (MBA)";

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
        // The loop would take the best traffic so far for a full memory.
        format!("observe: when memory is full is not known; {MEASURE}")
    } else {
        return (true, "on".into());
    };
    (false, reason)
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::{
        fake::{FakeKernel, Shape},
        info::Vendor,
    };

    use super::*;

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

// SPDX-License-Identifier: GPL-2.0-only
//! m, the memory bandwidth that traffic is charged against, and where it comes from.

use std::{fmt, path::Path, str::FromStr};

use drfq_sense::dmi::DmiMemory;
use serde::{Serialize, Serializer};

use crate::{
    bandwidth::Bandwidth,
    calibration::{Calibration, Store},
};

/// The part of the peak that streams reach as a rule. STREAM reaches 0.75 to 0.85 of it on most
/// machines.
const REACHED: f64 = 0.8;

/// What to do where m is not known.
pub const MEASURE: &str = "`scx_drfq calibrate` measures it while scx_drfq is stopped";

/// What the user says about m.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// By the last calibration, else an estimate.
    Auto,
    /// Memory traffic is not charged.
    None,
    /// This.
    Given(Bandwidth),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            number => number.parse().map(Self::Given),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Given(bandwidth) => write!(f, "{}", bandwidth.bytes_per_s()),
        }
    }
}

impl Serialize for Wanted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// m and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Not known, or switched off; why, in a few words.
    Unknown(String),
    /// The user's.
    Given(Bandwidth),
    /// Measured here.
    Calibrated(Bandwidth, Calibration),
    /// Computed, from what this text says.
    Estimated(Bandwidth, String),
}

impl Capacity {
    /// What is known of the machine under `root`.
    pub fn find(wanted: Wanted, root: &Path) -> Self {
        match wanted {
            Wanted::None => Self::Unknown("--memory-bandwidth none".into()),
            Wanted::Given(bandwidth) => Self::Given(bandwidth),
            Wanted::Auto => match Store::new(root).read() {
                Ok(Some(calibration)) => match Bandwidth::new(calibration.bytes_per_s) {
                    Some(bandwidth) => Self::Calibrated(bandwidth, calibration),
                    None => estimate(root, "the calibration has no possible value; "),
                },
                Ok(None) => estimate(root, ""),
                Err(reason) => estimate(root, &format!("{reason}; ")),
            },
        }
    }

    /// m; none: memory traffic is not charged.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        match self {
            Self::Unknown(_) => None,
            Self::Given(m) | Self::Calibrated(m, _) | Self::Estimated(m, _) => Some(*m),
        }
    }

    /// The memory domains that m is divided among, where `present` are online. A calibration counts
    /// those that have gone offline since. Those that it could not measure share its m: together all
    /// never count as more.
    pub fn domains(&self, present: usize) -> usize {
        match self {
            Self::Calibrated(_, found) => found.domains.len().max(present),
            _ => present,
        }
    }

    /// m if it is more than an estimate.
    pub fn reliable(&self) -> Option<Bandwidth> {
        self.bandwidth()
            .filter(|_| !matches!(self, Self::Estimated(..)))
    }

    /// One line with an offer, if m was not measured.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Estimated(m, text) => Some(format!(
                "the memory bandwidth is an estimate, {m} ({text}); {MEASURE}"
            )),
            Self::Unknown(reason) if !reason.starts_with("--") => Some(format!(
                "the memory bandwidth is unknown ({reason}), so memory traffic is not charged; {MEASURE}"
            )),
            _ => None,
        }
    }
}

/// Such as `m = 20 GB/s`.
impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(_) => f.write_str("not charged, because m is unknown"),
            Self::Given(m) => write!(f, "m = {m}"),
            Self::Calibrated(m, calibration) => {
                write!(f, "m = {m}, measured on {}", calibration.date)
            }
            Self::Estimated(m, _) => write!(f, "m = {m}, an estimate"),
        }
    }
}

/// By what the firmware says. `before`: why there is nothing better.
fn estimate(root: &Path, before: &str) -> Capacity {
    let found = match DmiMemory::read(root) {
        Ok(found) => found,
        Err(reason) => return Capacity::Unknown(format!("{before}{reason}")),
    };
    let reached = found.peak_bytes_per_s as f64 * REACHED;
    match Bandwidth::new(reached as u64) {
        Some(bandwidth) => Capacity::Estimated(
            bandwidth,
            format!("{before}{:.0} % of {} by DMI", 100.0 * REACHED, found.text),
        ),
        None => Capacity::Unknown(format!("{before}the firmware tells no possible speed")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::calibration::DomainMeasured;

    /// One module of 64 bits at 2400 MT/s.
    fn dmi() -> Vec<u8> {
        let mut data = vec![0u8; 0x28];
        (data[0], data[1], data[0x12]) = (17, 0x28, 0x1a);
        data[0x0a..0x0c].copy_from_slice(&64u16.to_le_bytes());
        data[0x0c..0x0e].copy_from_slice(&8192u16.to_le_bytes());
        data[0x20..0x22].copy_from_slice(&2400u16.to_le_bytes());
        data.extend_from_slice(&[0, 0]);
        data
    }

    #[test]
    fn domains_that_no_calibration_measured_share_its_m() {
        let m = Bandwidth::new(1_000_000_000).unwrap();
        let domain = |domain| DomainMeasured {
            domain,
            read_bytes_per_s: 0,
            write_bytes_per_s: 0,
            copy_bytes_per_s: 0,
            latency_ns: 0.0,
            counted_by: String::new(),
            levels: Vec::new(),
        };
        let calibration = Calibration {
            machine: String::new(),
            kernel: String::new(),
            version: String::new(),
            date: String::new(),
            bytes_per_s: m.bytes_per_s(),
            domains: vec![domain(0), domain(1)],
        };
        let calibrated = Capacity::Calibrated(m, calibration);
        assert_eq!(calibrated.domains(3), 3);
        // One has gone offline since.
        assert_eq!(calibrated.domains(1), 2);
        assert_eq!(Capacity::Given(m).domains(2), 2);
    }

    #[test]
    fn what_the_user_gives_wins() {
        let nowhere = Path::new("/nonexistent");
        let given = Capacity::find("2G".parse().unwrap(), nowhere);
        assert_eq!(given.bandwidth().unwrap().bytes_per_s(), 2_000_000_000);
        assert_eq!(
            (given.reliable(), given.advice()),
            (given.bandwidth(), None)
        );
        let none = Capacity::find(Wanted::None, nowhere);
        assert_eq!((none.bandwidth(), none.advice()), (None, None));
    }

    #[test]
    fn without_a_calibration_m_is_estimated_and_says_so() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/firmware/dmi/tables");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("DMI"), dmi()).unwrap();
        let found = Capacity::find(Wanted::Auto, root.path());
        assert_eq!(found.bandwidth().unwrap().bytes_per_s(), 15_360_000_000);
        assert_eq!(found.reliable(), None);
        let advice = found.advice().unwrap();
        assert!(
            advice.contains("DDR4-2400") && advice.contains("calibrate"),
            "{advice}"
        );
    }

    #[test]
    fn without_any_source_nothing_is_charged_and_one_line_says_why() {
        let found = Capacity::find(Wanted::Auto, Path::new("/nonexistent"));
        assert_eq!(found.bandwidth(), None);
        let advice = found.advice().unwrap();
        assert!(
            advice.contains("not charged") && !advice.contains('\n'),
            "{advice}"
        );
    }

    #[test]
    fn a_wish_is_read_as_it_is_written() {
        for text in ["auto", "none", "20000000000"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        assert!("some".parse::<Wanted>().is_err());
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Names of memory controllers: `mmio:PATH`, `mmio:auto` or `unix:PATH`.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Serialize, Serializer};

/// The longest path of a Unix socket (sun_path without its terminator).
const SOCKET_PATH_MAX: usize = 107;

/// Where a controller is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Memory-mapped registers: a PCI resource file or a UIO device.
    Mmio(PathBuf),
    /// Memory-mapped registers of a PCI device that is searched for.
    MmioAuto,
    /// The Unix socket of a server of the protocol (gem5-backend/PROTOCOL.md).
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "expected mmio:PATH, mmio:auto or unix:PATH";
        match text.split_once(':').ok_or(form)? {
            ("mmio", "auto") => Ok(Self::MmioAuto),
            (_, "") => Err("the path is missing after the colon".into()),
            ("mmio", path) => Ok(Self::Mmio(path.into())),
            ("unix", path) if path.len() > SOCKET_PATH_MAX => Err(format!(
                "the path of a socket has at most {SOCKET_PATH_MAX} bytes"
            )),
            ("unix", path) => Ok(Self::Unix(path.into())),
            _ => Err(form.into()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mmio(path) => write!(f, "mmio:{}", path.display()),
            Self::MmioAuto => f.write_str("mmio:auto"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_as_it_was_written() {
        for text in [
            "mmio:auto",
            "mmio:/dev/uio0",
            "mmio:/sys/bus/pci/devices/0000:00:04.0/resource2",
            "unix:/run/drfq-mc",
            "unix:relative:with:colons",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("unix:{}", "x".repeat(108));
        for text in [
            "",
            "auto",
            "mmio",
            "mmio:",
            "unix:",
            "tcp:1",
            "/dev/uio0",
            &long,
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}

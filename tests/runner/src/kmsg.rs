// SPDX-License-Identifier: GPL-2.0-only
//! Messages of the kernel's log since a given time.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// A reader of /dev/kmsg that starts at the end.
pub struct Kmsg {
    device: File,
}

/// Text of messages that fail a test.
const BAD: [&str; 10] = [
    "runtime error",
    "runnable task stall",
    "watchdog failed",
    "exceeded dispatch timeout",
    "WARNING:",
    "BUG:",
    "Oops:",
    "soft lockup",
    "detected stalls",
    "self-detected stall",
];

impl Kmsg {
    /// Starts after the newest message.
    pub fn from_now() -> Result<Self> {
        let mut device = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("cannot read the kernel's log: run as root")?;
        device
            .seek(SeekFrom::End(0))
            .context("cannot read the kernel's log")?;
        Ok(Self { device })
    }

    /// Messages since the last call that fail a test.
    pub fn trouble(&mut self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut record = [0_u8; 8192];
        loop {
            match self.device.read(&mut record) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    let message = text.split_once(';').map_or("", |(_, m)| m);
                    let line = message.lines().next().unwrap_or("");
                    if BAD.iter().any(|bad| line.contains(bad)) {
                        found.push(line.to_string());
                    }
                }
                // EPIPE: records were overwritten before they were read. They may have told of trouble.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    found.push("the kernel's log was overwritten".into());
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(found),
                Err(e) => return Err(e).context("cannot read the kernel's log"),
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The accounts of tasks between two loads of the scheduler. Without them, taking a CPU offline
//! or installing a new version would forgive every debt.
//!
//! They are BPF task storage, which lives as long as its map does. The agent keeps the map while
//! it loads the scheduler again after hotplug. Over `systemctl restart`, systemd keeps it: the
//! service's store of file descriptors (`sd_pid_notify_with_fds(3)`). The descriptor's name there
//! has V, B and the layout of an account.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
};

use anyhow::{Context, Result};
use sd_notify::NotifyState;

/// What begins the name of the descriptor.
const PREFIX: &str = "accounts";

/// Identifies the layout of an account: the texts of the headers that define it.
const LAYOUT: u64 = fnv1a(
    include_bytes!("../../bpf/account.bpf.h"),
    fnv1a(include_bytes!("../../bpf/drfq.h"), 0xcbf2_9ce4_8422_2325),
);

/// FNV-1a (Fowler, Noll, Vo), 64 bits, of `bytes` after what gave `hash`.
const fn fnv1a(bytes: &[u8], mut hash: u64) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// The system virtual times, to which the accounts refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemTimes {
    /// V, ns of virtual time.
    pub vtime_ns: u64,
    /// B, ns of virtual time.
    pub bus_vtime_ns: u64,
}

impl SystemTimes {
    fn name(self) -> String {
        let Self {
            vtime_ns,
            bus_vtime_ns,
        } = self;
        format!("{PREFIX}-{LAYOUT:x}-{vtime_ns:x}-{bus_vtime_ns:x}")
    }

    /// The times in a name; none if it is of something else, or of another version's accounts.
    fn of_name(name: &str) -> Option<Self> {
        let numbers = name.strip_prefix(PREFIX)?.strip_prefix('-')?;
        let numbers = numbers.split('-').map(|text| u64::from_str_radix(text, 16));
        match numbers.collect::<Result<Vec<_>, _>>().ok()?[..] {
            [LAYOUT, vtime_ns, bus_vtime_ns] => Some(Self {
                vtime_ns,
                bus_vtime_ns,
            }),
            _ => None,
        }
    }
}

/// The accounts that a load of the scheduler has left.
#[derive(Debug)]
pub struct Accounts {
    map: OwnedFd,
    /// The system times as it ended.
    pub times: SystemTimes,
}

impl Accounts {
    /// The accounts in `map`.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new(map: BorrowedFd, times: SystemTimes) -> io::Result<Self> {
        let map = map.try_clone_to_owned()?;
        Ok(Self { map, times })
    }

    /// What the service's store holds; none without a store. Accounts are then taken out of it.
    ///
    /// # Errors
    /// The environment contradicts itself, or systemd does not answer.
    pub fn from_store() -> Result<Option<Self>> {
        let context = "cannot use the accounts that systemd kept";
        let mut found = None;
        for (fd, name) in sd_notify::listen_fds_with_names().context(context)? {
            // SAFETY: systemd passed it to this process, and this is called once.
            let map = unsafe { OwnedFd::from_raw_fd(fd) };
            if !name.starts_with(PREFIX) {
                continue;
            }
            sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)])
                .context(context)?;
            found = found.or(SystemTimes::of_name(&name).map(|times| Self { map, times }));
        }
        Ok(found)
    }

    /// Puts them into the service's store. Nothing is done without one.
    ///
    /// # Errors
    /// systemd does not answer.
    pub fn store(&self) -> Result<()> {
        let name = self.times.name();
        sd_notify::notify_with_fds(&storing(&name), &[self.map.as_fd()])
            .context("cannot leave the accounts of tasks to systemd")
    }

    /// The map, for the next load.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// What systemd is told of the descriptor. It would drop one that reports an error when it is
/// polled, as every map of this kind does (from systemd 246 on).
fn storing(name: &str) -> [NotifyState<'_>; 3] {
    [
        NotifyState::FdStore,
        NotifyState::FdName(name),
        NotifyState::Custom("FDPOLL=0"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SystemTimes = SystemTimes {
        vtime_ns: 1 << 40,
        bus_vtime_ns: u64::MAX,
    };

    #[test]
    fn a_name_has_the_times() {
        let name = TIMES.name();
        assert_eq!(SystemTimes::of_name(&name), Some(TIMES));
        // systemd takes at most 255 characters, and no colon (sd_pid_notify_with_fds(3)).
        assert!(name.len() <= 255 && !name.contains(':'), "{name}");
    }

    #[test]
    fn systemd_does_not_poll_the_map() {
        let told = storing("name").map(|state| state.to_string());
        assert_eq!(told, ["FDSTORE=1", "FDNAME=name", "FDPOLL=0"]);
    }

    #[test]
    fn accounts_of_another_layout_are_left_alone() {
        let other = TIMES.name().replace(&format!("{LAYOUT:x}"), "1");
        for name in [
            &other,
            "stored",
            "accounts",
            "accounts-",
            "accounts-1-2",
            "",
        ] {
            assert_eq!(SystemTimes::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_layout_depends_on_every_byte() {
        assert_ne!(fnv1a(b"ab", 0), fnv1a(b"ba", 0));
        // The test vector of the authors for "foobar".
        assert_eq!(
            fnv1a(b"foobar", 0xcbf2_9ce4_8422_2325),
            0x8594_4171_f739_67e8
        );
    }
}

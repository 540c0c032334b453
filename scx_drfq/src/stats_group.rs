// SPDX-License-Identifier: GPL-2.0-only
//! The group of users who may read statistics beside the agent's own user.

use std::{
    fs::{Permissions, set_permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    str::FromStr,
};

use anyhow::{Context, Result, bail};
use caps::{CapSet, Capability};
use nix::unistd::{Gid, Group, chown, getegid, getgroups};

/// A group of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsGroup(Gid);

impl FromStr for StatsGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self(Gid::from_raw(number)));
        }
        match Group::from_name(text) {
            Ok(Some(group)) => Ok(Self(group.gid)),
            Ok(None) => Err("there is no such group; `getent group` lists them".into()),
            Err(error) => Err(format!("cannot look up the group: {error}")),
        }
    }
}

impl StatsGroup {
    /// Its number.
    pub fn id(self) -> Gid {
        self.0
    }

    /// Whether a process may give its files to the group: a member may, and so may one that
    /// can become a member.
    ///
    /// # Errors
    /// This process may not.
    pub fn check(self) -> Result<()> {
        let groups = getgroups().context("cannot read the groups of this process")?;
        let joins = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETGID);
        if self.0 == getegid()
            || groups.contains(&self.0)
            || joins.context("cannot read capabilities")?
        {
            return Ok(());
        }
        bail!(
            "--stats-group needs root or a member of group {}: this process lacks CAP_SETGID",
            self.0
        )
    }

    /// Lets members connect to the socket at `path`. The caller must own it and be a member.
    ///
    /// # Errors
    /// The socket's group or its mode cannot be changed.
    pub fn admit(self, path: &Path) -> Result<()> {
        chown(path, None, Some(self.0))
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(set_permissions(path, Permissions::from_mode(0o660))?))
            .with_context(|| format!("group {} cannot read statistics", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{fs::MetadataExt, net::UnixListener},
    };

    #[test]
    fn a_group_is_a_name_or_a_number() {
        assert_eq!("0".parse(), Ok(StatsGroup(Gid::from_raw(0))));
        assert_eq!("root".parse(), Ok(StatsGroup(Gid::from_raw(0))));
        for text in ["", "-1", "4294967296", "no-such-group"] {
            assert!(text.parse::<StatsGroup>().is_err(), "{text}");
        }
    }

    #[test]
    fn members_may_connect_and_others_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let _listener = UnixListener::bind(&path).unwrap();
        let own = StatsGroup(getegid());
        own.check().unwrap();
        own.admit(&path).unwrap();
        let socket = fs::metadata(&path).unwrap();
        assert_eq!(
            (socket.mode() & 0o777, socket.gid()),
            (0o660, own.0.as_raw())
        );
    }

    #[test]
    fn a_socket_that_is_gone_is_a_reason() {
        let error = StatsGroup(getegid()).admit(Path::new("/nowhere/stats"));
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains("cannot read statistics: "), "{error}");
    }
}

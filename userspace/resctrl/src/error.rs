// SPDX-License-Identifier: GPL-2.0-only
//! What resctrl refused, why, and what to do.

use std::{fmt, io};

/// The kind of a failure, by which a caller decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No class (CLOSID) or monitoring id (RMID) is free, or no counter (ABMC).
    NoIds,
    /// All free RMIDs still own cache lines. They become usable within seconds.
    Limbo,
    /// The group vanished: another program removed it.
    Gone,
    /// resctrl was unmounted.
    Unmounted,
    /// A group of that name exists.
    Exists,
    /// The group is not one of ours, and so it is not touched.
    Foreign,
    /// The task has ended.
    NoTask,
    /// This user may not write, or the file system is read-only.
    NotPermitted,
    /// The kernel does not accept the value.
    Refused,
    /// Anything else.
    Other,
}

/// A failed operation.
#[derive(Debug)]
pub struct Error {
    /// What kind of failure.
    pub kind: Kind,
    /// What was tried, for example "make the group drfq_1".
    what: String,
    /// The system call's error.
    source: Option<io::Error>,
    /// `info/last_cmd_status`. It is one for all programs, so it may tell of another one.
    status: String,
}

impl Error {
    /// A failure of a system call. `mounted`: whether resctrl is still there; `status`:
    /// the content of `info/last_cmd_status`.
    pub(crate) fn new(
        what: impl Into<String>,
        source: io::Error,
        mounted: bool,
        status: &str,
    ) -> Self {
        let kind = if mounted {
            Kind::of(&source)
        } else {
            Kind::Unmounted
        };
        let status = status.trim();
        Self {
            kind,
            what: what.into(),
            source: Some(source),
            status: if status == "ok" { "" } else { status }.to_owned(),
        }
    }

    /// A failure that no system call reported.
    pub(crate) fn own(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            source: None,
            status: String::new(),
        }
    }
}

impl Kind {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC) => Self::NoIds,
            Some(libc::EBUSY) => Self::Limbo,
            Some(libc::ENOENT | libc::ENODEV) => Self::Gone,
            Some(libc::EEXIST) => Self::Exists,
            Some(libc::ESRCH) => Self::NoTask,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::NotPermitted,
            Some(libc::EINVAL) => Self::Refused,
            _ => Self::Other,
        }
    }

    /// What a user can do.
    const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::NoIds => "remove groups that other programs no longer use, from /sys/fs/resctrl",
            Self::Limbo => {
                "wait some seconds, until the cache has dropped what the last groups left"
            }
            Self::Unmounted => "mount it again with: mount -t resctrl resctrl /sys/fs/resctrl",
            Self::NotPermitted => "run as root, with resctrl mounted read-write",
            Self::Foreign => "choose another group",
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.what)?;
        match (self.kind, &self.source) {
            (Kind::Unmounted, _) => write!(f, ": resctrl is no longer mounted")?,
            (_, Some(source)) => write!(f, ": {source}")?,
            (Kind::Foreign, None) => write!(f, ": it belongs to another program")?,
            (_, None) => {}
        }
        if !self.status.is_empty() {
            write!(f, " (resctrl says: {})", self.status)?;
        }
        if let Some(advice) = self.kind.advice() {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// The result of an operation on resctrl.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_kernel_has_its_kind() {
        for (number, kind) in [
            (libc::ENOSPC, Kind::NoIds),
            (libc::EBUSY, Kind::Limbo),
            (libc::ENOENT, Kind::Gone),
            (libc::ENODEV, Kind::Gone),
            (libc::EEXIST, Kind::Exists),
            (libc::ESRCH, Kind::NoTask),
            (libc::EPERM, Kind::NotPermitted),
            (libc::EROFS, Kind::NotPermitted),
            (libc::EINVAL, Kind::Refused),
            (libc::EIO, Kind::Other),
        ] {
            let source = || io::Error::from_raw_os_error(number);
            assert_eq!(
                Error::new("x", source(), true, "ok\n").kind,
                kind,
                "{}",
                source()
            );
            assert_eq!(Error::new("x", source(), false, "").kind, Kind::Unmounted);
        }
    }

    #[test]
    fn a_message_says_what_why_and_what_to_do() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::new("make the group drfq_1", source, true, "Out of CLOSIDs\n");
        let text = error.to_string();
        for part in [
            "make the group drfq_1",
            "No space",
            "Out of CLOSIDs",
            "remove groups",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let gone = Error::new("read x", io::ErrorKind::NotFound.into(), false, "");
        assert!(gone.to_string().contains("no longer mounted"), "{gone}");
        let foreign = Error::own(Kind::Foreign, "remove the group other");
        assert!(foreign.to_string().contains("another program"), "{foreign}");
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The limit of open files. Each CPU has up to two counters, and the usual limit is 1024.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of this process as far as any process may. A limit that stays shows when a
/// counter cannot be opened.
pub fn raise_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_soft_limit_becomes_the_hard_one() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard - 1, hard).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((hard, hard)));
    }
}

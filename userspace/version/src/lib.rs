// SPDX-License-Identifier: GPL-2.0-only
//! Which version of the project this is.

/// Version of the project and the commit that it was built from, where git
/// knows it: `0.1.0-g0123456789ab`. `-dirty` follows if the sources of the
/// command were changed since that commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("DRFQ_GIT_SUFFIX"));

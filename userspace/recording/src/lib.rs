// SPDX-License-Identifier: GPL-2.0-only
//! Recordings: a file of snapshots that is only appended to.
//!
//! The file begins with `MAGIC`. Frames follow, each with its length and a checksum.
//! A frame holds a snapshot, or what differs from the frame before it. So a file that
//! ends anywhere can be read up to there. docs/reference/recordings.md has the format.

use std::io::{self, Read};

pub mod delta;
pub mod frame;
pub mod reader;
mod value;
pub mod writer;

/// The first bytes of a recording; the last one is the version of the format.
pub const MAGIC: [u8; 8] = *b"DRFQREC\x01";

/// Frames from one that holds a whole snapshot to the next.
pub const KEY_INTERVAL: u32 = 60;

/// A snapshot has the heaviest tasks, at most so many: more would not fit into a frame.
pub const TASKS_MAX: usize = 25_000;

/// Reads up to as many bytes as `MAGIC` has; fewer where the file ends.
fn read_magic(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::new();
    input.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic)
}

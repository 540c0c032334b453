// SPDX-License-Identifier: GPL-2.0-only
//! Frames of a recording: a head of 21 bytes, then the compressed text.

use std::io::{self, ErrorKind, Read, Write};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde_json::Value;

/// Length of a head (bytes).
pub const HEAD_BYTES: usize = 21;

/// The longest frame (bytes).
pub const BYTES_MAX: u64 = HEAD_BYTES as u64 + PACKED_MAX as u64;

/// A frame begins with it.
pub const MARK: [u8; 4] = *b"SNAP";

/// The longest compressed text, and the longest text (bytes). 5,000 tasks need some 5 MB.
const PACKED_MAX: u32 = 64 << 20;
const TEXT_MAX: u64 = 32 << 20;

const TOO_LARGE: &str = "a snapshot is too large for a recording";

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole snapshot.
    Key,
    /// What differs from the frame before it.
    Difference,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What follows.
    pub kind: Kind,
    /// When the snapshot's interval ended (ns since 1970).
    pub at_unix_ns: u64,
    /// Length of the compressed text (bytes).
    packed: u32,
    checksum: u32,
}

impl Head {
    /// Length of the frame (bytes).
    pub fn bytes(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.packed)
    }
}

/// A frame as bytes.
///
/// # Errors
/// The text is too long.
pub fn encode(kind: Kind, at_unix_ns: u64, value: &Value) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(vec![0; HEAD_BYTES], Compression::default());
    let text = serde_json::to_vec(value)?;
    ensure!(text.len() as u64 <= TEXT_MAX, "{TOO_LARGE}");
    // In one piece: each write to the encoder clears the room that it has for output.
    encoder.write_all(&text)?;
    let mut frame = encoder.finish()?;
    let packed = u32::try_from(frame.len() - HEAD_BYTES).ok();
    let packed = packed.filter(|&packed| packed <= PACKED_MAX);
    let packed = packed.context(TOO_LARGE)?;
    frame[8] = match kind {
        Kind::Key => 0,
        Kind::Difference => 1,
    };
    frame[9..17].copy_from_slice(&at_unix_ns.to_le_bytes());
    frame[17..21].copy_from_slice(&packed.to_le_bytes());
    let checksum = crc32fast::hash(&frame[8..]);
    frame[0..4].copy_from_slice(&MARK);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    Ok(frame)
}

/// Reads the next frame; none if the recording ends here, be it in the middle of one.
///
/// # Errors
/// The input cannot be read.
pub fn read(input: &mut impl Read) -> io::Result<Option<(Head, Vec<u8>)>> {
    let mut head = [0; HEAD_BYTES];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let word = |at: usize| {
        head[at..]
            .first_chunk()
            .map_or(0, |b| u32::from_le_bytes(*b))
    };
    let time = head[9..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b));
    let kind = match head[8] {
        0 => Kind::Key,
        1 => Kind::Difference,
        _ => return Ok(None),
    };
    let packed = word(17);
    if !head.starts_with(&MARK) || packed > PACKED_MAX {
        return Ok(None);
    }
    let mut text = Vec::new();
    input.take(packed.into()).read_to_end(&mut text)?;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head[8..]);
    checksum.update(&text);
    if text.len() as u64 != u64::from(packed) || checksum.finalize() != word(4) {
        return Ok(None);
    }
    let head = Head {
        kind,
        at_unix_ns: time,
        packed,
        checksum: word(4),
    };
    Ok(Some((head, text)))
}

/// The value that a compressed text holds.
///
/// # Errors
/// It is no JSON, or too long.
pub fn unpack(packed: &[u8]) -> Result<Value> {
    let mut text = Vec::new();
    let mut decoder = DeflateDecoder::new(packed).take(TEXT_MAX + 1);
    decoder
        .read_to_end(&mut text)
        .context("cannot decompress")?;
    ensure!(text.len() as u64 <= TEXT_MAX, "{TOO_LARGE}");
    Ok(serde_json::from_slice(&text)?)
}

/// Writes a frame again as it was read.
///
/// # Errors
/// The output cannot be written.
pub fn copy(head: &Head, packed: &[u8], output: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; HEAD_BYTES];
    bytes[0..4].copy_from_slice(&MARK);
    bytes[4..8].copy_from_slice(&head.checksum.to_le_bytes());
    bytes[8] = (head.kind == Kind::Difference).into();
    bytes[9..17].copy_from_slice(&head.at_unix_ns.to_le_bytes());
    bytes[17..21].copy_from_slice(&head.packed.to_le_bytes());
    output.write_all(&bytes)?;
    output.write_all(packed)
}

// SPDX-License-Identifier: GPL-2.0-only
//! The reader of recordings.

use std::path::Path;

use drfq_recording::{
    MAGIC,
    frame::{self, Kind},
    reader::{Reader, Replay},
};
use drfq_view::{snapshot::Snapshot, source::Source};
use serde_json::Value;

use crate::temporary;

/// A recording is read up to where it is cut or spoiled, and a replay goes to any time of it.
pub fn check(data: &[u8]) {
    let Some((&how, data)) = data.split_first() else {
        return;
    };
    // Without right checksums the reader would see little of its input.
    let body = match how % 2 {
        0 => data.to_vec(),
        _ => frames(data),
    };
    let bytes = [MAGIC.as_slice(), &body].concat();
    let directory = temporary::directory();
    let whole = read(&temporary::write(&directory, "whole", &bytes));
    let cut = usize::from(how) * bytes.len() / 256;
    let part = read(&temporary::write(&directory, "part", &bytes[..cut]));
    assert!(
        whole.starts_with(&part),
        "{} of {}",
        part.len(),
        whole.len()
    );
    replay(&directory.path().join("whole"), u64::from(how));
}

/// Frames of texts, which NUL bytes separate. The first is whole, the others are differences.
fn frames(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, text) in data.split(|&byte| byte == 0).enumerate() {
        let kind = if at == 0 { Kind::Key } else { Kind::Difference };
        let value = serde_json::from_slice(text).unwrap_or(Value::Null);
        bytes.extend(frame::encode(kind, at as u64, &value).expect("a frame"));
    }
    bytes
}

/// The snapshots up to the first that cannot be read.
fn read(path: &Path) -> Vec<Snapshot> {
    let Ok(mut reader) = Reader::open(path) else {
        return Vec::new();
    };
    std::iter::from_fn(|| reader.read_next().ok().flatten()).collect()
}

fn replay(path: &Path, at_unix_ns: u64) {
    let Ok(mut replay) = Reader::open(path).and_then(Replay::new) else {
        return;
    };
    for at in [at_unix_ns, u64::MAX, 0] {
        if replay.seek(at).is_ok() {
            let _ = replay.poll();
        }
    }
    let _ = (replay.wait(), replay.over(), replay.span());
}

// SPDX-License-Identifier: GPL-2.0-only
//! Writes a recording.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Error, Result, anyhow, bail};
use drfq_view::snapshot::Snapshot;
use serde_json::Value;

use crate::{
    KEY_INTERVAL, MAGIC, delta,
    frame::{self, Kind},
    read_magic, value,
};

/// The permissions of a new file.
const MODE: u32 = 0o600;

/// How long after a failure the file is shrunk again (ns between snapshots). To shrink it reads and
/// writes all of it, which the next snapshot would repeat on a full disk.
const PAUSE_NS: u64 = 60_000_000_000;

/// A recording that grows.
pub struct Writer {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    /// The last snapshot, and the frames since the last whole one.
    prev: Option<(Value, u32)>,
    /// The snapshot (ns since 1970) for which no room could be made, and why.
    failed: Option<(u64, String)>,
}

impl Writer {
    /// Creates a recording, or continues one. What a crash left at its end in part is
    /// removed. The file stays below `bytes_max`. A new one is its owner's alone, as it names
    /// the processes of all users.
    ///
    /// # Errors
    /// The file cannot be written, or it is another kind of file.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Self> {
        let unwritable = || format!("cannot write the recording {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .open(path)
            .with_context(unwritable)?;
        // Two programs that append would spoil the file.
        if file.try_lock().is_err() {
            bail!(
                "{} is being written by another scx_drfq record; choose another file",
                path.display()
            );
        }
        let bytes = match whole_bytes(&mut file).with_context(unwritable)? {
            Some(bytes) => bytes,
            None => bail!(
                "{} is no recording and stays as it is; choose another file",
                path.display()
            ),
        };
        // A crash cuts one frame. What is behind a spoiled frame is no crash's.
        if has_frame_beyond(&mut file, bytes).with_context(unwritable)? {
            bail!(
                "{} is damaged after {bytes} bytes and stays as it is; choose another file",
                path.display()
            );
        }
        file.set_len(bytes).with_context(unwritable)?;
        file.seek(SeekFrom::End(0)).with_context(unwritable)?;
        let mut writer = Self {
            // Of the file itself: renaming onto a link would replace the link.
            path: path.canonicalize().with_context(unwritable)?,
            file,
            bytes,
            bytes_max,
            prev: None,
            failed: None,
        };
        if bytes == 0 {
            writer.write(&MAGIC).with_context(unwritable)?;
        }
        Ok(writer)
    }

    /// Appends a snapshot.
    ///
    /// # Errors
    /// The file cannot be written. What was written before remains readable, and a later
    /// snapshot may succeed.
    pub fn append(&mut self, snapshot: &Snapshot) -> Result<()> {
        let value = value::from_snapshot(snapshot)?;
        let (kind, change, since_key) = match self.prev.take() {
            Some((prev, since)) if since + 1 < KEY_INTERVAL => {
                let change = delta::difference(&prev, &value);
                let change = change.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
                (Kind::Difference, change, since + 1)
            }
            _ => (Kind::Key, value.clone(), 0),
        };
        let mut frame = frame::encode(kind, snapshot.at_unix_ns, &change)?;
        let mut since_key = since_key;
        if self.bytes + frame.len() as u64 > self.bytes_max {
            // What follows must not depend on a frame that went.
            frame = frame::encode(Kind::Key, snapshot.at_unix_ns, &value)?;
            since_key = 0;
            self.make_room(frame.len() as u64, snapshot.at_unix_ns)?;
        }
        self.write(&frame)
            .with_context(|| format!("cannot write the recording {}", self.path.display()))?;
        if since_key == 0 {
            // Once a minute, so that a power cut costs little more than that.
            let _ = self.file.sync_data();
        }
        self.prev = Some((value, since_key));
        Ok(())
    }

    /// Length of the file (bytes).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all or nothing.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // What was written in part would hide what follows.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::End(0));
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes room for a frame of `bytes` bytes, unless that has just failed.
    fn make_room(&mut self, bytes: u64, at_unix_ns: u64) -> Result<()> {
        if let Some((failed, reason)) = &self.failed
            && let Some(since) = at_unix_ns.checked_sub(*failed)
            && since < PAUSE_NS
        {
            bail!("{reason}");
        }
        let mut result = self.shrink();
        if result.is_ok() && self.bytes + bytes > self.bytes_max {
            result = Err(anyhow!(
                "a snapshot of {bytes} bytes does not fit; choose a larger --max-size"
            ));
        }
        let reason = |error: &Error| (at_unix_ns, format!("{error:#}"));
        self.failed = result.as_ref().err().map(reason);
        result
    }

    /// Makes room: of the older half only whole snapshots stay, one a minute. If the file
    /// then still has more than three quarters of its room, the oldest go.
    fn shrink(&mut self) -> Result<()> {
        let mut new_path = self.path.clone().into_os_string();
        new_path.push(".shrinking");
        let new_path = PathBuf::from(new_path);
        // One that a crash has left.
        let _ = fs::remove_file(&new_path);
        let result = self.shrink_into(&new_path);
        if result.is_err() {
            let _ = fs::remove_file(&new_path);
        }
        result.with_context(|| format!("cannot shrink the recording {}", self.path.display()))
    }

    fn shrink_into(&mut self, new_path: &Path) -> Result<()> {
        let half = self.bytes / 2;
        let keeps = |kind, at: u64| kind == Kind::Key || at >= half;
        let mut kept = 0;
        let mut at = MAGIC.len() as u64;
        let mut old = BufReader::new(File::open(&self.path)?);
        old.seek(SeekFrom::Start(at))?;
        while let Some((head, _)) = frame::read(&mut old)? {
            kept += if keeps(head.kind, at) {
                head.bytes()
            } else {
                0
            };
            at += head.bytes();
        }
        let mut drop = (kept + MAGIC.len() as u64).saturating_sub(self.bytes_max / 4 * 3);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE);
        let file = options.open(new_path)?;
        file.set_permissions(self.file.metadata()?.permissions())?;
        let mut new = BufWriter::new(file);
        new.write_all(&MAGIC)?;
        let (mut at, mut bytes) = (MAGIC.len() as u64, MAGIC.len() as u64);
        let mut whole = false;
        old.seek(SeekFrom::Start(at))?;
        while let Some((head, packed)) = frame::read(&mut old)? {
            let wanted = keeps(head.kind, at);
            at += head.bytes();
            if !wanted {
                whole = false;
            } else if drop > 0 {
                drop = drop.saturating_sub(head.bytes());
                whole = false;
            } else if head.kind == Kind::Key || whole {
                // A difference counts only behind the frame that it follows.
                whole = true;
                frame::copy(&head, &packed, &mut new)?;
                bytes += head.bytes();
            }
        }
        let file = new.into_inner().map_err(|error| error.into_error())?;
        file.sync_data()?;
        let _ = file.try_lock();
        fs::rename(new_path, &self.path)?;
        self.file = file;
        self.bytes = bytes;
        self.prev = None;
        Ok(())
    }
}

/// Whether a whole frame begins behind the readable part.
fn has_frame_beyond(file: &mut File, bytes: u64) -> std::io::Result<bool> {
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(bytes))?;
    file.take(2 * frame::BYTES_MAX).read_to_end(&mut rest)?;
    let begins = |at: &usize| rest[*at..].starts_with(&frame::MARK);
    let found = (1..rest.len()).filter(begins);
    // A frame has such bytes inside by chance alone. A file full of them is no recording.
    for at in found.take(16) {
        if frame::read(&mut &rest[at..])?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The length of the readable part of a recording; none if the file is another kind.
fn whole_bytes(file: &mut File) -> std::io::Result<Option<u64>> {
    let mut input = BufReader::new(file);
    let magic = read_magic(&mut input)?;
    if magic != MAGIC {
        // A crash may have cut the magic itself.
        return Ok(MAGIC.starts_with(&magic).then_some(0));
    }
    let mut bytes = MAGIC.len() as u64;
    while let Some((head, _)) = frame::read(&mut input)? {
        bytes += head.bytes();
    }
    Ok(Some(bytes))
}

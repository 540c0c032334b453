// SPDX-License-Identifier: GPL-2.0-only
//! Reads a recording.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use drfq_view::{snapshot::Snapshot, source::Source};
use serde_json::Value;

use crate::{
    MAGIC, delta,
    frame::{self, Kind},
    read_magic, value,
};

/// The snapshots of a recording.
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    frames: Vec<Entry>,
    /// The next frame.
    next: usize,
    /// The value of the frame before it.
    value: Option<Value>,
    /// Bytes at the end that cannot be read.
    lost: u64,
}

/// Where a frame is.
#[derive(Clone, Copy)]
struct Entry {
    at_unix_ns: u64,
    offset: u64,
    kind: Kind,
}

impl Reader {
    /// Opens a recording and finds its frames. One that ends in the middle of a frame is
    /// read up to there.
    ///
    /// # Errors
    /// The file cannot be read, is another kind of file, or holds nothing.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let length = file.metadata()?.len();
        let mut input = BufReader::new(file);
        let magic = read_magic(&mut input)?;
        ensure!(
            magic == MAGIC,
            "{name} is no recording of this version; scx_drfq record FILE makes one"
        );
        let mut offset = MAGIC.len() as u64;
        let mut frames = Vec::new();
        let mut readable = false;
        while let Some((head, _)) = frame::read(&mut input)? {
            // A difference without the frame before it says nothing.
            readable |= head.kind == Kind::Key;
            if readable {
                frames.push(Entry {
                    at_unix_ns: head.at_unix_ns,
                    offset,
                    kind: head.kind,
                });
            }
            offset += head.bytes();
        }
        ensure!(
            !frames.is_empty(),
            "{name} holds no snapshot; scx_drfq record writes one a second while the scheduler runs"
        );
        Ok(Self {
            path: path.to_owned(),
            input,
            frames,
            next: 0,
            value: None,
            lost: length.saturating_sub(offset),
        })
    }

    /// Bytes at the end that cannot be read, because a crash cut or spoiled them.
    pub fn lost_bytes(&self) -> u64 {
        self.lost
    }

    /// The earliest and the latest time of a snapshot (ns since 1970). The clock may have been set
    /// back in between.
    pub fn times(&self) -> (u64, u64) {
        let times = || self.frames.iter().map(|entry| entry.at_unix_ns);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// The next snapshot; none after the last.
    ///
    /// # Errors
    /// The file cannot be read, or it has changed.
    pub fn read_next(&mut self) -> Result<Option<Snapshot>> {
        if self.next >= self.frames.len() {
            return Ok(None);
        }
        let value = self.step()?;
        Ok(Some(value::to_snapshot(value)?))
    }

    /// Continues at the last snapshot that ended at or before this time (ns since 1970),
    /// or at the first.
    ///
    /// # Errors
    /// The file cannot be read, or it has changed.
    pub fn seek_to(&mut self, at_unix_ns: u64) -> Result<()> {
        let before = |entry: &Entry| entry.at_unix_ns <= at_unix_ns;
        // The clock may have been set back in the recording, so that times are not sorted.
        let wanted = self.frames.iter().rposition(before).unwrap_or(0);
        let key = self.frames[..=wanted]
            .iter()
            .rposition(|entry| entry.kind == Kind::Key);
        self.next = key.context("no whole snapshot before it")?;
        self.value = None;
        while self.next < wanted {
            self.step()?;
        }
        Ok(())
    }

    /// The value of the next frame.
    fn step(&mut self) -> Result<Value> {
        let changed = || format!("{} has changed while it was read", self.path.display());
        let entry = self.frames[self.next];
        if self.input.stream_position()? != entry.offset {
            self.input.seek(SeekFrom::Start(entry.offset))?;
        }
        let frame = frame::read(&mut self.input)?;
        let (head, packed) = frame.with_context(changed)?;
        ensure!(head.kind == entry.kind, changed());
        let change = frame::unpack(&packed)?;
        let value = match (entry.kind, self.value.take()) {
            (Kind::Key, _) => change,
            (Kind::Difference, Some(mut value)) => {
                delta::apply(&mut value, change).with_context(changed)?;
                value
            }
            (Kind::Difference, None) => return Err(anyhow::anyhow!(changed())),
        };
        self.next += 1;
        self.value = Some(value.clone());
        Ok(value)
    }
}

/// Plays a recording at the speed at which it was made.
pub struct Replay {
    reader: Reader,
    /// The snapshot that comes next, and when it is due.
    ahead: Option<(Snapshot, Instant)>,
}

/// The longest pause between two snapshots, so that a gap in a recording is skipped.
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Replay {
    /// Plays from the first snapshot.
    ///
    /// # Errors
    /// The first snapshot cannot be read.
    pub fn new(mut reader: Reader) -> Result<Self> {
        let first = reader.read_next()?;
        Ok(Self {
            ahead: first.map(|snapshot| (snapshot, Instant::now())),
            reader,
        })
    }
}

impl Source for Replay {
    fn name(&self) -> String {
        self.reader.path.display().to_string()
    }

    fn wait(&self) -> Duration {
        let due = self.ahead.as_ref().map(|(_, due)| *due);
        due.map_or(PAUSE_MAX, |due| {
            due.saturating_duration_since(Instant::now())
        })
    }

    fn poll(&mut self) -> Result<Option<Snapshot>> {
        match self.wait().is_zero() {
            true => self.step(),
            false => Ok(None),
        }
    }

    fn step(&mut self) -> Result<Option<Snapshot>> {
        let Some((now, _)) = self.ahead.take() else {
            return Ok(None);
        };
        self.ahead = self.reader.read_next()?.map(|next| {
            let gap = next.at_unix_ns.saturating_sub(now.at_unix_ns);
            let pause = Duration::from_nanos(gap).min(PAUSE_MAX);
            (next, Instant::now() + pause)
        });
        Ok(Some(now))
    }

    fn over(&self) -> bool {
        self.ahead.is_none()
    }

    fn span(&self) -> Option<(u64, u64)> {
        Some(self.reader.times())
    }

    fn seek(&mut self, at_unix_ns: u64) -> Result<bool> {
        self.reader.seek_to(at_unix_ns)?;
        let next = self.reader.read_next()?;
        self.ahead = next.map(|snapshot| (snapshot, Instant::now()));
        Ok(true)
    }
}

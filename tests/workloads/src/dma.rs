// SPDX-License-Identifier: GPL-2.0-only
//! Direct reads of known size: memory traffic that a device makes.

use crate::report::Report;
use crate::samples::Samples;
use crate::{clock, signals};
use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Direct I/O wants buffers, offsets and sizes in multiples of this.
const ALIGN: usize = 4096;

/// What to read.
pub struct Reads<'a> {
    /// A file on a file system with direct I/O, or a block device.
    pub path: &'a Path,
    /// Bytes of one read, a multiple of 4096.
    pub block_bytes: usize,
    /// How many reads; 0: until told to stop.
    pub count: u64,
    /// Sleep between two reads, us.
    pub pause_us: u64,
}

/// Reads block after block, from the beginning again at the end.
pub fn run(report: &mut Report, reads: &Reads) -> Result<()> {
    let name = reads.path.display();
    if reads.block_bytes == 0 || !reads.block_bytes.is_multiple_of(ALIGN) {
        bail!(
            "--block-bytes {} is not a multiple of {ALIGN}",
            reads.block_bytes
        );
    }
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(reads.path)
        .with_context(|| format!("cannot open {name} for direct I/O"))?;
    let blocks = file.seek(SeekFrom::End(0))? / reads.block_bytes as u64;
    if blocks == 0 {
        bail!(
            "{name} is smaller than one block of {} bytes",
            reads.block_bytes
        );
    }
    let buffer = Buffer::new(reads.block_bytes)?;
    let (mut latency, mut marks) = (Samples::default(), signals::marks());
    while !signals::stopped() && (reads.count == 0 || report.rounds < reads.count) {
        if signals::marks() != marks {
            marks = signals::marks();
            latency.clear();
        }
        let start_ns = clock::now_ns();
        read_block(&file, &buffer, report.rounds % blocks)
            .with_context(|| format!("cannot read {name}"))?;
        latency.add(clock::now_ns() - start_ns);
        report.rounds += 1;
        if reads.pause_us > 0 {
            clock::sleep_until(clock::now_ns() + reads.pause_us * 1000);
        }
    }
    report.dma_bytes = Some(report.rounds * reads.block_bytes as u64);
    report.io_latency = Some(latency.summary());
    Ok(())
}

fn read_block(file: &File, buffer: &Buffer, block: u64) -> Result<()> {
    let offset = (block * buffer.layout.size() as u64) as libc::off_t;
    loop {
        // SAFETY: the buffer is as long as the read.
        let got = unsafe {
            libc::pread(
                file.as_raw_fd(),
                buffer.base.cast(),
                buffer.layout.size(),
                offset,
            )
        };
        match got {
            n if n == buffer.layout.size() as isize => return Ok(()),
            n if n >= 0 => bail!("short read of {n} bytes at {offset}"),
            _ => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error.into());
                }
            }
        }
    }
}

/// Aligned memory, touched before the first read so that no page fault is
/// counted among the reads.
struct Buffer {
    base: *mut u8,
    layout: std::alloc::Layout,
}

impl Buffer {
    fn new(bytes: usize) -> Result<Self> {
        let layout = std::alloc::Layout::from_size_align(bytes, ALIGN)?;
        // SAFETY: the size is not zero, the caller checked it.
        let base = unsafe { std::alloc::alloc(layout) };
        if base.is_null() {
            bail!("no memory for a block of {bytes} bytes");
        }
        // SAFETY: the range was allocated just now.
        unsafe { std::ptr::write_bytes(base, 1, bytes) };
        Ok(Self { base, layout })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { std::alloc::dealloc(self.base, self.layout) };
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Lines for a reader that may stop reading. A pager or a stopped terminal must not hold up who
//! prints.

use std::{
    io::{self, Write},
    os::fd::AsFd,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, poll},
};

/// How long a line may take that no thread prints, and the last line of a thread.
const LAST_LINE: Duration = Duration::from_millis(200);

/// A thread that prints.
pub struct Printer {
    /// None once the output could not be written.
    lines: Option<SyncSender<String>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Printer {
    /// Prints to `output`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(mut output: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, printed) = sync_channel::<String>(1);
        let thread = thread::Builder::new().name("drfq-print".into());
        let thread = thread.spawn(move || {
            for line in printed {
                writeln!(output, "{line}").and_then(|()| output.flush())?;
            }
            Ok(())
        })?;
        Ok(Self {
            lines: Some(lines),
            thread: Some(thread),
        })
    }

    /// Prints a line, or leaves it out while the reader has not taken the lines before.
    ///
    /// # Errors
    /// The output could not be written.
    pub fn print(&mut self, line: String) -> Result<()> {
        let sent = self.lines.as_ref().map(|lines| lines.try_send(line));
        if !matches!(sent, Some(Err(TrySendError::Disconnected(_)))) {
            return Ok(());
        }
        self.lines = None;
        let ended = self.thread.take().map_or(Ok(()), |thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("its thread ended")))
        });
        ended.context("cannot write statistics to standard output")
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.lines = None;
        let end = Instant::now() + LAST_LINE;
        let prints = |thread: &JoinHandle<_>| !thread.is_finished();
        while self.thread.as_ref().is_some_and(prints) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes lines at once, because two processes may write to `output`. They are left out if the
/// reader does not take them in time, or has gone.
pub fn write_soon(mut output: impl Write + AsFd, lines: &str) {
    let end = Instant::now() + LAST_LINE;
    let room = loop {
        let mut room = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
        let left = end.saturating_duration_since(Instant::now());
        match poll(&mut room, left.as_millis() as u16) {
            // A signal came.
            Err(Errno::EINTR) => {}
            result => break result,
        }
    };
    if room.is_ok_and(|ready| ready > 0) {
        let _ = output.write_all(lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{BufRead, BufReader, Read, pipe},
    };

    use super::*;

    #[test]
    fn a_reader_that_stops_holds_nothing_up() {
        let (reader, writer) = pipe().unwrap();
        let mut printer = Printer::new(writer).unwrap();
        let line = "x".repeat(4000);
        for _ in 0..100 {
            printer.print(line.clone()).unwrap();
        }
        drop(printer);
        let first = BufReader::new(reader).lines().next().unwrap().unwrap();
        assert_eq!(first, line);
    }

    #[test]
    fn a_line_for_a_full_pipe_is_left_out_and_the_next_one_is_not() {
        let (mut reader, mut writer) = pipe().unwrap();
        write_soon(&writer, "one\n");
        let full = 1 << 16;
        writer.write_all(&vec![b' '; full - 4]).unwrap();
        write_soon(&writer, "two\n");
        let mut read = vec![0; full];
        reader.read_exact(&mut read).unwrap();
        write_soon(&writer, "three\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert!(read.starts_with(b"one\n"));
        assert_eq!(rest, "three\n");
    }

    #[test]
    fn each_line_is_printed_while_it_is_read() {
        let (reader, writer) = pipe().unwrap();
        let mut printer = Printer::new(writer).unwrap();
        let mut lines = BufReader::new(reader).lines();
        for line in ["one", "two", "three"] {
            printer.print(line.to_owned()).unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), line);
        }
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_output() {
        let mut printer = Printer::new(File::create("/dev/full").unwrap()).unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        let error = loop {
            match printer.print("line".to_owned()) {
                Err(error) => break format!("{error:#}"),
                Ok(()) => assert!(Instant::now() < end, "no error"),
            }
        };
        let named = error.contains("standard output") && error.contains("space");
        assert!(named, "{error}");
    }
}

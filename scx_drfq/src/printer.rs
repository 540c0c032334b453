// SPDX-License-Identifier: GPL-2.0-only
//! Lines for a reader that may stop reading. A pager or a stopped terminal must not hold up who
//! prints.

use std::{
    io::{self, Write},
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// How long the last line may take when nothing more is printed.
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

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{BufRead, BufReader, pipe},
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

// SPDX-License-Identifier: GPL-2.0-only
//! Requests for metrics.

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

#[allow(dead_code)]
#[path = "../../../scx_drfq/src/metrics/http.rs"]
mod http;

/// A connection, as scx_drfq has it.
pub trait Stream: Read + Write + Send {
    /// Lets reads and writes fail after this time.
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

/// A client that has sent a request and keeps what it gets.
struct Client {
    request: io::Cursor<Vec<u8>>,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.request.read(buffer)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Client {
    fn set_timeout(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// The tests of the included file have such clients.
#[cfg(test)]
impl Stream for std::os::unix::net::UnixStream {
    fn set_timeout(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// A request gets an answer or none. Only a GET of the metrics gets them.
pub fn check(data: &[u8]) {
    let answer = Arc::new(Mutex::new(Vec::new()));
    let client = Client {
        request: io::Cursor::new(data.to_vec()),
        answer: Arc::clone(&answer),
    };
    http::answer(Box::new(client), || Ok("# EOF\n".into()));
    let answer = answer.lock().expect("no panic");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 "), "{text}");
    if text.ends_with("# EOF\n") {
        assert!(data.trim_ascii_start().starts_with(b"GET"), "{text}");
    }
}

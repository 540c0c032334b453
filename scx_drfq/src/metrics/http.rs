// SPDX-License-Identifier: GPL-2.0-only
//! As much of HTTP/1.1 as a scrape needs: one request, one answer.

use std::{
    io::{self, ErrorKind, Read, Write},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::Stream;

/// The longest request (bytes).
const REQUEST_MAX: usize = 8192;

/// The longest time that a request may take, and an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A Unix socket waits anew for each part of a longer write (bytes).
const CHUNK: usize = 16 << 10;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A connection until an end, however slowly the client reads or writes.
struct Limited {
    stream: Box<dyn Stream>,
    end: Instant,
}

impl Limited {
    fn prepare(&self) -> io::Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => self.stream.set_timeout(left),
        }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.prepare()?;
        self.stream.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.prepare()?;
        self.stream.write(&bytes[..bytes.len().min(CHUNK)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Answers one request. A client that is slow or wrong gets what is possible.
pub fn answer(stream: Box<dyn Stream>, metrics: impl FnOnce() -> Result<String>) {
    let mut limited = Limited {
        stream,
        end: Instant::now() + TIMEOUT,
    };
    let Some(request) = read_request(&mut limited) else {
        return;
    };
    let answer = respond(&request, metrics);
    limited.end = Instant::now() + TIMEOUT;
    // The client may have gone.
    let _ = limited.write_all(answer.as_bytes());
}

/// The head of a request; none if it is too long, or the stream ends or fails before it does.
fn read_request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while request.len() <= REQUEST_MAX {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => request.extend_from_slice(&chunk[..count]),
        }
        if request.windows(4).any(|bytes| bytes == b"\r\n\r\n")
            || request.windows(2).any(|bytes| bytes == b"\n\n")
        {
            return Some(request);
        }
    }
    None
}

/// The answer to a request.
fn respond(request: &[u8], metrics: impl FnOnce() -> Result<String>) -> String {
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match metrics() {
            Ok(text) => ("200 OK", OPEN_METRICS, text),
            Err(error) => (
                "503 Service Unavailable",
                "text/plain",
                format!("{error:#}\n"),
            ),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "see /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "use GET\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if method == "HEAD" { head } else { head + &body }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, thread};

    use proptest::prelude::*;

    use super::*;

    fn status(request: &str) -> String {
        let answer = respond(request.as_bytes(), || Ok("# EOF\n".into()));
        answer.split(' ').nth(1).unwrap().into()
    }

    #[test]
    fn only_a_get_of_the_metrics_gets_them() {
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "200");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\n\n"), "200");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("\r\n\r\n"), "405");
        let head = respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", || Ok("# EOF\n".into()));
        assert!(head.contains("Content-Length: 6") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_client_that_reads_or_writes_slowly_is_given_up() {
        let took = |client: fn(&mut UnixStream) -> bool| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            thread::spawn(move || {
                while client(&mut theirs) {
                    thread::sleep(TIMEOUT / 4);
                }
            });
            let began = Instant::now();
            answer(Box::new(ours), || Ok("a".repeat(8 << 20)));
            began.elapsed()
        };
        let reads = took(|stream| {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
            stream.read(&mut [0; 1 << 17]).is_ok_and(|count| count > 0)
        });
        let writes = took(|stream| stream.write_all(b"G").is_ok());
        for took in [reads, writes] {
            assert!(took < TIMEOUT + TIMEOUT / 2, "{took:?}");
        }
    }

    #[test]
    fn a_request_without_end_is_given_up() {
        assert_eq!(read_request(&mut [b'a'; 100_000].as_slice()), None);
        assert_eq!(read_request(&mut b"GET / HTTP/1.1\r\n".as_slice()), None);
    }

    proptest! {
        #[test]
        fn no_request_makes_it_panic(bytes: Vec<u8>) {
            let _ = read_request(&mut bytes.as_slice());
            let _ = respond(&bytes, || Ok(String::new()));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! As much of HTTP/1.1 as a scrape needs: one request, one answer.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::Stream;

/// The longest request (bytes), and the longest time that it may take.
const REQUEST_MAX: usize = 8192;
const TIMEOUT: Duration = Duration::from_secs(2);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request. A client that is slow or wrong gets what is possible.
pub fn answer(mut stream: Box<dyn Stream>, metrics: impl FnOnce() -> Result<String>) {
    if stream.set_timeout(TIMEOUT).is_err() {
        return;
    }
    let answer = match read_request(&mut stream) {
        Some(request) => respond(&request, metrics),
        None => return,
    };
    // The client may have gone.
    let _ = stream.write_all(answer.as_bytes());
}

/// The head of a request; none if it does not come in time or is too long.
fn read_request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let end = Instant::now() + TIMEOUT;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while Instant::now() < end && request.len() <= REQUEST_MAX {
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
    let mut words = line.split_whitespace();
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

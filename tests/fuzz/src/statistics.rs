// SPDX-License-Identifier: GPL-2.0-only
//! Requests to the stats socket.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use drfq_stats::sample::{Load, Sample, TaskSample};

use crate::server;

static SOCKET: OnceLock<PathBuf> = OnceLock::new();

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whatever a client sends, its connection ends, and the next client gets its answer.
pub fn check(data: &[u8]) {
    let socket = SOCKET.get_or_init(serve);
    let mut client = connect(socket);
    // The server may have closed the connection after the first line.
    let _ = client.write_all(data);
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.read_to_end(&mut Vec::new());
    let mut client = connect(socket);
    let request = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\",\"limit\":\"1\"}}\n";
    client
        .write_all(request)
        .expect("the server takes requests");
    let mut answer = String::new();
    let mut client = BufReader::new(client);
    client.read_line(&mut answer).expect("an answer");
    assert!(answer.contains("\"errno\":0"), "{answer}");
}

fn connect(socket: &PathBuf) -> UnixStream {
    let client = UnixStream::connect(socket).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

/// Starts a server that lasts as long as the process.
fn serve() -> PathBuf {
    let directory = crate::temporary::directory().keep();
    let path = directory.join("stats");
    let sample = |at_ns| Sample {
        at_ns,
        tasks: vec![TaskSample::default(); 3],
        ..Sample::default()
    };
    let server = server::launch(&path).expect("a socket");
    thread::spawn(move || {
        let load = Arc::new(Load::default());
        for at_ns in 1.. {
            let answer = (Arc::clone(&load), sample(at_ns));
            if server.requests.recv().is_err() || server.samples.send(Ok(answer)).is_err() {
                return;
            }
        }
    });
    path
}

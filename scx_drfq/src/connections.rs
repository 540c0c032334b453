// SPDX-License-Identifier: GPL-2.0-only
//! Connections to the stats socket, in the protocol of scx_stats: a line of JSON for each request,
//! and one for each answer. Its own server has no bounds, and any member of --stats-group is a client.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use drfq_stats::sample::{Load, Sample};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, sockopt},
    unistd::{Uid, geteuid},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::server::{self, Answer, TARGETS, WithTasks};

/// Clients that are served at the same time. Others are turned away.
pub const CLIENTS_MAX: usize = 64;

/// How many of these places are only for clients of the agent's user. Members of --stats-group may
/// hold all the others.
const RESERVED: usize = 8;

/// How long a client may take to read an answer. Its place is then free, and its answer's memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest line of a request (bytes). A client that sends more is turned away.
const LINE_MAX: u64 = 64 << 10;

/// After a connection that the kernel refused. It refuses at once while something is used up.
const PAUSE: Duration = Duration::from_millis(100);

/// The agent's end of the server.
pub struct Server {
    /// What clients ask for, one after the other.
    pub requests: Receiver<WithTasks>,
    /// An answer to each request.
    pub samples: Sender<Answer>,
}

/// The clients' end. One request is under way at a time.
struct Agent(Mutex<(Sender<WithTasks>, Receiver<Answer>)>);

impl Agent {
    fn ask(&self, with_tasks: WithTasks) -> Result<(Arc<Load>, Sample)> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.0.send(with_tasks)?;
        ends.1.recv()?.map_err(anyhow::Error::msg)
    }
}

/// Opens the socket, in place of one that is left over, and serves it until this process ends.
///
/// # Errors
/// It cannot be opened.
pub fn open(path: &Path) -> Result<Server> {
    let opened = || {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        UnixListener::bind(path)
    };
    let listener = opened().with_context(|| format!("cannot open {}", path.display()))?;
    let (asking, requests) = mpsc::channel();
    let (samples, answers) = mpsc::channel();
    let agent = Arc::new(Agent(Mutex::new((asking, answers))));
    // Before the process leaves this user.
    let user = geteuid();
    thread::Builder::new()
        .spawn(move || accept(&listener, &agent, user))
        .context("cannot start a thread")?;
    Ok(Server { requests, samples })
}

/// How many clients there may be with one more. `user`: that of the client, if it is known.
fn places(user: Option<Uid>, of_agent: Uid) -> usize {
    match user == Some(of_agent) {
        true => CLIENTS_MAX,
        false => CLIENTS_MAX - RESERVED,
    }
}

/// The user who opened a connection.
fn user(stream: &UnixStream) -> Option<Uid> {
    let found = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    Some(Uid::from_raw(found.uid()))
}

/// Serves each client in a thread. `of_agent`: the agent's user.
fn accept(listener: &UnixListener, agent: &Arc<Agent>, of_agent: Uid) {
    loop {
        match listener.accept() {
            // Each thread holds the agent's end, and so does this one.
            Ok((stream, _)) if Arc::strong_count(agent) <= places(user(&stream), of_agent) => {
                let agent = Arc::clone(agent);
                let serve = move || {
                    // The connection ends, which is all that the client has to know.
                    let _ = serve(&stream, &agent);
                };
                // Without a thread, the client is turned away.
                let _ = thread::Builder::new().spawn(serve);
            }
            Ok(_) => (),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Answers a client until it closes its connection.
fn serve(stream: &UnixStream, agent: &Agent) -> io::Result<()> {
    let (mut reader, mut intervals) = (BufReader::new(stream), Intervals::default());
    loop {
        let mut line = String::new();
        let length = reader.by_ref().take(LINE_MAX).read_line(&mut line)?;
        if length == 0 || (length as u64 == LINE_MAX && !line.ends_with('\n')) {
            return Ok(());
        }
        let mut output = match intervals.answer(&line, agent) {
            Ok(value) => response(0, &value)?,
            Err(reason) => response(libc::EINVAL, &format!("{reason:?}"))?,
        };
        output.push(b'\n');
        send(stream, &output, PATIENCE)?;
    }
}

/// Sends all of an answer.
///
/// # Errors
/// The client does not read it within `patience`, or has closed its connection.
fn send(stream: &UnixStream, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
    let end = Instant::now() + patience;
    while !bytes.is_empty() {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        // A limit of the socket itself (SO_SNDTIMEO) would be for a part of an answer.
        // SAFETY: the bytes outlive the call, and the descriptor is open.
        let sent = unsafe { libc::send(stream.as_raw_fd(), data, length, flags) };
        if let Ok(sent) = usize::try_from(sent) {
            bytes = &bytes[sent..];
            continue;
        }
        match Errno::last() {
            Errno::EINTR => continue,
            Errno::EAGAIN => (),
            error => return Err(error.into()),
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut writable = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
        // The kernel counts milliseconds.
        let left = PollTimeout::try_from(left + Duration::from_millis(1));
        match poll(&mut writable, left.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A line of a client.
#[derive(Deserialize)]
struct Request {
    req: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

/// A line for a client: statistics, or with an errno the reason why there are none.
fn response(errno: i32, resp: &impl Serialize) -> io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Arguments<'a, T> {
        resp: &'a T,
    }
    #[derive(Serialize)]
    struct Response<'a, T> {
        errno: i32,
        args: Arguments<'a, T>,
    }
    let args = Arguments { resp };
    Ok(serde_json::to_vec(&Response { errno, args })?)
}

/// Where the next interval of each target begins, by a client's last request of it.
#[derive(Default)]
struct Intervals(BTreeMap<&'static str, (Arc<Load>, Sample)>);

impl Intervals {
    fn answer(&mut self, line: &str, agent: &Agent) -> Result<Value> {
        let request: Request = serde_json::from_str(line)?;
        match request.req.as_str() {
            "stats" => self.report(&request.args, agent),
            "stats_meta" => Ok(serde_json::to_value(server::metas())?),
            other => bail!("unknown command {other:?}"),
        }
    }

    fn report(&mut self, arguments: &BTreeMap<String, String>, agent: &Agent) -> Result<Value> {
        let name = arguments.get("target").map_or("top", String::as_str);
        let target = TARGETS.iter().find(|target| target.name == name);
        let target = target.ok_or_else(|| anyhow!("unknown target {name:?}"))?;
        let limit = match arguments.get("limit") {
            Some(text) => text.parse().context("limit is not a number")?,
            None => usize::MAX,
        };
        let (load, cur) = agent.ask(target.with_tasks)?;
        let prev = match self.0.get(target.name) {
            Some((before, prev)) if Arc::ptr_eq(before, &load) => prev,
            _ => &load.first,
        };
        let value = (target.report)(&load.facts, prev, &cur, limit)?;
        self.0.insert(target.name, (load, cur));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_read_its_answer_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let answer = vec![b'a'; 4 << 20];
        let refused = send(&ours, &answer, Duration::from_millis(20)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        drop(ours);
        let mut part = Vec::new();
        theirs.read_to_end(&mut part).unwrap();
        assert!(!part.is_empty() && part.len() < answer.len());
    }

    #[test]
    fn an_answer_longer_than_the_socket_s_buffer_arrives() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let answer: Vec<u8> = (0..4_000_000u32).map(|i| i as u8).collect();
        let sent = answer.clone();
        let sending = thread::spawn(move || send(&ours, &sent, PATIENCE));
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).unwrap();
        sending.join().unwrap().unwrap();
        assert!(read == answer);
    }

    #[test]
    fn some_places_are_for_the_user_of_the_agent_alone() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let of_agent = geteuid();
        assert_eq!(places(user(&ours), of_agent), CLIENTS_MAX);
        let other = Uid::from_raw(of_agent.as_raw() + 1);
        for user in [Some(other), None] {
            assert_eq!(places(user, of_agent), CLIENTS_MAX - RESERVED);
        }
    }
}

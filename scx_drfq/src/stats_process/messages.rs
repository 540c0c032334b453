// SPDX-License-Identifier: GPL-2.0-only
//! What the agent and the process that serves statistics tell each other: a length, then
//! as many bytes of postcard. Both are of one program, so the format may change with it.

use std::{
    io::{self, ErrorKind, Read},
    os::unix::net::UnixStream,
};

use anyhow::{Context, Result, bail, ensure};
use drfq_stats::sample::{Load, Sample};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::server::WithTasks;

/// From the agent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToServer {
    /// The scheduler was loaded, for the first time or again.
    Loaded(Box<Load>),
    /// The answer to a request: a sample, or why there is none.
    Answer(Result<Box<Sample>, String>),
}

/// To the agent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The answer to `Loaded`: the socket is open, or this line says what is wrong with it.
    Serving(Option<String>),
    /// A client waits for a sample. The next request follows the answer to this one.
    Request(WithTasks),
}

/// The longest message to the server (bytes). A task takes some 200, and a machine has at
/// most 4 million.
pub const TO_SERVER_MAX: usize = 1 << 30;

/// The longest message to the agent (bytes). The agent does not trust the server.
pub const TO_AGENT_MAX: usize = 1 << 14;

/// Bytes of a length, little-endian.
const LENGTH_BYTES: usize = size_of::<u32>();

/// A buffer above this size (bytes) is given back after its message.
const KEPT_BYTES: usize = 1 << 18;

/// The bytes of a message.
///
/// # Errors
/// It has more than `max` bytes.
pub fn encode(message: &impl Serialize, max: usize) -> Result<Vec<u8>> {
    let start = vec![0; LENGTH_BYTES];
    let mut bytes = postcard::to_extend(message, start).context("cannot encode a message")?;
    let length = bytes.len() - LENGTH_BYTES;
    ensure!(
        length <= max,
        "the statistics have {length} bytes, and at most {max} can be sent; ask for fewer tasks"
    );
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// What arrives on a connection.
pub struct Inbox {
    stream: UnixStream,
    bytes: Vec<u8>,
    max: usize,
}

impl Inbox {
    /// `max`: the longest message that is taken (bytes).
    pub fn new(stream: UnixStream, max: usize) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            max,
        }
    }

    /// Reads once. Returns whether the connection goes on.
    ///
    /// # Errors
    /// It was closed within a message, or it cannot be read.
    pub fn read(&mut self) -> Result<bool> {
        let mut chunk = [0; 1 << 16];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The other side has ended and left messages of ours unread.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break 0,
                count => break count.context("cannot read a message")?,
            }
        };
        ensure!(
            count > 0 || self.bytes.is_empty(),
            io::Error::from(ErrorKind::UnexpectedEof)
        );
        self.bytes.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    /// The next message, if all of it has arrived.
    ///
    /// # Errors
    /// It is too long, or it is no message.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.max {
            bail!("a message of {length} bytes is too long");
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let (message, unread) = postcard::take_from_bytes(body).context("no message")?;
        ensure!(unread.is_empty(), "a message has bytes behind its end");
        self.bytes.drain(..LENGTH_BYTES + length);
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes.shrink_to(KEPT_BYTES);
        }
        Ok(Some(message))
    }

    /// Waits for the next message; none if the connection was closed.
    ///
    /// # Errors
    /// Those of `read` and `take`.
    pub fn wait<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, thread};

    use drfq_controller_link::{link_stats::LinkState, traffic_accounting::TrafficAccounting};
    use drfq_stats::{
        mba_report::{Mba, MbaGroup},
        sample::{CpuSample, Facts, TaskSample, TaskState},
    };
    use proptest::prelude::*;

    use super::*;

    fn inbox(max: usize) -> (UnixStream, Inbox) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (theirs, Inbox::new(ours, max))
    }

    /// A value in each kind of field.
    fn sample() -> Sample {
        let mut sample = Sample {
            at_ns: u64::MAX,
            busy_cpus: 3,
            events: vec![0, 1, u64::MAX],
            cpus: vec![CpuSample::default(); 2],
            tasks: vec![TaskSample::default(); 3],
            mba: Mba {
                state: "on".into(),
                bytes_per_s: f64::INFINITY,
                groups: vec![MbaGroup::default(); 2],
                ..Mba::default()
            },
            ..Sample::default()
        };
        sample.tasks[1].comm = "ä\0\n".into();
        sample.tasks[1].state = TaskState::Held;
        sample.tasks[2].nice = -20;
        sample.controller.state = LinkState::Lost("gone".into());
        sample.shadow.demand_bytes_per_s = [(7, 1), (8, 2)].into();
        sample.shadow.traffic = TrafficAccounting {
            by_pid: [(9, 3)].into(),
            ..TrafficAccounting::default()
        };
        sample
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let facts = Facts {
            mem_bytes_per_s: Some(5),
            mem_source: "none".into(),
            ..Facts::default()
        };
        let first = sample();
        let messages = [
            ToServer::Loaded(Box::new(Load { facts, first })),
            ToServer::Answer(Ok(Box::new(sample()))),
            ToServer::Answer(Err("out of order".into())),
        ];
        let (mut other, mut inbox) = inbox(TO_SERVER_MAX);
        for message in &messages {
            let bytes = encode(message, TO_SERVER_MAX).unwrap();
            other.write_all(&bytes).unwrap();
        }
        drop(other);
        for message in messages {
            assert_eq!(inbox.wait().unwrap(), Some(message));
        }
        assert_eq!(inbox.wait::<ToServer>().unwrap(), None);
    }

    #[test]
    fn a_message_that_arrives_in_parts_is_whole_at_its_end() {
        let (mut other, mut inbox) = inbox(TO_AGENT_MAX);
        let message = ToAgent::Serving(Some("a line".into()));
        let bytes = encode(&message, TO_AGENT_MAX).unwrap();
        for byte in bytes {
            assert_eq!(inbox.take::<ToAgent>().unwrap(), None);
            other.write_all(&[byte]).unwrap();
            assert!(inbox.read().unwrap());
        }
        assert_eq!(inbox.take().unwrap(), Some(message));
    }

    #[test]
    fn a_message_longer_than_the_socket_s_buffer_arrives() {
        let tasks = vec![TaskSample::default(); 50_000];
        let message = ToServer::Answer(Ok(Box::new(Sample {
            tasks,
            ..Sample::default()
        })));
        let bytes = encode(&message, TO_SERVER_MAX).unwrap();
        assert!(bytes.len() > 1_000_000);
        let (mut other, mut inbox) = inbox(TO_SERVER_MAX);
        let writer = thread::spawn(move || other.write_all(&bytes));
        assert_eq!(inbox.wait().unwrap(), Some(message));
        writer.join().unwrap().unwrap();
        assert!(inbox.bytes.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn a_message_that_is_cut_is_an_error() {
        let bytes = encode(&ToAgent::Request(true), TO_AGENT_MAX).unwrap();
        for length in 1..bytes.len() {
            let (mut other, mut inbox) = inbox(TO_AGENT_MAX);
            other.write_all(&bytes[..length]).unwrap();
            drop(other);
            assert!(inbox.wait::<ToAgent>().is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_neither_sent_nor_awaited() {
        let message = ToAgent::Serving(Some("x".repeat(100)));
        let reason = encode(&message, 50).unwrap_err().to_string();
        assert!(reason.contains("at most 50"), "{reason}");
        let (mut other, mut inbox) = inbox(50);
        other.write_all(&51_u32.to_le_bytes()).unwrap();
        let reason = inbox.wait::<ToAgent>().unwrap_err().to_string();
        assert!(reason.contains("51 bytes is too long"), "{reason}");
    }

    #[test]
    fn bytes_behind_a_message_are_an_error() {
        let mut bytes = encode(&ToAgent::Request(true), TO_AGENT_MAX).unwrap();
        bytes.push(0);
        bytes[0] += 1;
        let (mut other, mut inbox) = inbox(TO_AGENT_MAX);
        other.write_all(&bytes).unwrap();
        assert!(inbox.wait::<ToAgent>().is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_agent_panic(bytes: Vec<u8>) {
            let (mut other, mut inbox) = inbox(TO_AGENT_MAX);
            other.write_all(&bytes).unwrap();
            drop(other);
            while let Ok(Some(_)) = inbox.wait::<ToAgent>() {}
        }
    }
}

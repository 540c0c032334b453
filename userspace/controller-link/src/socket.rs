// SPDX-License-Identifier: GPL-2.0-only
//! A controller behind a Unix socket: `drfq-mc serve`, gem5, or another server of
//! the protocol.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use socket2::{Domain, SockAddr, Socket as Connection, Type};

use crate::{
    interface::{feature_bit, header, protocol, role, status},
    registers::{Access, Demand, Fault, Registers},
    wire::{self, BATCH_MAX, Call, DEMANDS_MAX, Reply},
};

/// How long a server may take to answer. It may be long, because only the link's
/// own thread waits.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to answer while the agent is ending.
const STOPPING_TIMEOUT: Duration = Duration::from_millis(500);

/// How far one request lets a server's time advance (ps). A server that simulates each cycle may take
/// thousands of times as long, and has [`REPLY_TIMEOUT`] for each.
const ADVANCE_MAX_PS: u64 = 1_000_000_000;

/// How often it checks whether the agent is ending.
const POLL: Duration = Duration::from_millis(50);

/// A connection with the role of the writer.
pub struct Socket {
    stream: UnixStream,
    lock_step: bool,
    tag: u32,
    time_ps: u64,
    timeout: Duration,
    stop: Arc<AtomicBool>,
}

impl Socket {
    /// Connects as the writer. `stop` is set when the agent is ending.
    ///
    /// # Errors
    /// No server listens there, it does not admit this user, or it has a writer.
    pub fn connect(path: &Path, timeout: Duration, stop: Arc<AtomicBool>) -> Result<Self, Fault> {
        let gone = |error| Fault::Gone(explain(&error, path));
        let stream = Connection::new(Domain::UNIX, Type::STREAM, None).map_err(gone)?;
        // While the queue of a server that hangs is full, connect() waits for as long as a write.
        stream.set_write_timeout(Some(POLL)).map_err(gone)?;
        stream.set_read_timeout(Some(POLL)).map_err(gone)?;
        let address = SockAddr::unix(path).map_err(gone)?;
        stream
            .connect(&address)
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => Fault::Silent,
                _ => gone(error),
            })?;
        let stream = OwnedFd::from(stream).into();
        let mut socket = Self {
            stream,
            lock_step: false,
            tag: 0,
            time_ps: 0,
            timeout,
            stop,
        };
        let (hello, _) = socket.call(Call::Hello, protocol::VERSION, role::WRITER, &[])?;
        socket.lock_step = hello.b >> feature_bit::LOCK_STEP & 1 != 0;
        Ok(socket)
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// The connection failed, or the server refused the request.
    fn call(
        &mut self,
        call: Call,
        a: u64,
        b: u64,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>), Fault> {
        self.tag = self.tag.wrapping_add(1);
        let since = Instant::now();
        let frame = wire::request(call, self.tag, a, b, payload);
        self.send(&frame, since)?;
        let mut head = [0; header::BYTES];
        self.receive(&mut head, since)?;
        let reply = wire::reply(&head, call, self.tag)?;
        let mut payload = vec![0; reply.payload_bytes];
        self.receive(&mut payload, since)?;
        self.time_ps = reply.time_ps;
        if reply.status != status::OK {
            let (what, why) = (name(call), wire::status_text(reply.status));
            return Err(Fault::Refused(format!("{what}: {why}")));
        }
        Ok((reply, payload))
    }

    fn send(&mut self, bytes: &[u8], since: Instant) -> Result<(), Fault> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(Fault::Gone("it closed the connection".into())),
                Ok(n) => sent += n,
                Err(error) => self.wait_or_give_up(&error, since)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8], since: Instant) -> Result<(), Fault> {
        let mut got = 0;
        while got < bytes.len() {
            match self.stream.read(&mut bytes[got..]) {
                Ok(0) => return Err(Fault::Gone("it closed the connection".into())),
                Ok(n) => got += n,
                Err(error) => self.wait_or_give_up(&error, since)?,
            }
        }
        Ok(())
    }

    fn wait_or_give_up(&self, error: &io::Error, since: Instant) -> Result<(), Fault> {
        let timeout = match self.stop.load(Ordering::Relaxed) {
            true => self.timeout.min(STOPPING_TIMEOUT),
            false => self.timeout,
        };
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                if since.elapsed() < timeout =>
            {
                Ok(())
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(Fault::Silent),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                Err(Fault::Gone("it closed the connection".into()))
            }
            _ => Err(Fault::Gone(error.to_string())),
        }
    }
}

impl Registers for Socket {
    fn batch(&mut self, accesses: &mut [Access]) -> Result<u64, Fault> {
        for accesses in accesses.chunks_mut(BATCH_MAX) {
            let payload = wire::batch(accesses);
            let (_, payload) = self.call(Call::Batch, 0, 0, &payload)?;
            wire::batch_reply(accesses, &payload)?;
        }
        Ok(self.time_ps)
    }

    fn advance(&mut self, by_ps: u64) -> Result<(), Fault> {
        let mut left_ps = if self.lock_step { by_ps } else { 0 };
        while left_ps > 0 {
            let part_ps = left_ps.min(ADVANCE_MAX_PS);
            self.call(Call::Advance, part_ps, 0, &[])?;
            left_ps -= part_ps;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn demand(&mut self, demands: &[Demand]) -> Result<(), Fault> {
        for demands in demands.chunks(DEMANDS_MAX) {
            self.call(Call::Demand, 0, 0, &wire::demands(demands))?;
        }
        Ok(())
    }
}

fn name(call: Call) -> &'static str {
    match call {
        Call::Hello => "this agent as its writer",
        Call::Batch => "accesses to its registers",
        Call::Advance => "an advance of its time",
        Call::Demand => "a demand for synthetic traffic",
    }
}

/// Why there is no connection, and what to do about it.
fn explain(error: &io::Error, path: &Path) -> String {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!(
                "no server listens on {path}; start one, for example: drfq-mc serve --socket {path}"
            )
        }
        ErrorKind::PermissionDenied => format!(
            "not permitted to connect to {path}; run the server as the same user as scx_drfq"
        ),
        _ => format!("cannot connect to {path}: {error}"),
    }
}

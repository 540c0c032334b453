// SPDX-License-Identifier: GPL-2.0-only
//! Statistics for Prometheus: OpenMetrics over HTTP, on a TCP address or a Unix socket.
//! It is a client of the stats socket, in the agent's process. Whatever its own clients
//! do, the scheduler does not notice.

mod http;
mod text;
mod totals;

use std::{
    fmt, fs,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use drfq_sense::root;

use self::totals::Totals;
use crate::{client::Client, top::live::Kernel};

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port of one of the machine's addresses.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("the path is missing behind unix:".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "expected ADDRESS:PORT, such as 127.0.0.1:9877 or [::1]:9877, or unix:PATH".into()
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A client's connection.
pub trait Stream: Read + Write + Send {
    /// Lets reads and writes fail after this time.
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// How often the thread looks for clients and for its end.
const POLL: Duration = Duration::from_millis(200);

/// Serves metrics until it is dropped.
pub struct Server {
    address: Address,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Listens at an address. Only this user can connect to a Unix socket.
    ///
    /// # Errors
    /// The address is in use, or not the machine's.
    pub fn launch(address: &Address) -> Result<Self> {
        let listener = listen(address).with_context(|| {
            format!("cannot serve metrics at {address}; choose another --metrics address")
        })?;
        let server = Self {
            address: address.clone(),
            stop: Arc::default(),
        };
        let stop = Arc::clone(&server.stop);
        thread::spawn(move || serve(&listener, &stop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Address::Unix(path) = &self.address {
            // It may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

fn listen(address: &Address) -> io::Result<Listener> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(Listener::Tcp(listener))
        }
        Address::Unix(path) => {
            // One that nothing serves is left over from an agent that was killed. The kernel
            // refuses a connection to other kinds of files, too.
            let is_socket =
                fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
            if is_socket
                && let Err(error) = UnixStream::connect(path)
                && error.kind() == ErrorKind::ConnectionRefused
            {
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(Listener::Unix(listener))
        }
    }
}

fn accept(listener: &Listener) -> io::Result<Box<dyn Stream>> {
    Ok(match listener {
        Listener::Tcp(listener) => Box::new(listener.accept()?.0),
        Listener::Unix(listener) => Box::new(listener.accept()?.0),
    })
}

/// The most clients that are answered at the same time. A slow one must not keep the others waiting.
const CLIENTS_MAX: usize = 4;

/// How often the thread looks for the end of a client while there are [`CLIENTS_MAX`].
const FULL_POLL: Duration = Duration::from_millis(20);

/// Answers clients, each in a thread.
fn serve(listener: &Listener, stop: &AtomicBool) {
    let source = Arc::new(Mutex::new(Source::default()));
    while !stop.load(Ordering::Relaxed) {
        // Each thread holds the source.
        if Arc::strong_count(&source) > CLIENTS_MAX {
            thread::sleep(FULL_POLL);
            continue;
        }
        let Ok(stream) = accept(listener) else {
            thread::sleep(POLL);
            continue;
        };
        let source = Arc::clone(&source);
        let answer = move || {
            let locked = || source.lock().unwrap_or_else(PoisonError::into_inner);
            http::answer(stream, || locked().metrics());
        };
        // Without a thread the client is turned away.
        let _ = thread::Builder::new().spawn(answer);
    }
}

/// Where metrics come from.
#[derive(Default)]
struct Source {
    /// The connection to the stats socket, and when it was made.
    client: Option<Client>,
    kernel: Option<Kernel>,
    totals: Totals,
    /// The last answer. Clients that ask more often than this get it again.
    last: Option<(Instant, String)>,
}

/// The shortest time between two samples of all tasks.
const FRESH: Duration = Duration::from_millis(500);

impl Source {
    fn metrics(&mut self) -> Result<String> {
        if let Some((at, text)) = &self.last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect()?,
        };
        // After an error the next client makes a new connection.
        let report = client.tasks(usize::MAX)?;
        self.client = Some(client);
        let kernel = self.kernel.get_or_insert_with(|| Kernel::new(root()));
        let snapshot = kernel.complete(report);
        self.totals.add(&snapshot);
        let text = text::metrics(&snapshot.report.system, &self.totals);
        self.last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_a_socket() {
        assert!(matches!("127.0.0.1:9877".parse(), Ok(Address::Tcp(_))));
        assert!(matches!("[::1]:0".parse(), Ok(Address::Tcp(_))));
        assert_eq!("unix:/a".parse(), Ok(Address::Unix("/a".into())));
        for text in [
            "",
            "9877",
            "unix:",
            "localhost:1",
            "127.0.0.1",
            "127.0.0.1:99999",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_left_over_socket_is_replaced_and_one_in_use_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let server = Server::launch(&address).unwrap();
        let refused = Server::launch(&address).err().unwrap();
        assert!(
            format!("{refused:#}").contains("choose another"),
            "{refused:#}"
        );
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        fs::write(&path, "kept").unwrap();
        assert!(Server::launch(&Address::Unix(path.clone())).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }

    #[test]
    fn without_a_scheduler_a_client_is_told_so() {
        let address = "127.0.0.1:0".parse().unwrap();
        let Listener::Tcp(listener) = listen(&address).unwrap() else {
            panic!("not TCP");
        };
        let at = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || serve(&Listener::Tcp(listener), &stopped));
        // A client that dies in the middle of its request does no harm.
        drop(TcpStream::connect(at).unwrap());
        // Clients that say nothing do none, either.
        let _silent: Vec<_> = (1..CLIENTS_MAX).map(|_| TcpStream::connect(at)).collect();
        let began = Instant::now();
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(began.elapsed() < Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Clients of the stats socket.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use drfq_sense::root;
use drfq_stats::{
    events::EVENTS,
    report::{System, Tasks},
    rows::Rows,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use crate::{json_lines, link_summary::link_summaries, local_time, preflight, server::SOCKET};

/// How long an answer may take. The agent answers within its poll interval, or once it
/// has loaded the scheduler again after CPU hotplug.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait for a scheduler whose socket still exists.
const REAPPEARS_WITHIN: Duration = Duration::from_secs(30);

/// A connection to the running scheduler. It speaks the protocol of scx_stats, whose own
/// client parses every answer twice.
pub struct Client {
    stream: BufReader<UnixStream>,
    line: String,
}

/// A line of the server.
#[derive(Deserialize)]
struct Answer<T> {
    errno: i32,
    args: Response<T>,
}

#[derive(Deserialize)]
struct Response<T> {
    resp: T,
}

impl Client {
    /// Connects to the running scheduler.
    ///
    /// # Errors
    /// No scheduler is running, or this user may not connect to it.
    pub fn connect() -> Result<Self> {
        Self::connect_to(Path::new(SOCKET)).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(nobody_serves(&root())),
            ErrorKind::PermissionDenied => {
                anyhow!(
                    "not permitted to connect to {SOCKET}; run this command with sudo, or the \
                     scheduler with --stats-group"
                )
            }
            _ => anyhow::Error::from(error).context(format!("cannot connect to {SOCKET}")),
        })
    }

    /// Connects to a socket.
    ///
    /// # Errors
    /// Nothing serves it, or this user may not connect.
    pub fn connect_to(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream: BufReader::new(stream),
            line: String::new(),
        })
    }

    /// Connects again after the connection was lost.
    ///
    /// # Errors
    /// The scheduler has not been loaded again.
    pub fn reconnect() -> Result<Self> {
        let pause = Duration::from_millis(100);
        for _ in 0..REAPPEARS_WITHIN.as_millis() / pause.as_millis() {
            if !Path::new(SOCKET).exists() {
                break;
            }
            if let Ok(client) = Self::connect() {
                return Ok(client);
            }
            sleep(pause);
        }
        match preflight::is_ours_loaded(&root()) {
            true => Err(anyhow!(nobody_serves(&root()))),
            false => Err(anyhow!("scx_drfq has ended")),
        }
    }

    /// The system since the last request.
    ///
    /// # Errors
    /// The scheduler has ended, or another program serves the socket.
    pub fn system(&mut self) -> Result<System> {
        self.request(&json!({ "target": "top" }))
    }

    /// The heaviest tasks since the last request.
    ///
    /// # Errors
    /// The scheduler has ended, or another program serves the socket.
    pub fn tasks(&mut self, limit: usize) -> Result<Tasks> {
        self.request(&json!({ "target": "tasks", "limit": limit.to_string() }))
    }

    /// What a view shows of all tasks since the last such request.
    ///
    /// # Errors
    /// The scheduler has ended, or it is of another version.
    pub fn rows(&mut self, limit: usize) -> Result<Tasks> {
        let arguments = json!({ "target": "rows", "limit": limit.to_string() });
        let rows: Rows = self.request(&arguments)?;
        Tasks::try_from(rows).map_err(|error| anyhow!(error))
    }

    fn request<T: DeserializeOwned>(&mut self, arguments: &serde_json::Value) -> Result<T> {
        self.exchange(arguments)
            .with_context(|| format!("no answer from {SOCKET}"))?;
        let strange = || {
            format!(
                "the program that serves {SOCKET} does not answer like this version of scx_drfq"
            )
        };
        match serde_json::from_str::<Answer<T>>(&self.line) {
            Ok(answer) if answer.errno == 0 => Ok(answer.args.resp),
            Ok(answer) => bail!("{SOCKET} answers with error {}", answer.errno),
            // An error has a text in place of statistics.
            Err(wrong) => match serde_json::from_str::<Answer<String>>(&self.line) {
                Ok(answer) if answer.errno != 0 => bail!("{}", answer.args.resp),
                _ => Err(wrong).with_context(strange),
            },
        }
    }

    /// Asks, and reads the line of the answer.
    fn exchange(&mut self, arguments: &serde_json::Value) -> io::Result<()> {
        let request = json!({ "req": "stats", "args": arguments }).to_string() + "\n";
        let closed = || {
            let words = "it has closed the connection: it ended, or serves 64 others already";
            io::Error::new(ErrorKind::UnexpectedEof, words)
        };
        let is_closed = |error: &io::Error| {
            matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            )
        };
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        self.line.clear();
        match sent.and_then(|()| self.stream.read_line(&mut self.line)) {
            Ok(0) => Err(closed()),
            Ok(_) => Ok(()),
            // A broken pipe of ours would be taken for that of the reader of our output.
            Err(error) if is_closed(&error) => Err(closed()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("it took longer than {} s", TIMEOUT.as_secs()),
            )),
            Err(error) => Err(error),
        }
    }
}

/// Why nothing serves the socket of the machine whose `/` is `root`, and what to do.
fn nobody_serves(root: &Path) -> String {
    match preflight::is_ours_loaded(root) {
        true => format!("scx_drfq runs, but nothing serves {SOCKET}; restart it for statistics"),
        false => format!("no scx_drfq is running (nothing serves {SOCKET}); start it first"),
    }
}

/// Prints a line of statistics at each interval until interrupted; with `json`, an
/// object of all statistics.
///
/// # Errors
/// No scheduler is running, or it has ended.
pub fn monitor(interval: Duration, json: bool) -> Result<()> {
    let look = |client: &mut Client| match json {
        true => client.tasks(usize::MAX),
        false => client.system().map(|system| Tasks {
            system,
            ..Tasks::default()
        }),
    };
    let mut client = Client::connect()?;
    let mut prev = look(&mut client)?;
    loop {
        sleep(interval);
        match look(&mut client) {
            Ok(cur) => {
                let line = match json {
                    true => json_lines::line(local_time::now_ns(), &cur)?,
                    false => line(&prev.system, &cur.system),
                };
                writeln!(io::stdout(), "{line}")?;
                prev = cur;
            }
            Err(_) => {
                client = Client::reconnect()?;
                prev = look(&mut client)?;
            }
        }
    }
}

/// One line about the interval between two reports, with the rates of the events
/// that happened.
pub fn line(prev: &System, cur: &System) -> String {
    let seconds = cur.interval_ns as f64 / 1e9;
    let mut text = format!(
        "V {:.3} s (+{:.3} in {seconds:.1} s)  busy {}/{}",
        cur.vtime_ns as f64 / 1e9,
        cur.vtime_advance_ns as f64 / 1e9,
        cur.busy_cpus,
        cur.nr_cpus,
    );
    for link in link_summaries(cur) {
        text += &format!("  {link}");
    }
    // A scheduler that was loaded again counts from 0.
    let events = EVENTS.iter().filter(|_| !cur.is_of_new_load(prev));
    for event in events {
        let count = |system: &System| system.events.get(event.name).copied().unwrap_or(0);
        let happened = count(cur).saturating_sub(count(prev));
        if happened > 0 {
            text += &format!("  {} {:.1}/s", event.name, happened as f64 / seconds);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    /// A client whose server answers each request with the next line.
    fn client_of(lines: &'static [&'static str]) -> (tempfile::TempDir, Client) {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("stats")).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut requests = BufReader::new(&stream).lines();
            for line in lines {
                let request = requests.next().unwrap().unwrap();
                assert!(request.contains(r#""req":"stats""#), "{request}");
                writeln!(&stream, "{line}").unwrap();
            }
        });
        let client = Client::connect_to(&dir.path().join("stats")).unwrap();
        (dir, client)
    }

    #[test]
    fn an_answer_is_read_and_an_error_of_the_server_is_told() {
        let (_dir, mut client) = client_of(&[
            r#"{"errno":0,"args":{"resp":{"interval_ns":5,"new_member":1}}}"#,
            r#"{"errno":22,"args":{"resp":"limit is not a number"}}"#,
            "nonsense",
        ]);
        assert_eq!(client.system().unwrap().interval_ns, 5);
        let refused = format!("{:#}", client.system().unwrap_err());
        assert_eq!(refused, "limit is not a number");
        let wrong = format!("{:#}", client.system().unwrap_err());
        assert!(
            wrong.contains("does not answer like this version"),
            "{wrong}"
        );
        let ended = format!("{:#}", client.system().unwrap_err());
        assert!(ended.starts_with("no answer from "), "{ended}");
    }

    #[test]
    fn a_server_that_closes_is_not_the_reader_of_our_output() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("stats")).unwrap();
        let mut client = Client::connect_to(&dir.path().join("stats")).unwrap();
        drop(listener.accept().unwrap());
        let error = client.system().unwrap_err();
        let cause = error.root_cause().downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), ErrorKind::UnexpectedEof, "{error:#}");
    }

    #[test]
    fn a_scheduler_without_statistics_is_told_from_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(nobody_serves(root.path()).contains("start it first"));
        let dir = root.path().join("sys/kernel/sched_ext");
        std::fs::create_dir_all(dir.join("root")).unwrap();
        std::fs::write(dir.join("state"), "enabled\n").unwrap();
        for (ops, words) in [
            ("drfq_0.1.0\n", "restart it"),
            ("rusty\n", "start it first"),
        ] {
            std::fs::write(dir.join("root/ops"), ops).unwrap();
            assert!(nobody_serves(root.path()).contains(words), "{ops}");
        }
    }

    #[test]
    fn a_line_shows_only_events_that_happened() {
        let mut prev = System {
            vtime_ns: 1_000_000_000,
            nr_cpus: 4,
            ..Default::default()
        };
        prev.events = [("switches".to_owned(), 10), ("continued".to_owned(), 3)].into();
        let mut cur = prev.clone();
        cur.interval_ns = 2_000_000_000;
        cur.vtime_ns += 500_000_000;
        cur.vtime_advance_ns = 500_000_000;
        cur.busy_cpus = 3;
        cur.events.insert("switches".into(), 110);
        assert_eq!(
            line(&prev, &cur),
            "V 1.500 s (+0.500 in 2.0 s)  busy 3/4  switches 50.0/s"
        );
        // The scheduler was loaded again, and has run for longer than at `prev`.
        (prev.at_ns, prev.uptime_ns) = (1_000_000_000, 500_000_000);
        (cur.at_ns, cur.uptime_ns) = (12_000_000_000, 2_000_000_000);
        assert_eq!(line(&prev, &cur), "V 1.500 s (+0.500 in 2.0 s)  busy 3/4");
    }
}

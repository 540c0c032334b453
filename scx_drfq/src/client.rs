// SPDX-License-Identifier: GPL-2.0-only
//! Clients of the stats socket.

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use drfq_stats::{
    events::EVENTS,
    report::{System, Tasks},
};
use scx_stats::StatsClient;
use serde::de::DeserializeOwned;

use crate::{json_lines, link_summary::link_summaries, server::SOCKET};

/// How long an answer may take (ms). The agent answers within its poll interval.
const TIMEOUT_MS: u64 = 10_000;

/// How long to wait for a scheduler whose socket still exists. After CPU hotplug
/// the scheduler is loaded again.
const REAPPEARS_WITHIN: Duration = Duration::from_secs(30);

/// A connection to the running scheduler.
pub struct Client(StatsClient);

impl Client {
    /// Connects to the running scheduler.
    ///
    /// # Errors
    /// No scheduler is running, or this user may not connect to it.
    pub fn connect() -> Result<Self> {
        StatsClient::new()
            .set_path(SOCKET)
            .connect(Some(TIMEOUT_MS))
            .map(Self)
            .map_err(
                |error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                    Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                        anyhow!("no scx_drfq is running (nothing serves {SOCKET}); start it first")
                    }
                    Some(ErrorKind::PermissionDenied) => {
                        anyhow!("not permitted to connect to {SOCKET}; run this command with sudo")
                    }
                    _ => error.context(format!("cannot connect to {SOCKET}")),
                },
            )
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
        Err(anyhow!("scx_drfq has ended"))
    }

    /// The system since the last request.
    ///
    /// # Errors
    /// The scheduler has ended, or another program serves the socket.
    pub fn system(&mut self) -> Result<System> {
        self.request(vec![("target".into(), "top".into())])
    }

    /// The heaviest tasks since the last request.
    ///
    /// # Errors
    /// The scheduler has ended, or another program serves the socket.
    pub fn tasks(&mut self, limit: usize) -> Result<Tasks> {
        let limit = ("limit".into(), limit.to_string());
        self.request(vec![("target".into(), "tasks".into()), limit])
    }

    fn request<T: DeserializeOwned>(&mut self, arguments: Vec<(String, String)>) -> Result<T> {
        let answer = self.0.request("stats", arguments);
        answer.with_context(|| {
            format!(
                "the program that serves {SOCKET} does not answer like this version of scx_drfq"
            )
        })
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
                    true => json_lines::line(json_lines::now_ns(), &cur)?,
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
    for event in EVENTS {
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
    use super::*;

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
    }
}

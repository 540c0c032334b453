// SPDX-License-Identifier: GPL-2.0-only
//! The process that owns the stats socket. It asks the agent for samples, and knows nothing
//! else of the machine.

use std::{
    io::Write,
    os::{fd::AsRawFd, unix::net::UnixStream},
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Error, Result, bail};

use super::{
    messages::{Inbox, TO_AGENT_MAX, TO_SERVER_MAX, ToAgent, ToServer, encode},
    sandbox::{self, Sandbox},
};
use crate::{agent::say, connections::Server, open_files, server, stats_group::StatsGroup};

/// Serves statistics at `path` until the agent, the parent of this process, ends. The kernel
/// closes its end of the connection then. `no_directory`: why there is none for the socket.
pub fn run(
    connection: UnixStream,
    path: &Path,
    group: Option<StatsGroup>,
    no_directory: Option<Error>,
) -> ! {
    let work = || serve_confined(connection, path, group, no_directory);
    // Beyond this function are the destructors of the agent.
    let status = match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(reason)) => {
            say(&format!("cannot serve statistics: {reason:#}"));
            1
        }
        Err(_) => 101,
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

fn serve_confined(
    connection: UnixStream,
    path: &Path,
    group: Option<StatsGroup>,
    no_directory: Option<Error>,
) -> Result<()> {
    sandbox::leave_signals_to_the_agent();
    open_files::close_inherited(&[connection.as_raw_fd()]);
    let sandbox = Sandbox::enter(path, group)?;
    serve(connection, || {
        let served = server::launch(path).map_err(|reason| {
            let why = no_directory.as_ref();
            why.map_or(reason, server::unserved)
        });
        let refused = || Some(format!("{:#}", group?.admit(path).err()?));
        let warning = served
            .as_ref()
            .map_or_else(|why| Some(why.clone()), |_| refused());
        sandbox.close()?;
        Ok((served.ok(), warning))
    })
}

/// Serves until the agent closes the connection. `open` opens the socket, once the scheduler
/// is loaded, and tells what the user should know.
fn serve(
    connection: UnixStream,
    open: impl FnOnce() -> Result<(Option<Server>, Option<String>)>,
) -> Result<()> {
    let outbox = connection
        .try_clone()
        .context("cannot write to the agent")?;
    let outbox = Arc::new(Mutex::new(outbox));
    let mut inbox = Inbox::new(connection, TO_SERVER_MAX);
    let mut load = match inbox.wait()? {
        Some(ToServer::Loaded(load)) => Arc::new(*load),
        Some(ToServer::Answer(_)) => bail!("the agent answers before it has loaded the scheduler"),
        None => return Ok(()),
    };
    let (server, warning) = open()?;
    let (requests, samples) = server.map(|of| (of.requests, of.samples)).unzip();
    send(&outbox, &ToAgent::Serving(warning))?;
    let asking = Arc::clone(&outbox);
    // Without a connection to the agent, the main thread ends the process.
    thread::spawn(move || {
        let mut requests = requests.into_iter().flatten();
        requests.try_for_each(|with_tasks| send(&asking, &ToAgent::Request(with_tasks)))
    });
    while let Some(message) = inbox.wait()? {
        match message {
            ToServer::Loaded(again) => {
                load = Arc::new(*again);
                send(&outbox, &ToAgent::Serving(None))?;
            }
            ToServer::Answer(answer) => {
                let samples = samples.as_ref().context("no client has asked")?;
                samples.send(answer.map(|sample| (Arc::clone(&load), *sample)))?;
            }
        }
    }
    Ok(())
}

fn send(outbox: &Mutex<UnixStream>, message: &ToAgent) -> Result<()> {
    let bytes = encode(message, TO_AGENT_MAX)?;
    let mut stream = outbox.lock().unwrap_or_else(PoisonError::into_inner);
    stream
        .write_all(&bytes)
        .context("cannot write to the agent")
}

#[cfg(test)]
mod tests {
    use drfq_stats::{
        report::System,
        sample::{Load, Sample},
    };
    use scx_stats::StatsClient;
    use tempfile::TempDir;

    use super::*;

    /// A server in a thread, and the agent's end of its connection.
    fn served() -> (TempDir, UnixStream, Inbox) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats");
        let (agent, connection) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            serve(connection, || {
                let served = server::launch(&path).map_err(anyhow::Error::msg)?;
                Ok((Some(served), None))
            })
        });
        let inbox = Inbox::new(agent.try_clone().unwrap(), TO_AGENT_MAX);
        (directory, agent, inbox)
    }

    fn tell(agent: &mut UnixStream, message: &ToServer) {
        let bytes = encode(message, TO_SERVER_MAX).unwrap();
        agent.write_all(&bytes).unwrap();
    }

    fn sample(at_ns: u64) -> Sample {
        Sample {
            at_ns,
            ..Sample::default()
        }
    }

    fn loaded(at_ns: u64) -> ToServer {
        ToServer::Loaded(Box::new(Load {
            first: sample(at_ns),
            ..Load::default()
        }))
    }

    #[test]
    fn a_client_that_asks_while_the_scheduler_is_loaded_again_gets_an_interval_of_the_new_one() {
        let (directory, mut agent, mut inbox) = served();
        let path = directory.path().join("stats");
        assert!(
            !path.exists(),
            "the socket is open before the scheduler runs"
        );
        tell(&mut agent, &loaded(100));
        assert_eq!(inbox.wait().unwrap(), Some(ToAgent::Serving(None)));
        let client = thread::spawn(move || {
            let client = StatsClient::new().set_path(&path);
            let mut client = client.connect(Some(10_000)).unwrap();
            let mut ask = || client.request::<System>("stats", vec![]);
            [ask(), ask(), ask()].map(|answer| match answer {
                Ok(system) => Ok(system.interval_ns),
                Err(reason) => Err(format!("{reason:#}")),
            })
        });
        let request = Some(ToAgent::Request(false));
        assert_eq!(inbox.wait().unwrap(), request);
        tell(&mut agent, &ToServer::Answer(Ok(Box::new(sample(150)))));
        assert_eq!(inbox.wait().unwrap(), request);
        tell(&mut agent, &loaded(200));
        assert_eq!(inbox.wait().unwrap(), Some(ToAgent::Serving(None)));
        tell(&mut agent, &ToServer::Answer(Ok(Box::new(sample(207)))));
        assert_eq!(inbox.wait().unwrap(), request);
        tell(&mut agent, &ToServer::Answer(Err("out of order".into())));
        let [first, second, third] = client.join().unwrap();
        assert_eq!((first, second), (Ok(50), Ok(7)));
        assert!(third.unwrap_err().contains("out of order"));
    }

    #[test]
    fn the_server_ends_with_its_agent() {
        let (agent, connection) = UnixStream::pair().unwrap();
        drop(agent);
        assert!(serve(connection, || bail!("no scheduler")).is_ok());
        let (mut agent, connection) = UnixStream::pair().unwrap();
        tell(&mut agent, &ToServer::Answer(Err("early".into())));
        assert!(serve(connection, || bail!("no scheduler")).is_err());
    }
}

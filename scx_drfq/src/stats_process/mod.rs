// SPDX-License-Identifier: GPL-2.0-only
//! The process that serves statistics. It reads what clients send, so it has no privilege:
//! the agent, its parent, reads the scheduler's counters and hands it samples. The agent
//! trusts nothing that comes back, and waits for it for a limited time.

mod child;
mod messages;
mod sandbox;
mod system_calls;

use std::{
    io::{ErrorKind, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use drfq_stats::sample::{Load, Sample};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    unistd::Pid,
};

use self::messages::{Inbox, TO_AGENT_MAX, TO_SERVER_MAX, ToAgent, ToServer, encode};
use crate::{
    server::{self, SocketFile, WithTasks},
    stats_group::StatsGroup,
};

/// How long the process may take to read a message, or to open the socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the agent waits for its end, once its connection is closed. The agent may not kill
/// it, because it has another user.
const FAREWELL: Duration = Duration::from_secs(1);

/// The process, as the agent knows it.
pub struct StatsProcess {
    running: Option<Running>,
    /// A request that came before it could be answered.
    pending: Option<WithTasks>,
    /// Why it has ended, until the user knows.
    end: Option<String>,
    path: PathBuf,
    socket: Option<SocketFile>,
}

struct Running {
    process: Pid,
    stream: UnixStream,
    inbox: Inbox,
}

impl StatsProcess {
    /// Starts the process. Call it while this process has a single thread and all
    /// privileges. The socket at `path` is opened at the first load.
    pub fn start(path: &Path, group: Option<StatsGroup>) -> Self {
        let started = Running::start(path, group);
        let end = started.as_ref().err().map(|reason| {
            format!("the statistics' process cannot be started: {reason:#}; scheduling goes on")
        });
        Self {
            running: started.ok(),
            pending: None,
            end,
            path: path.to_owned(),
            socket: None,
        }
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        let running = self.running.as_ref();
        running.map(|running| running.process.as_raw() as u32)
    }

    /// Tells it that the scheduler was loaded. Returns what the user should know.
    pub fn load(&mut self, load: Load) -> Option<String> {
        let message = ToServer::Loaded(Box::new(load));
        let pending = &mut self.pending;
        let loaded = self.running.as_mut()?.load(&message, pending, PATIENCE);
        // get_or_insert_with() keeps the first value, whose end removes the file.
        self.socket
            .get_or_insert_with(|| SocketFile(self.path.clone()));
        self.unless_failed(loaded)?
    }

    /// Waits for a request, at most this long. Returns at once if a signal arrives.
    pub fn wait_for_request(&mut self, longest: Duration) -> Option<WithTasks> {
        if let Some(with_tasks) = self.pending.take() {
            return Some(with_tasks);
        }
        let Some(running) = &mut self.running else {
            thread::sleep(longest);
            return None;
        };
        let received = running.receive(longest);
        match self.unless_failed(received)?? {
            ToAgent::Request(with_tasks) => Some(with_tasks),
            ToAgent::Serving(_) => None,
        }
    }

    /// Answers a request: with a sample, or why there is none.
    pub fn answer(&mut self, answer: Result<Sample, String>) {
        if let Some(running) = &mut self.running {
            let sent = running.answer(answer);
            self.unless_failed(sent);
        }
    }

    /// Why the process has ended, for the user, once. Another process may have its id then.
    pub fn take_end(&mut self) -> Option<String> {
        self.end.take()
    }

    /// The value, unless the process has ended or does what it should not.
    fn unless_failed<T>(&mut self, result: Result<T>) -> Option<T> {
        result
            .map_err(|reason| {
                // Clients then know at once that they wait in vain.
                self.socket = None;
                let why = match self.running.take().and_then(Running::finish) {
                    Some(WaitStatus::Exited(_, status)) => format!("exit status {status}"),
                    Some(WaitStatus::Signaled(_, signal, _)) => format!("signal {}", signal as i32),
                    _ => format!("{reason:#}"),
                };
                self.end = Some(format!(
                    "the statistics' process ended ({why}); scheduling goes on; restart scx_drfq \
                     to have statistics again"
                ));
            })
            .ok()
    }
}

impl Drop for StatsProcess {
    fn drop(&mut self) {
        self.socket = None;
        self.running.take().map(Running::finish);
    }
}

impl Running {
    fn start(path: &Path, group: Option<StatsGroup>) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("no socket")?;
        let inbox = Inbox::new(ours.try_clone().context("no socket")?, TO_AGENT_MAX);
        // The agent itself may open a socket there, for metrics.
        let no_directory = server::open_directories(path).err();
        // SAFETY: the process has one thread, so that the child may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(Errno::last().into()),
            0 => child::run(theirs, path, group, no_directory),
            process => Ok(Self {
                process: Pid::from_raw(process),
                stream: ours,
                inbox,
            }),
        }
    }

    fn load(
        &mut self,
        message: &ToServer,
        pending: &mut Option<WithTasks>,
        patience: Duration,
    ) -> Result<Option<String>> {
        let end = Instant::now() + patience;
        self.send(&encode(message, TO_SERVER_MAX)?)?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Requests without end are no answer, either.
            ensure!(!left.is_zero(), "no answer within {patience:?}");
            match self.receive(left)? {
                Some(ToAgent::Serving(warning)) => return Ok(warning),
                Some(ToAgent::Request(with_tasks)) => *pending = Some(with_tasks),
                None => (),
            }
        }
    }

    fn answer(&mut self, answer: Result<Sample, String>) -> Result<()> {
        let bytes = encode(&ToServer::Answer(answer.map(Box::new)), TO_SERVER_MAX);
        let bytes = bytes.or_else(|reason| {
            let refused = ToServer::Answer(Err(reason.to_string()));
            encode(&refused, TO_SERVER_MAX)
        });
        self.send(&bytes?)
    }

    /// Sends all of a message.
    fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "it did not read for {PATIENCE:?}");
            self.stream.set_write_timeout(Some(left))?;
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => (),
                Err(error) => bail!(error),
            }
        }
        Ok(())
    }

    /// The next message, unless none arrives in time. A signal ends the wait.
    fn receive(&mut self, longest: Duration) -> Result<Option<ToAgent>> {
        if let Some(message) = self.inbox.take()? {
            return Ok(Some(message));
        }
        let mut readable = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        // The kernel counts milliseconds.
        let longest = PollTimeout::try_from(longest + Duration::from_millis(1))?;
        match poll(&mut readable, longest) {
            Ok(0) | Err(Errno::EINTR) => return Ok(None),
            Ok(_) => (),
            Err(error) => bail!(error),
        }
        // One read never waits here, and a message need not be whole.
        ensure!(self.inbox.read()?, "it closed its connection");
        self.inbox.take()
    }

    /// Ends the process. Returns how it ended, if it did in time.
    fn finish(self) -> Option<WaitStatus> {
        let process = self.process;
        drop(self);
        let end = Instant::now() + FAREWELL;
        loop {
            match waitpid(process, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(2));
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(status) => return Some(status),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        fs,
        io::{BufRead, BufReader, Read},
        process::Command,
    };

    use caps::{CapSet, Capability};
    use drfq_stats::report::System;
    use nix::sys::wait::Id;
    use scx_stats::StatsClient;
    use tempfile::TempDir;

    use super::*;
    use crate::connections::CLIENTS_MAX;

    const LONG: Duration = Duration::from_secs(60);

    /// A process that serves, in a directory that is made for its socket.
    fn serving() -> (TempDir, StatsProcess) {
        let directory = tempfile::tempdir().unwrap();
        // The harness has threads. The child allocates, which the C library allows, and writes
        // to standard error only if it fails.
        let mut statistics = StatsProcess::start(&directory.path().join("scx/root/stats"), None);
        assert_eq!(statistics.load(Load::default()), None);
        assert_eq!(statistics.take_end(), None);
        (directory, statistics)
    }

    /// What the kernel tells of a thread.
    fn status(thread: &Path) -> BTreeMap<String, String> {
        let text = fs::read_to_string(thread.join("status")).unwrap();
        let fields = text.lines().filter_map(|line| line.split_once(":\t"));
        fields
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn clients_are_answered_by_threads_without_privileges() {
        let (_directory, mut statistics) = serving();
        let path = statistics.path.clone();
        let client = thread::spawn(move || {
            let mut client = StatsClient::new().set_path(&path);
            client = client.connect(Some(10_000)).unwrap();
            let interval = |system: System| system.interval_ns;
            let answers = [(); 2].map(|()| client.request("stats", vec![]).map(interval).ok());
            // The thread that serves the client ends with its connection.
            (client, answers)
        });
        for at_ns in [5, 12] {
            assert_eq!(statistics.wait_for_request(LONG), Some(false));
            let sample = Sample {
                at_ns,
                ..Sample::default()
            };
            statistics.answer(Ok(sample));
        }
        let process = format!("/proc/{}", statistics.id().unwrap());
        let limits = fs::read_to_string(format!("{process}/limits")).unwrap();
        let memory = limits
            .lines()
            .find(|line| line.starts_with("Max data size"));
        assert!(memory.unwrap().contains("4294967296"), "{memory:?}");
        let process = format!("{process}/task");
        let threads: Vec<_> = fs::read_dir(process).unwrap().collect();
        assert!(threads.len() >= 4, "{threads:?}");
        let may = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap();
        for thread in threads {
            let status = status(&thread.unwrap().path());
            let is = |key: &str, value: &str| assert_eq!(status[key], value, "{key}");
            for (key, value) in &status {
                let bounding = key == "CapBnd" && !may(Capability::CAP_SETPCAP);
                if key.starts_with("Cap") && !bounding {
                    assert_eq!(value, "0000000000000000", "{key}");
                }
            }
            is("NoNewPrivs", "1");
            is("Seccomp", "2");
            let nobody = "65534\t65534\t65534\t65534";
            if may(Capability::CAP_SETUID) {
                is("Uid", nobody);
            }
            if may(Capability::CAP_SETGID) {
                is("Gid", nobody);
                is("Groups", " ");
            }
        }
        let (_connected, answers) = client.join().unwrap();
        assert_eq!(answers, [Some(5), Some(7)]);
    }

    #[test]
    fn a_client_that_sends_an_endless_line_is_turned_away() {
        let (_directory, mut statistics) = serving();
        let mut greedy = UnixStream::connect(&statistics.path).unwrap();
        greedy.set_write_timeout(Some(LONG)).unwrap();
        assert!(greedy.write_all(&vec![b'a'; 1 << 20]).is_err());
        is_answered(&mut statistics);
    }

    #[test]
    fn clients_beyond_the_bound_are_turned_away_until_others_leave() {
        let (_directory, mut statistics) = serving();
        let connect = || UnixStream::connect(&statistics.path).unwrap();
        // The last places are for the agent's user, who is this one.
        let served: Vec<_> = (0..CLIENTS_MAX).map(|_| connect()).collect();
        let mut last = served.last().unwrap();
        last.set_read_timeout(Some(LONG)).unwrap();
        last.write_all(b"{\"req\":\"stats_meta\"}\n").unwrap();
        assert_eq!(last.read(&mut [0]).unwrap(), 1);
        let mut refused = connect();
        refused.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
        drop(served);
        is_answered(&mut statistics);
    }

    /// Checks that a new client is answered before long.
    fn is_answered(statistics: &mut StatsProcess) {
        let path = statistics.path.clone();
        let client = thread::spawn(move || {
            let end = Instant::now() + LONG;
            loop {
                let mut stream = UnixStream::connect(&path).unwrap();
                let asked = stream.write_all(b"{\"req\":\"stats\"}\n");
                let mut answer = String::new();
                let read = BufReader::new(stream).read_line(&mut answer);
                if asked.is_ok() && read.is_ok_and(|length| length > 0) {
                    return answer;
                }
                assert!(Instant::now() < end);
                thread::sleep(Duration::from_millis(10));
            }
        });
        assert_eq!(statistics.wait_for_request(LONG), Some(false));
        statistics.answer(Ok(Sample::default()));
        let answer = client.join().unwrap();
        assert!(
            answer.starts_with("{\"errno\":0,\"args\":{\"resp\":{"),
            "{answer}"
        );
    }

    #[test]
    fn a_process_that_is_killed_is_told_once_and_leaves_no_socket() {
        let (_directory, mut statistics) = serving();
        assert!(statistics.path.exists());
        let process = statistics.id().unwrap();
        // SAFETY: the process is ours, and has not been waited for.
        let killed = unsafe { libc::kill(process as libc::pid_t, libc::SIGKILL) };
        assert_eq!(killed, 0);
        while statistics.id().is_some() {
            assert_eq!(statistics.wait_for_request(LONG), None);
        }
        let reason = statistics.take_end().unwrap();
        assert!(
            reason.contains("ended (signal 9); scheduling goes on"),
            "{reason}"
        );
        assert_eq!(statistics.take_end(), None);
        assert!(!statistics.path.exists());
        statistics.answer(Ok(Sample::default()));
        assert_eq!(statistics.load(Load::default()), None);
        assert_eq!(statistics.wait_for_request(Duration::ZERO), None);
    }

    #[test]
    fn the_process_and_its_socket_end_with_the_agent() {
        let (_directory, statistics) = serving();
        let (process, path) = (statistics.id().unwrap(), statistics.path.clone());
        drop(statistics);
        assert!(!path.exists());
        let waited = nix::sys::wait::waitid(
            Id::Pid(Pid::from_raw(process as libc::pid_t)),
            WaitPidFlag::WEXITED,
        );
        assert_eq!(waited, Err(Errno::ECHILD));
    }

    #[test]
    fn the_directories_of_the_socket_are_there_before_the_process_has_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scx/root/stats");
        let _statistics = StatsProcess::start(&path, None);
        assert!(path.parent().unwrap().is_dir());
    }

    #[test]
    fn a_socket_that_cannot_be_opened_ends_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let mut statistics = StatsProcess::start(&file.join("root/stats"), None);
        let reason = statistics.load(Load::default()).unwrap();
        assert!(
            reason.contains("file/root") && reason.ends_with("goes on"),
            "{reason}"
        );
        assert_eq!(statistics.load(Load::default()), None);
        assert!(statistics.id().is_some());
    }

    #[test]
    fn requests_do_not_make_the_agent_wait_longer_for_an_answer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut running = Running {
            process: Pid::this(),
            inbox: Inbox::new(ours.try_clone().unwrap(), TO_AGENT_MAX),
            stream: ours,
        };
        let mut tell = |message| {
            let bytes = encode(&message, TO_AGENT_MAX).unwrap();
            theirs.write_all(&bytes).unwrap();
        };
        (0..100).for_each(|_| tell(ToAgent::Request(true)));
        tell(ToAgent::Serving(None));
        let message = ToServer::Answer(Err(String::new()));
        // The time is over before the first of them is read.
        let late = running.load(&message, &mut None, Duration::ZERO);
        assert!(late.unwrap_err().to_string().contains("no answer"));
        assert_eq!(running.load(&message, &mut None, LONG).unwrap(), None);
    }

    #[test]
    fn a_process_that_sends_nonsense_is_left_alone() {
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut statistics = StatsProcess {
            running: Some(Running {
                process: Pid::from_raw(other.id() as libc::pid_t),
                inbox: Inbox::new(ours.try_clone().unwrap(), TO_AGENT_MAX),
                stream: ours,
            }),
            pending: None,
            end: None,
            path: PathBuf::new(),
            socket: None,
        };
        theirs.write_all(&[0xff; 64]).unwrap();
        assert_eq!(statistics.wait_for_request(LONG), None);
        let reason = statistics.take_end().unwrap();
        assert!(reason.contains("too long"), "{reason}");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

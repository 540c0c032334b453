// SPDX-License-Identifier: GPL-2.0-only
//! A real drfq-mc, a second client that looks at it, and a FAKE scheduler.

#![allow(dead_code, missing_docs)]

use std::{
    cell::RefCell,
    collections::HashMap,
    env, fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use drfq_controller_link::{
    driver::Driver,
    reconnector::{Endpoint, Reconnector},
    registers::{Fault, HwId},
    scheduler_view::{Charging, RunningTask, SchedulerView, TaskUsage},
    target::Target,
};

/// The server's binary; none if it is not built and this is not CI.
pub fn server_binary() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = env::var_os("DRFQ_MC").map(PathBuf::from);
    let path = path.unwrap_or_else(|| target.join("gem5-backend/drfq-mc"));
    if path.exists() {
        return Some(path);
    }
    assert!(
        env::var_os("CI").is_none(),
        "{} is not built",
        path.display()
    );
    println!(
        "skipped: {} is not built; run: just test-rust",
        path.display()
    );
    None
}

/// Whether a test has to be skipped.
pub fn no_server() -> bool {
    server_binary().is_none()
}

/// A link to a server with a driver that `driver` makes.
pub fn link_to<J: Driver>(server: &Server, driver: impl Fn() -> J) -> Reconnector<J> {
    let target = Target::Unix(server.path.clone());
    let endpoint = Endpoint {
        timeout: Duration::from_secs(30),
        ..Endpoint::new(target, "/".into(), |line| println!("{line}"))
    };
    let begun = Instant::now();
    loop {
        match Reconnector::open(endpoint.clone(), driver()) {
            Ok(link) => return link,
            // The server may not have noticed yet that the last writer left.
            Err(Fault::Refused(why)) if begun.elapsed() < Duration::from_secs(30) => {
                println!("{why}");
            }
            Err(fault) => panic!("{fault}"),
        }
        sleep(Duration::from_millis(5));
    }
}

/// A server with its socket in a new directory.
pub struct Server {
    child: RefCell<Child>,
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mc");
        let child = RefCell::new(spawn(&path, arguments));
        Self {
            child,
            path,
            _dir: dir,
        }
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.borrow_mut();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts another server on the same socket.
    pub fn restart(&mut self, arguments: &[&str]) {
        *self.child.borrow_mut() = spawn(&self.path, arguments);
    }

    /// Connects as the writer, gives each core traffic (bytes per second of
    /// simulated time), and disconnects.
    pub fn load_cores(&self, rates: &[u64]) {
        let begun = Instant::now();
        let mut client = loop {
            match Client::connect(&self.path, 1) {
                Some(client) => break client,
                None => assert!(begun.elapsed() < Duration::from_secs(30)),
            }
            sleep(Duration::from_millis(5));
        };
        let mut payload = Vec::new();
        for (core, rate) in rates.iter().enumerate() {
            payload.extend([0u32, core as u32].map(u32::to_le_bytes).concat());
            payload.extend(rate.to_le_bytes());
            payload.extend([8u32, 33].map(u32::to_le_bytes).concat());
            payload.extend((core as u64).to_le_bytes());
        }
        let (status, ..) = client.call(7, 0, 0, &payload);
        assert_eq!(status, 0);
    }

    pub fn observe(&self) -> Observer {
        Observer(RefCell::new(
            Client::connect(&self.path, 0).expect("a server admits readers"),
        ))
    }
}

fn spawn(path: &Path, arguments: &[&str]) -> Child {
    let binary = server_binary().expect("checked by the test");
    let mut command = Command::new(binary);
    command.arg("serve").arg("--socket").arg(path);
    let mut child = command
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 9];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut line).expect("it listens");
    assert_eq!(&line, b"listening");
    child
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
        let _ = fs::remove_file(&self.path);
    }
}

/// A client written after PROTOCOL.md alone, to check the agent's own.
pub struct Client(UnixStream);

impl Client {
    pub fn connect(path: &Path, role: u64) -> Option<Self> {
        let mut client = Self(UnixStream::connect(path).ok()?);
        let (status, ..) = client.call(1, 1, role, &[]);
        (status == 0).then_some(client)
    }

    /// (status, a, b, payload)
    pub fn call(&mut self, op: u16, a: u64, b: u64, payload: &[u8]) -> (u16, u64, u64, Vec<u8>) {
        let length = 40 + payload.len() as u32;
        let mut frame = [length, op.into(), 1, 0].map(u32::to_le_bytes).concat();
        frame.extend([a, b, 0].map(u64::to_le_bytes).concat());
        frame.extend(payload);
        self.0.write_all(&frame).unwrap();
        let mut header = [0; 40];
        self.0.read_exact(&mut header).unwrap();
        let at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let mut payload = vec![0; (at(0) & 0xffff_ffff) as usize - 40];
        self.0.read_exact(&mut payload).unwrap();
        ((at(0) >> 48) as u16, at(16), at(24), payload)
    }
}

/// A client with the role of a reader.
pub struct Observer(RefCell<Client>);

impl Observer {
    pub fn peek(&self, offset: u64) -> u64 {
        let (status, _, value, _) = self.0.borrow_mut().call(4, offset, 0, &[]);
        assert_eq!(status, 0);
        value
    }

    /// The (hardware id, bytes) since the server started.
    fn pids(&self) -> Vec<(u64, u64)> {
        let (_, _, _, payload) = self.0.borrow_mut().call(8, 0, 0, &[]);
        let stats: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(stats["pids_left_out"], 0);
        let number = |pid: &serde_json::Value, name: &str| pid[name].as_u64().unwrap();
        stats["pids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pid| {
                let bytes = number(pid, "read_bytes") + number(pid, "write_bytes");
                (number(pid, "pid"), bytes)
            })
            .collect()
    }

    /// All bytes that were counted since the server started.
    pub fn bytes(&self) -> u64 {
        self.pids().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The same without the traffic of id 0.
    pub fn bytes_of_pids(&self) -> u64 {
        let pids = self.pids().into_iter().filter(|(pid, _)| *pid != 0);
        pids.map(|(_, bytes)| bytes).sum()
    }

    /// Whether the server refuses to read any traffic register for a reader, and so to clear it.
    pub fn cannot_read_traffic(&self) -> bool {
        let mut client = self.0.borrow_mut();
        (0..8192).all(|id| client.call(2, 0x10000 + 8 * id, 0, &[]).0 == 8)
    }

    /// The sum of the traffic registers.
    pub fn unread(&self) -> u64 {
        (0..8192).map(|id| self.peek(0x20000 + 8 * id)).sum()
    }
}

/// FAKE tasks and CPUs that a test sets as it likes.
#[derive(Default)]
pub struct FakeScheduler {
    pub running: Vec<RunningTask>,
    pub tasks: Vec<TaskUsage>,
    pub charged: HashMap<u32, u64>,
    asked: Option<Instant>,
    rates: HashMap<u32, u64>,
}

impl FakeScheduler {
    /// One task on each core.
    pub fn with_running(pids: &[u32]) -> Self {
        let running = pids.iter().map(|&pid| RunningTask {
            pid,
            vtime: 1 << 18,
            ..RunningTask::default()
        });
        Self {
            running: running.collect(),
            ..Self::default()
        }
    }

    pub fn swap(&mut self) {
        self.running.reverse();
    }

    pub fn add_tasks(&mut self, pid: u32, vtime: u64) {
        self.tasks.push(TaskUsage {
            pid,
            vtime,
            ..TaskUsage::default()
        });
    }

    /// From now on the tasks move memory at these rates (bytes per second).
    pub fn use_bytes_at(&mut self, rates: &[(u32, u64)]) {
        self.rates = rates.iter().copied().collect();
    }
}

impl SchedulerView for FakeScheduler {
    fn running(&mut self) -> &[RunningTask] {
        &self.running
    }

    fn device_vtime(&self, _: HwId) -> u64 {
        0
    }

    fn assign(&mut self, _: u32, _: HwId) {}

    fn tasks(&mut self) -> Result<Vec<TaskUsage>, String> {
        let now = Instant::now();
        let since = self.asked.replace(now).unwrap_or(now);
        let seconds = now.duration_since(since).as_secs_f64();
        for task in &mut self.tasks {
            let rate = self.rates.get(&task.pid).copied().unwrap_or(0);
            task.bytes += (rate as f64 * seconds) as u64;
        }
        Ok(self.tasks.clone())
    }

    fn charging(&self) -> Charging {
        Charging::All
    }

    fn charge(&mut self, pid: u32, bytes: u64) {
        *self.charged.entry(pid).or_default() += bytes;
    }

    fn machine_share(&self, cpu_ns: u64, _: u64, interval_ns: u64) -> f64 {
        cpu_ns as f64 / interval_ns.max(1) as f64
    }
}

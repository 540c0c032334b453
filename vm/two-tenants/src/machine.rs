// SPDX-License-Identifier: GPL-2.0-only
//! The virtual machine with the guest's side in it.

use std::{
    env, fs,
    fs::{File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::sample::{Order, Sample};

/// What a description says of a machine.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Description {
    /// How many times slower than the original it is.
    pub scale: u32,
    /// Its memory.
    pub memory: Memory,
}

/// The memory of a machine.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Memory {
    /// Its DRAM.
    pub dram: String,
    /// The order in which its controller serves.
    pub policy: String,
}

impl Description {
    /// Reads the description that the virtual machine gets.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read the machine {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("wrong description {}", file.display()))
    }
}

/// What the virtual machine tells.
pub enum News {
    /// A line of the guest's side.
    Sample(Box<Sample>),
    /// Any other line, such as how far the boot is.
    Line(String),
    /// It has ended.
    End,
}

/// How to start the virtual machine.
pub struct Start<'a> {
    /// `vm/vm`.
    pub vm: &'a Path,
    /// The machine's description.
    pub machine: &'a Path,
    /// Kernel that it boots.
    pub kernel: &'a str,
    /// File for the machine's own account.
    pub truth: Option<&'a Path>,
    /// Words after `drfq-demo guest`.
    pub guest: &'a [String],
}

/// A virtual machine that runs.
pub struct Machine {
    child: Child,
    orders: File,
    /// Removed once the child has ended.
    _directory: TempDir,
    /// What it tells.
    pub news: Receiver<News>,
}

impl Machine {
    /// Starts it.
    ///
    /// # Errors
    /// The harness cannot be started.
    pub fn start(start: &Start) -> Result<Self> {
        let directory = private_directory()?;
        let path = directory.path().join("orders");
        let orders = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let mut command = Command::new(start.vm);
        command
            .args(["run", "--kernel", start.kernel, "--machine"])
            .arg(start.machine);
        if let Some(truth) = start.truth {
            command.arg("--machine-stats").arg(truth);
        }
        command
            .arg("--out")
            .arg(directory.path())
            .arg("--")
            .arg(env::current_exe().context("cannot find this program")?)
            .arg("guest")
            .arg("--orders")
            .arg(&path)
            .args(start.guest);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", start.vm.display()))?;
        let (sender, news) = channel();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            bail!("the virtual machine has no output");
        };
        follow(stdout, stderr, sender);
        Ok(Self {
            child,
            orders,
            _directory: directory,
            news,
        })
    }

    /// Tells the guest's side what to do.
    ///
    /// # Errors
    /// The order cannot be written.
    pub fn order(&mut self, order: Order) -> Result<()> {
        let written = self.orders.write_all(order.line().as_bytes());
        written.context("cannot write an order for the virtual machine")
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It is no child of this process.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: the child is not waited for yet, so its id is no other process's.
            unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
            let _ = self.child.wait();
        }
    }
}

/// A new directory that no other user can enter or foresee. A signal may leave it behind, and no
/// later run takes it over.
fn private_directory() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("drfq-demo.")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .with_context(|| format!("cannot make a directory in {}", env::temp_dir().display()))
}

/// Sends the lines of both outputs, and the end after the last line of both: an error that ends
/// the machine may come on one after the other has ended.
fn follow(
    stdout: impl io::Read + Send + 'static,
    stderr: impl io::Read + Send + 'static,
    sender: Sender<News>,
) {
    let errors = sender.clone();
    let other = thread::spawn(move || send_lines(stderr, &errors));
    thread::spawn(move || {
        send_lines(stdout, &sender);
        let _ = other.join();
        let _ = sender.send(News::End);
    });
}

/// Sends the lines of an output until it ends or nobody receives.
fn send_lines(output: impl io::Read, sender: &Sender<News>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let news = match serde_json::from_str(&line) {
            Ok(sample) => News::Sample(sample),
            Err(_) => News::Line(line),
        };
        if sender.send(news).is_err() {
            return;
        }
    }
}

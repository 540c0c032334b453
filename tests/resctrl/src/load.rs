// SPDX-License-Identifier: GPL-2.0-only
//! A process that moves memory when it is told to, and otherwise sleeps.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Twice the last-level cache of the machine `scarce`, for each of the two arrays.
const BYTES: usize = 4 << 20;

/// Copies an array for each line of standard input, and answers each with a line.
pub fn serve() -> Result<()> {
    let (from, mut to) = (vec![1u64; BYTES / 8], vec![2u64; BYTES / 8]);
    for line in io::stdin().lock().lines() {
        line?;
        to.copy_from_slice(&from);
        std::hint::black_box(&mut to);
        println!("done");
    }
    Ok(())
}

/// Such a process. Dropping it ends the process.
pub struct Load {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Load {
    /// Starts it on a CPU, in the groups of this process.
    pub fn start(cpu: usize) -> Result<Self> {
        let mut child = Command::new("taskset")
            .args(["-c", &cpu.to_string()])
            .arg(env::current_exe()?)
            .arg("load")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start taskset")?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        let mut load = Self {
            child,
            commands: commands.context("no pipe")?,
            answers: BufReader::new(answers.context("no pipe")?),
        };
        // Its pages are allocated, and taskset has become the load.
        load.pass()?;
        Ok(load)
    }

    /// The id of its only thread.
    pub fn tid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it copy once.
    pub fn pass(&mut self) -> Result<()> {
        writeln!(self.commands, "go")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(answer == "done\n", "the load has ended");
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It has ended already otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

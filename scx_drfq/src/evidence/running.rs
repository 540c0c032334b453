// SPDX-License-Identifier: GPL-2.0-only
//! Our scheduler, as it runs beside the loads of `evidence`.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use drfq_sense::sched_ext::SchedExt;

use crate::{client::Client, preflight};

/// The scheduler must be loaded within this time. Emulated CPUs take a minute.
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

/// Our scheduler in a process of its own, which ends with this one.
pub struct Running {
    child: Child,
    /// It was asked to throttle.
    throttles: bool,
}

/// Why a loop in this state does not throttle; none: it does.
fn unthrottled(state: &str) -> Option<&str> {
    // A failure that it has overcome follows.
    let (word, _) = state.split_once(';').unwrap_or((state, ""));
    (word != "on").then_some(state)
}

impl Running {
    /// Starts it with these options and this m (bytes per second), and waits until it is loaded.
    ///
    /// # Errors
    /// It is not loaded, or does not throttle though its options ask for that.
    pub fn start(options: &[&str], bytes_per_s: u64, root: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find scx_drfq itself")?;
        let mut command = Command::new(program);
        command
            .args(["--memory-bandwidth", &bytes_per_s.to_string()])
            // The machine's configuration may have rules and options that change the shares.
            .args(["--config", "/dev/null"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // A few lines, for which a pipe has room.
            .stderr(Stdio::piped());
        // SAFETY: prctl() may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let child = command.spawn().context("cannot start scx_drfq")?;
        let mut running = Self {
            child,
            throttles: options.windows(2).any(|pair| pair == ["--mba", "on"]),
        };
        running.wait_until_loaded(root)?;
        running.check_throttling()?;
        Ok(running)
    }

    /// Checks that it throttles if it should. The agent runs without a throttle, too, with a warning.
    ///
    /// # Errors
    /// Why it does not throttle. It may have ended then.
    fn check_throttling(&mut self) -> Result<()> {
        if !self.throttles {
            return Ok(());
        }
        let state = self.state()?;
        let Some(state) = unthrottled(&state) else {
            return Ok(());
        };
        // Why there is no loop stands in its messages alone, which end with it.
        self.end();
        self.child.wait().context("cannot wait for scx_drfq")?;
        let messages = self.messages();
        let reasons = ["is not shared: ", "resctrl cannot be used"];
        let is_reason = |line: &&str| reasons.iter().any(|reason| line.contains(reason));
        let told = messages.lines().find(is_reason);
        bail!("it did not throttle: {}", told.unwrap_or(state))
    }

    /// The state of its loop for memory bandwidth.
    fn state(&mut self) -> Result<String> {
        let began = Instant::now();
        loop {
            // Its statistics begin a little after it is loaded.
            match Client::connect().and_then(|mut client| client.system()) {
                Ok(system) => return Ok(system.mba.state),
                Err(error) if self.has_ended() || began.elapsed() > PATIENCE => return Err(error),
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    fn wait_until_loaded(&mut self, root: &Path) -> Result<()> {
        let began = Instant::now();
        loop {
            if let SchedExt::Available { loaded: Some(name) } = SchedExt::detect(root)
                && name.starts_with(preflight::NAME)
            {
                return Ok(());
            }
            if self.has_ended() {
                bail!("it ended: {}", self.said());
            }
            if began.elapsed() > PATIENCE {
                bail!("it was not loaded within {} s", PATIENCE.as_secs());
            }
            thread::sleep(POLL);
        }
    }

    /// Its messages, once it has ended.
    fn messages(&mut self) -> String {
        let mut text = String::new();
        if let Some(messages) = &mut self.child.stderr {
            // What cannot be read is not told.
            let _ = messages.read_to_string(&mut text);
        }
        text
    }

    /// The last line of its messages, once it has ended.
    fn said(&mut self) -> String {
        let text = self.messages();
        text.lines().last().unwrap_or("without a word").to_owned()
    }

    /// Ends it as Ctrl-C does.
    ///
    /// # Errors
    /// It has failed, or it did not throttle to the end though it should.
    pub fn stop(mut self) -> Result<()> {
        // Another program may have come to resctrl meanwhile.
        let throttled = self.check_throttling();
        self.end();
        let status = self.child.wait().context("cannot wait for scx_drfq")?;
        if !status.success() {
            bail!("scx_drfq failed: {}", self.said());
        }
        throttled
    }

    /// Tells it to end, if it runs.
    fn end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: the child is ours, and nobody has waited for it.
            unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loop_that_is_on_throttles() {
        assert_eq!(unthrottled("on"), None);
        assert_eq!(unthrottled("on; last failure: no more ids"), None);
        for state in [
            "observe: another program has classes in resctrl: 1",
            "off",
            "",
        ] {
            assert_eq!(unthrottled(state), Some(state));
        }
    }
}

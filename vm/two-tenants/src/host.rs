// SPDX-License-Identifier: GPL-2.0-only
//! The host's side: starts the virtual machine, follows the script, and shows it.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::mpsc::{RecvTimeoutError, TryRecvError},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use clap::Args;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use drfq_view::palette::Palette;

use crate::{
    guest::MOST_HOGS,
    machine::{Description, Machine, News, Start},
    sample::{Order, Sample, Scheduler},
    screen::{Screen, draw},
    script::{Script, Stage},
    words,
};

/// The longest time until a key or a sample is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Weights of a cgroup.
const WEIGHTS: (u32, u32) = (25, 800);

/// Options of the host's side.
#[derive(Args)]
pub struct Options {
    /// `vm/vm`.
    #[arg(long)]
    vm: PathBuf,
    /// Description of the machine.
    #[arg(long)]
    machine: PathBuf,
    /// Kernel of the virtual machine.
    #[arg(long, default_value = "newest")]
    kernel: String,
    /// File for the machine's own account.
    #[arg(long)]
    truth: Option<PathBuf>,
    /// File for the samples, a line of JSON each.
    #[arg(long)]
    samples: Option<PathBuf>,
    /// Simulated seconds for which each scheduler is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// End after so many seconds of real time.
    #[arg(long)]
    duration: Option<u64>,
    /// Options of the guest's side.
    #[arg(last = true)]
    guest: Vec<String>,
}

struct Host {
    script: Script,
    machine: Machine,
    description: Description,
    samples: Option<File>,
    began: Instant,
    first_sample: Option<Instant>,
    end: Option<Instant>,
    lines: Vec<String>,
    over: bool,
    /// Why the demonstration cannot go on.
    failure: Option<String>,
}

/// Runs the demonstration.
///
/// # Errors
/// The virtual machine cannot be started, or ends too early.
pub fn run(options: &Options) -> Result<()> {
    let description = Description::read(&options.machine)?;
    let began = Instant::now();
    let mut host = Host {
        script: Script::new(options.seconds),
        machine: Machine::start(&Start {
            vm: &options.vm,
            machine: &options.machine,
            kernel: &options.kernel,
            truth: options.truth.as_deref(),
            guest: &options.guest,
        })?,
        description,
        samples: options.samples.as_ref().map(File::create).transpose()?,
        began,
        first_sample: None,
        end: options
            .duration
            .map(|seconds| began + Duration::from_secs(seconds)),
        lines: Vec::new(),
        over: false,
        failure: None,
    };
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        host.on_terminal()
    } else {
        host.as_text()
    }
}

impl Host {
    /// Takes what the virtual machine told. Returns whether it was a sample.
    fn take(&mut self, news: News) -> Result<bool> {
        match news {
            News::Sample(sample) => {
                self.first_sample.get_or_insert_with(Instant::now);
                if let Some(file) = &mut self.samples {
                    writeln!(file, "{}", serde_json::to_string(&sample)?)?;
                }
                self.failure = self.failure.take().or(self.script.failure(&sample));
                if self.failure.is_some() {
                    return Ok(true);
                }
                if let Some(order) = self.script.push(*sample) {
                    self.machine.order(order)?;
                }
                return Ok(true);
            }
            News::Line(line) => self.lines.push(line),
            News::End => self.over = true,
        }
        Ok(false)
    }

    /// An error with what the virtual machine printed last, if it ended before its time or did not
    /// run what was to be measured.
    fn check(&mut self) -> Result<()> {
        if !self.over && self.failure.is_none() {
            return Ok(());
        }
        for line in self.lines.iter().rev().take(20).rev() {
            let _ = writeln!(io::stderr(), "{line}");
        }
        if let Some(failure) = &self.failure {
            bail!("{failure}; there is nothing to compare");
        }
        let status = self.machine.wait()?;
        bail!("the virtual machine ended before the demonstration did ({status})")
    }

    fn timed_out(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Real seconds since the first sample and since the start.
    fn real_s(&self) -> (f64, f64) {
        let since_sample = self
            .first_sample
            .map_or(0.0, |at| at.elapsed().as_secs_f64());
        (since_sample, self.began.elapsed().as_secs_f64())
    }

    fn as_text(&mut self) -> Result<()> {
        let mut output = io::stdout();
        writeln!(output, "A service and memory hogs share one machine.")?;
        for line in words::modelled(&self.description) {
            writeln!(output, "{line}")?;
        }
        let mut told = Stage::Boot;
        let mut lines = 0;
        while self.script.stage != Stage::Free && !self.timed_out() {
            match self.machine.news.recv_timeout(POLL) {
                Ok(news) => _ = self.take(news)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.over = true,
            }
            for line in &self.lines[lines..] {
                writeln!(
                    output,
                    "[{:.0} s] {line}",
                    self.began.elapsed().as_secs_f64()
                )?;
            }
            lines = self.lines.len();
            self.check()?;
            if self.script.stage != told {
                told = self.script.stage;
                writeln!(
                    output,
                    "[{:.0} s] {}",
                    self.real_s().1,
                    words::stage(&self.script)
                )?;
            }
        }
        self.conclude()?;
        self.machine.order(Order::Quit)
    }

    /// The result, as it also stays on a terminal after the screen.
    fn conclude(&self) -> Result<()> {
        let mut output = io::stdout();
        write!(output, "\n{}", words::table(&self.script))?;
        if let Some(words) = words::conclusion(&self.script) {
            writeln!(output, "{words}")?;
        }
        let simulated = self
            .script
            .samples
            .last()
            .map_or(0.0, |s| s.at_ns as f64 / 1e9);
        let (since_sample, all) = self.real_s();
        writeln!(
            output,
            "{simulated:.1} s were simulated in {since_sample:.1} s of real time, {all:.1} s after the start."
        )?;
        Ok(())
    }

    fn on_terminal(&mut self) -> Result<()> {
        let mut terminal = ratatui::try_init()?;
        let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let result = self.follow(&mut terminal, Palette::new(colours));
        ratatui::try_restore()?;
        result?;
        self.check()?;
        self.conclude()
    }

    fn follow(&mut self, terminal: &mut ratatui::DefaultTerminal, palette: Palette) -> Result<()> {
        while !self.over && self.failure.is_none() && !self.timed_out() {
            let screen = Screen {
                script: &self.script,
                machine: &self.description,
                real_s: self.real_s(),
                line: self.lines.last().map_or("", String::as_str),
                palette,
            };
            terminal.draw(|frame| draw(frame, &screen))?;
            if event::poll(POLL)?
                && let Event::Key(key) = event::read()?
                && !self.press(key)?
            {
                return Ok(());
            }
            loop {
                match self.machine.news.try_recv() {
                    Ok(news) => _ = self.take(news)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        self.over = true;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a key. Returns whether to go on.
    fn press(&mut self, key: KeyEvent) -> Result<bool> {
        if key.kind != KeyEventKind::Press {
            return Ok(true);
        }
        let control_c =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
            return Ok(false);
        }
        let free = self.script.stage == Stage::Free;
        if let (true, KeyCode::Char(key), Some(sample)) =
            (free, key.code, self.script.samples.last())
            && let Some(order) = order(key, sample)
        {
            self.machine.order(order)?;
        }
        Ok(true)
    }
}

/// What a key asks for.
fn order(key: char, sample: &Sample) -> Option<Order> {
    let (hogs, weight) = (sample.hogs.processes, sample.service.weight);
    Some(match key {
        's' if sample.scheduler == Scheduler::Eevdf => Order::Load,
        's' => Order::Unload,
        'h' => Order::Hogs((hogs + 1).min(MOST_HOGS)),
        'H' => Order::Hogs(hogs.saturating_sub(1)),
        'w' => Order::Weight((weight * 2).min(WEIGHTS.1)),
        'W' => Order::Weight((weight / 2).max(WEIGHTS.0)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn keys_load_and_unload_the_scheduler_and_change_hogs_and_weights() {
        let eevdf = fixture::sample(0, Scheduler::Eevdf);
        let drfq = fixture::sample(0, Scheduler::Drfq);
        assert_eq!(order('s', &eevdf), Some(Order::Load));
        assert_eq!(order('s', &drfq), Some(Order::Unload));
        assert_eq!(order('h', &drfq), Some(Order::Hogs(3)));
        assert_eq!(order('H', &drfq), Some(Order::Hogs(1)));
        assert_eq!(order('w', &drfq), Some(Order::Weight(200)));
        assert_eq!(order('W', &drfq), Some(Order::Weight(50)));
        assert_eq!(order('x', &drfq), None);
    }
}

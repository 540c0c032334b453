// SPDX-License-Identifier: GPL-2.0-only
//! The guest's side: two tenants, one scheduler or the other, and a line per interval.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    sample::{Order, Sample, Scheduler},
    tenant::{Latencies, Tenant, prepare},
};

const STATE: &str = "/sys/kernel/sched_ext/state";

/// Hogs that may run at the same time.
pub const MOST_HOGS: u32 = 8;

/// Options of the guest's side.
#[derive(Args)]
pub struct Options {
    /// scx_drfq.
    #[arg(long)]
    scheduler: PathBuf,
    /// drfq-load.
    #[arg(long)]
    load: PathBuf,
    /// File with orders of the host, which grows.
    #[arg(long)]
    orders: PathBuf,
    /// Time between two lines (ms).
    #[arg(long, default_value_t = 500)]
    interval_ms: u64,
    /// Processes of the service.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Hogs at the start.
    #[arg(long, default_value_t = 3)]
    hogs: u32,
    /// Mean time between two requests of a process (us).
    #[arg(long, default_value_t = 20_000)]
    period_us: u64,
    /// Entries that a request looks up.
    #[arg(long, default_value_t = 500)]
    lookups: u32,
    /// Options of scx_drfq.
    #[arg(last = true)]
    scheduler_options: Vec<String>,
}

struct Guest<'a> {
    options: &'a Options,
    service: Tenant,
    hogs: Tenant,
    latencies: Latencies,
    scheduler: Option<Child>,
    /// The tenants stand still while it is loaded.
    loading: bool,
    orders_read: usize,
    began: Instant,
}

/// Runs until the host orders the end.
///
/// # Errors
/// The machine lacks something, or a program cannot be started.
pub fn run(options: &Options) -> Result<()> {
    prepare()?;
    let mut guest = Guest {
        options,
        service: Tenant::new("service", 100)?,
        hogs: Tenant::new("hogs", 100)?,
        latencies: Latencies::new()?,
        scheduler: None,
        loading: false,
        orders_read: 0,
        began: Instant::now(),
    };
    for number in 0..options.workers {
        guest.start_worker(number)?;
    }
    guest.set_hogs(options.hogs)?;
    let mut next = Instant::now();
    loop {
        next += Duration::from_millis(options.interval_ms);
        sleep(next.saturating_duration_since(Instant::now()));
        let message = guest.look_after_scheduler()?;
        guest.tell(message)?;
        for order in guest.orders()? {
            if order == Order::Quit {
                guest.unload();
                return Ok(());
            }
            guest.obey(order)?;
        }
    }
}

impl Guest<'_> {
    fn start_worker(&mut self, number: u32) -> Result<()> {
        let words = format!(
            "--name service requests --print --seed {} --period-us {} --lookups {}",
            number + 1,
            self.options.period_us,
            self.options.lookups
        );
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let output = self.latencies.output()?;
        self.service.start(&self.options.load, &words, output)
    }

    fn set_hogs(&mut self, count: u32) -> Result<()> {
        while self.hogs.count() > count {
            self.hogs.stop_one();
        }
        while self.hogs.count() < count.min(MOST_HOGS) {
            let words = ["--name", "hog", "copy"].map(str::to_owned);
            self.hogs.start(&self.options.load, &words, Stdio::null())?;
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Load if self.scheduler.is_none() => self.load()?,
            Order::Unload => {
                self.unload();
                self.thaw()?;
            }
            Order::Hogs(count) => self.set_hogs(count)?,
            Order::Weight(weight) => self.service.set_weight(weight)?,
            Order::Load | Order::Quit => {}
        }
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let scheduler = &self.options.scheduler;
        let child = Command::new(scheduler)
            .args(&self.options.scheduler_options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", scheduler.display()))?;
        self.scheduler = Some(child);
        self.loading = true;
        self.freeze(true)
    }

    fn freeze(&self, frozen: bool) -> Result<()> {
        self.service.freeze(frozen)?;
        self.hogs.freeze(frozen)
    }

    /// Lets the tenants go on once the scheduler is loaded, or cannot be.
    fn thaw(&mut self) -> Result<()> {
        if self.loading {
            self.loading = false;
            self.freeze(false)?;
        }
        Ok(())
    }

    fn unload(&mut self) {
        if let Some(mut child) = self.scheduler.take() {
            // SAFETY: the child is not waited for yet, so its id is no other process's.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
            let _ = child.wait();
        }
    }

    /// What the user should know of a scheduler that ended by itself.
    fn look_after_scheduler(&mut self) -> Result<Option<String>> {
        let Some(child) = &mut self.scheduler else {
            return Ok(None);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(None);
        };
        self.scheduler = None;
        self.thaw()?;
        Ok(Some(format!("scx_drfq ended by itself: {status}")))
    }

    fn tell(&mut self, message: Option<String>) -> Result<()> {
        let state = fs::read_to_string(STATE).unwrap_or_default();
        let scheduler = match state.trim() {
            "enabled" => Scheduler::Drfq,
            _ => Scheduler::Eevdf,
        };
        if scheduler == Scheduler::Drfq {
            self.thaw()?;
        }
        let sample = Sample {
            at_ns: self.began.elapsed().as_nanos() as u64,
            scheduler,
            service: self.service.usage()?,
            hogs: self.hogs.usage()?,
            latencies_us: self.latencies.take(),
            message,
        };
        let mut output = io::stdout();
        writeln!(output, "{}", serde_json::to_string(&sample)?)?;
        output.flush()?;
        Ok(())
    }

    /// The orders that are new.
    fn orders(&mut self) -> Result<Vec<Order>> {
        let (orders, read) = new_orders(&self.options.orders, self.orders_read)?;
        self.orders_read = read;
        Ok(orders)
    }
}

/// The whole lines of a file from an offset on, and where they end.
fn new_orders(file: &Path, from: usize) -> Result<(Vec<Order>, usize)> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the host's orders in {}", file.display()))?;
    let new = text.get(from..).unwrap_or_default();
    let whole = new.rfind('\n').map_or(0, |at| at + 1);
    let orders = new[..whole].lines().filter_map(Order::read).collect();
    Ok((orders, from + whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_counts_once_and_only_when_its_line_is_whole() {
        let file = std::env::temp_dir().join(format!("drfq-orders-{}", std::process::id()));
        fs::write(&file, "hogs 2\nlo").unwrap();
        assert_eq!(new_orders(&file, 0).unwrap(), (vec![Order::Hogs(2)], 7));
        fs::write(&file, "hogs 2\nload\n").unwrap();
        assert_eq!(new_orders(&file, 7).unwrap(), (vec![Order::Load], 12));
        assert_eq!(new_orders(&file, 12).unwrap(), (vec![], 12));
        fs::remove_file(&file).unwrap();
    }
}

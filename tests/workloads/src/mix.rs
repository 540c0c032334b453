// SPDX-License-Identifier: GPL-2.0-only
//! A demonstration: tasks of different weights and habits, side by side.

use crate::report::Report;
use crate::{clock, signals};
use anyhow::{Context, Result};
use std::process::{Child, Command, Stdio};

/// Name, nice value, and arguments of each part, one set per two CPUs.
const PARTS: [(&str, i32, &[&str]); 6] = [
    ("hog-nice0", 0, &["hog"]),
    ("hog-nice-5", -5, &["hog"]),
    ("hog-nice5", 5, &["hog"]),
    (
        "sleeper",
        0,
        &["sleeper", "--run-us", "500", "--sleep-us", "5000"],
    ),
    (
        "half-asleep",
        0,
        &["sleeper", "--run-us", "10000", "--sleep-us", "10000"],
    ),
    (
        "page-toucher",
        0,
        &["faults", "--burst", "64", "--every-cpu-us", "2000"],
    ),
];

/// How often a dead child is looked for, ns.
const CHECK_NS: u64 = 200_000_000;

/// Starts every part `sets` times and waits until told to stop; an error if a
/// part ends by itself.
pub fn run(report: &mut Report, sets: usize) -> Result<()> {
    let mut children = Vec::new();
    for _ in 0..sets {
        for part in &PARTS {
            children.push((part.0, spawn(part)?));
        }
    }
    let outcome = watch(&mut children, report);
    for (_, child) in &mut children {
        // SAFETY: the child is ours and not waited for yet, so its id is not
        // another process's.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    }
    for (_, child) in &mut children {
        child.wait()?;
    }
    outcome
}

fn spawn((name, nice, args): &(&str, i32, &[&str])) -> Result<Child> {
    Command::new("/proc/self/exe")
        .args(["--name", name])
        .arg(format!("--nice={nice}"))
        .args(*args)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {name}"))
}

fn watch(children: &mut [(&str, Child)], report: &mut Report) -> Result<()> {
    while !signals::stopped() {
        clock::sleep_until(clock::now_ns() + CHECK_NS);
        report.rounds += 1;
        for (name, child) in children.iter_mut() {
            if let Some(status) = child.try_wait()?
                && !signals::stopped()
            {
                anyhow::bail!("{name} ended by itself: {status}");
            }
        }
    }
    Ok(())
}

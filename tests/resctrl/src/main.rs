// SPDX-License-Identifier: GPL-2.0-only
//! Uses `drfq_resctrl` on a real kernel: tests/vm/suite/resctrl.sh.
//!
//!     drfq-resctrl-check run         the whole test
//!     drfq-resctrl-check hold TID    makes groups, moves a task to them, and waits for SIGKILL
//!     drfq-resctrl-check wrap MIB    so much traffic, while a bandwidth counter wraps
//!     drfq-resctrl-check load        one pass over memory for each line of standard input
//!
//! resctrl is mounted with the option `debug`. The machine of `run` has 4 RMIDs and 3 classes.

mod foreign;
mod load;
mod scenario;

use std::path::Path;

use anyhow::{Result, bail};
use drfq_resctrl::{
    fs::KernelFs,
    groups::{Ctrl, Groups},
    schemata::Resource,
};

/// Where resctrl is mounted.
const POINT: &str = "/sys/fs/resctrl";

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["run"] => scenario::run(),
        ["wrap", mib] => scenario::wrap(mib.parse()?),
        ["hold", tid] => hold(tid.parse()?),
        ["load"] => load::serve(),
        _ => bail!("usage: drfq-resctrl-check run | wrap MIB | hold TID | load"),
    }
}

/// Takes over resctrl.
fn open() -> Result<Groups<KernelFs>> {
    Ok(Groups::open(KernelFs::open(Path::new(POINT))?)?)
}

/// Makes groups, moves a task to them and waits.
fn hold(tid: u32) -> Result<()> {
    let groups = open()?;
    let slow = groups.create_ctrl("left")?;
    let mon = groups.create_mon(&Ctrl::DEFAULT, "left")?;
    groups.add_task(&mon, tid)?;
    groups.add_task(&slow, tid)?;
    groups.set(&slow, Resource::Mb, &[(0, 20)])?;
    println!("ready");
    loop {
        std::thread::park();
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! A model of the kernel's resctrl in memory, for tests of this crate and of others: ids
//! that run out, limbo, the rules of tasks and moves, readings by RMID, and failures on
//! request. It follows fs/resctrl/rdtgroup.c and ctrlmondata.c of the Linux kernel.

mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Mutex, MutexGuard},
};

use crate::{
    fs::ResctrlFs,
    reading::{Event, Reading},
    schemata::{Domain, Schemata},
};

/// What a modelled machine has.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Classes, the default group's included. 0: it only monitors.
    pub closids: u32,
    /// Monitoring ids, the default group's included. 0: it only allocates.
    pub rmids: u32,
    /// The default group's schemata. A new group has the same domains, without limits.
    pub schemata: String,
    /// The lowest value of `MB:`, and its step.
    pub mb: (u32, u32),
    /// Domains with readings.
    pub domains: Vec<Domain>,
    /// Counters of a domain (ABMC). `None`: counters are not assignable.
    pub counters: Option<u32>,
    /// Files below `info` and elsewhere, that groups do not change.
    pub files: Vec<(String, String)>,
}

impl Default for Shape {
    /// An Intel server with two domains.
    fn default() -> Self {
        let files = [
            ("info/MB/min_bandwidth", "10\n"),
            ("info/MB/bandwidth_gran", "10\n"),
            ("info/MB/delay_linear", "1\n"),
            ("info/MB/thread_throttle_mode", "max\n"),
            ("info/MB/num_closids", "8\n"),
            ("info/L3/num_closids", "16\n"),
            ("info/L3/cbm_mask", "7ff\n"),
            ("info/L3/min_cbm_bits", "1\n"),
            ("info/L3/shareable_bits", "600\n"),
            ("info/L3/sparse_masks", "0\n"),
            ("info/L3_MON/num_rmids", "32\n"),
            ("info/L3_MON/max_threshold_occupancy", "65536\n"),
            (
                "info/L3_MON/mon_features",
                "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
            ),
        ];
        Self {
            closids: 8,
            rmids: 32,
            schemata: "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n".into(),
            mb: (10, 10),
            domains: vec![0, 1],
            counters: None,
            files: files.map(|(path, text)| (path.into(), text.into())).into(),
        }
    }
}

/// An id of a group in the model: its CTRL and MON directory, empty for none.
type Place = (String, String);

#[derive(Debug)]
struct State {
    shape: Shape,
    mounted: bool,
    read_only: bool,
    status: String,
    /// The RMID of each group.
    groups: BTreeMap<Place, u32>,
    /// Values of each CTRL group.
    schemata: BTreeMap<String, Schemata>,
    /// Groups that own CPUs.
    with_cpus: BTreeSet<Place>,
    tasks: BTreeMap<u32, Place>,
    limbo: BTreeSet<u32>,
    readings: BTreeMap<(u32, Domain, Event), Reading>,
    assigned: BTreeSet<(u32, Event)>,
    failures: Vec<(&'static str, String, i32)>,
    log: Vec<String>,
}

/// The modelled kernel.
#[derive(Debug)]
pub struct FakeKernel(Mutex<State>);

fn os(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A path of a group or of a file in it, in its parts: the group, and the rest.
fn split(path: &str) -> (Place, &str) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let (ctrl, rest) = match first {
        "mon_groups" | "mon_data" | "info" | "tasks" | "schemata" => ("", path),
        name if name == crate::assignment::FILE || name == "mba_MBps_event" => ("", path),
        name => (name, rest),
    };
    match rest.strip_prefix("mon_groups/") {
        Some(inner) => {
            let (mon, rest) = inner.split_once('/').unwrap_or((inner, ""));
            ((ctrl.into(), mon.into()), rest)
        }
        None => ((ctrl.into(), String::new()), rest),
    }
}

impl FakeKernel {
    /// A mounted resctrl with the default group, and this process in it.
    pub fn new(shape: Shape) -> Self {
        let root = (String::new(), String::new());
        let schemata = Schemata::parse(&shape.schemata);
        Self(Mutex::new(State {
            shape,
            mounted: true,
            read_only: false,
            status: "ok\n".into(),
            groups: [(root.clone(), 0)].into(),
            schemata: [(String::new(), schemata)].into(),
            with_cpus: BTreeSet::new(),
            tasks: [(std::process::id(), root)].into(),
            limbo: BTreeSet::new(),
            readings: BTreeMap::new(),
            assigned: BTreeSet::new(),
            failures: Vec::new(),
            log: Vec::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Starts a task in the group of its parent, or in the default group.
    pub fn start_task(&self, tid: u32, parent: Option<u32>) {
        let mut state = self.state();
        let place = parent.and_then(|parent| state.tasks.get(&parent).cloned());
        state.tasks.insert(tid, place.unwrap_or_default());
    }

    /// Ends a task.
    pub fn end_task(&self, tid: u32) {
        self.state().tasks.remove(&tid);
    }

    /// Sets what an RMID's event reads. The default is 0 bytes.
    pub fn set_reading(&self, rmid: u32, domain: Domain, event: Event, reading: Reading) {
        self.state().readings.insert((rmid, domain, event), reading);
    }

    /// The RMID of a group. `None`: there is no such group.
    pub fn rmid(&self, path: &str) -> Option<u32> {
        self.state().groups.get(&split(path).0).copied()
    }

    /// Makes a freed RMID stay in limbo until [`FakeKernel::drain_limbo`].
    pub fn hold_in_limbo(&self, rmid: u32) {
        self.state().limbo.insert(rmid);
    }

    /// All RMIDs in limbo become free.
    pub fn drain_limbo(&self) {
        self.state().limbo.clear();
    }

    /// Gives CPUs to a group.
    pub fn give_cpus(&self, path: &str) {
        self.state().with_cpus.insert(split(path).0);
    }

    /// Unmounts it. The groups are gone.
    pub fn unmount(&self) {
        self.state().mounted = false;
    }

    /// Makes all changes fail with EROFS.
    pub fn make_read_only(&self) {
        self.state().read_only = true;
    }

    /// Makes each later operation of this name on this path fail. `operation`: `read`,
    /// `write`, `mkdir`, `rmdir`, `rename`, `list` or `task_groups`.
    pub fn fail(&self, operation: &'static str, path: &str, errno: i32) {
        self.state().failures.push((operation, path.into(), errno));
    }

    /// Changes the content of a file of `info`, or makes one.
    pub fn set_file(&self, path: &str, text: &str) {
        let files = &mut self.state().shape.files;
        files.retain(|(name, _)| name != path);
        files.push((path.into(), text.into()));
    }

    /// The changes so far, one line each: `write PATH TEXT`, `mkdir PATH` and so on.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// All groups with their tasks and values, as text. `keep` selects by path.
    pub fn snapshot(&self, keep: impl Fn(&str) -> bool) -> String {
        let state = self.state();
        let mut text = String::new();
        for ((ctrl, mon), rmid) in &state.groups {
            let path = format!("{ctrl}/{mon}");
            if keep(&path) {
                let place = (ctrl.clone(), mon.clone());
                let tasks: Vec<_> = state.tasks.iter().filter(|(_, at)| **at == place).collect();
                text += &format!("{path} {rmid} {tasks:?} {:?}\n", state.schemata.get(ctrl));
            }
        }
        text
    }
}

impl ResctrlFs for FakeKernel {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut state = self.state();
        state.check("read", path, None)?;
        state.read(path).ok_or_else(|| os(libc::ENOENT))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.check(
            "write",
            path,
            Some(format!("write {path} {}", text.trim_end())),
        )?;
        let (place, rest) = split(path);
        if !state.groups.contains_key(&place) {
            return Err(os(libc::ENOENT));
        }
        match rest {
            "tasks" => state.write_task(&place, text),
            "schemata" => state.write_schemata(&place.0, text),
            name if name == crate::assignment::FILE => state.write_assignment(&place, text),
            _ => Err(os(libc::ENOENT)),
        }
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.check("mkdir", path, Some(format!("mkdir {path}")))?;
        state.mkdir(path)
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.check("rmdir", path, Some(format!("rmdir {path}")))?;
        state.rmdir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.check("rename", from, Some(format!("rename {from} {to}")))?;
        state.rename(from, to)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.check("list", path, None)?;
        state.list(path).ok_or_else(|| os(libc::ENOENT))
    }

    fn task_groups(&self, tid: u32) -> io::Result<String> {
        let mut state = self.state();
        if !state.mounted {
            return Ok("res:\nmon:\n".into());
        }
        state.check("task_groups", &tid.to_string(), None)?;
        let (ctrl, mon) = state.tasks.get(&tid).ok_or_else(|| os(libc::ENOENT))?;
        let ctrl = if ctrl.is_empty() { "/" } else { ctrl };
        Ok(format!("res:{ctrl}\nmon:{mon}\n"))
    }
}

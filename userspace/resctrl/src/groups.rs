// SPDX-License-Identifier: GPL-2.0-only
//! The groups of scx_drfq. Only groups whose names begin with [`PREFIX`] are made,
//! changed or removed. Tasks in groups of other programs stay there.

use std::io;

use crate::{
    assignment,
    error::{Error, Kind, Result},
    fs::ResctrlFs,
    info::domain_directory,
    reading::{Event, Reading},
    schemata::{Domain, Resource, Schemata, text},
    task::TaskGroups,
};

/// The prefix of our groups' names.
pub const PREFIX: &str = "drfq_";

/// A CTRL group that we may use: the default group, or one of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ctrl {
    /// The directory's name, empty for the default group.
    name: String,
}

impl Ctrl {
    /// The default group, to which all tasks belong at first. It is never throttled by us.
    pub const DEFAULT: Self = Self {
        name: String::new(),
    };

    /// The directory's name; empty for the default group.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One of our MON groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mon {
    parent: Ctrl,
    name: String,
}

impl Mon {
    /// The CTRL group that decides its throttling.
    pub const fn parent(&self) -> &Ctrl {
        &self.parent
    }

    /// The directory's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A directory with tasks and readings.
pub trait Group {
    /// Its path.
    fn path(&self) -> String;
    /// Its CTRL group and the name of its MON group.
    fn place(&self) -> (&Ctrl, &str);
}

impl Group for Ctrl {
    fn path(&self) -> String {
        self.name.clone()
    }
    fn place(&self) -> (&Ctrl, &str) {
        (self, "")
    }
}

impl Group for Mon {
    fn path(&self) -> String {
        join(&join(&self.parent.name, "mon_groups"), &self.name)
    }
    fn place(&self) -> (&Ctrl, &str) {
        (&self.parent, &self.name)
    }
}

/// What became of a task that was to join a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It was moved.
    Moved,
    /// It was there already.
    Already,
    /// It is in a group of another program, and stays there.
    Foreign,
    /// It has ended.
    Ended,
}

/// The owner of our groups: the agent, its cleaner, a calibration or a report of evidence. One process
/// at a time may have one.
///
/// Dropping it removes all of them.
#[derive(Debug)]
pub struct Groups<F: ResctrlFs> {
    fs: F,
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// Names of the directories in a directory of resctrl. One that is missing has none.
///
/// # Errors
/// The directory cannot be listed, so it may have any.
pub fn directories(fs: &impl ResctrlFs, path: &str) -> io::Result<Vec<String>> {
    match fs.list(path) {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        found => found,
    }
}

impl<F: ResctrlFs> Groups<F> {
    /// Takes over resctrl and removes groups that a killed process has left.
    ///
    /// # Errors
    /// resctrl is not mounted, groups cannot be removed, or the kernel does not tell the
    /// groups of a task.
    pub fn open(fs: F) -> Result<Self> {
        let groups = Self { fs };
        if groups.groups_of(std::process::id())?.is_none() {
            let what = "find the groups of a task: /proc/PID/cpu_resctrl_groups is missing; boot a \
                        kernel with CONFIG_PROC_CPU_RESCTRL";
            return Err(Error::own(Kind::Other, what));
        }
        groups.clean()?;
        Ok(groups)
    }

    /// The files.
    pub const fn fs(&self) -> &F {
        &self.fs
    }

    fn error(&self, what: impl Into<String>, source: io::Error) -> Error {
        let status = self.fs.read("info/last_cmd_status");
        // One that cannot be read for another reason, such as a lack of descriptors, is there.
        let mounted = !status.as_ref().is_err_and(is_gone);
        Error::new(what, source, mounted, &status.unwrap_or_default())
    }

    /// Makes a CTRL group, which has a class of its own, without throttling. One that
    /// [`Groups::clean`] has kept is used again.
    ///
    /// # Errors
    /// [`Kind::NoIds`], [`Kind::Limbo`], [`Kind::Exists`], or a name that is no file's.
    pub fn create_ctrl(&self, name: &str) -> Result<Ctrl> {
        let name = our_name(name)?;
        match self.make(&name) {
            Err(error) if error.kind != Kind::Exists || !self.must_keep(&name) => Err(error),
            _ => Ok(Ctrl { name }),
        }
    }

    /// The same in place of a group of this name that could not be removed before.
    ///
    /// # Errors
    /// As [`Groups::create_ctrl`].
    pub fn replace_ctrl(&self, name: &str) -> Result<Ctrl> {
        self.clean_ctrl(&our_name(name)?)?;
        self.create_ctrl(name)
    }

    /// Whether another program has MON groups in our CTRL group, or may have.
    fn must_keep(&self, name: &str) -> bool {
        let children = directories(&self.fs, &join(name, "mon_groups"));
        !children.is_ok_and(|found| found.iter().all(|child| child.starts_with(PREFIX)))
    }

    /// Makes a MON group, which has an RMID of its own.
    ///
    /// # Errors
    /// As [`Groups::create_ctrl`], and [`Kind::Gone`] if the CTRL group is.
    pub fn create_mon(&self, parent: &Ctrl, name: &str) -> Result<Mon> {
        let mon = Mon {
            parent: parent.clone(),
            name: our_name(name)?,
        };
        self.make(&mon.path())?;
        Ok(mon)
    }

    /// The same in place of a group of this name that could not be removed before.
    ///
    /// # Errors
    /// As [`Groups::create_mon`].
    pub fn replace_mon(&self, parent: &Ctrl, name: &str) -> Result<Mon> {
        self.remove(&join(&join(&parent.name, "mon_groups"), &our_name(name)?))?;
        self.create_mon(parent, name)
    }

    fn make(&self, path: &str) -> Result<()> {
        self.fs
            .mkdir(path)
            .map_err(|source| self.error(format!("make the group {path}"), source))
    }

    /// Moves a MON group with its tasks to another class. On x86 it keeps its RMID and
    /// its counts ([`crate::info::Info::moves_keep_counters`]).
    ///
    /// # Errors
    /// [`Kind::Gone`] if one of the groups is; [`Kind::NotPermitted`] if the MON group
    /// owns CPUs.
    pub fn move_mon(&self, mon: &mut Mon, to: &Ctrl) -> Result<()> {
        let moved = Mon {
            parent: to.clone(),
            name: mon.name.clone(),
        };
        let (from, to) = (mon.path(), moved.path());
        if from != to {
            self.fs
                .rename(&from, &to)
                .map_err(|source| self.error(format!("move the group {from} to {to}"), source))?;
            *mon = moved;
        }
        Ok(())
    }

    /// Moves a task to a group, unless it is in a group of another program. The kernel
    /// moves one thread at a time; threads that it starts later follow it.
    ///
    /// # Errors
    /// [`Kind::Gone`] if the group is.
    pub fn add_task(&self, group: &impl Group, tid: u32) -> Result<Placed> {
        let (ctrl, mon) = group.place();
        let Some(now) = self.groups_of(tid)? else {
            return Ok(Placed::Ended);
        };
        if now.ctrl == ctrl.name && now.mon == mon {
            return Ok(Placed::Already);
        }
        let is_ours = |name: &str| name.is_empty() || name.starts_with(PREFIX);
        if !is_ours(&now.ctrl) || !is_ours(&now.mon) {
            return Ok(Placed::Foreign);
        }
        // A MON group takes tasks of its own class only.
        if now.ctrl != ctrl.name && !self.write_task(&ctrl.path(), tid)? {
            return Ok(Placed::Ended);
        }
        if (now.ctrl == ctrl.name || !mon.is_empty()) && !self.write_task(&group.path(), tid)? {
            return Ok(Placed::Ended);
        }
        Ok(Placed::Moved)
    }

    /// Moves tasks to a group until `list` names none that is elsewhere, since a task may
    /// start threads before it is moved. Returns the tasks of other programs' groups.
    ///
    /// # Errors
    /// As [`Groups::add_task`].
    pub fn add_tasks(
        &self,
        group: &impl Group,
        mut list: impl FnMut() -> Vec<u32>,
    ) -> Result<Vec<u32>> {
        const ROUNDS: u32 = 8;
        let mut foreign = Vec::new();
        for _ in 0..ROUNDS {
            let mut moved = false;
            for tid in list() {
                match self.add_task(group, tid)? {
                    Placed::Moved => moved = true,
                    Placed::Foreign if !foreign.contains(&tid) => foreign.push(tid),
                    _ => {}
                }
            }
            if !moved {
                break;
            }
        }
        Ok(foreign)
    }

    /// The groups of a task. `None`: it has ended.
    fn groups_of(&self, tid: u32) -> Result<Option<TaskGroups>> {
        let what = || format!("read the groups of task {tid}");
        match self.fs.task_groups(tid) {
            Ok(text) => TaskGroups::parse(&text)
                .map(Some)
                .ok_or_else(|| self.error(what(), io::ErrorKind::InvalidData.into())),
            Err(source) if is_gone(&source) || is_no_task(&source) => Ok(None),
            Err(source) => Err(self.error(what(), source)),
        }
    }

    /// Returns whether the task still runs.
    fn write_task(&self, path: &str, tid: u32) -> Result<bool> {
        match self.fs.write(&join(path, "tasks"), &format!("{tid}\n")) {
            Ok(()) => Ok(true),
            Err(source) if is_no_task(&source) => Ok(false),
            Err(source) => {
                let group = if path.is_empty() {
                    "the default group"
                } else {
                    path
                };
                Err(self.error(format!("move task {tid} to {group}"), source))
            }
        }
    }

    /// The tasks of a group. Those of a CTRL group include those of its MON groups.
    ///
    /// # Errors
    /// [`Kind::Gone`] if the group is.
    pub fn tasks(&self, group: &impl Group) -> Result<Vec<u32>> {
        let path = join(&group.path(), "tasks");
        let text = self.read_file(&path)?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect())
    }

    /// Reads an event of a group in a domain.
    ///
    /// # Errors
    /// [`Kind::Gone`] if the group is, or the domain's CPUs went offline.
    pub fn reading(&self, group: &impl Group, domain: Domain, event: Event) -> Result<Reading> {
        let file = format!("mon_data/{}/{}", domain_directory(domain), event.name());
        let path = join(&group.path(), &file);
        let line = self.fs.read_line(&path);
        line.map(|text| Reading::parse(&text))
            .map_err(|source| self.error(format!("read {path}"), source))
    }

    /// Gives the group a counter for an event in all domains, where counters are
    /// assignable ([`crate::info::Assignable`]).
    ///
    /// # Errors
    /// [`Kind::NoIds`]: all counters are taken.
    pub fn assign_counter(&self, group: &impl Group, event: Event) -> Result<()> {
        let path = join(&group.path(), assignment::FILE);
        self.fs
            .write(&path, &assignment::assign(event))
            .map_err(|source| self.error(format!("assign a counter in {path}"), source))
    }

    /// Gives the group's counters for an event back, so that other groups can have them. The kernel
    /// may have assigned them when the group was made.
    ///
    /// # Errors
    /// Counters are not assignable, or the group is gone.
    pub fn release_counters(&self, group: &impl Group, event: Event) -> Result<()> {
        let path = join(&group.path(), assignment::FILE);
        self.fs
            .write(&path, &assignment::release(event))
            .map_err(|source| self.error(format!("give counters back in {path}"), source))
    }

    /// The values of a CTRL group.
    ///
    /// # Errors
    /// [`Kind::Gone`] if the group is.
    pub fn schemata(&self, ctrl: &Ctrl) -> Result<Schemata> {
        self.read_file(&join(&ctrl.name, "schemata"))
            .map(|text| Schemata::parse(&text))
    }

    /// Changes values of one resource of one of our CTRL groups with a single write. The
    /// kernel rounds them up to the next step.
    ///
    /// # Errors
    /// [`Kind::Foreign`] for the default group; [`Kind::Refused`] for a value out of
    /// range; [`Kind::Gone`] if the group is.
    pub fn set(&self, ctrl: &Ctrl, resource: Resource, values: &[(Domain, u32)]) -> Result<()> {
        if ctrl.name.is_empty() {
            let what = "change the schemata of the default group";
            return Err(Error::own(Kind::Foreign, what));
        }
        if values.is_empty() {
            return Ok(());
        }
        let command = text(resource, values);
        self.fs
            .write(&join(&ctrl.name, "schemata"), &format!("{command}\n"))
            .map_err(|source| self.error(format!("write {command} to {}", ctrl.name), source))
    }

    fn read_file(&self, path: &str) -> Result<String> {
        self.fs
            .read(path)
            .map_err(|source| self.error(format!("read {path}"), source))
    }

    /// Removes a CTRL group. Its tasks return to the default group. If another program has made
    /// MON groups in it, it stays, without throttling.
    ///
    /// # Errors
    /// The default group is refused. A group that is gone is no error.
    pub fn remove_ctrl(&self, ctrl: Ctrl) -> Result<()> {
        if ctrl.name.is_empty() {
            return Err(Error::own(Kind::Foreign, "remove the default group"));
        }
        self.clean_ctrl(&ctrl.name)
    }

    /// Removes a MON group. Its tasks stay in its CTRL group.
    ///
    /// # Errors
    /// A group that is gone is no error.
    pub fn remove_mon(&self, mon: Mon) -> Result<()> {
        self.remove(&mon.path())
    }

    fn remove(&self, path: &str) -> Result<()> {
        match self.fs.rmdir(path) {
            Err(source) if !is_gone(&source) => {
                let error = self.error(format!("remove the group {path}"), source);
                // Unmounting has removed it.
                if error.kind == Kind::Unmounted {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            _ => Ok(()),
        }
    }

    /// Removes all groups with our prefix. Tasks return to the default group. A CTRL group in which
    /// another program has made MON groups remains, without throttling.
    ///
    /// # Errors
    /// The first failure, after an attempt at all groups. Groups that are gone are none.
    pub fn clean(&self) -> Result<()> {
        let mut failed = None;
        for name in self.ours("")? {
            failed = failed.or(self.clean_ctrl(&name).err());
        }
        for name in self.ours("mon_groups")? {
            let removed = self.remove(&join("mon_groups", &name));
            failed = failed.or(removed.err());
        }
        failed.map_or(Ok(()), Err)
    }

    fn clean_ctrl(&self, name: &str) -> Result<()> {
        if !self.must_keep(name) {
            return self.remove(name);
        }
        // The kernel would leave the tasks of our groups in the class, as it does those of none. Those
        // of the other program's groups stay.
        let ctrl = Ctrl { name: name.into() };
        let list = || self.tasks(&ctrl).unwrap_or_default();
        let mut failed = self.add_tasks(&Ctrl::DEFAULT, list).err();
        // Removing the group would remove the other program's groups in it.
        let children = self.fs.list(&join(name, "mon_groups")).unwrap_or_default();
        for child in children.iter().filter(|child| child.starts_with(PREFIX)) {
            let removed = self.remove(&join(&join(name, "mon_groups"), child));
            failed = failed.or(removed.err());
        }
        failed = failed.or(self.release(name).err());
        failed.map_or(Ok(()), Err)
    }

    /// Ends the throttling of a group: it gets the default group's values.
    fn release(&self, name: &str) -> Result<()> {
        let now = self.schemata(&Ctrl { name: name.into() })?;
        let default = self.schemata(&Ctrl::DEFAULT)?;
        let Some(command) = now.changes(&default) else {
            return Ok(());
        };
        self.fs
            .write(&join(name, "schemata"), &command)
            .map_err(|source| self.error(format!("end the throttling of {name}"), source))
    }

    /// Names with our prefix in a directory. A directory that is missing has none.
    fn ours(&self, directory: &str) -> Result<Vec<String>> {
        let mut names = directories(&self.fs, directory)
            .map_err(|source| self.error(format!("list /{directory} of resctrl"), source))?;
        names.retain(|name| name.starts_with(PREFIX));
        names.sort();
        Ok(names)
    }
}

impl<F: ResctrlFs> Drop for Groups<F> {
    fn drop(&mut self) {
        // Nothing more can be done, and the next start cleans.
        let _ = self.clean();
    }
}

fn is_no_task(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// A group's name with our prefix.
fn our_name(name: &str) -> Result<String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > 200 || !name.bytes().all(valid) {
        let what = format!(
            "make a group {name:?}: a name has 1 to 200 of the characters A-Z a-z 0-9 _ - ."
        );
        return Err(Error::own(Kind::Refused, what));
    }
    Ok(format!("{PREFIX}{name}"))
}

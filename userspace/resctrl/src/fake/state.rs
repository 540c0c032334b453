// SPDX-License-Identifier: GPL-2.0-only
//! The rules of the modelled kernel.

use std::{collections::BTreeSet, io};

use super::{Place, State, os, split};
use crate::{
    reading::{Event, Reading},
    schemata::{Domain, Resource, Schemata},
};

impl State {
    pub(super) fn check(
        &mut self,
        operation: &str,
        path: &str,
        change: Option<String>,
    ) -> io::Result<()> {
        if let Some((_, _, errno)) = self
            .failures
            .iter()
            .find(|(name, at, _)| *name == operation && at == path)
        {
            return Err(os(*errno));
        }
        if !self.mounted {
            // What is left is an empty directory of sysfs.
            return Err(os(if operation == "mkdir" {
                libc::EPERM
            } else {
                libc::ENOENT
            }));
        }
        if let Some(change) = change {
            if self.read_only {
                return Err(os(libc::EROFS));
            }
            self.status = "ok\n".into();
            self.log.push(change);
        }
        Ok(())
    }

    pub(super) fn refuse<T>(&mut self, errno: i32, status: &str) -> io::Result<T> {
        self.status = format!("{status}\n");
        Err(os(errno))
    }

    pub(super) fn free_rmid(&mut self) -> io::Result<u32> {
        if self.shape.rmids == 0 {
            return Ok(0);
        }
        let used = |rmid: &u32| self.groups.values().any(|taken| taken == rmid);
        let mut free = (0..self.shape.rmids).filter(|rmid| !used(rmid));
        match free.find(|rmid| !self.limbo.contains(rmid)) {
            Some(rmid) => Ok(rmid),
            None if self.limbo.is_empty() => self.refuse(libc::ENOSPC, "Out of RMIDs"),
            None => self.refuse(libc::EBUSY, "Out of RMIDs"),
        }
    }

    pub(super) fn mkdir(&mut self, path: &str) -> io::Result<()> {
        let (place, rest) = split(path);
        let root = place.0.is_empty() && place.1.is_empty();
        if !rest.is_empty() || root || place.1.contains('/') || place.1 == "mon_groups" {
            return Err(os(libc::EPERM));
        }
        if self.groups.contains_key(&place) {
            return Err(os(libc::EEXIST));
        }
        if place.1.is_empty() {
            let classes = self.groups.keys().filter(|(_, mon)| mon.is_empty()).count();
            if self.shape.closids == 0 {
                return Err(os(libc::EPERM));
            }
            if classes >= self.shape.closids as usize {
                return self.refuse(libc::ENOSPC, "Out of CLOSIDs");
            }
        } else if self.shape.rmids == 0 || !self.schemata.contains_key(&place.0) {
            return Err(os(libc::ENOENT));
        }
        let rmid = self.free_rmid()?;
        if place.1.is_empty() {
            let values = self.open_values();
            self.schemata.insert(place.0.clone(), values);
        }
        let assigns = self.read("info/L3_MON/mbm_assign_on_mkdir").as_deref() != Some("0\n");
        for event in [Event::MbmTotal, Event::MbmLocal]
            .into_iter()
            .filter(|_| assigns)
        {
            let taken = self.assigned.len();
            if self
                .shape
                .counters
                .is_some_and(|counters| taken < counters as usize)
            {
                self.assigned.insert((rmid, event));
            }
        }
        self.groups.insert(place, rmid);
        Ok(())
    }

    pub(super) fn remove(&mut self, place: &Place, heir: &Place) {
        if let Some(rmid) = self.groups.remove(place) {
            self.readings.retain(|(of, _, _), _| *of != rmid);
            self.assigned.retain(|(of, _)| *of != rmid);
        }
        self.with_cpus.remove(place);
        for at in self.tasks.values_mut().filter(|at| *at == place) {
            *at = heir.clone();
        }
    }

    pub(super) fn rmdir(&mut self, path: &str) -> io::Result<()> {
        let (place, rest) = split(path);
        if !rest.is_empty() || place == Place::default() {
            return Err(os(libc::EPERM));
        }
        if !self.groups.contains_key(&place) {
            return Err(os(libc::ENOENT));
        }
        if !place.1.is_empty() {
            self.remove(&place, &(place.0.clone(), String::new()));
            return Ok(());
        }
        let inside: Vec<_> = self
            .groups
            .keys()
            .filter(|(ctrl, _)| *ctrl == place.0)
            .cloned()
            .collect();
        for inner in inside {
            self.remove(&inner, &Place::default());
        }
        self.schemata.remove(&place.0);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let ((from, rest), (to, rest_to)) = (split(from), split(to));
        if !self.groups.contains_key(&from) || !self.schemata.contains_key(&to.0) {
            return Err(os(libc::ENOENT));
        }
        if !rest.is_empty() || from.1.is_empty() {
            return self.refuse(libc::EPERM, "Source must be a MON group");
        }
        if !rest_to.is_empty() || to.1.is_empty() {
            return self.refuse(libc::EPERM, "Destination must be a mon_groups subdirectory");
        }
        if from.0 != to.0 && self.with_cpus.contains(&from) {
            return self.refuse(libc::EPERM, "Cannot move a MON group that monitors CPUs");
        }
        if self.groups.contains_key(&to) {
            return Err(os(libc::EEXIST));
        }
        let rmid = self.groups.remove(&from).unwrap_or_default();
        for at in self.tasks.values_mut().filter(|at| **at == from) {
            *at = to.clone();
        }
        self.groups.insert(to, rmid);
        Ok(())
    }

    pub(super) fn write_task(&mut self, place: &Place, text: &str) -> io::Result<()> {
        let Ok(tid) = text.trim().parse::<u32>() else {
            return self.refuse(libc::EINVAL, "Task list parsing error");
        };
        let Some(now) = self.tasks.get(&tid) else {
            return self.refuse(libc::ESRCH, &format!("No task {tid}"));
        };
        if !place.1.is_empty() && now.0 != place.0 {
            return self.refuse(libc::EINVAL, "Can't move task to different control group");
        }
        self.tasks.insert(tid, place.clone());
        Ok(())
    }

    pub(super) fn write_schemata(&mut self, ctrl: &str, text: &str) -> io::Result<()> {
        let (min, step) = self.shape.mb;
        let Some(mut values) = self.schemata.get(ctrl).cloned() else {
            return Err(os(libc::ENOENT));
        };
        if !text.ends_with('\n') {
            return Err(os(libc::EINVAL));
        }
        let command = Schemata::parse(text);
        let mut any = false;
        for resource in Resource::ALL {
            for (domain, value) in command.values(resource) {
                any = true;
                let wanted = match resource {
                    Resource::Mb if *value < min || *value > self.most() => {
                        let status = format!("MB value {value} out of range [{min},100]");
                        return self.refuse(libc::EINVAL, &status);
                    }
                    Resource::Mb => value.div_ceil(step) * step,
                    _ => *value,
                };
                if values.set(resource, *domain, wanted).is_err() {
                    return Err(os(libc::EINVAL));
                }
            }
        }
        if !any {
            return self.refuse(libc::EINVAL, "Missing ':'");
        }
        self.schemata.insert(ctrl.into(), values);
        Ok(())
    }

    /// The values of a new group (`rdtgroup_init_alloc()`): bandwidth has no limit, and all ways
    /// are open, since no group of the model is exclusive.
    fn open_values(&self) -> Schemata {
        let mut values = Schemata::parse(&self.shape.schemata);
        for resource in Resource::ALL {
            let mask = self.read(&format!("info/{}/cbm_mask", resource.name()));
            let all = mask.and_then(|text| u32::from_str_radix(text.trim(), 16).ok());
            let domains = values.values(resource).to_vec();
            for (domain, value) in domains {
                let open = match resource {
                    Resource::Mb => self.most(),
                    _ => all.unwrap_or(value),
                };
                // The domain was found in the same values.
                let _ = values.set(resource, domain, open);
            }
        }
        values
    }

    /// The `MB:` value that limits nothing: percent, or AMD's unit if the shape exceeds them.
    fn most(&self) -> u32 {
        100.max(self.highest())
    }

    /// The highest `MB:` value of the shape.
    fn highest(&self) -> u32 {
        let values = Schemata::parse(&self.shape.schemata);
        values
            .values(Resource::Mb)
            .iter()
            .map(|(_, value)| *value)
            .max()
            .unwrap_or(0)
    }

    pub(super) fn write_assignment(&mut self, place: &Place, text: &str) -> io::Result<()> {
        let (Some(counters), Some(rmid)) = (self.shape.counters, self.groups.get(place).copied())
        else {
            return Err(os(libc::ENOENT));
        };
        let event = Event::ALL
            .into_iter()
            .find(|event| text.starts_with(event.name()));
        let Some(event) = event else {
            return self.refuse(libc::EINVAL, "Invalid assignment event");
        };
        if text.trim_end().ends_with("=_") {
            self.assigned.remove(&(rmid, event));
        } else if !self.assigned.contains(&(rmid, event))
            && self.assigned.len() >= counters as usize
        {
            let status = format!(
                "Failed to allocate counter for {} in domain 0",
                event.name()
            );
            return self.refuse(libc::ENOSPC, &status);
        } else {
            self.assigned.insert((rmid, event));
        }
        Ok(())
    }

    pub(super) fn one_reading(&self, rmid: u32, domain: Domain, event: Event) -> Reading {
        let counted = event != Event::LlcOccupancy && self.shape.counters.is_some();
        if counted && !self.assigned.contains(&(rmid, event)) {
            return Reading::Unassigned;
        }
        self.readings
            .get(&(rmid, domain, event))
            .copied()
            .unwrap_or(Reading::Bytes(0))
    }

    /// The kernel's rule: a CTRL group's value is the sum of those that can be read.
    pub(super) fn reading(&self, place: &Place, domain: Domain, event: Event) -> Reading {
        let own = self.one_reading(self.groups[place], domain, event);
        if !place.1.is_empty() {
            return own;
        }
        let inside = self
            .groups
            .iter()
            .filter(|((ctrl, mon), _)| *ctrl == place.0 && !mon.is_empty());
        let counts: Vec<u64> = inside
            .map(|(_, rmid)| self.one_reading(*rmid, domain, event))
            .chain([own])
            .filter_map(Reading::bytes)
            .collect();
        if counts.is_empty() {
            return own;
        }
        Reading::Bytes(counts.iter().fold(0, |sum, count| sum.wrapping_add(*count)))
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        if path == "info/last_cmd_status" {
            return Some(self.status.clone());
        }
        if let Some((_, text)) = self.shape.files.iter().find(|(name, _)| name == path) {
            return Some(text.clone());
        }
        let (place, rest) = split(path);
        if !self.groups.contains_key(&place) {
            return None;
        }
        match rest {
            "tasks" => {
                let inside = |at: &Place| *at == place || (place.1.is_empty() && at.0 == place.0);
                let tasks = self.tasks.iter().filter(|(_, at)| inside(at));
                Some(tasks.map(|(tid, _)| format!("{tid}\n")).collect())
            }
            "schemata" if place.1.is_empty() => {
                self.schemata.get(&place.0).map(Schemata::to_string)
            }
            _ => {
                let (domain, event) = rest.strip_prefix("mon_data/mon_L3_")?.split_once('/')?;
                let domain = domain
                    .parse()
                    .ok()
                    .filter(|id| self.shape.domains.contains(id))?;
                let event = Event::ALL.into_iter().find(|known| known.name() == event)?;
                Some(match self.reading(&place, domain, event) {
                    Reading::Bytes(bytes) => format!("{bytes}\n"),
                    other => format!("{other:?}\n"),
                })
            }
        }
    }

    pub(super) fn list(&self, path: &str) -> Option<Vec<String>> {
        let below = |prefix: &str| {
            let names = self
                .shape
                .files
                .iter()
                .filter_map(|(name, _)| name.strip_prefix(prefix));
            let first = names
                .filter_map(|rest| rest.split_once('/'))
                .map(|(name, _)| name.to_owned());
            first
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        };
        if path == "info" {
            return Some(below("info/"));
        }
        let (place, rest) = split(path);
        if !self.groups.contains_key(&place) {
            return None;
        }
        let monitors = self.shape.rmids > 0;
        match rest {
            "" if place.1.is_empty() => {
                let mut names: Vec<_> = vec!["info".into()];
                if monitors {
                    names.extend(["mon_data".into(), "mon_groups".into()]);
                }
                if place.0.is_empty() {
                    let ctrls = self.schemata.keys().filter(|name| !name.is_empty());
                    names.extend(ctrls.cloned());
                }
                Some(names)
            }
            "mon_groups" if monitors => Some(
                self.groups
                    .keys()
                    .filter(|(ctrl, mon)| *ctrl == place.0 && !mon.is_empty())
                    .map(|(_, mon)| mon.clone())
                    .collect(),
            ),
            "mon_data" if monitors => {
                let mut names = below("mon_data/");
                names.extend(
                    self.shape
                        .domains
                        .iter()
                        .map(|id| format!("mon_L3_{id:02}")),
                );
                Some(names)
            }
            rest => Some(below(&format!("{rest}/"))),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The tasks that devices move memory for. They mostly sleep, so no core carries their
//! virtual times.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    id_table::{IdTable, SHARED_ID},
    registers::HwId,
    scheduler_view::TaskUsage,
};

/// A request to a device carries the id that its task had when it was submitted. It has ended if
/// devices moved nothing for its id for so long: a disk that is busy answers within this time.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// What scans of all tasks find.
#[derive(Default)]
pub struct DeviceUsers {
    /// What devices have moved for tasks until the last scan (bytes), by thread id.
    bytes: HashMap<u32, u64>,
    ids: Vec<HwId>,
    /// When devices were last seen to move memory for tasks with an id.
    last: HashMap<HwId, Instant>,
}

impl DeviceUsers {
    /// The tasks were scanned at `now`. Those that devices move memory for get free ids: polls
    /// rarely find them on a CPU.
    pub fn scanned(&mut self, tasks: &[TaskUsage], ids: &mut IdTable, now: Instant) {
        let users = tasks.iter().filter(|task| task.device_bytes != 0);
        let bytes: HashMap<u32, u64> = users.map(|task| (task.pid, task.device_bytes)).collect();
        self.ids.clear();
        for (&pid, bytes) in &bytes {
            let before = self.bytes.get(&pid).copied().unwrap_or(0);
            if before == *bytes {
                continue;
            }
            let id = ids.claim(pid);
            if *bytes < before {
                // Another task has the thread id now, and does not know its id.
                ids.report(pid);
            }
            if id != SHARED_ID {
                self.ids.push(id);
                self.last.insert(id, now);
            }
        }
        self.bytes = bytes;
    }

    /// The ids of tasks for which devices moved memory between the last two scans.
    pub fn ids(&self) -> &[HwId] {
        &self.ids
    }

    /// Whether requests to devices may carry `id`, whose traffic was read `now`: `bytes`.
    pub fn carry(&mut self, id: HwId, bytes: u64, now: Instant) -> bool {
        let Some(last) = self.last.get_mut(&id) else {
            return false;
        };
        if bytes > 0 {
            *last = now;
        }
        let carry = now.saturating_duration_since(*last) < IN_FLIGHT;
        if !carry {
            self.last.remove(&id);
        }
        carry
    }
}

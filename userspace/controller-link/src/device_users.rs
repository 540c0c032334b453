// SPDX-License-Identifier: GPL-2.0-only
//! The tasks that devices move memory for. They mostly sleep, so no core carries their
//! virtual times.

use std::collections::HashMap;

use crate::{
    id_table::{IdTable, SHARED_ID},
    registers::HwId,
    scheduler_view::TaskUsage,
};

/// What scans of all tasks find.
#[derive(Default)]
pub struct DeviceUsers {
    /// What devices have moved for tasks until the last scan (bytes), by thread id.
    bytes: HashMap<u32, u64>,
    ids: Vec<HwId>,
}

impl DeviceUsers {
    /// The tasks were scanned. Those that devices move memory for get free ids: polls rarely
    /// find them on a CPU.
    pub fn scanned(&mut self, tasks: &[TaskUsage], ids: &mut IdTable) {
        let users = tasks.iter().filter(|task| task.device_bytes != 0);
        let bytes: HashMap<u32, u64> = users.map(|task| (task.pid, task.device_bytes)).collect();
        let more = bytes
            .iter()
            .filter(|(pid, bytes)| self.bytes.get(pid) != Some(bytes));
        let found = more.map(|(&pid, _)| ids.claim(pid));
        self.ids = found.filter(|&id| id != SHARED_ID).collect();
        self.bytes = bytes;
    }

    /// The ids of tasks for which devices moved memory between the last two scans.
    pub fn ids(&self) -> &[HwId] {
        &self.ids
    }
}

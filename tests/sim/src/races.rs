// SPDX-License-Identifier: GPL-2.0-only
//! What CPUs do at the same time, by threads. The simulator runs one callback after another.

use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    fn race_groups(rounds: u64) -> u64;
}

static RACE: Mutex<()> = Mutex::new(());

/// Two threads change the same groups (`bpf/cgroup.bpf.h`) in each of `rounds`. Returns after how
/// many rounds a sum of active weights was wrong.
pub fn wrong_group_sums(rounds: u64) -> u64 {
    let _race = RACE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: its variables are its own, and one race runs at a time.
    unsafe { race_groups(rounds) }
}

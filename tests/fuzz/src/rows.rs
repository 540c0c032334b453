// SPDX-License-Identifier: GPL-2.0-only
//! The answer of the stats socket that `top` reads.

use drfq_stats::{report::Tasks, rows::Rows};

/// An answer that is taken has a task for each name. It gives the same answer again.
pub fn check(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0);
    let numbers = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let names: Vec<String> = parts
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    let rows = Rows {
        names: names.clone(),
        numbers,
        ..Rows::default()
    };
    if let Ok(tasks) = Tasks::try_from(rows) {
        assert!(tasks.tasks.iter().map(|task| &task.comm).eq(&names));
        let again = Tasks::try_from(Rows::from(tasks.clone())).expect("our own answer");
        for (task, again) in tasks.tasks.iter().zip(&again.tasks) {
            assert_eq!((task.pid, &task.state), (again.pid, &again.state));
        }
    }
}

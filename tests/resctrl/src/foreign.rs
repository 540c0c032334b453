// SPDX-License-Identifier: GPL-2.0-only
//! A group of another program: made by hand, and compared byte for byte.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::{POINT, load::Load};

/// The group with its task.
pub struct Foreign {
    before: BTreeMap<String, String>,
    _task: Load,
}

impl Foreign {
    /// Makes the group, with values of its own and a task.
    pub fn new() -> Result<Self> {
        let path = Path::new(POINT).join("other");
        let task = Load::start(3)?;
        fs::create_dir(&path).context("make the foreign group")?;
        fs::write(path.join("schemata"), "MB:0=50\n")?;
        fs::write(path.join("tasks"), format!("{}\n", task.tid()))?;
        let mut before = BTreeMap::new();
        collect(&path, &mut before)?;
        ensure!(
            before.len() > 5,
            "the foreign group has {} files",
            before.len()
        );
        Ok(Self {
            before,
            _task: task,
        })
    }

    /// Checks that nothing has changed in it. `when`: for the message.
    pub fn check(&self, when: &str) -> Result<()> {
        let mut now = BTreeMap::new();
        collect(&Path::new(POINT).join("other"), &mut now)?;
        ensure!(
            now == self.before,
            "{when} the foreign group differs: {now:?}, not {:?}",
            self.before
        );
        Ok(())
    }
}

/// The content of all files below a directory but counts.
fn collect(directory: &Path, files: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.ends_with("mon_data") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| error.to_string());
            files.insert(path.display().to_string(), text);
        }
    }
    Ok(())
}

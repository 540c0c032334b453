// SPDX-License-Identifier: GPL-2.0-only
//! The file that keeps the columns and orders of `top`.

use std::{env, fs, path::PathBuf};

use drfq_view::settings::Settings;

/// The file of this user; none without a home directory.
fn file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let directory = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(directory.join("scx_drfq/top.toml"))
}

/// The settings of the file, and what is wrong with it. Without a file, the default.
pub fn read() -> (Settings, Option<String>) {
    let text = file().and_then(|file| Some((fs::read_to_string(&file).ok()?, file)));
    let Some((text, file)) = text else {
        return (Settings::default(), None);
    };
    match Settings::parse(&text) {
        Ok(settings) => (settings, None),
        Err(error) => (
            Settings::default(),
            Some(format!(
                "{}: {error}; press W to replace it",
                file.display()
            )),
        ),
    }
}

/// Writes the file. Returns what to tell the user.
pub fn write(settings: &Settings) -> String {
    let Some(file) = file() else {
        return "not saved: neither XDG_CONFIG_HOME nor HOME is set".into();
    };
    let directory = file.parent().map_or(Ok(()), fs::create_dir_all);
    // A file that is cut short by a full disk never replaces the old one.
    let new = file.with_extension("new");
    let written = directory
        .and_then(|()| fs::write(&new, settings.text()))
        .and_then(|()| fs::rename(&new, &file));
    match written {
        Ok(()) => format!("saved in {}", file.display()),
        Err(error) => format!("not saved in {}: {error}", file.display()),
    }
}

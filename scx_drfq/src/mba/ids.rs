// SPDX-License-Identifier: GPL-2.0-only
//! How many of resctrl's groups can be ours: each takes a hardware id, and other programs have some.

use std::io;

use drfq_resctrl::{
    fs::ResctrlFs,
    groups::{PREFIX, directories},
    info::{Info, Monitoring},
};

/// No hardware has more classes. A number that means nothing is larger.
const CLASSES_MAX: usize = 1024;

/// Of so many ids, one is left to other programs, which could make no group else.
const LEAVES_ONE: usize = 8;

/// How many classes, of at most `classes`, and entities there can be beside other programs' groups,
/// those included that may come.
pub fn limits(fs: &impl ResctrlFs, info: &Info, classes: usize) -> (usize, usize) {
    // What cannot be listed is no reason for fewer; nothing is throttled then.
    let foreign = foreign_groups(fs, "").unwrap_or_default();
    let leave = |ids: usize| ids - usize::from(ids >= LEAVES_ONE);
    let classes = leave(classes.min(CLASSES_MAX)).saturating_sub(foreign.len());
    divide_ids(leave(free_ids(fs, info)), classes)
}

/// The monitoring ids that no group of another program has.
fn free_ids(fs: &impl ResctrlFs, info: &Info) -> usize {
    // MPAM's ids belong to a class each, so their number bounds no sum. Where the kernel tells
    // less than two, the default group has the only one, or the number means nothing.
    let known = |found: &&Monitoring| info.moves_keep_counters && found.num_rmids > 1;
    let Some(monitoring) = info.monitoring.as_ref().filter(known) else {
        return usize::MAX;
    };
    let foreign = |path: &str| foreign_groups(fs, path).unwrap_or_default();
    let groups = |class: &str| foreign(&format!("{class}mon_groups")).len();
    let classes = foreign("");
    let in_classes: usize = classes.iter().map(|name| groups(&format!("{name}/"))).sum();
    let in_ours = foreign_in_ours(fs).unwrap_or_default();
    // The default group has one, too.
    let others = groups("") + classes.len() + in_classes + in_ours.len();
    (monitoring.num_rmids as usize).saturating_sub(1 + others)
}

/// Divides monitoring ids among classes, of which each has one (the kernel's resctrl.rst), and
/// entities. At least two thirds are for entities: a class that groups share is less exact, and
/// what is not monitored is not throttled. Returns how many there can be of each.
fn divide_ids(ids: usize, classes: usize) -> (usize, usize) {
    let classes = classes.min((ids / 3).max(1));
    (classes, ids.saturating_sub(classes))
}

/// The groups in a directory of resctrl.
///
/// # Errors
/// As [`directories`].
pub fn groups_in(fs: &impl ResctrlFs, path: &str) -> io::Result<Vec<String>> {
    let mut names = directories(fs, path)?;
    names.retain(|name| !matches!(name.as_str(), "info" | "mon_groups" | "mon_data"));
    Ok(names)
}

/// Those of other programs.
pub fn foreign_groups(fs: &impl ResctrlFs, path: &str) -> io::Result<Vec<String>> {
    let mut names = groups_in(fs, path)?;
    names.retain(|name| !name.starts_with(PREFIX));
    Ok(names)
}

/// MON groups that other programs have made in our classes.
///
/// # Errors
/// As [`directories`].
pub fn foreign_in_ours(fs: &impl ResctrlFs) -> io::Result<Vec<String>> {
    let mut ours = groups_in(fs, "")?;
    ours.retain(|name| name.starts_with(PREFIX));
    let inside = |class: String| foreign_groups(fs, &format!("{class}/mon_groups"));
    let found: io::Result<Vec<_>> = ours.into_iter().map(inside).collect();
    Ok(found?.concat())
}

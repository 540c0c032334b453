// SPDX-License-Identifier: GPL-2.0-only
//! The rows of the three tables, filtered, sorted and folded.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use drfq_stats::mba_report::MbaGroup;

use crate::{
    columns::{Column, Key},
    entity::{Entity, cgroup_of, clean, levels},
    filter::Filter,
    row::Row,
    snapshot::Snapshot,
};

/// The order of the rows.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// By this column.
    pub column: &'static Column,
    /// The least first.
    pub ascending: bool,
}

impl Order {
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let order = match ((self.column.key)(a), (self.column.key)(b)) {
            (Key::Number(a), Key::Number(b)) => a.total_cmp(&b),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            // A column has keys of one kind.
            _ => Ordering::Equal,
        };
        let order = if self.ascending {
            order
        } else {
            order.reverse()
        };
        order.then_with(|| a.entity.cmp(&b.entity))
    }
}

/// Finds the group that shares memory bandwidth and holds a task.
#[derive(Default)]
struct Groups<'a> {
    /// By the id that ends the name of a process or task.
    by_id: HashMap<u32, &'a MbaGroup>,
    by_path: HashMap<&'a str, &'a MbaGroup>,
    /// The group of each path that was asked for.
    found: HashMap<String, Option<&'a MbaGroup>>,
}

impl<'a> Groups<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut groups = Self::default();
        for group in &snapshot.report.system.mba.groups {
            let name = group.name.as_str();
            if name.starts_with('/') {
                groups.by_path.insert(name, group);
            } else if let Some(id) = name.rsplit(' ').next().and_then(|id| id.parse().ok()) {
                groups.by_id.insert(id, group);
            }
        }
        groups
    }

    fn of(&mut self, ids: &[u32], path: &str) -> Option<&'a MbaGroup> {
        // A look into an empty map costs as much as one into a full one.
        if !self.by_id.is_empty()
            && let Some(group) = ids.iter().find_map(|id| self.by_id.get(id))
        {
            return Some(group);
        }
        if self.by_path.is_empty() {
            return None;
        }
        if let Some(found) = self.found.get(path) {
            return *found;
        }
        let groups = levels(path).filter_map(|level| self.by_path.get(level));
        let found = groups.last().copied();
        self.found.insert(path.to_owned(), found);
        found
    }
}

/// Sorts the rows of tasks or processes.
fn sort(rows: &mut [Row], order: &Order) {
    let key = order.column.key;
    let by_number = rows.first().map(key);
    if !matches!(by_number, Some(Key::Number(_))) {
        return rows.sort_by(|a, b| order.compare(a, b));
    }
    // Comparisons are many, so each key is computed once.
    rows.sort_by_cached_key(|row| {
        let place = match key(row) {
            Key::Number(number) => total_order(number),
            Key::Text(_) => 0,
        };
        (if order.ascending { place } else { !place }, row.pid())
    });
}

/// A number that is ordered as [`f64::total_cmp`] orders.
fn total_order(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The rows of tasks.
pub fn tasks(snapshot: &Snapshot, filter: &Filter, order: &Order) -> Vec<Row> {
    let mut groups = Groups::new(snapshot);
    let tasks = snapshot.report.tasks.iter();
    let mut rows: Vec<Row> = tasks
        .map(|task| {
            let mut row = Row::task(task, snapshot);
            row.finish(snapshot, groups.of(&[task.pid, task.tgid], row.cgroup()));
            row
        })
        .filter(|row| filter.admits(row))
        .collect();
    sort(&mut rows, order);
    rows
}

/// The rows of processes, each with all its threads.
pub fn processes(snapshot: &Snapshot, filter: &Filter, order: &Order) -> Vec<Row> {
    let mut groups = Groups::new(snapshot);
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for task in &snapshot.report.tasks {
        let row = rows.entry(task.tgid).or_insert_with(|| {
            let process = snapshot.processes.get(&task.tgid);
            let name = process.map_or(&task.comm, |process| &process.name);
            let mut row = Row::new(Entity::Process(task.tgid), clean(name));
            row.place(task, snapshot);
            row
        });
        row.add(task);
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(pid, mut row)| {
            row.finish(snapshot, groups.of(&[pid], row.cgroup()));
            row
        })
        .filter(|row| filter.admits(row))
        .collect();
    sort(&mut rows, order);
    rows
}

/// The rows of cgroups, each with all that is below it, as a tree. A filter keeps the
/// parents of what it admits.
pub fn cgroups(
    snapshot: &Snapshot,
    filter: &Filter,
    order: &Order,
    folded: &BTreeSet<String>,
) -> Vec<Row> {
    let mut rows = cgroup_sums(snapshot);
    let mut groups = Groups::new(snapshot);
    for (path, row) in &mut rows {
        row.finish(snapshot, groups.of(&[], path));
    }
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (path, _) in rows.iter().filter(|(_, row)| filter.admits(row)) {
        kept.insert("/".into());
        kept.extend(levels(path).map(str::to_owned));
    }
    let mut children: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (path, row) in rows {
        if path != "/" && kept.contains(&path) {
            let parent = match path.rfind('/') {
                Some(0) | None => "/",
                Some(at) => &path[..at],
            };
            children.entry(parent.to_owned()).or_default().push(row);
        } else if path == "/" {
            children.entry(String::new()).or_default().push(row);
        }
    }
    for rows in children.values_mut() {
        // The last is taken first.
        rows.sort_by(|a, b| order.compare(b, a));
    }
    flatten(children, folded)
}

fn cgroup_sums(snapshot: &Snapshot) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    rows.insert("/".into(), Row::of_cgroup("/", 0, snapshot));
    for task in &snapshot.report.tasks {
        let path = cgroup_of(task, snapshot);
        for (depth, level) in std::iter::once("/").chain(levels(path)).enumerate() {
            if !rows.contains_key(level) {
                rows.insert(level.to_owned(), Row::of_cgroup(level, depth, snapshot));
            }
            if let Some(row) = rows.get_mut(level) {
                let weight = row.weight;
                row.add(task);
                row.weight = weight;
            }
        }
    }
    rows
}

/// The tree in the order of its rows, without what is folded.
fn flatten(mut children: BTreeMap<String, Vec<Row>>, folded: &BTreeSet<String>) -> Vec<Row> {
    let mut stack = children.remove("").unwrap_or_default();
    let mut flat = Vec::new();
    while let Some(mut row) = stack.pop() {
        let below = children.remove(row.cgroup()).unwrap_or_default();
        row.parent = !below.is_empty();
        row.folded = row.parent && folded.contains(row.cgroup());
        if !row.folded {
            stack.extend(below);
        }
        flat.push(row);
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{columns::column, fixture};

    fn order(name: &str, ascending: bool) -> Order {
        Order {
            column: column(name).unwrap(),
            ascending,
        }
    }

    fn names(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn threads_are_folded_into_processes_without_loss() {
        let snapshot = fixture::noisy();
        let all = Filter::default();
        let order = order("cpu", false);
        let tasks = tasks(&snapshot, &all, &order);
        let processes = processes(&snapshot, &all, &order);
        assert!(processes.len() < tasks.len());
        let sum = |rows: &[Row]| rows.iter().map(|row| row.cpu_pct).sum::<f64>();
        assert!((sum(&tasks) - sum(&processes)).abs() < 1e-6);
        let hog = processes
            .iter()
            .find(|row| row.name == "analytics")
            .unwrap();
        assert_eq!((hog.tasks, hog.dominant()), (4, "memory"));
    }

    #[test]
    fn the_root_of_the_tree_has_everything_and_folds() {
        let snapshot = fixture::noisy();
        let (all, order) = (Filter::default(), order("cpu", false));
        let tree = cgroups(&snapshot, &all, &order, &BTreeSet::new());
        let sum: f64 = snapshot.report.tasks.iter().map(|task| task.cpu_pct).sum();
        assert!((tree[0].cpu_pct - sum).abs() < 1e-6);
        assert_eq!((tree[0].depth, tree[1].depth), (0, 1));
        let unit = tree.iter().find(|row| row.name == "web.service").unwrap();
        assert_eq!((unit.weight, unit.depth), (200.0, 2));
        let folded = BTreeSet::from(["/system.slice".to_owned()]);
        let smaller = cgroups(&snapshot, &all, &order, &folded);
        assert!(!names(&smaller).contains(&"web.service"));
        assert!(
            smaller
                .iter()
                .any(|row| row.folded && row.name == "system.slice")
        );
    }

    #[test]
    fn a_filter_keeps_the_parents_of_what_it_admits() {
        let snapshot = fixture::noisy();
        let filter = Filter::parse("web.service").unwrap();
        let tree = cgroups(&snapshot, &filter, &order("cpu", false), &BTreeSet::new());
        assert_eq!(names(&tree), ["/", "system.slice", "web.service"]);
    }

    #[test]
    fn rows_follow_the_order_and_its_reverse() {
        let snapshot = fixture::noisy();
        let all = Filter::default();
        let up = tasks(&snapshot, &all, &order("pid", true));
        let mut down = tasks(&snapshot, &all, &order("pid", false));
        down.reverse();
        assert_eq!(up, down);
        assert!(up.windows(2).all(|pair| pair[0].entity < pair[1].entity));
    }
}

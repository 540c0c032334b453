// SPDX-License-Identifier: GPL-2.0-only
//! What the user chose, as a file of TOML keeps it.

use serde::{Deserialize, Serialize};

use crate::{
    columns::{COLUMNS, Column, column},
    view::View,
};

/// Columns and order of each table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The view that is shown at first.
    pub tasks: Table,
    /// See `tasks`.
    pub processes: Table,
    /// See `tasks`.
    pub cgroups: Table,
}

/// Columns and order of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// Names of columns, from left to right.
    pub columns: Vec<String>,
    /// The column that rows are ordered by.
    pub sort: String,
    /// The least first.
    pub ascending: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let table = |names: &str| Table {
            columns: names.split(' ').map(str::to_owned).collect(),
            sort: "share".into(),
            ascending: false,
        };
        Self {
            tasks: table(
                "pid user weight cpu fair distance memory dma share resource wait latency held \
                 level state lag name",
            ),
            processes: table(
                "pid user tasks weight cpu fair distance memory dma share resource wait latency \
                 held level state name",
            ),
            cgroups: table(
                "tasks weight cpu fair distance memory dma share resource wait held level name",
            ),
        }
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with the text, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            format!("line {line}: {}", error.message().replace('\n', "; "))
        })?;
        for table in [&settings.tasks, &settings.processes, &settings.cgroups] {
            for name in table.columns.iter().chain([&table.sort]) {
                if column(name).is_none() {
                    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
                    return Err(format!(
                        "{name}: no such column; known: {}",
                        names.join(" ")
                    ));
                }
            }
            if table.columns.is_empty() {
                return Err("columns is empty; name at least one".into());
            }
        }
        Ok(settings)
    }

    /// The text of a file.
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The table of a view; that of tasks for a view without one.
    pub fn table(&self, view: View) -> &Table {
        match view {
            View::Processes => &self.processes,
            View::Cgroups => &self.cgroups,
            _ => &self.tasks,
        }
    }

    /// See `table`.
    pub fn table_mut(&mut self, view: View) -> &mut Table {
        match view {
            View::Processes => &mut self.processes,
            View::Cgroups => &mut self.cgroups,
            _ => &mut self.tasks,
        }
    }
}

impl Table {
    /// The columns that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &'static Column> {
        self.columns.iter().filter_map(|name| column(name))
    }

    /// Every column: those that are shown, in their order, then the others.
    pub fn all(&self) -> Vec<(&'static Column, bool)> {
        let shown = self.shown().map(|column| (column, true));
        let hidden = COLUMNS
            .iter()
            .filter(|column| !self.columns.iter().any(|name| name == column.name))
            .map(|column| (column, false));
        shown.chain(hidden).collect()
    }

    /// Shows a column, or hides it unless it is the last one.
    pub fn toggle(&mut self, name: &str) {
        match self.columns.iter().position(|shown| shown == name) {
            Some(at) if self.columns.len() > 1 => {
                self.columns.remove(at);
            }
            Some(_) => {}
            None => self.columns.push(name.to_owned()),
        }
    }

    /// Moves a column to the left or right. Returns whether it moved.
    pub fn shift(&mut self, name: &str, right: bool) -> bool {
        let Some(at) = self.columns.iter().position(|shown| shown == name) else {
            return false;
        };
        let to = if right { at + 1 } else { at.wrapping_sub(1) };
        let moves = to < self.columns.len();
        if moves {
            self.columns.swap(at, to);
        }
        moves
    }

    /// Orders by a column, or reverses the order if it is that column already. Numbers
    /// begin with the largest, text with A.
    pub fn sort_by(&mut self, column: &Column) {
        if self.sort == column.name {
            self.ascending = !self.ascending;
        } else {
            column.name.clone_into(&mut self.sort);
            self.ascending = !column.right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_file() {
        let mut settings = Settings::default();
        settings.cgroups.toggle("dma");
        settings.tasks.sort_by(column("name").unwrap());
        assert!(settings.tasks.ascending);
        assert_eq!(Settings::parse(&settings.text()), Ok(settings));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
    }

    #[test]
    fn a_wrong_file_is_explained() {
        for (text, word) in [
            ("[tasks]\ncolumns = ['pid', 'speed']\nsort = 'pid'", "speed"),
            ("\n\nx = 1", "line 3"),
            ("[tasks]\ncolumns = []\nsort = 'pid'", "empty"),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn columns_are_chosen_and_moved() {
        let mut table = Table {
            columns: vec!["pid".into(), "cpu".into()],
            sort: "pid".into(),
            ascending: false,
        };
        assert!(table.shift("pid", true) && !table.shift("pid", true));
        table.toggle("cpu");
        table.toggle("pid");
        assert_eq!(table.columns, ["pid"], "the last column stays");
        table.toggle("name");
        assert_eq!(table.columns, ["pid", "name"]);
        assert_eq!(table.all().len(), COLUMNS.len());
    }
}

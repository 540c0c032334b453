// SPDX-License-Identifier: GPL-2.0-only
//! The state of `top`, which snapshots and keys change.

mod overlay;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crossterm::event::Event;
use ratatui::layout::Rect;

use crate::{
    columns::{COLUMNS, column},
    draw::{memory, screen::Screen},
    entity::Entity,
    filter::Filter,
    history::History,
    input::{Action, action},
    palette::Palette,
    row::Row,
    settings::Settings,
    snapshot::Snapshot,
    table::{self, Order},
    view::{VIEWS, View},
};

/// What the caller must do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing more than draw.
    None,
    /// End.
    Quit,
    /// Write the settings to their file.
    Save,
    /// Get snapshots from before the oldest, of a recording.
    Older,
    /// Get the next snapshot, of a recording.
    Newer,
}

/// What lies over the view.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys; scrolled by lines.
    Help(u16),
    /// The selected entity in words; scrolled by lines.
    Explain(u16),
    /// The chooser of columns; the cursor.
    Columns(usize),
    /// The chooser of the order; the cursor.
    Sort(usize),
    /// A line of input.
    Input(Input, String),
}

/// What a line of input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Input {
    Search,
    Filter,
}

/// The state.
pub struct App {
    /// Name of the source.
    pub source: String,
    /// Columns and orders.
    pub settings: Settings,
    /// Colours.
    pub palette: Palette,
    /// The last snapshots.
    pub history: History,
    /// The view.
    pub view: View,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// Which rows are shown.
    pub filter: Filter,
    /// What the last search was for.
    pub search: String,
    /// Whether new snapshots are kept aside.
    pub frozen: bool,
    /// Steps from the newest snapshot to the one that is shown.
    pub back: usize,
    /// Whether the cursor stays with its entity as the entity moves.
    pub follow: bool,
    /// A message for the last line, until the next key.
    pub message: Option<String>,
    /// The rows of the view, if it is a table.
    pub rows: Vec<Row>,
    /// The row of the cursor.
    pub cursor: usize,
    /// The first row that is visible.
    pub top: usize,
    followed: Option<Entity>,
    cursors: HashMap<View, usize>,
    folded: BTreeSet<String>,
    size: Rect,
}

impl App {
    /// The state before the first snapshot.
    pub fn new(source: String, settings: Settings, palette: Palette) -> Self {
        Self {
            source,
            settings,
            palette,
            history: History::default(),
            view: View::Tasks,
            overlay: None,
            filter: Filter::default(),
            search: String::new(),
            frozen: false,
            back: 0,
            follow: false,
            message: None,
            rows: Vec::new(),
            cursor: 0,
            top: 0,
            followed: None,
            cursors: HashMap::new(),
            folded: BTreeSet::new(),
            size: Rect::new(0, 0, 80, 24),
        }
    }

    /// The size of the terminal.
    pub fn resize(&mut self, size: Rect) {
        self.size = size;
        self.keep_visible();
    }

    /// Adds the newest snapshot. A frozen view stays where it is.
    pub fn push(&mut self, snapshot: Snapshot) {
        self.history.push(snapshot);
        if self.frozen {
            self.back = (self.back + 1).min(self.history.len() - 1);
        } else {
            self.back = 0;
            self.refresh();
        }
    }

    /// The snapshot that is shown.
    pub fn shown(&self) -> Option<&Arc<Snapshot>> {
        self.history.back(self.back)
    }

    /// The entity at the cursor: in the table, or on the CPU or in the group there.
    pub fn selected(&self) -> Option<Entity> {
        if self.view.is_table() {
            return self.rows.get(self.cursor).map(|row| row.entity.clone());
        }
        let report = &self.shown()?.report;
        match self.view {
            View::Cpus => {
                let cpu = report.cpus.get(self.cursor)?;
                (cpu.pid > 0).then_some(Entity::Task(cpu.pid))
            }
            View::Memory => {
                let name = &report.system.mba.groups.get(self.cursor)?.name;
                if name.starts_with('/') {
                    return Some(Entity::Cgroup(name.clone()));
                }
                let id = name.rsplit(' ').next()?.parse().ok()?;
                let leads = report.tasks.iter().any(|task| task.tgid == id);
                Some(if leads {
                    Entity::Process(id)
                } else {
                    Entity::Task(id)
                })
            }
            _ => None,
        }
    }

    /// Number of rows of the view.
    pub fn len(&self) -> usize {
        let Some(snapshot) = self.shown() else {
            return 0;
        };
        match self.view {
            View::Cpus => snapshot.report.cpus.len(),
            View::Memory => snapshot.report.system.mba.groups.len(),
            View::Controller => 0,
            _ => self.rows.len(),
        }
    }

    /// Whether the view has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Computes the rows of the snapshot that is shown.
    pub fn refresh(&mut self) {
        let Some(snapshot) = self.history.back(self.back).map(Arc::clone) else {
            self.rows.clear();
            return;
        };
        let order = self.order();
        self.rows = match self.view {
            View::Tasks => table::tasks(&snapshot, &self.filter, &order),
            View::Processes => table::processes(&snapshot, &self.filter, &order),
            View::Cgroups => table::cgroups(&snapshot, &self.filter, &order, &self.folded),
            _ => Vec::new(),
        };
        if self.follow
            && let Some(followed) = &self.followed
            && let Some(at) = self.rows.iter().position(|row| row.entity == *followed)
        {
            self.cursor = at;
        }
        self.keep_visible();
    }

    fn order(&self) -> Order {
        let table = self.settings.table(self.view);
        Order {
            column: column(&table.sort).unwrap_or(&COLUMNS[0]),
            ascending: table.ascending,
        }
    }

    /// The part of the screen that has the heading and the rows of the view.
    fn list(&self) -> Rect {
        let body = Screen::of(self.size).body;
        match self.shown() {
            Some(snapshot) if self.view == View::Memory => memory::parts(body, snapshot).0,
            _ => body,
        }
    }

    /// Number of rows that are visible at once; at least one, so that the cursor moves.
    fn room(&self) -> usize {
        self.list().height.saturating_sub(1).max(1).into()
    }

    /// Moves the cursor into the rows, and the rows so that the cursor is visible.
    fn keep_visible(&mut self) {
        let room = self.room();
        let last = self.len().saturating_sub(1);
        self.cursor = self.cursor.min(last);
        self.top = self
            .top
            .min(self.cursor)
            .max((self.cursor + 1).saturating_sub(room));
    }

    /// Handles an event of the terminal.
    pub fn handle(&mut self, event: &Event) -> Effect {
        if matches!(event, Event::Key(_)) {
            self.message = None;
        }
        if let Some(overlay) = self.overlay.take() {
            return self.handle_overlay(overlay, event);
        }
        match action(event) {
            Some(action) => self.act(action),
            None => Effect::None,
        }
    }

    fn act(&mut self, action: Action) -> Effect {
        match action {
            Action::Quit => return Effect::Quit,
            Action::Save => return Effect::Save,
            Action::Back(steps) => return self.travel(steps),
            Action::Click(x, y) => self.click(x, y),
            Action::Show(view) => self.show(view),
            Action::NextView(forward) => self.show(self.view.step(forward)),
            Action::Move(by) => self.move_by(by),
            Action::Page(pages) => self.move_by(pages * self.room() as i32),
            Action::First => self.move_by(i32::MIN),
            Action::Last => self.move_by(i32::MAX),
            Action::Freeze => self.freeze(),
            Action::Follow => self.follow(),
            Action::Clear => self.clear(),
            Action::SearchAgain => self.find(true),
            Action::SortBy(name) => self.sort_by(name),
            Action::Reverse => {
                let table = self.settings.table_mut(self.view);
                table.ascending = !table.ascending;
                self.refresh();
            }
            Action::Tree => self.show(match self.view {
                View::Cgroups => View::Processes,
                _ => View::Cgroups,
            }),
            Action::Fold(fold) => self.fold(Some(fold)),
            Action::ToggleFold => self.fold(None),
            Action::Resize => {}
            _ => self.open(action),
        }
        Effect::None
    }

    /// Opens an overlay.
    fn open(&mut self, action: Action) {
        self.overlay = match action {
            Action::Help => Some(Overlay::Help(0)),
            Action::Explain => Some(Overlay::Explain(0)),
            Action::Search => Some(Overlay::Input(Input::Search, String::new())),
            Action::Filter => Some(Overlay::Input(Input::Filter, self.filter.text.clone())),
            Action::FilterUser => Some(Overlay::Input(Input::Filter, "user:".into())),
            Action::Columns if self.view.is_table() => Some(Overlay::Columns(0)),
            Action::SortMenu if self.view.is_table() => Some(Overlay::Sort(0)),
            _ => None,
        };
        if self.overlay.is_none() {
            self.message = Some("this view has a fixed order; press 1, 2 or 3".into());
        }
    }

    fn show(&mut self, view: View) {
        self.cursors.insert(self.view, self.cursor);
        self.view = view;
        self.cursor = self.cursors.get(&view).copied().unwrap_or(0);
        self.top = 0;
        self.refresh();
    }

    fn move_by(&mut self, by: i32) {
        let at = i64::try_from(self.cursor).unwrap_or(0) + i64::from(by);
        self.cursor = usize::try_from(at).unwrap_or(0);
        self.keep_visible();
        self.followed = self.selected();
    }

    fn freeze(&mut self) {
        self.frozen = !self.frozen;
        if !self.frozen {
            self.back = 0;
            self.refresh();
        }
    }

    fn travel(&mut self, steps: i32) -> Effect {
        self.frozen = true;
        let to = self.back as i64 + i64::from(steps);
        let last = self.history.len().saturating_sub(1) as i64;
        self.back = to.clamp(0, last) as usize;
        self.refresh();
        match to {
            to if to < 0 => Effect::Newer,
            to if to > last => Effect::Older,
            _ => Effect::None,
        }
    }

    fn follow(&mut self) {
        self.follow = !self.follow;
        self.followed = self.selected();
        self.message = Some(match &self.followed {
            Some(entity) if self.follow => format!("the cursor follows {entity}"),
            _ => "the cursor stays in its line".into(),
        });
    }

    fn clear(&mut self) {
        self.filter = Filter::default();
        self.frozen = false;
        self.back = 0;
        self.refresh();
    }

    fn sort_by(&mut self, name: &str) {
        if let Some(column) = column(name) {
            self.settings.table_mut(self.view).sort_by(column);
            self.refresh();
        }
    }

    fn fold(&mut self, fold: Option<bool>) {
        let Some(row) = self.rows.get(self.cursor).filter(|row| row.parent) else {
            return;
        };
        let path = row.cgroup().to_owned();
        if fold.unwrap_or(!row.folded) {
            self.folded.insert(path);
        } else {
            self.folded.remove(&path);
        }
        self.refresh();
    }

    /// Moves the cursor to a row that matches the search, from here or from the next row.
    fn find(&mut self, next: bool) {
        let wanted = self.search.to_lowercase();
        let length = self.rows.len();
        let from = self.cursor + usize::from(next);
        let matches = |row: &Row| {
            row.name.to_lowercase().contains(&wanted)
                || row.pid().is_some_and(|pid| pid.to_string() == wanted)
        };
        let found = (0..length)
            .map(|step| (from + step) % length)
            .find(|&at| matches(&self.rows[at]));
        match found {
            Some(at) => {
                self.cursor = at;
                self.keep_visible();
                self.followed = self.selected();
            }
            None => self.message = Some(format!("no row matches {}", self.search)),
        }
    }

    fn click(&mut self, x: u16, y: u16) {
        let screen = Screen::of(self.size);
        let list = self.list();
        if y == screen.tabs.y {
            if let Some(view) = VIEWS.iter().position(|view| screen.tab(*view).contains(&x)) {
                self.show(VIEWS[view]);
            }
        } else if y == screen.body.y && self.view.is_table() {
            let table = self.settings.table(self.view);
            let found = screen
                .columns(table, self.view)
                .find(|(_, part)| part.contains(&x));
            if let Some((column, _)) = found {
                self.sort_by(column.name);
            }
        } else if (list.y + 1..list.bottom()).contains(&y) {
            let at = self.top + usize::from(y - list.y - 1);
            if at < self.len() {
                self.cursor = at;
                self.followed = self.selected();
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Where things are on the screen, for drawing and for the mouse.

use std::ops::Range;

use ratatui::layout::Rect;

use crate::{
    columns::Column,
    settings::Table,
    view::{VIEWS, View},
};

/// Terminals lower than this have no meters of the machine; lower than twice as much, no
/// history of the selected row.
const COMPACT_HEIGHT: u16 = 12;

/// The column of names is at least this wide, and in a tree.
const NAME_WIDTH: u16 = 12;
const TREE_WIDTH: u16 = 30;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The source, the time, the state of the system.
    pub title: Rect,
    /// CPUs and memory with their history.
    pub meters: Rect,
    /// The views.
    pub tabs: Rect,
    /// The view.
    pub body: Rect,
    /// The history of the selected row.
    pub detail: Rect,
    /// Keys, messages, input.
    pub footer: Rect,
}

impl Screen {
    /// The parts of a terminal of this size.
    pub fn of(area: Rect) -> Self {
        let meters = if area.height < COMPACT_HEIGHT { 0 } else { 2 };
        let detail = if area.height < 2 * COMPACT_HEIGHT {
            0
        } else {
            3
        };
        let mut y = area.y;
        let mut take = |height: u16| {
            let height = height.min(area.bottom().saturating_sub(y));
            let part = Rect::new(area.x, y, area.width, height);
            y += height;
            part
        };
        let (title, meters, tabs) = (take(1), take(meters), take(1));
        let rest = area.height.saturating_sub(3 + meters.height + detail);
        Self {
            title,
            meters,
            tabs,
            body: take(rest),
            detail: take(detail),
            footer: take(1),
        }
    }

    /// Rows below the heading of the body.
    pub fn rows(&self) -> usize {
        self.body.height.saturating_sub(1).into()
    }

    /// The columns of a view's tab.
    pub fn tab(&self, view: View) -> Range<u16> {
        let mut x = self.tabs.x;
        for other in VIEWS {
            let width = other.name().len() as u16 + 4;
            if other == view {
                return x..x + width;
            }
            x += width;
        }
        x..x
    }

    /// The columns of a table that fit, with their place. The names always fit; columns
    /// before them give way from the right.
    pub fn columns(
        &self,
        table: &Table,
        view: View,
    ) -> impl Iterator<Item = (&'static Column, Range<u16>)> {
        let least = match view {
            View::Cgroups => TREE_WIDTH,
            _ => NAME_WIDTH,
        };
        let name = |column: &&'static Column| column.name == "name";
        let has_name = table.shown().any(|column| name(&column));
        let kept = if has_name { least } else { 0 };
        let mut left = self.body.width.saturating_sub(kept);
        let mut shown = Vec::new();
        for column in table.shown() {
            if name(&column) {
                shown.push((column, least));
            } else if column.width < left {
                left -= column.width + 1;
                shown.push((column, column.width));
            }
        }
        for (column, width) in &mut shown {
            if name(column) {
                *width += left;
            }
        }
        let mut x = self.body.x;
        shown.into_iter().map(move |(column, width)| {
            let part = x..x + width;
            x += width + 1;
            (column, part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_parts_fill_any_terminal_without_overlap() {
        for (width, height) in [(0, 0), (1, 1), (80, 24), (20, 3), (300, 100), (80, 12)] {
            let area = Rect::new(0, 0, width, height);
            let screen = Screen::of(area);
            let parts = [
                screen.title,
                screen.meters,
                screen.tabs,
                screen.body,
                screen.detail,
                screen.footer,
            ];
            let sum: u16 = parts.iter().map(|part| part.height).sum();
            assert_eq!(sum, height, "{width}x{height}");
            assert!(parts.windows(2).all(|pair| pair[0].bottom() == pair[1].y));
        }
    }

    #[test]
    fn names_fit_where_other_columns_give_way() {
        let table = Settings::default().tasks;
        for width in [20, 80, 120, 300] {
            let screen = Screen::of(Rect::new(0, 0, width, 24));
            let columns: Vec<_> = screen.columns(&table, View::Tasks).collect();
            let (last, part) = columns.last().unwrap();
            assert_eq!(last.name, "name");
            assert!(part.len() >= 12 && part.end <= width, "{width}: {part:?}");
            if width == 300 {
                assert_eq!(columns.len(), table.columns.len());
            }
        }
    }
}

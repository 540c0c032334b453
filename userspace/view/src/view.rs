// SPDX-License-Identifier: GPL-2.0-only
//! The views, by the keys 1 to 6.

/// A view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// Every task.
    #[default]
    Tasks,
    /// Threads folded into their processes.
    Processes,
    /// The tree of cgroups.
    Cgroups,
    /// CPUs by their last-level cache.
    Cpus,
    /// Memory bandwidth and its groups.
    Memory,
    /// The memory controller.
    Controller,
}

/// All views, in the order of their keys.
pub const VIEWS: [View; 6] = [
    View::Tasks,
    View::Processes,
    View::Cgroups,
    View::Cpus,
    View::Memory,
    View::Controller,
];

impl View {
    /// The name on its tab.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "Tasks",
            Self::Processes => "Processes",
            Self::Cgroups => "Cgroups",
            Self::Cpus => "CPUs",
            Self::Memory => "Memory",
            Self::Controller => "Controller",
        }
    }

    /// Whether it is a table whose columns and order can be chosen.
    pub fn is_table(self) -> bool {
        matches!(self, Self::Tasks | Self::Processes | Self::Cgroups)
    }

    /// The next view, or the one before.
    pub fn step(self, forward: bool) -> Self {
        let at = VIEWS.iter().position(|view| *view == self).unwrap_or(0);
        let by = if forward { 1 } else { VIEWS.len() - 1 };
        VIEWS[(at + by) % VIEWS.len()]
    }
}

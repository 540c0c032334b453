// SPDX-License-Identifier: GPL-2.0-only
//! Colours by meaning. They are among the 16 of every terminal, and none carries a meaning
//! alone: a sign, a symbol or a word tells the same.

use ratatui::style::{Color, Modifier, Style};

/// The styles of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    colours: bool,
}

impl Palette {
    /// With colours, or with bold, underlined and reversed text alone (NO_COLOR).
    pub fn new(colours: bool) -> Self {
        Self { colours }
    }

    fn colour(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new().add_modifier(otherwise)
        }
    }

    /// Headings and the selected tab.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        self.colour(Color::Cyan, Modifier::empty())
            .add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// Names of things, beside their values.
    pub fn label(self) -> Style {
        self.colour(Color::Cyan, Modifier::empty())
    }

    /// CPU time.
    pub fn cpu(self) -> Style {
        self.colour(Color::Blue, Modifier::empty())
    }

    /// Memory traffic.
    pub fn memory(self) -> Style {
        self.colour(Color::Yellow, Modifier::empty())
    }

    /// Less than the fair share; also what is full.
    pub fn below(self) -> Style {
        self.colour(Color::LightMagenta, Modifier::BOLD)
    }

    /// More than the fair share.
    pub fn above(self) -> Style {
        self.colour(Color::Yellow, Modifier::UNDERLINED)
    }

    /// What is blocked or of less interest.
    pub fn dim(self) -> Style {
        self.colour(Color::DarkGray, Modifier::DIM)
    }
}

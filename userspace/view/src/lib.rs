// SPDX-License-Identifier: GPL-2.0-only
//! What `scx_drfq top` shows, apart from where it comes from and the terminal.
//!
//! A [`source`] gives [`snapshot`]s, [`history`] keeps the last ones, [`table`] turns one
//! into rows. [`app`] is the state that keys change, and [`draw`] is a pure function from
//! that state to a screen. [`explain`] puts an entity into words. [`picture`] turns a
//! screen into SVG.

pub mod app;
pub mod columns;
pub mod draw;
pub mod entity;
pub mod explain;
pub mod filter;
pub mod fixture;
pub mod gallery;
pub mod history;
pub mod input;
pub mod paint;
pub mod palette;
pub mod picture;
pub mod row;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod table;
pub mod view;
pub mod words;

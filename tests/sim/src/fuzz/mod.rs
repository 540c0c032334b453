// SPDX-License-Identifier: GPL-2.0-only
//! Random machines, tasks and events, judged by invariants. A case that breaks one is made as
//! small as possible and kept as a file, which the tests run from then on.

mod books;
mod case;
mod generate;
mod judge;
mod shrink;
mod traffic;

pub use case::{Case, Group, TaskCase};
pub use generate::generate;
pub use judge::{Finding, judge};
pub use shrink::shrink;
pub use traffic::Traffic;

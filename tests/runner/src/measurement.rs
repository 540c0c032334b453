// SPDX-License-Identifier: GPL-2.0-only
//! One measured value, what is expected of it, and the limit of its error.

use crate::scenario::Within;

/// What a measured value is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    /// Nothing: the value is for the reader.
    None,
    /// What the definition gives.
    Value(f64),
    /// A limit.
    AtMost(f64),
}

/// One measured value beside its expectation.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Which task, or what.
    pub what: String,
    /// Unit of value and expectation.
    pub unit: &'static str,
    /// What it is compared with.
    pub expectation: Expectation,
    /// The measured value.
    pub value: f64,
    /// Error relative to the expectation, percent. For a hold, by how much the
    /// tolerance is exceeded; a negative error keeps it.
    pub error_pct: f64,
    /// The part of the error that the length of the run explains, percent.
    pub allowance_pct: f64,
}

/// What the errors of all runs are held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Both signs count.
    Within(Within),
    /// Only an excess counts.
    AtMost(f64),
}

// SPDX-License-Identifier: GPL-2.0-only
//! Policies of scx_drfq. A policy is a pure function of what was measured, so
//! tables and properties test it; it reads no file and acts on nothing.

pub mod attribution;
pub mod drf;
pub mod fair_share;
pub mod saturation;

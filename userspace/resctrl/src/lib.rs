// SPDX-License-Identifier: GPL-2.0-only
//! resctrl, the kernel's interface to bandwidth monitoring (MBM) and throttling (MBA):
//! Documentation/filesystems/resctrl.rst and fs/resctrl/ of the Linux kernel.
//!
//! | module | noun |
//! |---|---|
//! | [`fs`] | the files, behind a trait |
//! | [`detection`] | whether there is resctrl, and why MBM or MBA is missing |
//! | [`mount`] | where resctrl is mounted |
//! | [`info`] | what this machine offers |
//! | [`schemata`] | the values of a class |
//! | [`reading`] | a count, and differences of counts |
//! | [`assignment`] | counters that AMD's ABMC assigns |
//! | [`groups`] | our groups |
//! | [`task`] | the groups of a task |
//! | [`fake`] | a model of the kernel, for tests |

pub mod assignment;
pub mod detection;
pub mod error;
pub mod fake;
pub mod fs;
pub mod groups;
pub mod info;
pub mod mount;
pub mod reading;
pub mod schemata;
pub mod task;

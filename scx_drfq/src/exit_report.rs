// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel tells when it ends the scheduler.

use anyhow::{Result, bail};
use scx_utils::{SCX_ECODE_ACT_RESTART, ScxExitKind};

/// Why the scheduler ended.
#[derive(Clone, Debug, Default)]
pub struct Exit {
    /// As `enum scx_exit_kind` of the kernel; 0: it has not ended.
    pub kind: i32,
    /// As the scheduler or the kernel gave it.
    pub code: i64,
    /// The CPU that ended it; none: the kernel does not tell.
    pub cpu: Option<u32>,
    /// The kind in words.
    pub reason: String,
    /// More words; empty: none.
    pub message: String,
    /// The state of the scheduler; empty: the kernel gave none.
    pub dump: String,
}

/// A text of the kernel, up to its NUL. It has names of tasks, which the kernel cuts after 15 bytes, so
/// it may be no UTF-8.
pub fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

impl Exit {
    /// Whether we ended it, or let the kernel do so.
    fn is_ours(&self) -> bool {
        self.kind == 0 || self.kind == ScxExitKind::Unreg as i32
    }

    /// Whether the kernel ended it because of a fault, rather than for a change of CPUs, or because
    /// somebody asked for it by SysRq-S.
    fn is_fault(&self) -> bool {
        self.kind > ScxExitKind::UnregKern as i32 && self.kind != ScxExitKind::SysRq as i32
    }

    /// Whether the scheduler is to be loaded again: CPUs came or went.
    pub fn should_restart(&self) -> bool {
        let may = [ScxExitKind::UnregBPF as i32, ScxExitKind::UnregKern as i32];
        may.contains(&self.kind) && self.code & *SCX_ECODE_ACT_RESTART as i64 != 0
    }

    /// Tells the reason by `say`, unless we ended it.
    ///
    /// # Errors
    /// It is a fault.
    pub fn report(&self, say: impl Fn(&str)) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        if !self.dump.is_empty() {
            say(&format!("state when the kernel ended it:\n{}", self.dump));
        }
        let message = match self.message.as_str() {
            "" => String::new(),
            message => format!(" ({message})"),
        };
        let cpu = self
            .cpu
            .map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
        let why = format!("EXIT: {}{message}{cpu}", self.reason);
        if self.is_fault() {
            bail!(why);
        }
        say(&why);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What is said, and whether it is a fault.
    fn told(exit: &Exit) -> (Vec<String>, bool) {
        let lines = RefCell::new(Vec::new());
        let result = exit.report(|line| lines.borrow_mut().push(line.to_owned()));
        let failed = result.map_err(|error| lines.borrow_mut().push(error.to_string()));
        (lines.take(), failed.is_err())
    }

    #[test]
    fn only_a_fault_is_an_error() {
        for (kind, lines, fault) in [
            (ScxExitKind::Unreg, 0, false),
            (ScxExitKind::UnregBPF, 1, false),
            (ScxExitKind::UnregKern, 1, false),
            (ScxExitKind::SysRq, 1, false),
            (ScxExitKind::Error, 1, true),
        ] {
            let exit = Exit {
                kind: kind as i32,
                reason: "the reason".into(),
                ..Exit::default()
            };
            let (said, failed) = told(&exit);
            assert_eq!((said.len(), failed), (lines, fault), "{said:?}");
        }
    }

    #[test]
    fn a_fault_is_told_with_all_that_the_kernel_gave() {
        let exit = Exit {
            kind: ScxExitKind::Error as i32,
            cpu: Some(3),
            reason: "runnable task stall".into(),
            message: "cc[17] failed".into(),
            dump: "CPU states".into(),
            ..Exit::default()
        };
        let (said, _) = told(&exit);
        assert!(said[0].ends_with("CPU states"), "{said:?}");
        assert_eq!(
            said[1],
            "EXIT: runnable task stall (cc[17] failed) on CPU 3"
        );
    }

    #[test]
    fn a_name_that_was_cut_inside_a_letter_is_read() {
        let cut = "планировщик".as_bytes()[..15].iter();
        let rest = b"[17] failed\0garbage".iter();
        let bytes: Vec<i8> = cut.chain(rest).map(|&byte| byte as i8).collect();
        assert_eq!(text(&bytes), "планиро\u{fffd}[17] failed");
        assert_eq!(text(&[b'a' as i8]), "a");
    }
}

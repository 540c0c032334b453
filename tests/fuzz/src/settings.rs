// SPDX-License-Identifier: GPL-2.0-only
//! The configuration file.

#[allow(dead_code, missing_docs)]
#[path = "../../../scx_drfq/src/settings/file.rs"]
mod file;
#[allow(dead_code)]
#[path = "../../../scx_drfq/src/settings/rules.rs"]
mod rules;

use file::File;
use rules::Rule;

/// A refusal is one line that names the file and a line of it. What is taken has names, and
/// weights in their range.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.matches('\n').count() + 1;
    match File::parse("file", &text) {
        Ok(file) => {
            for entry in &file.entries {
                assert!((1..=lines).contains(&entry.line), "line {}", entry.line);
                for takes_value in [false, true] {
                    if let Some(word) = entry.word(takes_value) {
                        let word = word.to_string_lossy();
                        assert!(word.starts_with(&format!("--{}", entry.name)));
                    }
                    let _ = entry.fits(takes_value);
                }
            }
            for rule in &file.rules {
                assert_eq!(rule.weight.and_then(Rule::weight), rule.weight);
                assert!(rule.weight.is_some() || rule.bounds_memory());
            }
        }
        Err(error) => {
            let rest = error.strip_prefix("file:").expect("the name of the file");
            let (line, reason) = rest.split_once(": ").expect("a reason");
            let line: usize = line.parse().expect("a line");
            assert!((1..=lines).contains(&line), "{error}");
            assert!(!reason.contains('\n'), "{error:?}");
        }
    }
}

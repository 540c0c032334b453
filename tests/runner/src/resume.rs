// SPDX-License-Identifier: GPL-2.0-only
//! Which records of an earlier run stay, and which are replaced.

use crate::record::Record;
use crate::subject::Subject;
use std::collections::BTreeMap;

/// Records of an earlier run.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Those that stay: they are not planned, or are what a planned run would measure.
    pub kept: Vec<Record>,
    /// Those in whose place something else is planned now.
    replaced: Vec<Replaced>,
}

#[derive(Debug)]
struct Replaced {
    was: Subject,
    now: Subject,
}

impl Earlier {
    /// Compares `records` with what is planned.
    pub fn new(records: Vec<Record>, planned: &[Subject]) -> Self {
        let mut earlier = Self::default();
        for record in records {
            let now = planned.iter().find(|now| now.replaces(&record.subject));
            match now {
                Some(now) if *now != record.subject => earlier.replaced.push(Replaced {
                    was: record.subject,
                    now: now.clone(),
                }),
                _ => earlier.kept.push(record),
            }
        }
        earlier
    }

    /// What is run again and why, and how many records that replaces; a line each.
    pub fn messages(&self) -> Vec<String> {
        let mut repeats: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut of_other_commits = 0;
        for Replaced { was, now } in &self.replaced {
            let why = now.changes_since(was).join("; ");
            let what = format!("{}, {}: run again ({why})", was.case, was.scheduler);
            repeats
                .entry(what)
                .or_default()
                .push(was.repeat.to_string());
            of_other_commits += usize::from(was.commit != now.commit);
        }
        let line = |(what, of): (String, Vec<String>)| format!("{what}: repeat {}", of.join(", "));
        let mut lines: Vec<String> = repeats.into_iter().map(line).collect();
        let replaced = self.replaced.len();
        if replaced > 0 {
            let all = replaced + self.kept.len();
            lines.push(format!(
                "{replaced} of {all} records are replaced, {of_other_commits} of them of another commit"
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn subject(case: &str, repeat: u32) -> Subject {
        Subject {
            case: case.into(),
            scheduler: "s".into(),
            repeat,
            commit: "new".into(),
            setup: json!({"args": [], "tasks": []}),
            ..Subject::default()
        }
    }

    fn earlier(subjects: &[Subject]) -> Earlier {
        let record = |subject: &Subject| Record {
            subject: subject.clone(),
            ..Record::default()
        };
        let planned = [subject("a", 1), subject("a", 2), subject("b", 1)];
        Earlier::new(subjects.iter().map(record).collect(), &planned)
    }

    #[test]
    fn nothing_is_told_where_nothing_is_replaced() {
        let found = earlier(&[subject("a", 2), subject("c", 1)]);
        assert_eq!(found.kept.len(), 2);
        assert_eq!(found.messages(), [""; 0]);
    }

    #[test]
    fn what_is_run_again_is_told_with_its_reason() {
        let old = |subject| Subject {
            commit: "old".into(),
            ..subject
        };
        let other_args = Subject {
            setup: json!({"args": ["-v"], "tasks": []}),
            ..subject("b", 1)
        };
        let found = earlier(&[
            old(subject("a", 1)),
            old(subject("a", 2)),
            old(subject("c", 1)),
            other_args,
        ]);
        let kept: Vec<_> = found.kept.iter().map(|r| &r.subject.case).collect();
        assert_eq!(kept, ["c"]);
        let wanted = [
            r#"a, s: run again (commit "old", now "new"): repeat 1, 2"#,
            "b, s: run again (other args): repeat 1",
            "3 of 4 records are replaced, 2 of them of another commit",
        ];
        assert_eq!(found.messages(), wanted);
    }
}

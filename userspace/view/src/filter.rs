// SPDX-License-Identifier: GPL-2.0-only
//! Which rows are shown: words that all must match, such as `web user:www weight>2`.

use crate::row::Row;

/// A filter; the empty one admits every row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// As the user wrote it.
    pub text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Name(String),
    User(String),
    Cgroup(String),
    Pid(u32),
    /// Weights above, below or equal.
    Weight(char, f64),
}

impl Filter {
    /// Reads words: `name:X` or only `X`, `user:X`, `cgroup:X`, `pid:N`, and `weight>N`,
    /// `weight<N` or `weight=N`. Names match in part, whatever their case.
    ///
    /// # Errors
    /// Which word is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let terms = text.split_whitespace().map(term);
        Ok(Self {
            text: text.trim().to_owned(),
            terms: terms.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a row matches all words.
    pub fn admits(&self, row: &Row) -> bool {
        self.terms.iter().all(|term| match term {
            Term::Name(part) => contains(&row.name, part) || contains(row.cgroup(), part),
            Term::User(part) => contains(row.user(), part),
            Term::Cgroup(part) => contains(row.cgroup(), part),
            Term::Pid(pid) => row.pid() == Some(*pid),
            Term::Weight('>', limit) => row.weight > *limit,
            Term::Weight('<', limit) => row.weight < *limit,
            Term::Weight(_, value) => (row.weight - value).abs() <= value.abs() * 1e-3,
        })
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(part)
}

fn term(word: &str) -> Result<Term, String> {
    let lower = word.to_lowercase();
    if let Some(rest) = lower.strip_prefix("weight")
        && let Some(sign) = rest.chars().next().filter(|sign| "<>=".contains(*sign))
    {
        let number = rest[1..].parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite());
        return number
            .map(|number| Term::Weight(sign, number))
            .ok_or(format!(
                "{word}: no number after {sign}; write for example weight>2"
            ));
    }
    match lower.split_once(':') {
        Some(("name", part)) => Ok(Term::Name(part.into())),
        Some(("user", part)) => Ok(Term::User(part.into())),
        Some(("cgroup", part)) => Ok(Term::Cgroup(part.into())),
        Some(("pid", number)) => match number.parse() {
            Ok(pid) => Ok(Term::Pid(pid)),
            Err(_) => Err(format!("{word}: pid needs a number, as in pid:123")),
        },
        Some((key, _)) if key.chars().all(|c| c.is_ascii_alphabetic()) && !key.is_empty() => Err(
            format!("{key}: is no key; write name, user, cgroup, pid, or weight>N"),
        ),
        _ => Ok(Term::Name(lower)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use drfq_stats::report::Task;

    use super::*;
    use crate::{
        entity::Entity,
        snapshot::{Process, Snapshot},
    };

    fn row() -> Row {
        let mut row = Row::new(Entity::Task(7), "Postgres".into());
        let process = Process {
            user: "ada".into(),
            cgroup: "/system.slice/pg.service".into(),
            ..Process::default()
        };
        let mut snapshot = Snapshot::default();
        snapshot.processes.insert(7, Arc::new(process));
        let task = Task {
            tgid: 7,
            ..Task::default()
        };
        row.place(&task, &snapshot);
        row.weight = 3.0;
        row
    }

    #[test]
    fn every_word_must_match() {
        for (text, admitted) in [
            ("", true),
            ("post", true),
            ("pg.serv", true),
            ("post user:ada weight>2 pid:7", true),
            ("post user:bob", false),
            ("cgroup:system weight<3", false),
            ("name:GRES weight=3", true),
            ("weight=3.1", false),
            ("pid:8", false),
        ] {
            let filter = Filter::parse(text).unwrap();
            assert_eq!(filter.admits(&row()), admitted, "{text}");
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_what_would_be_right() {
        for text in ["weight>", "weight>x", "pid:x", "usr:ada", "weight>nan"] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.contains(':') && error.len() > text.len(), "{error}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The configuration file: TOML with the names of the options, and rules.

use std::{ffi::OsString, fs, io::Read, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    bandwidth::Bandwidth,
    settings::rules::{Bounds, Rule, Target},
};

/// The longest file (bytes); more is no configuration.
const BYTES_MAX: u64 = 1 << 20;

/// A file.
#[derive(Debug, Default)]
pub struct File {
    /// Its path, for messages.
    pub name: String,
    /// The options that it sets.
    pub entries: Vec<Entry>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// An option that a file sets.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub line: usize,
    value: Scalar,
}

#[derive(Debug)]
enum Scalar {
    Flag(bool),
    Word(String),
}

impl Entry {
    /// Whether an option that takes a value, or takes none, can have this one.
    pub fn fits(&self, takes_value: bool) -> bool {
        takes_value || matches!(self.value, Scalar::Flag(_))
    }

    /// The option as a word of a command line; none for a flag that is off.
    pub fn word(&self, takes_value: bool) -> Option<OsString> {
        let name = &self.name;
        match &self.value {
            Scalar::Word(value) => Some(format!("--{name}={value}")),
            Scalar::Flag(value) if takes_value => Some(format!("--{name}={value}")),
            Scalar::Flag(true) => Some(format!("--{name}")),
            Scalar::Flag(false) => None,
        }
        .map(OsString::from)
    }
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or it is wrong; in one line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let unreadable = |error| {
            format!("{name}: cannot read the configuration: {error}; check --config and its mode")
        };
        let file = fs::File::open(path).map_err(unreadable)?;
        // The size of a device or a pipe tells nothing.
        let mut text = String::new();
        let size = file.take(BYTES_MAX + 1).read_to_string(&mut text);
        if size.map_err(unreadable)? as u64 > BYTES_MAX {
            return Err(format!(
                "{name}: more than {BYTES_MAX} bytes are no configuration; check --config"
            ));
        }
        Self::parse(&name, &text)
    }

    /// Parses the text of the file `name`.
    ///
    /// # Errors
    /// The text is wrong; in one line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut file = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_of(text, error.span().unwrap_or(0..0));
            let reason = error.message().replace('\n', "; ");
            file.wrong(line, &format!("not TOML: {reason}; mend this line"))
        })?;
        for (key, value) in table.into_inner() {
            let line = line_of(text, key.span());
            let name = key.into_inner().into_owned();
            if name == "rule" {
                file.rules = file.parse_rules(text, line, value)?;
            } else {
                let value = scalar(value.get_ref()).ok_or_else(|| {
                    file.wrong(
                        line,
                        &format!("{name} needs a number, a string, true or false"),
                    )
                })?;
                file.entries.push(Entry { name, line, value });
            }
        }
        Ok(file)
    }

    /// An error in a line.
    pub fn wrong(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.name)
    }

    fn parse_rules(
        &self,
        text: &str,
        line: usize,
        value: Spanned<DeValue>,
    ) -> Result<Vec<Rule>, String> {
        let DeValue::Array(rules) = value.into_inner() else {
            return Err(self.wrong(line, "write each rule under a [[rule]] of its own"));
        };
        rules
            .into_iter()
            .map(|rule| {
                let line = line_of(text, rule.span());
                let DeValue::Table(table) = rule.into_inner() else {
                    return Err(self.wrong(line, "write each rule under a [[rule]] of its own"));
                };
                self.parse_rule(text, line, table)
            })
            .collect()
    }

    fn parse_rule(&self, text: &str, line: usize, table: DeTable) -> Result<Rule, String> {
        let (mut target, mut weight, mut memory) = (None, None, Bounds::default());
        for (key, value) in table {
            let line = line_of(text, key.span());
            let name = key.into_inner();
            let word = match scalar(value.get_ref()) {
                Some(Scalar::Word(word)) => word,
                _ => String::new(),
            };
            match (name.as_ref(), value.into_inner()) {
                ("cgroup" | "command", DeValue::String(pattern)) => {
                    if target.is_some() {
                        let what = "a rule is for a cgroup or for a command; make two rules";
                        return Err(self.wrong(line, what));
                    }
                    let new = Target::new(name == "cgroup", &pattern);
                    target = Some(new.map_err(|what| self.wrong(line, &what))?);
                }
                ("cgroup" | "command", _) => {
                    return Err(self.wrong(line, &format!("{name} needs a string")));
                }
                ("weight", _) => {
                    let checked = word.parse().ok().and_then(Rule::weight);
                    weight = Some(checked.ok_or_else(|| {
                        self.wrong(line, "weight needs a number from 0.01 to 100; 1 is usual")
                    })?);
                }
                ("memory-min", _) => memory.min = Some(self.bandwidth(line, &name, &word)?),
                ("memory-max", _) => memory.max = Some(self.bandwidth(line, &name, &word)?),
                _ => {
                    let what = format!(
                        "a rule has cgroup or command, and weight, memory-min or memory-max; not \
                         {name:?}"
                    );
                    return Err(self.wrong(line, &what));
                }
            }
        }
        let target = target.ok_or_else(|| {
            self.wrong(line, "the rule needs cgroup = \"...\" or command = \"...\"")
        })?;
        let rule = Rule {
            target,
            weight,
            memory,
        };
        if weight.is_none() && !rule.bounds_memory() {
            return Err(self.wrong(line, "the rule needs weight = N, memory-min or memory-max"));
        }
        if memory
            .min
            .zip(memory.max)
            .is_some_and(|(min, max)| min > max)
        {
            return Err(self.wrong(line, "memory-min is more than memory-max; lower it"));
        }
        Ok(rule)
    }

    fn bandwidth(&self, line: usize, name: &str, word: &str) -> Result<Bandwidth, String> {
        word.parse()
            .map_err(|reason| self.wrong(line, &format!("{name}: {reason}")))
    }
}

/// A value that an option can have.
fn scalar(value: &DeValue) -> Option<Scalar> {
    match value {
        DeValue::String(text) => Some(Scalar::Word(text.to_string())),
        DeValue::Integer(number) => {
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(Scalar::Word(number.to_string()))
        }
        DeValue::Float(number) => Some(Scalar::Word(number.as_str().to_owned())),
        DeValue::Boolean(value) => Some(Scalar::Flag(*value)),
        _ => None,
    }
}

/// The line, from 1, in which a span begins.
fn line_of(text: &str, span: Range<usize>) -> usize {
    let before = &text.as_bytes()[..span.start.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

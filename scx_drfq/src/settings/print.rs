// SPDX-License-Identifier: GPL-2.0-only
//! The settings as a configuration file.

use std::io::{self, Write};

use crate::bandwidth::Bandwidth;
use crate::settings::{
    COMMAND_LINE_ONLY, Settings, Source, Value,
    rules::{Rule, Target},
};

/// Writes the settings so that scx_drfq can read them as a configuration file. Defaults
/// are comments.
///
/// # Errors
/// The output cannot be written.
pub fn print(settings: &Settings, output: &mut impl Write) -> io::Result<()> {
    let path = settings
        .file
        .as_ref()
        .map(|path| path.display().to_string());
    let file = path.unwrap_or_else(|| "the file".into());
    for value in &settings.values {
        if COMMAND_LINE_ONLY.contains(&value.name.as_str()) {
            continue;
        }
        writeln!(output, "{}", entry(value, &file))?;
    }
    for rule in &settings.rules {
        write!(output, "\n{}", rule_text(rule))?;
    }
    Ok(())
}

fn entry(value: &Value, file: &str) -> String {
    let name = &value.name;
    let text = value.text.as_ref().map(|text| word(text, value.flag));
    match (value.source, text) {
        (Source::File, Some(text)) => format!("{name} = {text} # {file}"),
        (Source::CommandLine, Some(text)) => format!("{name} = {text} # the command line"),
        (_, Some(text)) => format!("# {name} = {text}"),
        // A default that depends on other options or on the machine.
        (_, None) => format!("# {name} ="),
    }
}

/// A value as TOML: a number or a flag as it is, all else as a string.
fn word(text: &str, flag: bool) -> String {
    let number = text
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == text);
    if number || flag {
        return text.to_owned();
    }
    toml::Value::String(text.to_owned()).to_string()
}

fn rule_text(rule: &Rule) -> String {
    let (key, pattern) = match &rule.target {
        Target::Cgroup(pattern) => ("cgroup", pattern),
        Target::Command(pattern) => ("command", pattern),
    };
    let weight = rule.weight.map(|weight| format!("weight = {weight}"));
    let bound = |name, bound: Option<Bandwidth>| {
        bound.map(|bound| format!("{name} = {}", bound.bytes_per_s()))
    };
    let lines = [
        Some("[[rule]]".into()),
        Some(format!("{key} = {}", toml::Value::String(pattern.clone()))),
        weight,
        bound("memory-min", rule.memory.min),
        bound("memory-max", rule.memory.max),
    ];
    lines
        .into_iter()
        .flatten()
        .map(|line| line + "\n")
        .collect()
}

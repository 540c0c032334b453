// SPDX-License-Identifier: GPL-2.0-only
//! The command line and the configuration file as one. The command line wins.

mod file;
mod print;
pub mod rules;

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgMatches, CommandFactory, FromArgMatches, error::ErrorKind, parser::ValueSource,
};

use drfq_sense::perf_event::EventChoice;
pub use print::print;

use crate::{
    cli::{self, Cli},
    config::Variant,
    settings::{
        file::{Entry, File},
        rules::Rule,
    },
};

/// The file that is read if it exists and --config names no other.
pub const DEFAULT_FILE: &str = "/etc/scx_drfq.toml";

/// What a file cannot ask for, because it is not a property of the scheduler.
const COMMAND_LINE_ONLY: [&str; 7] = [
    "config",
    "dry-run",
    "help",
    "help-stats",
    "monitor",
    "print-config",
    "version",
];

/// What the user asked for.
pub struct Settings {
    /// The command line, with what the file adds to it.
    pub cli: Cli,
    /// The rules of the file, first match first.
    pub rules: Vec<Rule>,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// The values of all options, and where they come from.
    values: Vec<Value>,
    /// The command line without the file.
    arguments: Vec<OsString>,
}

/// Why there are no settings.
#[derive(Debug)]
pub enum Refusal {
    /// The command line is wrong, or asks for help.
    CommandLine(clap::Error),
    /// The file is wrong; in one line.
    File(String),
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    /// Its name without dashes.
    name: String,
    /// Its words; none if it is not set.
    text: Option<String>,
    source: Source,
    /// Whether it takes no value.
    flag: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Default,
    File,
    CommandLine,
}

impl Settings {
    /// Reads the command line, and the file if the command schedules. `listen` begins to listen to
    /// reloads before the file of a scheduler is read, so that no change of it is missed.
    ///
    /// # Errors
    /// One of them is wrong, or `listen` fails.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        listen: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, Refusal> {
        let arguments = arguments.into_iter().collect();
        Self::read_with(arguments, Path::new(DEFAULT_FILE), listen)
    }

    fn read_with(
        arguments: Vec<OsString>,
        default: &Path,
        listen: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, Refusal> {
        let given = parse(&arguments)?;
        let cli = Cli::from_arg_matches(&given).map_err(Refusal::CommandLine)?;
        let schedules = cli.command.is_none() && !cli.run.help_stats && cli.run.monitor.is_none();
        let path = match &cli.run.config {
            Some(path) => Some(path.clone()),
            None => Some(default.to_owned()).filter(|path| schedules && path.exists()),
        };
        if schedules && path.is_some() {
            listen().map_err(|error| Refusal::File(format!("cannot handle signals: {error}")))?;
        }
        let file = match &path {
            Some(path) => File::read(path).map_err(Refusal::File)?,
            None => File::default(),
        };
        let matches = merge(&arguments, &given, &file)?;
        let cli = Cli::from_arg_matches(&matches).map_err(Refusal::CommandLine)?;
        Ok(Self {
            values: values(&given, &matches),
            rules: file.rules,
            file: path,
            cli,
            arguments,
        })
    }

    /// Reads the file again. Only rules may change while the scheduler is loaded.
    ///
    /// # Errors
    /// There is no file, it is wrong, or it changes an option; in one line. Nothing
    /// has changed then.
    pub fn reload(&mut self) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Err("no configuration file was read at the start".into());
        };
        check_again(path).map_err(|error| unread_again(path, &error))?;
        File::read(path)?;
        let new = Self::read_with(self.arguments.clone(), path, || Ok(()));
        let new = new.map_err(|refusal| refusal.text())?;
        let differ: Vec<String> = self
            .values
            .iter()
            .zip(&new.values)
            .filter(|(old, new)| old.text != new.text)
            .map(|(old, _)| old.name.clone())
            .collect();
        if !differ.is_empty() {
            return Err(format!(
                "{}: {} cannot change while the scheduler is loaded; restart scx_drfq, or undo \
                 the change; the old configuration stays",
                path.display(),
                differ.join(", "),
            ));
        }
        self.rules = new.rules;
        Ok(())
    }
}

impl Refusal {
    /// The reason in one line.
    pub fn text(&self) -> String {
        match self {
            Self::CommandLine(error) => cli::one_line(error),
            Self::File(text) => text.clone(),
        }
    }
}

/// Checks that a file is there that can be read twice. Without it its rules would seem to be taken back,
/// and so they would with a pipe that was read at the start. One without a writer blocks the agent.
fn check_again(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() || path == Path::new("/dev/null") {
        return Ok(());
    }
    let reason = "it is no regular file, so it cannot be read twice";
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// Why a file cannot be read again. It could be read at the start, when the agent still had all of
/// root's privileges.
fn unread_again(path: &Path, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "scx_drfq has dropped its privileges since its start, so keep the file in /etc"
        }
        _ => "put it back, or restart scx_drfq without it",
    };
    format!(
        "{}: cannot read the configuration again: {error}; {what}",
        path.display()
    )
}

fn parse(arguments: &[OsString]) -> Result<ArgMatches, Refusal> {
    Cli::command()
        .try_get_matches_from(arguments)
        .map_err(Refusal::CommandLine)
}

/// Whether the command line makes an option of the file meaningless, beside the options that cannot
/// be used with each other.
fn is_superseded(name: &str, given: &ArgMatches) -> bool {
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    match name {
        "controller-interval-us" => is_given("throttle"),
        "delta-slices" => {
            let variant = given.get_one::<Variant>("variant");
            is_given("variant") && variant != Some(&Variant::DeltaBounded)
        }
        "event-bytes" => {
            let event = given.get_one::<EventChoice>("perf_event");
            let named = matches!(event, Some(EventChoice::Events(_)));
            is_given("perf_event") && !named
        }
        _ => false,
    }
}

/// Parses the command line after the entries of the file that it neither repeats nor
/// contradicts.
fn merge(arguments: &[OsString], given: &ArgMatches, file: &File) -> Result<ArgMatches, Refusal> {
    let mut command = Cli::command();
    command.build();
    let on_command_line =
        |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let contradicts = |arg: &Arg| {
        let mut others = command
            .get_arguments()
            .filter(|other| on_command_line(other));
        let conflicts = command.get_arg_conflicts_with(arg);
        conflicts.iter().any(|other| on_command_line(other))
            || others.any(|other| command.get_arg_conflicts_with(other).contains(&arg))
    };
    let mut words: Vec<OsString> = arguments.first().cloned().into_iter().collect();
    for entry in &file.entries {
        let arg = option(&command, entry, file)?;
        check_alone(entry, arg, file)?;
        let superseded = is_superseded(&entry.name, given);
        if !on_command_line(arg) && !contradicts(arg) && !superseded {
            words.extend(entry.word(takes_value(arg)));
        }
    }
    words.extend(arguments.iter().skip(1).cloned());
    Cli::command().try_get_matches_from(words).map_err(|error| {
        // The command line alone is right, so the file is involved.
        Refusal::File(format!("{}: {}", file.name, cli::one_line(&error)))
    })
}

/// The option of an entry.
fn option<'a>(command: &'a clap::Command, entry: &Entry, file: &File) -> Result<&'a Arg, Refusal> {
    let named = |arg: &&Arg| arg.get_long() == Some(&entry.name);
    let wrong = |what: String| Err(Refusal::File(file.wrong(entry.line, &what)));
    let name = &entry.name;
    let Some(arg) = command.get_arguments().find(named) else {
        return wrong(format!(
            "there is no option {name:?}; scx_drfq --print-config lists all"
        ));
    };
    if COMMAND_LINE_ONLY.contains(&name.as_str()) {
        return wrong(format!(
            "{name} works on the command line only; remove it here"
        ));
    }
    if !entry.fits(takes_value(arg)) {
        return wrong(format!("{name} is switched on by true and off by false"));
    }
    Ok(arg)
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Checks the value of an entry by itself, so that an error has a line.
fn check_alone(entry: &Entry, arg: &Arg, file: &File) -> Result<(), Refusal> {
    let Some(word) = entry.word(takes_value(arg)) else {
        return Ok(());
    };
    match Cli::command().try_get_matches_from([OsString::from("scx_drfq"), word]) {
        // Options that it needs may stand elsewhere.
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(Refusal::File(
            file.wrong(entry.line, &cli::one_line(&error)),
        )),
        _ => Ok(()),
    }
}

/// All options that have a long name, in the order of the help.
fn values(given: &ArgMatches, matches: &ArgMatches) -> Vec<Value> {
    let command = Cli::command();
    let value = |arg: &Arg| {
        let (id, flag) = (arg.get_id().as_str(), !takes_value(arg));
        let source = |matches: &ArgMatches| matches.value_source(id);
        let words = matches.get_raw(id).map(|words| {
            let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        });
        Some(Value {
            name: arg.get_long()?.to_owned(),
            text: words.filter(|_| source(matches).is_some()),
            source: match (source(given), source(matches)) {
                (Some(ValueSource::CommandLine), _) => Source::CommandLine,
                (_, Some(ValueSource::CommandLine)) => Source::File,
                _ => Source::Default,
            },
            flag,
        })
    };
    command.get_arguments().filter_map(value).collect()
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0-only
//! Manual pages and completions, generated from the command line's definition.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Writes the completions for a shell to standard output.
///
/// # Errors
/// The output cannot be written.
pub fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "scx_drfq", &mut text);
    io::stdout().write_all(&text)?;
    Ok(())
}

/// Writes scx_drfq.1, and a page for each command, into a directory.
///
/// # Errors
/// A page cannot be written.
pub fn pages(directory: &Path) -> Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    page(command.clone(), &name, directory)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        page(
            sub.clone(),
            &format!("{name}-{}", sub.get_name()),
            directory,
        )?;
    }
    Ok(())
}

fn page(command: clap::Command, name: &str, directory: &Path) -> Result<()> {
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    let section = "scx_drfq";
    clap_mangen::Man::new(
        command
            .display_name(name.to_owned())
            .disable_help_subcommand(true),
    )
    .title(name.to_uppercase())
    .manual(section)
    .source(section)
    .render(&mut text)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_that_names_its_options() {
        let directory = tempfile::tempdir().unwrap();
        pages(directory.path()).unwrap();
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(text("scx_drfq.1").contains("slice\\-us"));
        assert!(text("scx_drfq-record.1").contains("max\\-size"));
        assert!(!directory.path().join("scx_drfq-man-pages.1").exists());
    }
}

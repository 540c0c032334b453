// SPDX-License-Identifier: GPL-2.0-only
//! The picture of the documentation: the end of a recorded demonstration.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use drfq_view::{palette::Palette, picture::svg};
use ratatui::{Terminal, backend::TestBackend};

use crate::{
    machine::Description,
    sample::Sample,
    screen::{Screen, draw},
    script::Script,
};

/// Size of the picture (characters).
const SIZE: (u16, u16) = (100, 28);

/// What a picture is made of.
#[derive(Args)]
pub struct Options {
    /// Samples of `drfq-demo host --samples`.
    #[arg(long)]
    samples: PathBuf,
    /// Description of their machine.
    #[arg(long)]
    machine: PathBuf,
    /// Simulated seconds for which each scheduler was measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Real seconds that the samples took.
    #[arg(long)]
    real: f64,
}

/// The picture as SVG.
///
/// # Errors
/// A file cannot be read.
pub fn picture(options: &Options) -> Result<String> {
    let machine = Description::read(&options.machine)?;
    let text = fs::read_to_string(&options.samples)
        .with_context(|| format!("cannot read {}", options.samples.display()))?;
    let mut script = Script::new(options.seconds);
    for line in text.lines() {
        let sample: Sample = serde_json::from_str(line)?;
        script.push(sample);
    }
    let Ok(mut terminal) = Terminal::new(TestBackend::new(SIZE.0, SIZE.1));
    let screen = Screen {
        script: &script,
        machine: &machine,
        real_s: (options.real, options.real),
        line: "",
        palette: Palette::new(true),
    };
    let Ok(_) = terminal.draw(|frame| draw(frame, &screen));
    Ok(svg(
        terminal.backend().buffer(),
        "A service and memory hogs, under EEVDF and scx_drfq",
    ))
}

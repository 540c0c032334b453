// SPDX-License-Identifier: GPL-2.0-only
//! The demonstration on a screen: a pure function from its state.

use drfq_view::palette::Palette;
use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use crate::{
    figures::percentile,
    machine::Description,
    sample::{Sample, Scheduler},
    script::{Script, Stage},
    words,
};

/// Lines that the bars of the chart have, on a high screen and on a low one.
const CHART: (usize, usize) = (4, 2);

/// The height of a high screen.
const HIGH: u16 = 28;

const BARS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// What the screen shows beside the script.
pub struct Screen<'a> {
    /// The demonstration so far.
    pub script: &'a Script,
    /// The machine that it runs on.
    pub machine: &'a Description,
    /// Seconds of real time since the first sample, and since the start.
    pub real_s: (f64, f64),
    /// The last line that the virtual machine printed.
    pub line: &'a str,
    /// Colours.
    pub palette: Palette,
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame, screen: &Screen) {
    let area = frame.area();
    let keys = Rect::new(0, area.height.saturating_sub(1), area.width, 1);
    let body = Rect::new(0, 0, area.width, area.height.saturating_sub(1));
    let width = usize::from(area.width);
    let mut lines = head(screen, width);
    lines.extend(table(screen));
    lines.push(Line::default());
    lines.push(status(screen));
    lines.push(Line::default());
    let bars = if area.height < HIGH { CHART.1 } else { CHART.0 };
    lines.extend(chart(screen, width, bars));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), body);
    frame.render_widget(Paragraph::new(key_line(screen)), keys);
}

fn head(screen: &Screen, width: usize) -> Vec<Line<'static>> {
    let title = " A service and memory hogs share one machine";
    let simulated = screen
        .script
        .samples
        .last()
        .map_or(0.0, |s| s.at_ns as f64 / 1e9);
    let (since_sample, _) = screen.real_s;
    let clock = match simulated > 0.0 {
        true => format!("{simulated:.0} s simulated in {since_sample:.0} s real "),
        false => format!("{:.0} s since the start ", screen.real_s.1),
    };
    let gap = width.saturating_sub(title.chars().count() + clock.len());
    let mut lines = vec![Line::styled(
        format!("{title}{}{clock}", " ".repeat(gap)),
        screen.palette.heading(),
    )];
    let modelled = words::modelled(screen.machine);
    lines.extend(
        modelled
            .into_iter()
            .map(|line| Line::styled(line, screen.palette.dim())),
    );
    lines.push(Line::default());
    lines
}

fn table(screen: &Screen) -> Vec<Line<'static>> {
    let palette = screen.palette;
    let mut lines = vec![Line::from(vec![
        Span::raw(format!("{:<28}", "")),
        Span::styled(format!("{:>12}", "EEVDF"), palette.below()),
        Span::styled(format!("{:>12}", "scx_drfq"), palette.label()),
        Span::raw(format!("{:>12}  {}", "now", "difference")),
    ])];
    for row in words::rows(screen.script) {
        let [eevdf, drfq, now] = row.values;
        lines.push(Line::from(vec![
            Span::raw(format!("{:<28}", row.label)),
            Span::styled(format!("{eevdf:>12}"), palette.below()),
            Span::styled(format!("{drfq:>12}"), palette.label()),
            Span::raw(format!("{now:>12}  ")),
            Span::raw(row.change),
        ]));
    }
    lines
}

fn status(screen: &Screen) -> Line<'static> {
    let script = screen.script;
    let mut spans = vec![Span::raw(words::stage(script))];
    match script.samples.last() {
        Some(sample) => {
            spans.push(Span::raw("; "));
            spans.push(Span::raw(words::setting(sample)));
            if let Some(message) = &sample.message {
                spans.push(Span::styled(format!("; {message}"), screen.palette.below()));
            }
        }
        None => spans.push(Span::styled(
            format!(": {}", screen.line),
            screen.palette.dim(),
        )),
    }
    Line::from(spans)
}

/// The 99th percentile of each interval as bars on a logarithmic scale, with the scheduler below.
fn chart(screen: &Screen, width: usize, bars: usize) -> Vec<Line<'static>> {
    let samples = &screen.script.samples;
    let samples = &samples[samples.len().saturating_sub(width)..];
    // The tenants stand still while a scheduler is loaded, so that interval has no height.
    let changes = |at: usize| at > 0 && samples[at].scheduler != samples[at - 1].scheduler;
    let heights: Vec<Option<f64>> = samples
        .iter()
        .enumerate()
        .map(|(at, sample)| high(sample).filter(|_| !changes(at)))
        .collect();
    let most = heights.iter().flatten().fold(1.0, |a: f64, b| a.max(*b));
    let least = heights.iter().flatten().fold(most, |a: f64, b| a.min(*b));
    let scale = |value: f64| 0.125 + 0.875 * (value / least).ln() / (most / least).ln().max(0.7);
    let style = |sample: &Sample| match sample.scheduler {
        Scheduler::Eevdf => screen.palette.below(),
        Scheduler::Drfq => screen.palette.label(),
    };
    let mut lines = vec![Line::raw(format!(
        "latency, 99 % below, each half second: {:.1} to {:.1} ms, logarithmic",
        least / 1e3,
        most / 1e3
    ))];
    for row in (0..bars).rev() {
        let bar = |height: &Option<f64>| {
            let eighths = height.map_or(0.0, |value| scale(value) * (8 * bars) as f64);
            BARS[(eighths.round() as usize).saturating_sub(8 * row).min(8)]
        };
        let cells = samples.iter().zip(&heights);
        lines.push(
            cells
                .map(|(sample, height)| Span::styled(bar(height), style(sample)))
                .collect(),
        );
    }
    lines.push(ruler(samples, style));
    lines
}

/// The 99th percentile of a sample's requests (us).
fn high(sample: &Sample) -> Option<f64> {
    let mut latencies = sample.latencies_us.clone();
    latencies.sort_unstable();
    (!latencies.is_empty()).then(|| percentile(&latencies, 99).max(1) as f64)
}

/// The name of the scheduler below the part of the chart that it ran.
fn ruler(samples: &[Sample], style: impl Fn(&Sample) -> Style) -> Line<'static> {
    let runs = samples.chunk_by(|a, b| a.scheduler == b.scheduler);
    runs.map(|run| {
        let name = words::name(run[0].scheduler);
        let text = match run.len() > name.len() + 1 {
            true => format!("└{name:─<width$}", width = run.len() - 1),
            false => "└".to_owned() + &"─".repeat(run.len() - 1),
        };
        Span::styled(text, style(&run[0]))
    })
    .collect()
}

fn key_line(screen: &Screen) -> Line<'static> {
    let keys = match screen.script.stage {
        Stage::Free => {
            " s scheduler on/off   h H hog more/less   w W service's weight up/down   q quit "
        }
        _ => " q quit; more keys once both schedulers are measured ",
    };
    Line::styled(keys, screen.palette.heading())
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::fixture;

    fn text(columns: u16, lines: u16, script: &Script) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        let machine = fixture::machine();
        let screen = Screen {
            script,
            machine: &machine,
            real_s: (60.0, 75.0),
            line: "booting",
            palette: Palette::new(true),
        };
        terminal.draw(|frame| draw(frame, &screen)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(columns.into());
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n")
            .collect()
    }

    #[test]
    fn before_the_first_sample_the_screen_tells_what_is_modelled_and_how_far_the_boot_is() {
        let text = text(100, 30, &Script::new(10));
        for words in ["Modelled:", "75 s since the start", "booting", "q quit"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }

    #[test]
    fn at_the_end_a_small_screen_has_both_figures_their_difference_and_the_keys() {
        let text = text(80, 24, &fixture::measured());
        for words in [
            "EEVDF",
            "scx_drfq",
            "times less",
            "└scx_drfq",
            "h H hog",
            "Modelled:",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }

    #[test]
    fn a_tiny_screen_is_drawn() {
        text(1, 1, &fixture::measured());
    }
}

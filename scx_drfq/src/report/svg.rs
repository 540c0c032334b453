// SPDX-License-Identifier: GPL-2.0-only
//! Line charts as SVG.

use std::fmt::Write;

/// Size of a chart (pixels of its own coordinates).
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;

/// Colours that most colour-blind people tell apart (Okabe and Ito), and dashes that
/// need no colour at all.
pub const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000",
];
const DASHES: [&str; 8] = [
    "none", "6 2", "2 2", "8 3 2 3", "none", "6 2", "2 2", "8 3 2 3",
];

/// A line, with a value or none at each point.
pub struct Line {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// A chart.
pub struct Chart<'a> {
    pub lines: &'a [Line],
    /// How a value is written beside the axis.
    pub unit: fn(f64) -> String,
    /// Labels below the axis: where (0 to 1) and what.
    pub times: &'a [(f64, String)],
    /// Vertical lines: where (0 to 1) and what.
    pub marks: &'a [(f64, String)],
}

impl Chart<'_> {
    /// The chart with a legend, as HTML.
    pub fn html(&self) -> String {
        let values = self
            .lines
            .iter()
            .flat_map(|line| line.values.iter().flatten());
        let top = ceiling(values.copied().fold(0.0, f64::max));
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" preserveAspectRatio=\"none\">\n"
        );
        self.axes(top, &mut svg);
        for (i, line) in self.lines.iter().enumerate() {
            let path = path(&line.values, top);
            let (colour, dash) = (COLOURS[i % 8], DASHES[i % 8]);
            let name = escape(&line.name);
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
                 stroke-dasharray=\"{dash}\"><title>{name}</title></path>"
            );
        }
        svg += "</svg>\n<ul class=\"legend\">\n";
        for (i, line) in self.lines.iter().enumerate() {
            let (colour, dash) = (COLOURS[i % 8], DASHES[i % 8]);
            let _ = writeln!(
                svg,
                "<li><svg class=\"key\" viewBox=\"0 0 30 6\"><path d=\"M0 3h30\" \
                 stroke=\"{colour}\" stroke-width=\"3\" stroke-dasharray=\"{dash}\"/></svg>{}</li>",
                escape(&line.name)
            );
        }
        svg + "</ul>\n"
    }

    fn axes(&self, top: f64, svg: &mut String) {
        for step in 0..=4 {
            let value = top * f64::from(step) / 4.0;
            let y = y(value, top);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{WIDTH}\" class=\"grid\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                escape(&(self.unit)(value))
            );
        }
        for (at, text) in self.times {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                x(*at).clamp(LEFT + 24.0, WIDTH - 28.0),
                HEIGHT - 6.0,
                escape(text)
            );
        }
        for (at, text) in self.marks {
            let _ = writeln!(
                svg,
                "<path d=\"M{:.1} {TOP}V{:.0}\" class=\"mark\"><title>{}</title></path>",
                x(*at),
                HEIGHT - BOTTOM,
                escape(text)
            );
        }
    }
}

fn x(at: f64) -> f64 {
    LEFT + at * (WIDTH - LEFT)
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)
}

/// A line's path. Where a few points have no value it goes on; a longer gap stays.
fn path(values: &[Option<f64>], top: f64) -> String {
    let known = values.iter().flatten().count().max(1);
    // Points between two snapshots of a short recording.
    let usual = values.len().div_ceil(known);
    let mut path = String::new();
    let mut last = None;
    for (i, value) in values.iter().enumerate() {
        let Some(value) = value else {
            continue;
        };
        let joined = last.is_some_and(|last| i - last <= 3 * usual + 1);
        let letter = if joined { 'L' } else { 'M' };
        let at = i as f64 / (values.len() - 1).max(1) as f64;
        let _ = write!(path, "{letter}{:.1} {:.1}", x(at), y(*value, top));
        last = Some(i);
    }
    path
}

/// A round number that is at least `value`.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let step = steps.iter().find(|&&step| step * power >= value);
    step.unwrap_or(&10.0) * power
}

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_round_number_above_all_values() {
        for (value, top) in [
            (0.0, 1.0),
            (99.0, 100.0),
            (101.0, 200.0),
            (0.03, 0.04),
            (41e8, 5e9),
        ] {
            assert!((ceiling(value) / top - 1.0).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn a_long_gap_breaks_a_line_and_a_short_one_does_not() {
        let mut values = vec![Some(1.0); 100];
        values[10] = None;
        assert_eq!(path(&values, 1.0).matches('M').count(), 1);
        values[20..40].fill(None);
        assert_eq!(path(&values, 1.0).matches('M').count(), 2);
    }

    #[test]
    fn a_name_cannot_end_the_markup() {
        let lines = [Line {
            name: "</title><script>".into(),
            values: vec![Some(1.0), None],
        }];
        let chart = Chart {
            lines: &lines,
            unit: |value| format!("{value}"),
            times: &[],
            marks: &[],
        };
        assert!(!chart.html().contains("<script>"));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! A screen as SVG.

use std::fmt::Write;

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

/// Size of a character (pixels).
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 17.0;
const BASELINE: f64 = 13.0;
const FOREGROUND: &str = "#d4d4d4";
const BACKGROUND: &str = "#1c1c1c";

/// The picture of a buffer.
pub fn svg(buffer: &Buffer, title: &str) -> String {
    let area = buffer.area;
    let (width, height) = (
        f64::from(area.width) * WIDTH,
        f64::from(area.height) * HEIGHT,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"monospace\" font-size=\"14\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{BACKGROUND}\"/>\n",
        escape(title)
    );
    for y in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width)
            .map(|x| &buffer[(area.x + x, area.y + y)])
            .collect();
        line(&mut svg, f64::from(y) * HEIGHT, &cells);
    }
    svg + "</svg>\n"
}

/// A line: each run of cells of one style is a background and a text.
fn line(svg: &mut String, y: f64, cells: &[&Cell]) {
    let mut at = 0;
    while at < cells.len() {
        let (fore, back, modifier) = look(cells[at]);
        let same = |cell: &&&Cell| look(cell) == (fore, back, modifier);
        let length = cells[at..].iter().take_while(same).count();
        let text: String = cells[at..at + length]
            .iter()
            .map(|cell| cell.symbol())
            .collect();
        let (x, width) = (at as f64 * WIDTH, length as f64 * WIDTH);
        if back != BACKGROUND {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{HEIGHT:.0}\" \
                 fill=\"{back}\"/>"
            );
        }
        if !text.trim().is_empty() {
            let bold = if modifier.contains(Modifier::BOLD) {
                " font-weight=\"bold\""
            } else {
                ""
            };
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.0}\" fill=\"{fore}\"{bold} textLength=\"{width:.1}\" \
                 xml:space=\"preserve\">{}</text>",
                y + BASELINE,
                escape(&text)
            );
        }
        at += length;
    }
}

/// Foreground, background and weight of a cell.
fn look(cell: &Cell) -> (&'static str, &'static str, Modifier) {
    let fore = colour(cell.fg).unwrap_or(FOREGROUND);
    let back = colour(cell.bg).unwrap_or(BACKGROUND);
    let bold = cell.modifier & Modifier::BOLD;
    if cell.modifier.contains(Modifier::REVERSED) {
        (back, fore, bold)
    } else {
        (fore, back, bold)
    }
}

/// The colours that the palette uses.
fn colour(colour: Color) -> Option<&'static str> {
    Some(match colour {
        Color::Blue => "#6ca0dc",
        Color::Cyan => "#5fc9c9",
        Color::Yellow => "#e0c050",
        Color::LightMagenta => "#e08fe0",
        Color::DarkGray => "#8a8a8a",
        _ => return None,
    })
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use ratatui::{layout::Rect, style::Style};

    use super::*;

    #[test]
    fn runs_of_one_style_become_one_text_and_markup_is_escaped() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        buffer.set_string(0, 0, "a<b", Style::new());
        buffer.set_string(3, 0, "cd", Style::new().fg(Color::Cyan));
        buffer.set_string(5, 0, "e", Style::new().add_modifier(Modifier::REVERSED));
        let svg = svg(&buffer, "x & y");
        assert!(svg.contains("<title>x &amp; y</title>"));
        assert!(svg.contains(">a&lt;b</text>"), "{svg}");
        assert!(svg.contains("fill=\"#5fc9c9\"") && svg.contains(">cd</text>"));
        assert!(svg.contains(&format!("fill=\"{FOREGROUND}\"/>")), "{svg}");
        assert_eq!(svg.matches("<text").count(), 3);
    }
}

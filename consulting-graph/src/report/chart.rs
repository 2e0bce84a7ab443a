//! Bars, as a picture in a page.

use crate::fence;

/// Bars of stacked parts, one a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What the parts are called.
    pub(super) parts: Vec<String>,
    /// Label and parts of each bar.
    pub(super) bars: Vec<(String, Vec<u32>)>,
    /// What a full bar would be.
    pub(super) full: u32,
}

const LINE: usize = 26;
const LABELS: usize = 150;
const WIDTH: usize = 480;

/// The chart as SVG; its colours are the classes `part0`, `part1` and so on.
pub(super) fn svg(chart: &Chart) -> String {
    let height = (chart.bars.len() + 1) * LINE + 8;
    let title = fence::html(&chart.title);
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {} {height}\">\n<title>{title}</title>\n",
        LABELS + WIDTH + 60
    );
    for (idx, name) in chart.parts.iter().enumerate() {
        let x = LABELS + idx * 110;
        svg.push_str(&format!(
            "<rect class=\"part{idx}\" x=\"{x}\" y=\"6\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"16\">{}</text>\n",
            x + 17,
            fence::html(name)
        ));
    }
    for (line, (label, parts)) in (1..).zip(&chart.bars) {
        svg.push_str(&bar(chart.full, line * LINE + 4, label, parts));
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(full: u32, y: usize, label: &str, parts: &[u32]) -> String {
    let width = |value: u32| f64::from(value) * WIDTH as f64 / f64::from(full.max(1));
    let mut svg = format!(
        "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        LABELS - 8,
        y + 13,
        fence::html(label)
    );
    let mut x = LABELS as f64;
    for (idx, part) in parts.iter().enumerate() {
        svg.push_str(&format!(
            "<rect class=\"part{idx}\" x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"18\"/>",
            width(*part)
        ));
        x += width(*part);
    }
    let sum: u32 = parts.iter().sum();
    svg.push_str(&format!("<text x=\"{:.1}\" y=\"{}\">{sum}</text>\n", x + 6.0, y + 13));
    svg
}

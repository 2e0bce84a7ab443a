//! Stacked bar charts as SVG.

use crate::fence;

/// A stacked bar chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    /// Names of the parts that each bar consists of.
    pub(super) parts: Vec<String>,
    /// The label of each bar and the values of its parts.
    pub(super) bars: Vec<(String, Vec<u32>)>,
    /// Value of a full-length bar.
    pub(super) max: u32,
}

const ROW_HEIGHT: usize = 26;
const LABEL_WIDTH: usize = 150;
const BAR_WIDTH: usize = 480;

/// Renders the chart as SVG. The CSS classes `part0`, `part1` and so on determine the colours of the parts.
pub(super) fn svg(chart: &Chart) -> String {
    let height = (chart.bars.len() + 1) * ROW_HEIGHT + 8;
    let title = fence::escape_html(&chart.title);
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {} {height}\">\n<title>{title}</title>\n",
        LABEL_WIDTH + BAR_WIDTH + 60
    );
    for (idx, name) in chart.parts.iter().enumerate() {
        let x = LABEL_WIDTH + idx * 110;
        svg.push_str(&format!(
            "<rect class=\"part{idx}\" x=\"{x}\" y=\"6\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"16\">{}</text>\n",
            x + 17,
            fence::escape_html(name)
        ));
    }
    for (line, (label, parts)) in (1..).zip(&chart.bars) {
        svg.push_str(&bar(chart.max, line * ROW_HEIGHT + 4, label, parts));
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(max: u32, y: usize, label: &str, parts: &[u32]) -> String {
    let width = |value: u32| f64::from(value) * BAR_WIDTH as f64 / f64::from(max.max(1));
    let mut svg = format!(
        "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        LABEL_WIDTH - 8,
        y + 13,
        fence::escape_html(label)
    );
    let mut x = LABEL_WIDTH as f64;
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

//! Stacked bar charts of scores as SVG.

use super::svg::{self, WIDTH};
use crate::fence;

/// A stacked bar chart with a scale that starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarChart {
    pub(crate) title: String,
    /// Names of the parts that each bar consists of.
    pub(crate) parts: Vec<String>,
    /// The label of each bar and the values of its parts.
    pub(crate) bars: Vec<(String, Vec<u32>)>,
    /// Value of a full-length bar.
    pub(crate) max: u32,
}

const ROW_HEIGHT: usize = 38;
const SCALE_HEIGHT: usize = 22;
/// Number of intervals on the scale.
const INTERVALS: u32 = 4;
/// Space to the right of a full-length bar, for its total.
const MARGIN: f64 = 34.0;

/// Renders the chart as an HTML figure. The label of each bar is above the bar, so that it is readable on a phone.
pub(crate) fn figure(chart: &BarChart) -> String {
    let bottom = chart.bars.len() * ROW_HEIGHT;
    let mut body = String::new();
    for step in 0..=INTERVALS {
        let value = chart.max * step / INTERVALS;
        let x = length(chart.max, value);
        body.push_str(&svg::line("grid", (x, 0.0), (x, bottom as f64)));
        let anchor = if step == 0 { "start" } else { "middle" };
        body.push_str(&svg::text(x, bottom as f64 + 15.0, anchor, &value.to_string()));
    }
    for (line, (label, parts)) in chart.bars.iter().enumerate() {
        body.push_str(&bar(chart.max, line * ROW_HEIGHT, label, parts));
    }
    svg::figure(&chart.title, &chart.parts, bottom + SCALE_HEIGHT, &body)
}

fn length(max: u32, value: u32) -> f64 {
    f64::from(value) * (WIDTH - MARGIN) / f64::from(max.max(1))
}

fn bar(max: u32, top: usize, label: &str, parts: &[u32]) -> String {
    let y = top as f64;
    let mut bar = svg::text(0.0, y + 13.0, "start", label);
    let mut x = 0.0;
    for (idx, part) in parts.iter().enumerate() {
        let width = length(max, *part);
        bar.push_str(&format!(
            "<rect class=\"part{idx}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\"><title>{}</title></rect>\n",
            y + 19.0,
            fence::escape_html(&format!("{label}: {part}")),
        ));
        x += width;
    }
    let sum: u32 = parts.iter().sum();
    bar + &svg::text(x + 5.0, y + 30.0, "start", &sum.to_string())
}

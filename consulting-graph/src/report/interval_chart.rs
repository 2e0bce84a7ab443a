//! Charts of values with their intervals, as SVG.

use super::svg::{self, WIDTH};
use crate::fence;

/// A chart with one value and its interval in each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntervalChart {
    pub(crate) title: String,
    pub(crate) rows: Vec<IntervalRow>,
    /// Lowest and highest value of the scale.
    pub(crate) scale: (f64, f64),
    /// Value at which a vertical line is drawn.
    pub(crate) reference: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntervalRow {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

const ROW_HEIGHT: usize = 38;
const SCALE_HEIGHT: usize = 22;
/// Number of intervals on the scale.
const STEPS: u32 = 4;
/// Space at both ends of the scale, for its labels.
const MARGIN: f64 = 20.0;

/// Renders the chart as an HTML figure. The label of each row is above the interval, so that it is readable on a phone.
pub(super) fn figure(chart: &IntervalChart) -> String {
    let bottom = chart.rows.len() * ROW_HEIGHT;
    let (low, high) = chart.scale;
    let x = |value: f64| {
        let share = (value - low) / (high - low).max(f64::EPSILON);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    };
    let mut body = String::new();
    for step in 0..=STEPS {
        let value = low + (high - low) * f64::from(step) / f64::from(STEPS);
        body += &svg::line("grid", (x(value), 0.0), (x(value), bottom as f64));
        body += &svg::text(x(value), bottom as f64 + 15.0, "middle", &format!("{value:.2}"));
    }
    if let Some(value) = chart.reference {
        body += &svg::line("line2", (x(value), 0.0), (x(value), bottom as f64));
    }
    for (line, row) in chart.rows.iter().enumerate() {
        let y = (line * ROW_HEIGHT) as f64;
        body += &svg::text(0.0, y + 13.0, "start", &row.label);
        body += &svg::line("line0", (x(row.low), y + 26.0), (x(row.high), y + 26.0));
        let title = format!("{}: {:.3} ({:.3} to {:.3})", row.label, row.value, row.low, row.high);
        body += &format!(
            "<circle class=\"part0\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>\n",
            x(row.value),
            y + 26.0,
            fence::escape_html(&title),
        );
    }
    svg::figure(&chart.title, &[], bottom + SCALE_HEIGHT, &body)
}

//! Renders charts of figures as SVG.

use super::{
    figures::{ChartForm, FigureChart, FigureSeries},
    svg::{self, WIDTH},
};
use crate::fence;

const HEIGHT: f64 = 170.0;
/// Space above the plot, for the labels of the highest values.
const TOP: f64 = 18.0;
const LINE_HEIGHT: f64 = 15.0;

/// Renders a chart as an HTML figure.
pub(super) fn figure(chart: &FigureChart) -> String {
    let scale = Scale::new(chart);
    let mut body = svg::line("grid", (0.0, scale.y(0.0)), (WIDTH, scale.y(0.0)));
    body += &match chart.form {
        ChartForm::Columns => columns(chart, &scale),
        ChartForm::Lines => {
            let lines = chart.series.iter().enumerate().map(|it| line(chart, it, &scale));
            lines.collect::<String>() + &end_labels(chart, &scale)
        }
    };
    let mut bottom = TOP + HEIGHT;
    for (idx, period) in chart.periods.iter().enumerate() {
        // The name of a quarter is too long for one line.
        let caption = chart.captions.get(idx).into_iter().flat_map(|it| it.split_whitespace());
        for (line, word) in period.split_whitespace().chain(caption).enumerate() {
            let y = TOP + HEIGHT + (line + 1) as f64 * LINE_HEIGHT;
            body += &svg::text(scale.x(idx), y, "middle", word);
            bottom = bottom.max(y);
        }
    }
    let names: Vec<String> = match chart.series.as_slice() {
        [_] => Vec::new(),
        all => all.iter().map(|it| it.name.clone()).collect(),
    };
    svg::figure(&chart.title, &names, bottom as usize + 8, &body)
}

/// Maps values and periods to coordinates.
struct Scale {
    low: f64,
    high: f64,
    slot: f64,
}

impl Scale {
    fn new(chart: &FigureChart) -> Self {
        let values = || chart.series.iter().flat_map(|it| it.values.iter().flatten().copied());
        let sums = || {
            (0..chart.periods.len()).map(|idx| {
                chart.series.iter().filter_map(|it| it.values.get(idx).copied().flatten()).sum()
            })
        };
        let high: f64 = match chart.form {
            ChartForm::Columns => sums().fold(0.0, f64::max),
            ChartForm::Lines => values().fold(0.0, f64::max),
        };
        let low = values().fold(0.0, f64::min);
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, slot: WIDTH / chart.periods.len().max(1) as f64 }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (self.high - value) / (self.high - self.low)
    }

    /// Returns the middle of the period with index `idx`.
    fn x(&self, idx: usize) -> f64 {
        self.slot * (idx as f64 + 0.5)
    }
}

fn columns(chart: &FigureChart, scale: &Scale) -> String {
    let mut body = String::new();
    for (idx, period) in chart.periods.iter().enumerate() {
        let mut sum = 0.0;
        for (part, series) in chart.series.iter().enumerate() {
            let Some(value) = series.values.get(idx).copied().flatten() else { continue };
            let (y, base) = (scale.y(sum + value.max(0.0)), scale.y(sum + value.min(0.0)));
            let width = (scale.slot * 0.62).min(70.0);
            let title = format!("{}, {period}: {}", series.name, chart.format(value));
            body += &format!(
                "<rect class=\"part{part}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}</title></rect>\n",
                scale.x(idx) - width / 2.0,
                base - y,
                fence::escape_html(&title),
            );
            sum += value;
        }
        body += &svg::text(scale.x(idx), scale.y(sum) - 5.0, "middle", &chart.format(sum));
    }
    body
}

/// Renders a line with a point for each value.
fn line(chart: &FigureChart, (part, series): (usize, &FigureSeries), scale: &Scale) -> String {
    let points: Vec<(usize, f64)> =
        (0..).zip(&series.values).filter_map(|(idx, it)| Some((idx, (*it)?))).collect();
    let path: Vec<String> = points
        .iter()
        .map(|(idx, value)| format!("{:.1},{:.1}", scale.x(*idx), scale.y(*value)))
        .collect();
    let mut body = format!("<polyline class=\"line{part}\" points=\"{}\"/>\n", path.join(" "));
    for (idx, value) in &points {
        let period = chart.periods.get(*idx).map_or("", String::as_str);
        let title = format!("{}, {period}: {}", series.name, chart.format(*value));
        body += &format!(
            "<circle class=\"part{part}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}</title></circle>\n",
            scale.x(*idx),
            scale.y(*value),
            fence::escape_html(&title),
        );
    }
    body
}

/// Renders the values of the first and the last period as labels, and moves labels apart that would overlap.
fn end_labels(chart: &FigureChart, scale: &Scale) -> String {
    let mut labels = String::new();
    let last = chart.periods.len().saturating_sub(1);
    for idx in [0, last] {
        let values = chart.series.iter().filter_map(|it| it.values.get(idx).copied().flatten());
        let mut ends: Vec<f64> = values.collect();
        ends.sort_by(|a, b| b.total_cmp(a));
        let mut free = f64::NEG_INFINITY;
        for value in ends {
            let y = (scale.y(value) - 6.0).max(free);
            labels += &svg::text(scale.x(idx), y, "middle", &chart.format(value));
            free = y + 11.0;
        }
    }
    labels
}

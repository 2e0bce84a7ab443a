//! Log-log plots as SVG, one line per peer.

use std::fmt::Write;

use super::{cell::Cell, cost::Cost};
use crate::table::group_digits;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 370.0;

/// Colours that are distinguishable for colour-blind readers, in the order of the peers.
const COLOURS: [&str; 9] = [
    "#d55e00", "#000000", "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#e69f00", "#7f7f7f",
    "#8c564b",
];

/// A measure of a cell, with its unit for the axis.
#[derive(Clone, Debug)]
pub struct Axis {
    pub name: String,
    pub value: fn(&Cost) -> f64,
    pub format: fn(f64) -> String,
}

/// Draws one measure of one workload against the size. Returns `None` if there are not two sizes to connect.
pub fn plot(title: &str, cells: &[&Cell], peers: &[&str], axis: &Axis) -> Option<String> {
    let points: Vec<(usize, f64, f64)> = cells
        .iter()
        .filter_map(|it| {
            let peer = peers.iter().position(|name| *name == it.peer)?;
            Some((peer, it.size as f64, (axis.value)(it.cost()?)))
        })
        .filter(|it| it.2 > 0.0)
        .collect();
    if points.iter().all(|it| it.1 == points[0].1) {
        return None;
    }
    let x = Scale::new(points.iter().map(|it| it.1), LEFT, RIGHT)?;
    let y = Scale::new(points.iter().map(|it| it.2), BOTTOM, TOP)?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}: {}</text>\n",
        axis.name
    );
    draw_axes(&mut svg, &x, &y, axis.format);
    let mut row = 0;
    for (index, peer) in peers.iter().enumerate() {
        let own: Vec<String> = points
            .iter()
            .filter(|it| it.0 == index)
            .map(|it| format!("{:.1},{:.1}", x.at(it.1), y.at(it.2)))
            .collect();
        if own.is_empty() {
            continue;
        }
        let colour = COLOURS[index % COLOURS.len()];
        let width = if index == 0 { 3 } else { 1 };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            own.join(" ")
        );
        for point in &own {
            let (cx, cy) = point.split_once(',')?;
            let _ = writeln!(svg, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let at = TOP + 20.0 * f64::from(row);
        let (line, text) = (RIGHT + 20.0, RIGHT + 50.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{line} {at}h24\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\
             <text x=\"{text}\" y=\"{}\">{peer}</text>",
            at + 4.0
        );
        row += 1;
    }
    Some(svg + "</svg>\n")
}

/// A logarithmic scale.
struct Scale {
    /// Decimal logarithm of the lowest value of the axis.
    low: f64,
    /// Decimal logarithm of the highest value of the axis.
    high: f64,
    /// Coordinate of the lowest value.
    from: f64,
    /// Coordinate of the highest value.
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Option<Self> {
        let low = values.clone().reduce(f64::min)?.log10();
        let high = values.reduce(f64::max)?.log10();
        // Whole decades, so that every axis has labels.
        let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
        (high > low).then_some(Self { low, high, from, to })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|it| 10_f64.powi(it))
    }
}

fn draw_axes(svg: &mut String, x: &Scale, y: &Scale, format: fn(f64) -> String) {
    for value in x.decades() {
        let at = x.at(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{BOTTOM}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 18.0,
            group_digits(value as usize)
        );
    }
    for value in y.decades() {
        let at = y.at(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            format(value)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">size</text>",
        BOTTOM + 36.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample_cells;

    #[test]
    fn every_measured_peer_has_a_line() {
        let name = "time".to_owned();
        let axis = Axis { name, value: |it| it.median, format: |it| it.to_string() };
        let cells = sample_cells();
        let svg =
            plot("loop", &cells.iter().collect::<Vec<_>>(), &["engine", "by hand", "slow"], &axis);
        let svg = svg.expect("there are two sizes");
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert!(svg.contains(">engine</text>") && !svg.contains(">slow</text>"), "{svg}");
        assert!(svg.contains(">100,000</text>"), "{svg}");
        let one_size = Cell { size: 300, ..cells[0].clone() };
        assert!(plot("loop", &[&one_size], &["engine"], &axis).is_none());
    }
}

//! Formats numbers and tables of text.

use crate::measure::Cost;

/// The ratio of two costs.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) medians: f64,
    pub(crate) mins: f64,
}

impl Ratio {
    pub(crate) fn of(cost: Cost, other: Cost) -> Self {
        Self { medians: cost.median / other.median, mins: cost.min / other.min }
    }

    pub(crate) fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self { medians: choose(self.medians, other.medians), mins: choose(self.mins, other.mins) }
    }
}

/// Formats whether a limit is met.
pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "met" } else { "not met" }
}

/// Formats a number with one decimal if it is small.
pub(crate) fn nanos(cost: f64) -> String {
    if cost < 100.0 { format!("{cost:.1}") } else { group_digits(cost.round() as usize) }
}

/// Formats rows as lines with aligned columns.
pub(crate) fn align_columns<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let head = head.map(str::to_owned).to_vec();
    align_lines(&[head].into_iter().chain(rows.map(Vec::from)).collect::<Vec<_>>())
}

/// Formats lines of equal length with aligned columns. The first column is aligned to the left.
pub(crate) fn align_lines(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|it| it[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    lines.iter().map(|it| line(it, &widths)).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = format!("{:<1$}", cells[0], widths[0]);
    for (cell, width) in cells.iter().zip(widths).skip(1) {
        text += &format!("  {cell:>width$}");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Formats a text as a cell of a Markdown table.
pub(crate) fn cell_text(text: &str) -> String {
    text.replace('|', "/").replace('<', "&lt;")
}

/// Formats a number with commas between groups of three digits.
pub(crate) fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration in nanoseconds with three digits.
pub(crate) fn time(nanos: f64) -> String {
    scaled(nanos, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// Formats a number of bytes with three digits.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")])
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let last = units[units.len() - 1];
    let (factor, unit) = units.iter().copied().find(|it| value >= it.0).unwrap_or(last);
    format!("{} {unit}", digits(value / factor))
}

/// Formats a number with three significant digits, or all digits before the point.
pub(crate) fn digits(value: f64) -> String {
    match value {
        _ if value >= 100.0 => group_digits(value.round() as usize),
        _ if value >= 10.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{value:.2}").trim_end_matches(".00").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        for (number, expect) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(group_digits(number), expect);
        }
    }

    #[test]
    fn cells_contain_no_markup() {
        assert_eq!(cell_text("failed: a | <b>"), "failed: a / &lt;b>");
    }

    #[test]
    fn numbers_have_three_digits() {
        for (nanos, expect) in
            [(0.5, "0.50 ns"), (12.0, "12 ns"), (1_234.0, "1.23 µs"), (2e9, "2 s")]
        {
            assert_eq!(time(nanos), expect);
        }
        assert_eq!(bytes(123_456.0), "123 KB");
    }
}

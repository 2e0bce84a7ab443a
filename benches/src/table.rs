//! Formats the results: the table, how costs grow, and whether the limits are met.

use crate::{
    measure::Cost,
    workload::{LangGraphSize, Workload},
};

/// The result of one workload at one size.
#[derive(Clone, Debug)]
pub struct Row {
    pub workload: Workload,
    pub size: usize,
    /// Cost of a step or task on the engine.
    pub engine: Cost,
    /// Cost of a step or task on plain tokio.
    pub baseline: Option<Cost>,
    /// Cost of a step or task in LangGraph, and the size at which it was measured.
    pub langgraph: Option<(Cost, LangGraphSize)>,
}

impl Row {
    fn slowdown(&self) -> Option<Ratio> {
        Some(Ratio::of(self.engine, self.baseline?))
    }

    fn speedup(&self) -> Option<Ratio> {
        Some(Ratio::of(self.langgraph?.0, self.engine))
    }
}

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

const COLUMNS: [&str; 11] = [
    "workload",
    "size",
    "engine ns",
    "(min)",
    "tokio ns",
    "(min)",
    "ratio",
    "(min)",
    "LangGraph µs",
    "at size",
    "speedup",
];

/// Formats the table. It shows the cost of one step or task, both as the median over all rounds and in the fastest
/// round.
pub fn table(rows: &[Row]) -> String {
    align_columns(COLUMNS, rows.iter().map(cells))
}

fn cells(row: &Row) -> [String; 11] {
    let none = || "-".to_owned();
    let [baseline, baseline_min] = match row.baseline {
        Some(cost) => [nanos(cost.median), nanos(cost.min)],
        None => [none(), none()],
    };
    let [slower, slower_min] = match row.slowdown() {
        Some(Ratio { medians, mins }) => [format!("{medians:.2}"), format!("{mins:.2}")],
        None => [none(), none()],
    };
    let (langgraph, at, faster) = match (row.langgraph, row.speedup()) {
        (Some((cost, langgraph_size)), Some(faster)) => (
            nanos(cost.median / 1e3),
            group_digits(langgraph_size.size),
            group_digits(faster.medians as usize),
        ),
        _ if row.workload.min_speedup().is_none() => (none(), none(), none()),
        _ => ("absent".to_owned(), none(), none()),
    };
    [
        row.workload.name().to_owned(),
        group_digits(row.size),
        nanos(row.engine.median),
        nanos(row.engine.min),
        baseline,
        baseline_min,
        slower,
        slower_min,
        langgraph,
        at,
        faster,
    ]
}

/// Describes how the cost of a step changes from the smallest to the largest size.
pub fn growth(rows: &[Row]) -> String {
    let workloads = Workload::ALL.into_iter().filter_map(|it| growth_of(it, rows));
    workloads.collect()
}

fn growth_of(workload: Workload, rows: &[Row]) -> Option<String> {
    let mut rows = rows.iter().filter(|it| it.workload == workload);
    let (first, last) = (rows.next()?, rows.next_back()?);
    let engine = Ratio::of(last.engine, first.engine);
    let baseline = match (first.baseline, last.baseline) {
        (Some(first), Some(last)) => {
            let Ratio { medians, mins } = Ratio::of(last, first);
            format!("; tokio {medians:.2}, {mins:.2}")
        }
        _ => String::new(),
    };
    let (name, from, to) = (workload.name(), group_digits(first.size), group_digits(last.size));
    let Ratio { medians, mins } = engine;
    Some(format!(
        "{name}: from {from} to {to}, the cost per step changes by a factor of {medians:.2} (fastest rounds {mins:.2}{baseline})\n"
    ))
}

/// Reports whether each workload meets the limits at its worst size.
pub fn verdicts(rows: &[Row]) -> String {
    Workload::ALL
        .into_iter()
        .flat_map(|it| [slower(it, rows), faster(it, rows)])
        .flatten()
        .collect()
}

fn slower(workload: Workload, rows: &[Row]) -> Option<String> {
    let limit = workload.max_slowdown()?;
    let ratios = rows.iter().filter(|it| it.workload == workload).filter_map(Row::slowdown);
    let Ratio { medians, mins } = ratios.reduce(|a, b| a.with(b, f64::max))?;
    let (name, verdict) = (workload.name(), verdict(medians <= limit));
    Some(format!(
        "{name}: takes at most {limit} times as long as tokio: {verdict} ({medians:.2}; fastest rounds {mins:.2})\n"
    ))
}

fn faster(workload: Workload, rows: &[Row]) -> Option<String> {
    let limit = workload.min_speedup()?;
    let ratios = rows.iter().filter(|it| it.workload == workload).filter_map(Row::speedup);
    let Ratio { medians, mins } = ratios.reduce(|a, b| a.with(b, f64::min))?;
    let (name, verdict) = (workload.name(), verdict(medians >= limit));
    let [limit, medians, mins] = [limit, medians, mins].map(|it| group_digits(it as usize));
    Some(format!(
        "{name}: at least {limit} times faster than LangGraph: {verdict} ({medians}; fastest rounds {mins})\n"
    ))
}

pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "met" } else { "not met" }
}

pub(crate) fn nanos(cost: f64) -> String {
    if cost < 100.0 { format!("{cost:.1}") } else { group_digits(cost.round() as usize) }
}

/// Formats rows as lines with aligned columns.
pub(crate) fn align_columns<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let lines: Vec<[String; N]> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |column: usize| lines.iter().map(|it| it[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).filter_map(width).collect();
    lines.iter().map(|it| line(it, &widths)).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = format!("{:<1$}", cells[0], widths[0]);
    for (cell, width) in cells.iter().zip(widths).skip(1) {
        text += &format!("  {cell:>width$}");
    }
    text + "\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(median: f64) -> Cost {
        Cost { median, min: median / 2.0 }
    }

    fn rows() -> Vec<Row> {
        let row = |workload, size, engine, baseline| Row {
            workload,
            size,
            engine: cost(engine),
            baseline: Some(cost(baseline)),
            langgraph: Some((cost(400_000.0), LangGraphSize { size: 100, steps: 100 })),
        };
        let checkpointed = Row {
            baseline: None,
            langgraph: None,
            ..row(Workload::CheckpointedLoop, 1_000, 2_345.6, 1.0)
        };
        vec![
            row(Workload::Loop, 1_000, 100.0, 50.0),
            row(Workload::Loop, 100_000, 120.0, 50.0),
            Row { langgraph: None, ..row(Workload::FanOut, 1_000, 900.0, 400.0) },
            checkpointed,
        ]
    }

    #[test]
    fn table_is_aligned() {
        let expect = "\
workload              size  engine ns  (min)  tokio ns  (min)  ratio  (min)  LangGraph µs  at size  speedup
loop                 1,000        100   50.0      50.0   25.0   2.00   2.00           400      100    4,000
loop               100,000        120   60.0      50.0   25.0   2.40   2.40           400      100    3,333
fan-out              1,000        900    450       400    200   2.25   2.25        absent        -        -
checkpointed-loop    1,000      2,346  1,173         -      -      -      -             -        -        -
";
        assert_eq!(table(&rows()), expect);
    }

    #[test]
    fn growth_needs_two_sizes() {
        let expect = "loop: from 1,000 to 100,000, the cost per step changes by a factor of 1.20 \
                      (fastest rounds 1.20; tokio 1.00, 1.00)\n";
        assert_eq!(growth(&rows()), expect);
    }

    #[test]
    fn verdict_uses_the_worst_size() {
        let expect = "\
loop: takes at most 5 times as long as tokio: met (2.40; fastest rounds 2.40)
loop: at least 1,000 times faster than LangGraph: met (3,333; fastest rounds 3,333)
fan-out: takes at most 2 times as long as tokio: not met (2.25; fastest rounds 2.25)
";
        assert_eq!(verdicts(&rows()), expect);
    }

    #[test]
    fn digits_are_grouped() {
        for (number, expect) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(group_digits(number), expect);
        }
    }
}

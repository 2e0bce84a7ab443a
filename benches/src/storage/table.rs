//! Formats the results of the storage workloads.

use super::{
    Report, size,
    timed::{self, Kind},
    workload::{StorageLoad, StoredWorkload},
};
use crate::{
    measure::Cost,
    table::{Ratio, align_columns, group_digits, nanos, verdict},
};

impl timed::Row {
    fn speedup(&self) -> Option<Ratio> {
        Some(Ratio::of(self.langgraph?, self.ours.as_ref()?.cost))
    }

    fn floor(&self) -> Option<Cost> {
        Some(self.ours.as_ref()?.floors.first()?.1)
    }

    fn floor_ratio(&self) -> Option<Ratio> {
        Some(Ratio::of(self.ours.as_ref()?.cost, self.floor()?))
    }
}

impl size::Row {
    fn size_ratio(&self) -> Option<f64> {
        Some(self.langgraph? as f64 / self.ours as f64)
    }
}

/// Formats the remarks, the tables, and the verdicts on the limits.
pub fn text(report: &Report) -> String {
    let mut parts = vec![report.notes.join("\n") + "\n"];
    if !report.timed.is_empty() {
        parts.push(times(&report.timed));
        parts.push(remarks(&report.timed));
    }
    if !report.sizes.is_empty() {
        parts.push(sizes(&report.sizes));
        parts.push(growth(&report.sizes));
    }
    parts.push(verdicts(report));
    parts.retain(|it| !it.is_empty());
    parts.join("\n")
}

const TIMES: [&str; 12] = [
    "workload", "threads × steps", "bytes", "ours µs", "(min)", "floor µs", "(min)", "ratio",
    "(min)", "LangGraph µs", "(min)", "speedup",
];

/// Formats the table of times per step. A row's time is divided by the steps of all its threads.
fn times(rows: &[timed::Row]) -> String {
    align_columns(TIMES, rows.iter().map(time_cells))
}

fn time_cells(row: &timed::Row) -> [String; 12] {
    let StorageLoad { threads, steps, message } = row.load;
    let [ours, ours_min] = micros(row.ours.as_ref().map(|it| it.cost), "absent");
    let [floor, floor_min] = micros(row.floor(), "-");
    let [ratio, ratio_min] = match row.floor_ratio() {
        Some(Ratio { medians, mins }) => [format!("{medians:.2}"), format!("{mins:.2}")],
        None => ["-", "-"].map(str::to_owned),
    };
    let [langgraph, langgraph_min] = micros(row.langgraph, "absent");
    [
        row.workload.name().to_owned(),
        format!("{threads} × {steps}"),
        group_digits(message),
        ours,
        ours_min,
        floor,
        floor_min,
        ratio,
        ratio_min,
        langgraph,
        langgraph_min,
        row.speedup().map_or("-".to_owned(), |it| format!("{:.1}", it.medians)),
    ]
}

fn micros(cost: Option<Cost>, absent: &str) -> [String; 2] {
    match cost {
        Some(Cost { median, min }) => [nanos(median / 1e3), nanos(min / 1e3)],
        None => [absent.to_owned(), "-".to_owned()],
    }
}

/// Formats the results that do not appear in the table.
fn remarks(rows: &[timed::Row]) -> String {
    rows.iter().flat_map(|it| floors(it).into_iter().chain(default_sync(it))).collect()
}

/// Formats one line per floor of a row. A floor is a lower bound for the cost of our saver.
fn floors(row: &timed::Row) -> Vec<String> {
    let Some(ours) = &row.ours else { return Vec::new() };
    let (name, bytes) = (row.workload.name(), group_digits(row.load.message));
    let line = |(index, (kind, cost)): (usize, &(Kind, Cost))| {
        let how = match kind {
            Kind::SameBytes(bytes) => {
                format!("overwriting a file with the {} bytes of a commit", group_digits(*bytes))
            }
            Kind::Insert => "an INSERT of the data".to_owned(),
            Kind::InPlace => "overwriting a file with the data".to_owned(),
            Kind::Growing => "appending the data to a file".to_owned(),
        };
        let commits = ours.commits_per_step;
        if index == 0 {
            return format!("{name} {bytes}: lower bound: {how}, {commits:.2} times per step\n");
        }
        let (Ratio { medians, mins }, [floor, _]) =
            (Ratio::of(ours.cost, *cost), micros(Some(*cost), "-"));
        format!(
            "{name} {bytes}: {how}: {floor} µs, ratio {medians:.2} (fastest rounds {mins:.2})\n"
        )
    };
    ours.floors.iter().enumerate().map(line).collect()
}

fn default_sync(row: &timed::Row) -> Option<String> {
    let (cost, ours) = (row.default_sync?, row.ours.as_ref()?);
    let (name, bytes) = (row.workload.name(), group_digits(row.load.message));
    let Ratio { medians, mins } = Ratio::of(cost, ours.cost);
    let [langgraph, _] = micros(Some(cost), "-");
    Some(format!(
        "{name} {bytes}: LangGraph with its default settings, which do not sync every commit: {langgraph} µs, {medians:.1} times \
         slower (fastest rounds {mins:.1})\n"
    ))
}

const SIZES: [&str; 7] =
    ["workload", "steps", "our bytes", "per step", "LangGraph's bytes", "per step", "size ratio"];

fn sizes(rows: &[size::Row]) -> String {
    align_columns(SIZES, rows.iter().map(size_cells))
}

fn size_cells(row: &size::Row) -> [String; 7] {
    let number = |it: u64| group_digits(it as usize);
    let a_step = |it: u64| number(it / row.steps as u64);
    let none = || "-".to_owned();
    [
        StoredWorkload::SqliteBytes.name().to_owned(),
        group_digits(row.steps),
        number(row.ours),
        a_step(row.ours),
        row.langgraph.map_or_else(none, number),
        row.langgraph.map_or_else(none, a_step),
        row.size_ratio().map_or_else(none, |it| format!("{it:.1}")),
    ]
}

/// Describes how the size per step changes with the length of the thread.
fn growth(rows: &[size::Row]) -> String {
    let a_step = |row: &size::Row| row.ours as f64 / row.steps as f64;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return String::new() };
    let (name, from, to) =
        (StoredWorkload::SqliteBytes.name(), group_digits(first.steps), group_digits(last.steps));
    let times = a_step(last) / a_step(first);
    format!(
        "{name}: from {from} to {to} steps, the size per step changes by a factor of {times:.2}\n"
    )
}

/// Reports whether the worst row of each workload meets the limits.
fn verdicts(report: &Report) -> String {
    let timed = StoredWorkload::ALL
        .into_iter()
        .flat_map(|it| [faster(it, &report.timed), near_floor(it, &report.timed)]);
    timed.chain([smaller(&report.sizes)]).flatten().collect()
}

fn faster(workload: StoredWorkload, rows: &[timed::Row]) -> Option<String> {
    let limit = workload.min_speedup()?;
    let ratios = rows_of(workload, rows).filter_map(timed::Row::speedup);
    let Ratio { medians, mins } = ratios.reduce(|a, b| a.with(b, f64::min))?;
    let (name, verdict) = (workload.name(), verdict(medians >= limit));
    Some(format!(
        "{name}: at least {limit} times LangGraph's steps per second: {verdict} ({medians:.1}; fastest rounds {mins:.1})\n"
    ))
}

fn near_floor(workload: StoredWorkload, rows: &[timed::Row]) -> Option<String> {
    let limit = workload.max_floor_ratio()?;
    let ratios = rows_of(workload, rows).filter_map(timed::Row::floor_ratio);
    let Ratio { medians, mins } = ratios.reduce(|a, b| a.with(b, f64::max))?;
    let (name, verdict) = (workload.name(), verdict(medians <= limit));
    Some(format!(
        "{name}: at most {limit} times the cost of its fsyncs: {verdict} ({medians:.2}; fastest rounds {mins:.2})\n"
    ))
}

fn rows_of(workload: StoredWorkload, rows: &[timed::Row]) -> impl Iterator<Item = &timed::Row> {
    rows.iter().filter(move |it| it.workload == workload)
}

/// Minimum ratio of LangGraph's file size to ours, and the number of steps at which the ratio is checked.
const SMALLER: (f64, usize) = (10.0, 1_000);

fn smaller(rows: &[size::Row]) -> Option<String> {
    let (limit, steps) = SMALLER;
    let times = rows.iter().find(|it| it.steps == steps)?.size_ratio()?;
    let (name, verdict) = (StoredWorkload::SqliteBytes.name(), verdict(times >= limit));
    let steps = group_digits(steps);
    Some(format!(
        "{name}: at most 1/{limit} of LangGraph's bytes at {steps} steps: {verdict} (1/{times:.0})\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(micros: f64) -> Cost {
        Cost { median: micros * 1e3, min: micros * 500.0 }
    }

    fn report() -> Report {
        let ours = |it| timed::OurCosts {
            cost: cost(it),
            floors: vec![
                (Kind::SameBytes(12_345), cost(60.0)),
                (Kind::InPlace, cost(50.0)),
                (Kind::Growing, cost(100.0)),
            ],
            commits_per_step: 1.01,
        };
        let row = |workload: StoredWorkload, load: usize, micros: f64| timed::Row {
            workload,
            load: workload.loads()[load],
            ours: Some(ours(micros)),
            // For `sqlite-one`, the median meets the limit and the fastest round does not, which shows that the verdict
            // uses the median.
            langgraph: Some(Cost { median: 1_800e3, min: 300e3 }),
            default_sync: None,
        };
        let default_sync = Some(cost(900.0));
        let absent = row(StoredWorkload::PostgresOne, 0, 0.0);
        let size = |steps, ours, langgraph| size::Row { steps, ours, langgraph };
        Report {
            notes: vec!["a note".to_owned()],
            timed: vec![
                row(StoredWorkload::SqliteOne, 0, 100.0),
                row(StoredWorkload::SqliteOne, 1, 150.0),
                timed::Row { default_sync, ..row(StoredWorkload::SqliteMany, 0, 100.0) },
                timed::Row { ours: None, langgraph: None, ..absent },
            ],
            sizes: vec![size(1_000, 2_000_000, Some(520_000_000)), size(10_000, 30_000_000, None)],
        }
    }

    #[test]
    fn report_is_formatted() {
        let expect = "\
a note

workload      threads × steps  bytes  ours µs  (min)  floor µs  (min)  ratio  (min)  LangGraph µs  (min)  speedup
sqlite-one            1 × 300    100      100   50.0      60.0   30.0   1.67   1.67         1,800    300     18.0
sqlite-one            1 × 300  1,024      150   75.0      60.0   30.0   2.50   2.50         1,800    300     12.0
sqlite-16            16 × 100    100      100   50.0      60.0   30.0   1.67   1.67         1,800    300     18.0
postgres-one          1 × 300    100   absent      -         -      -      -      -        absent      -        -

sqlite-one 100: lower bound: overwriting a file with the 12,345 bytes of a commit, 1.01 times per step
sqlite-one 100: overwriting a file with the data: 50.0 µs, ratio 2.00 (fastest rounds 2.00)
sqlite-one 100: appending the data to a file: 100 µs, ratio 1.00 (fastest rounds 1.00)
sqlite-one 1,024: lower bound: overwriting a file with the 12,345 bytes of a commit, 1.01 times per step
sqlite-one 1,024: overwriting a file with the data: 50.0 µs, ratio 3.00 (fastest rounds 3.00)
sqlite-one 1,024: appending the data to a file: 100 µs, ratio 1.50 (fastest rounds 1.50)
sqlite-16 100: lower bound: overwriting a file with the 12,345 bytes of a commit, 1.01 times per step
sqlite-16 100: overwriting a file with the data: 50.0 µs, ratio 2.00 (fastest rounds 2.00)
sqlite-16 100: appending the data to a file: 100 µs, ratio 1.00 (fastest rounds 1.00)
sqlite-16 100: LangGraph with its default settings, which do not sync every commit: 900 µs, 9.0 times slower (fastest rounds 9.0)

workload       steps   our bytes  per step  LangGraph's bytes  per step  size ratio
sqlite-bytes   1,000   2,000,000     2,000        520,000,000   520,000       260.0
sqlite-bytes  10,000  30,000,000     3,000                  -         -           -

sqlite-bytes: from 1,000 to 10,000 steps, the size per step changes by a factor of 1.50

sqlite-one: at least 5 times LangGraph's steps per second: met (12.0; fastest rounds 4.0)
sqlite-one: at most 2 times the cost of its fsyncs: not met (2.50; fastest rounds 2.50)
sqlite-16: at least 20 times LangGraph's steps per second: not met (18.0; fastest rounds 6.0)
sqlite-bytes: at most 1/10 of LangGraph's bytes at 1,000 steps: met (1/260)
";
        assert_eq!(text(&report()), expect);
    }
}

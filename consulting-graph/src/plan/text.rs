//! Renders a plan as text.

use super::{Assumptions, Estimate, Plan};
use crate::data::number;

const HEADER: [&str; 7] =
    ["Role", "Model", "Calls", "Input tokens", "From cache", "Output tokens", "Cost"];

impl Plan {
    /// Renders the plan as a table, with its assumptions.
    pub fn text(&self) -> String {
        let mut lines = vec![HEADER.map(str::to_owned)];
        lines.extend(self.roles.iter().map(cells));
        let mut all = cells(&self.all);
        all[1].clear();
        lines.push(all);
        let Assumptions { concurrency, seconds_per_call, sizes, .. } = self.assumed;
        let debates = if concurrency == 1 {
            "one debate".to_owned()
        } else {
            format!("{concurrency} debates")
        };
        let uncached = match self.all.dollars_uncached {
            Some(dollars) => format!("${dollars:.2}"),
            None => UNKNOWN.to_owned(),
        };
        format!(
            "{}\nWithout a prompt cache: {uncached}.\n\
             Expected duration: {} calls in sequence take {} at {seconds_per_call} s per call, with {debates} at a time.\n\
             Assumed lengths in tokens: move {}, turn {}, document {}, findings {}. Retries are not included.\n",
            table(&lines),
            number::grouped(self.steps),
            duration(self.seconds),
            sizes.the_move,
            sizes.turn,
            sizes.document,
            sizes.findings,
        )
    }
}

const UNKNOWN: &str = "price unknown";

fn cells(it: &Estimate) -> [String; 7] {
    let models: Vec<&str> = it.models.iter().map(String::as_str).collect();
    [
        it.role.clone(),
        models.join(", "),
        number::grouped(it.calls),
        number::grouped(it.input_tokens),
        number::percent(it.cached_tokens as f64 / it.input_tokens.max(1) as f64),
        number::grouped(it.output_tokens),
        it.dollars.map_or_else(|| UNKNOWN.to_owned(), |it| format!("${it:.2}")),
    ]
}

/// Formats a table with aligned columns. Text is aligned to the left, numbers to the right.
fn table(lines: &[[String; 7]]) -> String {
    let width = |column: usize| lines.iter().map(|it| it[column].chars().count()).max();
    let widths: [usize; 7] = std::array::from_fn(|it| width(it).unwrap_or_default());
    let line = |cells: &[String; 7]| {
        let padded = cells.iter().zip(widths).enumerate().map(|(n, (cell, width))| {
            if n < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

/// Formats a duration: `45 s`, `31 min 48 s`, `2 h 5 min`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

//! The goals and their ratios as Markdown: a section of the results, and a summary for the README.

use std::{collections::BTreeSet, fmt::Write};

use super::{
    cell::Cell,
    goals::{GOALS, Goal, Limit, Measure},
    peer::Kind,
};
use crate::{
    build::{self, Build},
    table::{digits, group_digits, time},
};

/// Summarises the ratios of the times in up to three lines of Markdown: to LangGraph, to the Rust crates, and to
/// handwritten code.
pub fn summary(cells: &[Cell]) -> String {
    let measured = cells.iter().filter(|it| it.kind == Kind::Rust && it.cost().is_some());
    let crates: BTreeSet<&str> = measured.map(|it| it.peer).collect();
    let fastest_crate = format!("the fastest Rust crate ({} measured)", crates.len());
    let lines = [
        (Kind::LangGraph, "Speed", "LangGraph in its faster mode"),
        (Kind::Rust, "Speed", fastest_crate.as_str()),
        (Kind::ByHand, "Cost", "the same work by hand"),
    ];
    let mut text = String::new();
    for (against, measure, peer) in lines {
        let is_time = |it: &&Goal| it.against == against && it.measure == Measure::Time;
        let verdicts = GOALS.iter().filter(is_time).filter_map(|it| Some((it, it.verdict(cells)?)));
        let ratios: Vec<String> = verdicts
            .map(|(goal, it)| {
                format!("{} ({}) {}×", goal.workload, group_digits(it.size), digits(it.value))
            })
            .collect();
        if !ratios.is_empty() {
            let _ = writeln!(text, "- {measure}, as a multiple of {peer}: {}.", ratios.join(", "));
        }
    }
    text
}

/// Formats the goals and their ratios as a section of Markdown.
pub(super) fn goals_section(cells: &[Cell], builds: &[Build]) -> String {
    let mut text = String::from(
        "\n## Goals\n\n\
         A goal with ≥ is the minimum of the peer's cost divided by the engine's cost. A goal with ≤ is the maximum of the \
         engine's cost divided by the peer's cost, or of the engine's time if it has a unit. If no such peer reached the \
         size of the goal, the ratio is that of the largest size that one of them reached.\n\n",
    );
    let _ = writeln!(text, "| {} |\n|---|---|---|---|---|---|---|", GOAL_COLUMNS.join(" | "));
    for mut row in goal_rows(cells, builds) {
        if row[6] == MISSED {
            row[6] = format!("**{MISSED}**");
        }
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Returns a row of [`GOAL_COLUMNS`] for each goal.
pub(super) fn goal_rows(cells: &[Cell], builds: &[Build]) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for goal in GOALS {
        let against = match (goal.against, goal.limit) {
            (_, Limit::Nanos(_)) => "–",
            (Kind::LangGraph, _) => "LangGraph, faster mode",
            (Kind::LangGraphJs, _) => "LangGraph.js",
            (Kind::Rust, _) => "best Rust peer",
            (Kind::ByHand, _) => "by hand",
            (Kind::Engine, _) => "a tenth of the size",
        };
        let measure = match goal.measure {
            Measure::Time => "time",
            Measure::Memory => "memory",
        };
        let limit = match goal.limit {
            Limit::AtLeast(limit) => format!("≥ {}×", digits(limit)),
            Limit::AtMost(limit) => format!("≤ {}×", digits(limit)),
            Limit::Nanos(limit) => format!("≤ {}", time(limit)),
        };
        let Goal { workload, size, .. } = goal;
        let (size, measured, verdict) = match goal.verdict(cells) {
            Some(it) => {
                let value = match goal.limit {
                    Limit::Nanos(_) => time(it.value),
                    Limit::AtLeast(_) | Limit::AtMost(_) => format!("{}×", digits(it.value)),
                };
                let measured = format!("{value} ({})", it.peer);
                (it.size, measured, if it.met { MET } else { MISSED })
            }
            None => (*size, "–".to_owned(), "not measured"),
        };
        let size = group_digits(size);
        let row = [*workload, &*size, measure, against, &*limit, &*measured, verdict];
        rows.push(row.map(str::to_owned));
    }
    if let Some((value, peer)) = build::ratio_to_best_peer(builds) {
        let verdict = if value >= 1.0 { MET } else { MISSED };
        let measured = format!("{}× ({peer})", digits(value));
        let row = ["clean build", "–", "CPU", "best Rust peer", "≥ 1×", &*measured, verdict];
        rows.push(row.map(str::to_owned));
    }
    rows
}

/// Columns of the table of goals.
pub(super) const GOAL_COLUMNS: [&str; 7] =
    ["workload", "size", "measure", "against", "goal", "measured", "verdict"];
const MET: &str = "met";
const MISSED: &str = "missed";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{
        cell::{measured, sample_cells},
        workloads::Workload,
    };

    #[test]
    fn summary_has_a_line_for_each_measured_kind_of_peer() {
        let mut cells = sample_cells();
        let by_hand = "- Cost, as a multiple of the same work by hand: loop (100,000) 4.50×.\n";
        assert_eq!(summary(&cells), by_hand);
        for (peer, kind, median) in [
            ("LangGraph sync", Kind::LangGraph, 90_000.0),
            ("LangGraph.js", Kind::LangGraphJs, 9_000.0),
            ("juncture", Kind::Rust, 270.0),
            ("adk-graph", Kind::Rust, 180.0),
        ] {
            let outcome = measured(median, 3);
            cells.push(Cell { peer, kind, outcome, ..cells[3].clone() });
        }
        let expect = "\
- Speed, as a multiple of LangGraph in its faster mode: loop (100,000) 1,000×.
- Speed, as a multiple of the fastest Rust crate (2 measured): loop (100,000) 2×.
";
        assert_eq!(summary(&cells), format!("{expect}{by_hand}"));
    }

    #[test]
    fn goals_use_the_largest_common_size() {
        let text = goals_section(&sample_cells(), &[]);
        assert!(
            text.contains(
                "| loop | 100,000 | time | by hand | ≤ 4× | 4.50× (by hand) | **missed** |"
            ),
            "{text}"
        );
        let absent =
            "| loop | 100,000 | time | LangGraph, faster mode | ≥ 1,000× | – | not measured |";
        assert!(text.contains(absent), "{text}");
    }

    #[test]
    fn goals_without_a_peer_are_shown_as_times() {
        let workload = Workload::named("agent-loop").expect("the workload exists");
        let mut cells = sample_cells();
        cells[3] = Cell { workload, size: 25, outcome: measured(14_700.0, 3), ..cells[3].clone() };
        let text = goals_section(&cells, &[]);
        let row = "| agent-loop | 25 | time | – | ≤ 20 µs | 14.7 µs (engine) | met |";
        assert!(text.contains(row), "{text}");
    }
}

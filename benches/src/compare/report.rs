//! The results as Markdown and plots.

use std::{collections::BTreeSet, fmt::Write, fs, io, path::Path};

use super::{
    cost::Cost,
    goals::{GOALS, Goal, Limit, Measure},
    peer::Kind,
    plot::{Axis, plot},
    rounds::{Cell, Outcome},
    workloads::{WORKLOADS, Workload},
};
use crate::{
    build::{self, Build},
    sandboxes,
    table::{align_lines, bytes, digits, group_digits, time},
};

/// The results of a measurement.
#[derive(Debug, Default)]
pub struct Results {
    /// Description of the machine and of the peers, in Markdown.
    pub environment: String,
    /// Names of the peers, in the order of the rows.
    pub peers: Vec<&'static str>,
    pub cells: Vec<Cell>,
    pub sandboxes: Vec<sandboxes::Row>,
    pub builds: Vec<Build>,
}

/// Writes `results.md` and the plots into a directory, and removes the plots of earlier runs.
pub fn write(dir: &Path, results: &Results) -> io::Result<()> {
    let Results { environment, peers, cells, sandboxes, builds } = results;
    fs::create_dir_all(dir)?;
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        if path.extension().is_some_and(|it| it == "svg") {
            fs::remove_file(path)?;
        }
    }
    let mut text = format!("# Results\n\n{environment}\n{}", goals(cells, builds));
    for workload in WORKLOADS {
        let own: Vec<&Cell> = cells.iter().filter(|it| it.workload == workload).collect();
        if own.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n{}",
            workload.name,
            workload.about,
            table(workload, peers, &own)
        );
        for (suffix, axis) in [("", time_axis(workload)), ("-memory", MEMORY)] {
            let Some(svg) = plot(workload.name, &own, peers, axis) else { continue };
            // One plot of the memory is enough: its sizes are the largest.
            if suffix == "-memory" && workload.name != "fan-out" {
                continue;
            }
            let file = format!("{}{suffix}.svg", workload.name);
            fs::write(dir.join(&file), svg)?;
            let _ = write!(text, "\n![{}: {}]({file})\n", workload.name, axis.name);
        }
    }
    if !sandboxes.is_empty() {
        text += &sandboxes::section(sandboxes);
    }
    if !builds.is_empty() {
        text += &build::section(builds);
    }
    fs::write(dir.join("results.md"), text)
}

const MEMORY: Axis = Axis { name: "memory of a run", value: |it| it.memory as f64, format: bytes };

fn time_axis(workload: &Workload) -> Axis {
    let name = match workload.unit {
        "step" => "time per step",
        "task" => "time per task",
        "run" => "time per run",
        _ => "time per unit",
    };
    Axis { name, value: |it| it.median, format: time }
}

/// Summarises the ratios of the times in up to three lines of Markdown: LangGraph, the Rust crates, and by hand.
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
        let time = |it: &&Goal| it.against == against && it.measure == Measure::Time;
        let verdicts = GOALS.iter().filter(time).filter_map(|it| Some((it, it.verdict(cells)?)));
        let mut ratios: Vec<String> = verdicts
            .map(|(goal, it)| {
                format!("{} ({}) {}×", goal.workload, group_digits(it.size), digits(it.ratio))
            })
            .collect();
        // Goals for sizes that were not measured have the verdict of the largest measured size.
        ratios.dedup();
        if !ratios.is_empty() {
            let _ = writeln!(text, "- {measure}, as a multiple of {peer}: {}.", ratios.join(", "));
        }
    }
    text
}

/// Formats the goals and their ratios.
fn goals(cells: &[Cell], builds: &[Build]) -> String {
    let mut text = String::from(
        "\n## Goals\n\n| workload | size | measure | against | goal | measured | verdict |\n|---|---|---|---|---|---|---|\n",
    );
    for goal in GOALS {
        let against = match goal.against {
            Kind::LangGraph => "LangGraph, faster mode",
            Kind::LangGraphJs => "LangGraph.js",
            Kind::Rust => "best Rust peer",
            Kind::ByHand => "by hand",
            Kind::Engine => "a tenth of the size",
        };
        let measure = match goal.measure {
            Measure::Time => "time",
            Measure::Memory => "memory",
        };
        let limit = match goal.limit {
            Limit::AtLeast(limit) => format!("≥ {}×", digits(limit)),
            Limit::AtMost(limit) => format!("≤ {}×", digits(limit)),
        };
        let Goal { workload, size, .. } = goal;
        let (size, measured, verdict) = match goal.verdict(cells) {
            Some(it) => {
                let measured = format!("{}× ({})", digits(it.ratio), it.peer);
                (it.size, measured, if it.met { MET } else { MISSED })
            }
            None => (*size, "–".to_owned(), "not measured"),
        };
        let size = group_digits(size);
        let _ = writeln!(
            text,
            "| {workload} | {size} | {measure} | {against} | {limit} | {measured} | {verdict} |"
        );
    }
    if let Some((value, peer)) = build::ratio_to_best_peer(builds) {
        let verdict = if value >= 1.0 { MET } else { MISSED };
        let measured = format!("{}× ({peer})", digits(value));
        let _ = writeln!(
            text,
            "| build from nothing | – | CPU | best Rust peer | ≥ 1× | {measured} | {verdict} |"
        );
    }
    text
}

const MET: &str = "met";
const MISSED: &str = "**missed**";

/// Formats all times as one plain table for a terminal, followed by the reasons for empty cells and by the goals.
pub fn overview(results: &Results) -> String {
    let Results { peers, cells, builds, .. } = results;
    let mut rows: Vec<(&Workload, usize)> = Vec::new();
    for cell in cells {
        if !rows.contains(&(cell.workload, cell.size)) {
            rows.push((cell.workload, cell.size));
        }
    }
    let mut reasons: Vec<&str> = Vec::new();
    let mut lines = vec![
        ["workload", "size"].into_iter().chain(peers.iter().copied()).map(str::to_owned).collect(),
    ];
    for (workload, size) in rows {
        let own = || cells.iter().filter(move |it| it.workload == workload && it.size == size);
        let engine = own().find(|it| it.kind == Kind::Engine).and_then(Cell::cost);
        let mut line = vec![workload.name.to_owned(), group_digits(size)];
        for peer in peers {
            let cell = own().find(|it| it.peer == *peer);
            line.push(cell.map_or_else(String::new, |it| short(it, engine, &mut reasons)));
        }
        lines.push(line);
    }
    let mut text = align_lines(&lines);
    text += "\nMedian time per unit of the workload, and its multiple of the engine's time.\n";
    for (index, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "[{}] {reason}", index + 1);
    }
    let goals = goals(cells, builds);
    let goals = goals.lines().filter(|it| it.starts_with('|') && !it.starts_with("|---"));
    let goals = goals
        .map(|it| it.trim_matches('|').split('|').map(|it| it.trim().replace('*', "")).collect());
    text + "\n" + &align_lines(&goals.collect::<Vec<_>>())
}

/// Formats a cell of the overview. A cell without a time refers to its reason.
fn short<'a>(cell: &'a Cell, engine: Option<&Cost>, reasons: &mut Vec<&'a str>) -> String {
    let cost = match &cell.outcome {
        Outcome::Measured(cost) => cost,
        Outcome::Absent(reason) | Outcome::Wrong(reason) => {
            let known = reasons.iter().position(|it| it == reason);
            let number = known.unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            return format!("[{}]", number + 1);
        }
    };
    match engine {
        Some(engine) if cell.kind != Kind::Engine => {
            format!("{} {}×", time(cost.median), digits(cost.median / engine.median))
        }
        _ => time(cost.median),
    }
}

/// Formats the costs of one workload: one row per peer, one column per size.
fn table(workload: &Workload, peers: &[&str], cells: &[&Cell]) -> String {
    let sizes: BTreeSet<usize> = cells.iter().map(|it| it.size).collect();
    let mut text = String::from("| peer |");
    for size in &sizes {
        let _ = write!(text, " {} |", group_digits(*size));
    }
    text += " CPU | memory |";
    if workload.stored {
        text += " stored per step |";
    }
    let columns = sizes.len() + 3 + usize::from(workload.stored);
    let _ = write!(text, "\n{}|\n", "|---".repeat(columns));
    for peer in peers {
        let own = || cells.iter().filter(|it| it.peer == *peer);
        if own().next().is_none() {
            continue;
        }
        let _ = write!(text, "| {peer} |");
        for size in &sizes {
            let cell = own().find(|it| it.size == *size);
            let _ = write!(text, " {} |", cell.map_or_else(String::new, |it| describe(it)));
        }
        // The columns about resources refer to the largest size that the peer reached.
        let last = own().rev().find_map(|it| Some((it.size, it.cost()?)));
        let resource = |format: &dyn Fn(usize, &Cost) -> String| {
            last.map_or_else(|| "–".to_owned(), |(size, cost)| format(size, cost))
        };
        let _ = write!(text, " {} |", resource(&|_, it| time(it.cpu)));
        let _ = write!(text, " {} |", resource(&|_, it| bytes(it.memory as f64)));
        if workload.stored {
            let stored = |size: usize, it: &Cost| {
                it.stored
                    .map_or_else(String::new, |it| bytes(it as f64 / workload.units(size) as f64))
            };
            let _ = write!(text, " {} |", resource(&stored));
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "\nTimes are per {}: median (fastest–slowest round), or the time of the only run or round. CPU (per {}) and memory (of the whole run) are those at the largest size that the peer reached.\n",
        workload.unit, workload.unit
    );
    text
}

fn describe(cell: &Cell) -> String {
    match &cell.outcome {
        Outcome::Measured(it) => {
            let range = match it.rounds {
                0 => "one run".to_owned(),
                1 => "one round".to_owned(),
                _ => format!("{}–{}", time(it.min), time(it.max)),
            };
            format!("{} ({range})", time(it.median))
        }
        Outcome::Absent(reason) | Outcome::Wrong(reason) => reason.replace('|', "/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::rounds::sample_cells;

    #[test]
    fn table_has_one_row_per_peer() {
        let cells = sample_cells();
        let own: Vec<&Cell> = cells.iter().collect();
        let workload = Workload::named("loop").expect("the workload exists");
        let expect = "\
| peer | 1,000 | 100,000 | CPU | memory |
|---|---|---|---|---|
| engine | 100 ns (50 ns–200 ns) | 90 ns (45 ns–180 ns) | 90 ns | 8.19 KB |
| by hand | 40 ns (20 ns–80 ns) | 20 ns (10 ns–40 ns) | 20 ns | 8.19 KB |
| slow | wrong answer: 7 |  | – | – |
";
        let text = table(workload, &["engine", "by hand", "slow"], &own);
        assert!(text.starts_with(expect), "{text}");
    }

    fn measured(median: f64, rounds: usize) -> Outcome {
        let (memory, stored) = (8_192, None);
        let (min, max, cpu) = (median, median, median);
        Outcome::Measured(Cost { median, min, max, cpu, rounds, memory, stored })
    }

    #[test]
    fn cells_name_a_single_run_or_round() {
        let cell = |rounds| Cell { outcome: measured(2e9, rounds), ..sample_cells()[0].clone() };
        assert_eq!(describe(&cell(0)), "2 s (one run)");
        assert_eq!(describe(&cell(1)), "2 s (one round)");
        assert_eq!(describe(&cell(2)), "2 s (2 s–2 s)");
    }

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
        let text = goals(&sample_cells(), &[]);
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
    fn overview_explains_empty_cells() {
        let peers = vec!["engine", "by hand", "slow"];
        let text = overview(&Results { peers, cells: sample_cells(), ..Results::default() });
        let expect = "\
workload     size  engine      by hand  slow
loop        1,000  100 ns  40 ns 0.40×   [1]
loop      100,000   90 ns  20 ns 0.22×

Median time per unit of the workload, and its multiple of the engine's time.
[1] wrong answer: 7

workload ";
        assert!(text.starts_with(expect), "{text}");
    }
}

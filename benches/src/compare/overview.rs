//! All times as one plain table for a terminal.

use std::fmt::Write;

use super::{
    cell::Cell,
    cost::Cost,
    peer::Kind,
    report::Results,
    verdicts::{GOAL_COLUMNS, goal_rows},
    workloads::Workload,
};
use crate::table::{align_lines, digits, group_digits, time};

/// Formats all times as one plain table for a terminal, followed by the reasons for empty cells and by the goals.
pub fn overview(results: &Results) -> String {
    let Results { peers, cells, builds, .. } = results;
    let mut rows: Vec<(&Workload, usize)> = Vec::new();
    for cell in cells {
        if !rows.contains(&(cell.workload, cell.size)) {
            rows.push((cell.workload, cell.size));
        }
    }
    let mut reasons: Vec<String> = Vec::new();
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
    let mut goals = vec![GOAL_COLUMNS.map(str::to_owned).to_vec()];
    goals.extend(goal_rows(cells, builds).into_iter().map(Vec::from));
    text + "\n" + &align_lines(&goals)
}

/// Formats a cell of the overview. A cell without a time refers to its reason.
fn short(cell: &Cell, engine: Option<&Cost>, reasons: &mut Vec<String>) -> String {
    let cost = match cell.result() {
        Ok(cost) => cost,
        Err(reason) => {
            let known = reasons.iter().position(|it| *it == reason);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample_cells;

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

//! The results as Markdown and plots.

use std::{collections::BTreeSet, fmt::Write, fs, io, path::Path};

use super::{
    cell::Cell,
    cost::Cost,
    plot::{Axis, plot},
    verdicts::goals_section,
    workloads::{WORKLOADS, Workload},
};
use crate::{
    build::{self, Build},
    sandboxes,
    table::{bytes, cell_text, group_digits, time},
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
    let mut text = format!("# Results\n\n{environment}\n{}", goals_section(cells, builds));
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
        let mut plots = vec![(workload.name.to_owned(), time_axis(workload))];
        // Memory differs most in this workload, so that one plot of it is enough.
        if workload.name == "fan-out" {
            plots.push(("fan-out-memory".to_owned(), memory_axis()));
        }
        for (name, axis) in plots {
            let Some(svg) = plot(workload.name, &own, peers, &axis) else { continue };
            fs::write(dir.join(format!("{name}.svg")), svg)?;
            let _ = write!(text, "\n![{}: {}]({name}.svg)\n", workload.name, axis.name);
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

fn memory_axis() -> Axis {
    Axis { name: "memory of a run".to_owned(), value: |it| it.memory as f64, format: bytes }
}

fn time_axis(workload: &Workload) -> Axis {
    let name = format!("time per {}", workload.unit);
    Axis { name, value: |it| it.median, format: time }
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
        // The columns for CPU time and memory refer to the largest size at which the peer was measured.
        let last = own().rev().find_map(|it| Some((it.size, it.cost()?)));
        let resource = |format: &dyn Fn(usize, &Cost) -> String| match last {
            Some((size, cost)) if Some(&size) == sizes.last() => format(size, cost),
            Some((size, cost)) => format!("{} at {}", format(size, cost), group_digits(size)),
            None => "–".to_owned(),
        };
        let _ = write!(text, " {} |", resource(&|_, it| time(it.cpu)));
        let _ = write!(text, " {} |", resource(&|_, it| bytes(it.memory as f64)));
        if workload.stored {
            let stored = |size: usize, it: &Cost| {
                let per_step = |it: u64| bytes(it as f64 / workload.units(size) as f64);
                it.stored.map_or_else(String::new, per_step)
            };
            let _ = write!(text, " {} |", resource(&stored));
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "\nTimes are per {}: median (fastest–slowest round), or the time of the only run or round. CPU (per {}) and memory (of the whole run) are those at the largest size, or at the largest one that the peer reached.\n",
        workload.unit, workload.unit
    );
    text
}

fn describe(cell: &Cell) -> String {
    match cell.result() {
        Ok(it) => {
            let range = match it.rounds {
                0 => "one run".to_owned(),
                1 => "one round".to_owned(),
                _ => format!("{}–{}", time(it.min), time(it.max)),
            };
            format!("{} ({range})", time(it.median))
        }
        Err(reason) => cell_text(&reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::{measured, sample_cells};

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

    #[test]
    fn resources_state_their_size_unless_it_is_the_largest() {
        let mut cells = sample_cells();
        cells.truncate(4);
        let own: Vec<&Cell> = cells.iter().collect();
        let text = table(cells[0].workload, &["engine", "by hand"], &own);
        let expect = "| by hand | 40 ns (20 ns–80 ns) |  | 40 ns at 1,000 | 8.19 KB at 1,000 |\n";
        assert!(text.contains(expect), "{text}");
    }

    #[test]
    fn cells_state_that_there_was_only_one_run_or_round() {
        let cell = |rounds| Cell { outcome: measured(2e9, rounds), ..sample_cells()[0].clone() };
        assert_eq!(describe(&cell(0)), "2 s (one run)");
        assert_eq!(describe(&cell(1)), "2 s (one round)");
        assert_eq!(describe(&cell(2)), "2 s (1 s–4 s)");
    }
}

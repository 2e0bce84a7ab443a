//! Renders the timing of a run as text for a terminal.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use crate::{
    text::one_line,
    trace::{GraphTrace, TaskTrace, Timing, Trace},
};

/// Minimum width of the bars in columns, even in a narrow terminal.
const MIN_BAR_COLUMNS: usize = 10;
/// Maximum width of a name in columns.
const MAX_NAME_COLUMNS: usize = 32;

impl Trace {
    /// Renders the timing of the run in about `width` columns. Shows a bar for each task, with nested graphs below
    /// it, followed by the total time of each node.
    ///
    /// Times differ from run to run. A trace that was stored contains no times; the returned text then says that no
    /// timing is available.
    ///
    /// ```
    /// # use graph_core::{RunOptions, START, State, StateGraph};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let recorded = graph_trace::record(&graph, Essay::default(), (), RunOptions::new()).await;
    /// let timeline = recorded.trace.timeline(80);
    /// assert!(timeline.starts_with("step 1"));
    /// assert!(timeline.contains("time per node"));
    /// # Ok(()) }
    /// ```
    pub fn timeline(&self, width: usize) -> String {
        let mut lines = Vec::new();
        collect(&self.root, 0, "", &mut lines);
        let total = lines.iter().filter_map(|it| it.timing).map(|it| it.end).max();
        let Some(total) = total else {
            return "no timing available: the trace was stored, or no task ran\n".to_owned();
        };
        let mut out = String::new();
        draw_bars(&lines, total, width, &mut out);
        out.push('\n');
        write_totals(&lines, width, &mut out);
        out
    }
}

/// One line of the timeline, which is either the heading of a step or a task.
struct Line {
    /// Name of the node, or heading of the step.
    text: String,
    /// Name of the node, preceded by the names of the enclosing tasks. `None` for a step.
    path: Option<String>,
    depth: usize,
    timing: Option<Timing>,
    note: &'static str,
}

fn collect(graph: &GraphTrace, depth: usize, path: &str, lines: &mut Vec<Line>) {
    for step in graph.steps.iter().filter(|it| !it.tasks.is_empty()) {
        let timing = step
            .tasks
            .iter()
            .filter_map(|it| it.timing)
            .reduce(|a, b| Timing { start: a.start.min(b.start), end: a.end.max(b.end) });
        let text = format!("step {}", step.step);
        lines.push(Line { text, path: None, depth, timing, note: "" });
        for task in &step.tasks {
            let text = one_line(&task.node);
            let path = format!("{path}{text}");
            let inside = format!("{path} › ");
            let (timing, note) = (task.timing, status_suffix(task));
            lines.push(Line { text, path: Some(path), depth: depth + 1, timing, note });
            for graph in &task.graphs {
                collect(graph, depth + 2, &inside, lines);
            }
        }
    }
}

/// Returns a word that describes the status of a task, or an empty string.
fn status_suffix(task: &TaskTrace) -> &'static str {
    match task {
        TaskTrace { handled: true, .. } => " handled",
        TaskTrace { error: Some(_), .. } => " failed",
        TaskTrace { interrupts, .. } if !interrupts.is_empty() => " asked",
        TaskTrace { retries, .. } if !retries.is_empty() => " retried",
        _ => "",
    }
}

fn draw_bars(lines: &[Line], total: Duration, width: usize, out: &mut String) {
    let name = |it: &Line| 2 * it.depth + it.text.chars().count();
    let names = lines.iter().map(name).max().unwrap_or_default().min(MAX_NAME_COLUMNS);
    let n_cells = width.saturating_sub(names + 1 + 10 + 8).max(MIN_BAR_COLUMNS);
    for line in lines {
        let indent = (2 * line.depth).min(names.saturating_sub(1));
        let text = truncated(&line.text, names - indent);
        let pad = names - indent - text.chars().count();
        // Writing to a string cannot fail.
        let _ = write!(out, "{:indent$}{text}{:pad$} ", "", "");
        if let Some(timing) = line.timing {
            let (from, to) = (cell(timing.start, total, n_cells), cell(timing.end, total, n_cells));
            let to = to.max(from + 1).min(n_cells);
            let from = from.min(to - 1);
            let fill = if line.path.is_some() { "█" } else { "─" };
            let _ = write!(
                out,
                "{:from$}{}{:rest$}",
                "",
                fill.repeat(to - from),
                "",
                rest = n_cells - to
            );
            let _ = write!(
                out,
                " {:>9}{}",
                format_duration(timing.end.saturating_sub(timing.start)),
                line.note
            );
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
}

/// Returns the index of the cell (a column of the bars) that contains a time, out of `n_cells` cells.
fn cell(time: Duration, total: Duration, n_cells: usize) -> usize {
    let share = time.as_secs_f64() / total.as_secs_f64().max(1e-9);
    (share * n_cells as f64).round() as usize
}

/// Writes the total time of each node's tasks, slowest node first.
fn write_totals(lines: &[Line], width: usize, out: &mut String) {
    #[derive(Default)]
    struct NodeTotals {
        runs: u32,
        total: Duration,
        longest: Duration,
    }
    let mut totals: BTreeMap<&str, NodeTotals> = BTreeMap::new();
    for line in lines {
        if let (Some(path), Some(timing)) = (&line.path, line.timing) {
            let took = timing.end.saturating_sub(timing.start);
            let node = totals.entry(path).or_default();
            node.runs += 1;
            node.total += took;
            node.longest = node.longest.max(took);
        }
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by_key(|it| std::cmp::Reverse(it.1.total));
    let names = totals.iter().map(|it| it.0.chars().count()).max().unwrap_or_default();
    let names = names.max(19).min(width.saturating_sub(40).max(19));
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<names$} {:>6} {:>10} {:>10} {:>10}",
        "time per node", "runs", "total", "mean", "longest"
    );
    for (path, node) in totals {
        let (total, mean, longest) = (
            format_duration(node.total),
            format_duration(node.total / node.runs),
            format_duration(node.longest),
        );
        let path = truncated(path, names);
        let _ =
            writeln!(out, "{path:<names$} {:>6} {total:>10} {mean:>10} {longest:>10}", node.runs);
    }
}

/// Truncates a text to `max_chars` characters.
fn truncated(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
}

fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..60.0 => format!("{seconds:.2} s"),
        _ => format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{GraphTrace, Header, RunStatus, StepTrace, TaskTrace, Timing, Trace};

    fn task(node: &str, start: u64, end: u64) -> TaskTrace {
        let [start, end] = [start, end].map(Duration::from_millis);
        TaskTrace { node: node.into(), timing: Some(Timing { start, end }), ..TaskTrace::default() }
    }

    fn step(step: i64, tasks: Vec<TaskTrace>) -> StepTrace {
        StepTrace { step, tasks, state: None }
    }

    fn trace(steps: Vec<StepTrace>) -> Trace {
        Trace { header: Header::default(), root: GraphTrace { steps }, end: RunStatus::Done }
    }

    #[test]
    fn bars_show_when_tasks_ran() {
        let mut outer = task("review", 50, 100);
        outer.graphs = vec![GraphTrace { steps: vec![step(1, vec![task("check", 75, 100)])] }];
        let failed = TaskTrace { error: Some("no".into()), ..task("a", 0, 25) };
        let trace = trace(vec![step(1, vec![failed, task("b", 0, 50)]), step(2, vec![outer])]);
        let expected = "\
step 1      ────────           50.0 ms
  a         ████               25.0 ms failed
  b         ████████           50.0 ms
step 2              ────────   50.0 ms
  review            ████████   50.0 ms
    step 1              ────   25.0 ms
      check             ████   25.0 ms

time per node         runs      total       mean    longest
b                        1    50.0 ms    50.0 ms    50.0 ms
review                   1    50.0 ms    50.0 ms    50.0 ms
a                        1    25.0 ms    25.0 ms    25.0 ms
review › check           1    25.0 ms    25.0 ms    25.0 ms
";
        assert_eq!(trace.timeline(46), expected);
    }

    #[test]
    fn any_width_and_any_name_can_be_rendered() {
        let long = task(&format!("{}\n\u{1b}[2J", "x".repeat(300)), 0, 7);
        let trace = trace(vec![step(1, vec![long, task("none", 7, 7)])]);
        for width in [0, 1, 20, 80, 1000] {
            let text = trace.timeline(width);
            assert!(!text.contains('\u{1b}'), "{text}");
            let most = text.lines().map(|it| it.chars().count()).max().unwrap();
            assert!(most <= width.max(75), "{most} columns for {width}:\n{text}");
        }
    }

    #[test]
    fn a_trace_without_timing_is_reported() {
        let untimed = TaskTrace { node: "a".into(), ..TaskTrace::default() };
        let text = trace(vec![step(1, vec![untimed])]).timeline(80);
        assert!(text.starts_with("no timing available"), "{text}");
    }
}

//! Describes the first difference between two snapshots by step and task.

use insta::{Comparator, DefaultComparator};

use crate::{path::TracePath, trace::Trace};

/// Compares snapshots like insta, and also prints the location of the first difference.
pub(super) struct ExplainingComparator;

impl Comparator for ExplainingComparator {
    fn matches(&self, reference: &insta::Snapshot, test: &insta::Snapshot) -> bool {
        let same = DefaultComparator.matches(reference, test);
        if let (false, Some(was), Some(now)) = (same, reference.as_text(), test.as_text()) {
            // insta prints its comparison to stderr, so this line appears directly above it.
            eprintln!("\n{}", explain(&was.to_string(), &now.to_string()));
        }
        same
    }

    fn matches_fully(&self, reference: &insta::Snapshot, test: &insta::Snapshot) -> bool {
        // A difference in metadata alone needs no explanation.
        self.matches(reference, test) && DefaultComparator.matches_fully(reference, test)
    }

    fn dyn_clone(&self) -> Box<dyn Comparator> {
        Box::new(Self)
    }
}

/// Describes the first difference between two snapshots.
fn explain(was: &str, now: &str) -> String {
    let read = |it: &str| serde_json::from_str::<Trace>(it).ok();
    match (read(was), read(now)) {
        (Some(was), Some(now)) => match Trace::diff(&was, &now) {
            Some(divergence) => divergence.to_string(),
            None => "the snapshots differ, but the traces in them do not".to_owned(),
        },
        _ => explain_text(was, now),
    }
}

fn explain_text(was: &str, now: &str) -> String {
    let (was, now): (Vec<_>, Vec<_>) = (was.lines().collect(), now.lines().collect());
    let at = was.iter().zip(&now).take_while(|(a, b)| a == b).count();
    // A removed line belongs to the task that contained it, and not to the lines that now follow.
    let deeper = was.get(at).map(|it| depth(it)) > now.get(at).map(|it| depth(it));
    let path = path_at_line(if deeper { &was } else { &now }, at);
    let path = if path == TracePath::default() { String::new() } else { format!("{path}: ") };
    let shown =
        |it: Option<&&str>| it.map_or("nothing".to_owned(), |it| format!("`{}`", it.trim()));
    format!("first difference: {path}now {}, was {}", shown(now.get(at)), shown(was.get(at)))
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A line of the text that starts a step, a task or a graph, and the line's indentation.
struct Heading {
    depth: usize,
    line: usize,
    kind: HeadingKind,
}

enum HeadingKind {
    Step(i64),
    Task(String),
    Graph(usize),
}

/// Returns the location of a line, which consists of the steps, tasks and graphs that enclose it.
fn path_at_line(lines: &[&str], at: usize) -> TracePath {
    let mut open: Vec<Heading> = Vec::new();
    for (line, text) in lines.iter().enumerate().take(at + 1) {
        let depth = depth(text);
        open.retain(|it| it.depth < depth);
        if let Some(kind) = heading(text.trim(), open.last()) {
            open.push(Heading { depth, line, kind });
        }
    }
    let (mut path, mut graph) = (TracePath::default(), 1);
    for Heading { depth, line, kind } in open {
        match kind {
            HeadingKind::Step(step) => path = path.enter(graph, step),
            HeadingKind::Graph(nth) => graph = nth,
            HeadingKind::Task(node) => {
                let (before, after) = (
                    siblings(lines[..line].iter().rev(), depth),
                    siblings(&lines[line + 1..], depth),
                );
                path = path.with_task(&node, before + 1, before + 1 + after);
                graph = 1;
            }
        }
    }
    path
}

fn heading(text: &str, parent: Option<&Heading>) -> Option<HeadingKind> {
    match parent.map(|it| &it.kind) {
        None | Some(HeadingKind::Graph(_)) => {
            Some(HeadingKind::Step(text.strip_prefix("step ")?.parse().ok()?))
        }
        Some(HeadingKind::Step(_)) if text.starts_with("state {") => None,
        Some(HeadingKind::Step(_)) => Some(HeadingKind::Task(text.to_owned())),
        Some(HeadingKind::Task(_)) if text == "graph" => Some(HeadingKind::Graph(1)),
        Some(HeadingKind::Task(_)) => {
            Some(HeadingKind::Graph(text.strip_prefix("graph ")?.parse().ok()?))
        }
    }
}

/// Returns the number of tasks at this depth, up to the end of the step.
fn siblings<'a>(lines: impl IntoIterator<Item = &'a &'a str>, depth: usize) -> usize {
    let inside = lines.into_iter().take_while(|it| self::depth(it) >= depth);
    inside.filter(|it| self::depth(it) == depth && !it.trim().starts_with("state {")).count()
}

#[cfg(test)]
mod tests {
    use super::explain;

    const WAS: &str = "input {}
step 1
  plan
    => write 1
    => write 2
step 2
  write
    drafts <- [\"a\"]
  write
    drafts <- [\"b\"]
  naming
    graph
      step 1
        name
          title <- \"x\"
  state {\"drafts\":[]}
done
";

    #[track_caller]
    fn check(from: &str, to: &str, expect: &str) {
        assert_eq!(explain(WAS, &WAS.replace(from, to)), expect);
    }

    #[test]
    fn a_difference_is_located_by_step_and_task() {
        check(
            "[\"b\"]",
            "[\"c\"]",
            "first difference: step 2, task `write` (2nd of 3): now `drafts <- [\"c\"]`, was `drafts <- [\"b\"]`",
        );
    }

    #[test]
    fn a_removed_line_is_located_in_its_task() {
        check(
            "    => write 2\n",
            "",
            "first difference: step 1, task `plan`: now `step 2`, was `=> write 2`",
        );
    }

    #[test]
    fn a_difference_in_a_subgraph_is_located_there() {
        check(
            "\"x\"",
            "\"y\"",
            "first difference: step 2, task `naming` (3rd of 3), subgraph step 1, task `name`: \
             now `title <- \"y\"`, was `title <- \"x\"`",
        );
    }

    #[test]
    fn a_difference_outside_of_tasks_has_no_task() {
        check("input {}", "input 1", "first difference: now `input 1`, was `input {}`");
        check("done", "unfinished", "first difference: now `unfinished`, was `done`");
        check(
            "{\"drafts\":[]}",
            "{}",
            "first difference: step 2: now `state {}`, was `state {\"drafts\":[]}`",
        );
    }
}

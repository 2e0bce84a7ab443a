//! Where a snapshot differs first, in the graph's words: step, task, line.

use insta::{Comparator, DefaultComparator};

use crate::{place::Place, trace::Trace};

/// Compares as insta does, and says where the first difference lies.
pub(super) struct Explaining;

impl Comparator for Explaining {
    fn matches(&self, reference: &insta::Snapshot, test: &insta::Snapshot) -> bool {
        let same = DefaultComparator.matches(reference, test);
        if let (false, Some(was), Some(now)) = (same, reference.as_text(), test.as_text()) {
            // To where insta prints its comparison too, and right above it.
            eprintln!("\n{}", explain(&was.to_string(), &now.to_string()));
        }
        same
    }

    fn matches_fully(&self, reference: &insta::Snapshot, test: &insta::Snapshot) -> bool {
        // Metadata alone may differ, and there is nothing to explain about that.
        self.matches(reference, test) && DefaultComparator.matches_fully(reference, test)
    }

    fn dyn_clone(&self) -> Box<dyn Comparator> {
        Box::new(Self)
    }
}

/// Says where two snapshots differ first.
fn explain(was: &str, now: &str) -> String {
    let read = |it: &str| serde_json::from_str::<Trace>(it).ok();
    match (read(was), read(now)) {
        (Some(was), Some(now)) => match Trace::diff(&was, &now) {
            Some(divergence) => divergence.to_string(),
            None => "the snapshots differ, the traces in them do not".to_owned(),
        },
        _ => explain_text(was, now),
    }
}

fn explain_text(was: &str, now: &str) -> String {
    let (was, now): (Vec<_>, Vec<_>) = (was.lines().collect(), now.lines().collect());
    let at = was.iter().zip(&now).take_while(|(a, b)| a == b).count();
    // A line that is gone belongs to the task it was in, not to what comes after it now.
    let deeper = was.get(at).map(|it| depth(it)) > now.get(at).map(|it| depth(it));
    let place = place_of(if deeper { &was } else { &now }, at);
    let place = if place == Place::default() { String::new() } else { format!("{place}: ") };
    let shown =
        |it: Option<&&str>| it.map_or("nothing".to_owned(), |it| format!("`{}`", it.trim()));
    format!("first difference: {place}now {}, was {}", shown(now.get(at)), shown(was.get(at)))
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// What a line of a trace's text opens, and how deep it stands.
struct Heading {
    depth: usize,
    line: usize,
    kind: Kind,
}

enum Kind {
    Step(i64),
    Task(String),
    Graph(usize),
}

/// The place of a line: the steps, tasks and graphs around it.
fn place_of(lines: &[&str], at: usize) -> Place {
    let mut open: Vec<Heading> = Vec::new();
    for (line, text) in lines.iter().enumerate().take(at + 1) {
        let depth = depth(text);
        open.retain(|it| it.depth < depth);
        if let Some(kind) = heading(text.trim(), open.last()) {
            open.push(Heading { depth, line, kind });
        }
    }
    let (mut place, mut graph) = (Place::default(), 1);
    for Heading { depth, line, kind } in open {
        match kind {
            Kind::Step(step) => place = place.enter(graph, step),
            Kind::Graph(nth) => graph = nth,
            Kind::Task(node) => {
                let (before, after) = (
                    siblings(lines[..line].iter().rev(), depth),
                    siblings(&lines[line + 1..], depth),
                );
                place = place.at_task(&node, before + 1, before + 1 + after);
                graph = 1;
            }
        }
    }
    place
}

fn heading(text: &str, around: Option<&Heading>) -> Option<Kind> {
    match around.map(|it| &it.kind) {
        None | Some(Kind::Graph(_)) => Some(Kind::Step(text.strip_prefix("step ")?.parse().ok()?)),
        Some(Kind::Step(_)) if text.starts_with("state {") => None,
        Some(Kind::Step(_)) => Some(Kind::Task(text.to_owned())),
        Some(Kind::Task(_)) if text == "graph" => Some(Kind::Graph(1)),
        Some(Kind::Task(_)) => Some(Kind::Graph(text.strip_prefix("graph ")?.parse().ok()?)),
    }
}

/// How many tasks stand at that depth before the step is left.
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
    fn names_step_and_task() {
        check(
            "[\"b\"]",
            "[\"c\"]",
            "first difference: step 2, task `write` (2nd of 3): now `drafts <- [\"c\"]`, was `drafts <- [\"b\"]`",
        );
    }

    #[test]
    fn a_line_that_is_gone_belongs_to_its_task() {
        check(
            "    => write 2\n",
            "",
            "first difference: step 1, task `plan`: now `step 2`, was `=> write 2`",
        );
    }

    #[test]
    fn goes_into_graphs() {
        check(
            "\"x\"",
            "\"y\"",
            "first difference: step 2, task `naming` (3rd of 3), inside it step 1, task `name`: \
             now `title <- \"y\"`, was `title <- \"x\"`",
        );
    }

    #[test]
    fn what_is_outside_the_steps_has_no_place() {
        check("input {}", "input 1", "first difference: now `input 1`, was `input {}`");
        check("done", "unfinished", "first difference: now `unfinished`, was `done`");
        check(
            "{\"drafts\":[]}",
            "{}",
            "first difference: step 2: now `state {}`, was `state {\"drafts\":[]}`",
        );
    }
}

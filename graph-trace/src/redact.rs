//! Redactions, which replace values with fixed texts if the values differ from run to run or are confidential.

use serde_json::{Map, Value};

use crate::trace::{GraphTrace, RunStatus, TaskTrace, Trace};

/// Rules that hide parts of a trace. A rule hides either the values at a path or the parts of texts that match a
/// pattern.
///
/// A **path** selects fields, for example `messages[*].id`, `drafts[0].text` or `**.token`. `[*]` matches every
/// item of a list, `*` matches every field, and `**` matches any number of levels. In states, inputs and writes,
/// paths start at the fields of the state. In payloads, results of calls, interrupts and stream output, they start
/// at the value itself.
///
/// A **pattern** is searched for in every text, error and call. `*` matches one or more characters other than
/// whitespace and quotes, as many as possible. All other characters match literally. For example, `req-*` matches
/// `req-8f31` and leaves the surrounding text unchanged.
///
/// ```
/// use graph_trace::Redactions;
///
/// let redactions = Redactions::new().path("messages[*].id", "[id]").text("req-*", "[request]");
/// let mut value = serde_json::json!({ "messages": [{ "id": 7, "text": "see req-8f31, please" }] });
/// redactions.apply(&mut value);
/// assert_eq!(
///     value,
///     serde_json::json!({ "messages": [{ "id": "[id]", "text": "see [request] please" }] }),
/// );
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Redactions {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
enum Rule {
    Path(Vec<Segment>, String),
    Text(Vec<Piece>, String),
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Key(String),
    AnyKey,
    Item(usize),
    AnyItem,
    AnyDepth,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<char>),
    Wildcard,
}

impl Redactions {
    /// Creates an empty set of rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the values at `path` with `replacement`.
    ///
    /// # Panics
    ///
    /// Panics if the path is invalid, for example if it has a bracket without a number or a missing name.
    #[track_caller]
    pub fn path(mut self, path: &str, replacement: impl Into<String>) -> Self {
        let Some(segments) = parse_path(path) else {
            panic!(
                "invalid path `{path}`; valid paths look like `messages[*].id`, `drafts[0].text` or `**.token`"
            );
        };
        self.rules.push(Rule::Path(segments, replacement.into()));
        self
    }

    /// Replaces each part of a text that matches the pattern with `replacement`.
    pub fn text(mut self, pattern: &str, replacement: impl Into<String>) -> Self {
        self.rules.push(Rule::Text(parse_pattern(pattern), replacement.into()));
        self
    }

    /// Redacts one value.
    pub fn apply(&self, value: &mut Value) {
        for rule in &self.rules {
            match rule {
                Rule::Path(path, replacement) => replace_at(value, path, replacement),
                Rule::Text(pattern, replacement) => replace_in(value, pattern, replacement),
            }
        }
    }

    fn apply_text(&self, text: &mut String) {
        for rule in &self.rules {
            if let Rule::Text(pattern, replacement) = rule {
                *text = replaced(text, pattern, replacement);
            }
        }
    }

    /// Redacts the value of a field. Paths start at the name of the field.
    fn apply_field(&self, field: &str, value: &mut Value) {
        let mut object = Map::from_iter([(field.to_owned(), value.take())]).into();
        self.apply(&mut object);
        *value = match object {
            Value::Object(mut object) => object.remove(field).unwrap_or_default(),
            redacted => redacted,
        };
    }

    /// Redacts the input of a run, which is an update or a command that contains an update.
    fn apply_input(&self, input: &mut Value) {
        for part in ["update", "resume"] {
            if let Some(part) = input.get_mut(part) {
                self.apply(part);
            }
        }
        self.apply(input);
    }

    fn apply_graph(&self, graph: &mut GraphTrace) {
        for step in &mut graph.steps {
            step.tasks.iter_mut().for_each(|it| self.apply_task(it));
            step.state.iter_mut().for_each(|it| self.apply(it));
        }
    }

    fn apply_task(&self, task: &mut TaskTrace) {
        self.apply(&mut task.input);
        for retry in &mut task.retries {
            self.apply_text(&mut retry.error);
            retry.custom.iter_mut().chain(&mut retry.messages).for_each(|it| self.apply(it));
        }
        for effect in &mut task.effects {
            self.apply_text(&mut effect.key);
            self.apply(&mut effect.result);
        }
        let values = task.custom.iter_mut().chain(&mut task.messages).chain(&mut task.interrupts);
        values.for_each(|it| self.apply(it));
        task.graphs.iter_mut().for_each(|it| self.apply_graph(it));
        task.error.iter_mut().for_each(|it| self.apply_text(it));
        task.writes.iter_mut().for_each(|it| self.apply_field(&it.field, &mut it.value));
        task.sends.iter_mut().for_each(|it| self.apply(&mut it.payload));
    }
}

impl Trace {
    /// Returns a copy of the trace to which the redactions have been applied.
    pub fn redacted(&self, redactions: &Redactions) -> Self {
        let mut trace = self.clone();
        redactions.apply_input(&mut trace.header.input);
        trace.header.later_inputs.iter_mut().for_each(|it| redactions.apply_input(it));
        redactions.apply_graph(&mut trace.root);
        if let RunStatus::Failed(error) = &mut trace.end {
            redactions.apply_text(error);
        }
        trace
    }
}

fn parse_path(path: &str) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    for part in path.split('.') {
        let (name, items) = part.split_at(part.find('[').unwrap_or(part.len()));
        match name {
            "**" => segments.push(Segment::AnyDepth),
            "*" => segments.push(Segment::AnyKey),
            // The value itself may be a list, as in the path `[*].id`.
            "" if segments.is_empty() && !items.is_empty() => {}
            "" => return None,
            name => segments.push(Segment::Key(name.to_owned())),
        }
        if items.is_empty() {
            continue;
        }
        for item in items.strip_prefix('[')?.strip_suffix(']')?.split("][") {
            segments.push(match item {
                "*" => Segment::AnyItem,
                number => Segment::Item(number.parse().ok()?),
            });
        }
    }
    Some(segments)
}

fn replace_at(value: &mut Value, path: &[Segment], replacement: &str) {
    let Some((first, rest)) = path.split_first() else {
        *value = Value::String(replacement.to_owned());
        return;
    };
    match (first, value) {
        (Segment::AnyDepth, value) => {
            replace_at(value, rest, replacement);
            children(value).for_each(|it| replace_at(it, path, replacement));
        }
        (Segment::Key(key), Value::Object(fields)) => {
            fields.get_mut(key).into_iter().for_each(|it| replace_at(it, rest, replacement));
        }
        (Segment::AnyKey, Value::Object(fields)) => {
            fields.values_mut().for_each(|it| replace_at(it, rest, replacement));
        }
        (Segment::Item(nth), Value::Array(items)) => {
            items.get_mut(*nth).into_iter().for_each(|it| replace_at(it, rest, replacement));
        }
        (Segment::AnyItem, Value::Array(items)) => {
            items.iter_mut().for_each(|it| replace_at(it, rest, replacement));
        }
        _ => {}
    }
}

fn children(value: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(fields) => Box::new(fields.values_mut()),
        _ => Box::new(std::iter::empty()),
    }
}

fn replace_in(value: &mut Value, pattern: &[Piece], replacement: &str) {
    match value {
        Value::String(text) => *text = replaced(text, pattern, replacement),
        value => children(value).for_each(|it| replace_in(it, pattern, replacement)),
    }
}

fn parse_pattern(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (nth, part) in pattern.split('*').enumerate() {
        if nth > 0 {
            pieces.push(Piece::Wildcard);
        }
        if !part.is_empty() {
            pieces.push(Piece::Literal(part.chars().collect()));
        }
    }
    pieces
}

fn replaced(text: &str, pattern: &[Piece], replacement: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while at < chars.len() {
        match match_length(&chars[at..], pattern) {
            Some(length) if length > 0 => {
                out.push_str(replacement);
                at += length;
            }
            _ => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

/// Returns the number of characters at the start of `chars` that match the pattern, or `None` if they do not match.
fn match_length(chars: &[char], pattern: &[Piece]) -> Option<usize> {
    match pattern.split_first() {
        None => Some(0),
        Some((Piece::Literal(literal), rest)) => {
            let after = chars.strip_prefix(literal.as_slice())?;
            match_length(after, rest).map(|it| it + literal.len())
        }
        Some((Piece::Wildcard, rest)) => {
            let stops = |it: &char| it.is_whitespace() || matches!(it, '"' | '\'');
            let max_length = chars.iter().position(stops).unwrap_or(chars.len());
            (1..=max_length)
                .rev()
                .find_map(|it| match_length(&chars[it..], rest).map(|more| it + more))
        }
    }
}

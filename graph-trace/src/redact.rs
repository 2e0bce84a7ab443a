//! Redactions: what is another value in every run, or nobody's business, is shown as a fixed word.

use serde_json::{Map, Value};

use crate::trace::{End, GraphTrace, TaskTrace, Trace};

/// What a trace does not show: fields by their path, and parts of texts by a pattern.
///
/// A **path** names fields as one would write them: `messages[*].id`, `drafts[0].text`, `**.token`. `[*]` is every
/// item of a list, `*` every field, `**` any number of steps down. Paths start at the state's fields in states, inputs
/// and writes, and at the value itself in payloads, results of calls, questions and what nodes say.
///
/// A **pattern** is looked for in every text, error and call: `*` stands for one or more characters that are neither
/// blank nor quotes, as many as there are; all else for itself. `req-*` finds `req-8f31` and leaves what is around it.
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
    Exactly(Vec<char>),
    Anything,
}

impl Redactions {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows `shown` in place of what is at `path`.
    ///
    /// # Panics
    ///
    /// If the path cannot be read: a bracket without a number, or a name that is missing.
    #[track_caller]
    pub fn path(mut self, path: &str, shown: impl Into<String>) -> Self {
        let Some(segments) = parse_path(path) else {
            panic!(
                "`{path}` is no path; write it like `messages[*].id`, `drafts[0].text` or `**.token`"
            );
        };
        self.rules.push(Rule::Path(segments, shown.into()));
        self
    }

    /// Shows `shown` in place of each text that fits the pattern.
    pub fn text(mut self, pattern: &str, shown: impl Into<String>) -> Self {
        self.rules.push(Rule::Text(parse_pattern(pattern), shown.into()));
        self
    }

    /// Redacts one value.
    pub fn apply(&self, value: &mut Value) {
        for rule in &self.rules {
            match rule {
                Rule::Path(path, shown) => replace_at(value, path, shown),
                Rule::Text(pattern, shown) => replace_in(value, pattern, shown),
            }
        }
    }

    fn apply_text(&self, text: &mut String) {
        for rule in &self.rules {
            if let Rule::Text(pattern, shown) = rule {
                *text = replaced(text, pattern, shown);
            }
        }
    }

    /// A value of a field: paths start at the field's name.
    fn apply_field(&self, field: &str, value: &mut Value) {
        let mut object = Map::from_iter([(field.to_owned(), value.take())]).into();
        self.apply(&mut object);
        *value = match object {
            Value::Object(mut object) => object.remove(field).unwrap_or_default(),
            redacted => redacted,
        };
    }

    /// What a run was given: an update, or a command around one.
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
        let said = task.custom.iter_mut().chain(&mut task.messages).chain(&mut task.questions);
        said.for_each(|it| self.apply(it));
        task.graphs.iter_mut().for_each(|it| self.apply_graph(it));
        task.error.iter_mut().for_each(|it| self.apply_text(it));
        task.writes.iter_mut().for_each(|it| self.apply_field(&it.field, &mut it.value));
        task.sends.iter_mut().for_each(|it| self.apply(&mut it.payload));
    }
}

impl Trace {
    /// The trace without what the redactions hide.
    pub fn redacted(&self, redactions: &Redactions) -> Self {
        let mut trace = self.clone();
        redactions.apply_input(&mut trace.header.input);
        trace.header.then.iter_mut().for_each(|it| redactions.apply_input(it));
        redactions.apply_graph(&mut trace.root);
        if let End::Failed(error) = &mut trace.end {
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
            // A list may be the value itself: `[*].id`.
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

fn replace_at(value: &mut Value, path: &[Segment], shown: &str) {
    let Some((first, rest)) = path.split_first() else {
        *value = Value::String(shown.to_owned());
        return;
    };
    match (first, value) {
        (Segment::AnyDepth, value) => {
            replace_at(value, rest, shown);
            children(value).for_each(|it| replace_at(it, path, shown));
        }
        (Segment::Key(key), Value::Object(fields)) => {
            fields.get_mut(key).into_iter().for_each(|it| replace_at(it, rest, shown));
        }
        (Segment::AnyKey, Value::Object(fields)) => {
            fields.values_mut().for_each(|it| replace_at(it, rest, shown));
        }
        (Segment::Item(nth), Value::Array(items)) => {
            items.get_mut(*nth).into_iter().for_each(|it| replace_at(it, rest, shown));
        }
        (Segment::AnyItem, Value::Array(items)) => {
            items.iter_mut().for_each(|it| replace_at(it, rest, shown));
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

fn replace_in(value: &mut Value, pattern: &[Piece], shown: &str) {
    match value {
        Value::String(text) => *text = replaced(text, pattern, shown),
        value => children(value).for_each(|it| replace_in(it, pattern, shown)),
    }
}

fn parse_pattern(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (nth, part) in pattern.split('*').enumerate() {
        if nth > 0 {
            pieces.push(Piece::Anything);
        }
        if !part.is_empty() {
            pieces.push(Piece::Exactly(part.chars().collect()));
        }
    }
    pieces
}

fn replaced(text: &str, pattern: &[Piece], shown: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while at < chars.len() {
        match fits(&chars[at..], pattern) {
            Some(length) if length > 0 => {
                out.push_str(shown);
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

/// How many characters at the start fit the pattern.
fn fits(chars: &[char], pattern: &[Piece]) -> Option<usize> {
    match pattern.split_first() {
        None => Some(0),
        Some((Piece::Exactly(exactly), rest)) => {
            let after = chars.strip_prefix(exactly.as_slice())?;
            fits(after, rest).map(|it| it + exactly.len())
        }
        Some((Piece::Anything, rest)) => {
            let stops = |it: &char| it.is_whitespace() || matches!(it, '"' | '\'');
            let most = chars.iter().position(stops).unwrap_or(chars.len());
            (1..=most).rev().find_map(|it| fits(&chars[it..], rest).map(|more| it + more))
        }
    }
}

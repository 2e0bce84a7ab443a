//! Templates: text with places for captures, phrases, choices and numbers.
//!
//! | written | becomes |
//! |---|---|
//! | `{ticker}` | the first capture of this name, or the next phrase of the list of this name |
//! | `{any fact}` | one of all captures of this name, another one each time |
//! | `{all fact}` | all captures or phrases of this name, with commas |
//! | `{good\|fair\|poor}` | one of these, which are templates too |
//! | `{3..9}`, `{0.50..0.95}` | a number between these, with as many decimals |
//! | `{{`, `}}` | a bracket |

use std::collections::BTreeMap;

use serde_json::Value;

use super::chance::{Chance, mix};

/// Choices in choices deeper than this are refused.
const MAX_DEPTH: usize = 8;

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Name(String),
    Any(String),
    All(String),
    Choice(Vec<Template>),
    Number { least: i64, most: i64, decimals: u32 },
}

/// JSON with templates for strings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Plain(Value),
    Template(Template),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// What templates are filled from.
pub(crate) struct Source<'a> {
    pub(crate) captures: &'a BTreeMap<String, Vec<String>>,
    pub(crate) lists: &'a BTreeMap<String, Vec<Template>>,
    pub(crate) chance: Chance,
    /// Decides the order in which a list's phrases come, the same all through a conversation.
    pub(crate) order: u64,
    /// How far the conversation has come.
    pub(crate) turn: usize,
    /// How often each name was used in this answer.
    used: BTreeMap<String, usize>,
}

impl Template {
    /// Reads a template; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_at(text, 0)
    }

    fn parse_at(text: &str, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("choices are nested too deep".to_owned());
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if rest.starts_with("{{") || rest.starts_with("}}") {
                literal.push(next);
                rest = &rest[2..];
            } else if next == '{' {
                let end = closing(rest).ok_or("a `{` is not closed; write `{{` for a bracket")?;
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::parse(&rest[1..end], depth)?);
                rest = &rest[end + 1..];
            } else if next == '}' {
                return Err("a `}` closes nothing; write `}}` for a bracket".to_owned());
            } else {
                literal.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// The names it uses, those in choices included.
    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.parts.iter().flat_map(|part| match part {
            Part::Name(name) | Part::Any(name) | Part::All(name) => vec![name.as_str()],
            Part::Choice(choices) => choices.iter().flat_map(Self::names).collect(),
            Part::Text(_) | Part::Number { .. } => Vec::new(),
        });
        names.collect()
    }

    /// Fills the places.
    pub(crate) fn fill(&self, source: &mut Source<'_>) -> String {
        self.parts.iter().map(|it| it.fill(source)).collect()
    }

    /// Fills the places; a template that is one number and nothing else becomes a number.
    fn fill_value(&self, source: &mut Source<'_>) -> Value {
        let text = self.fill(source);
        match self.parts.as_slice() {
            [Part::Number { .. }] => text.parse().map_or(Value::String(text), Value::Number),
            _ => Value::String(text),
        }
    }
}

impl Part {
    fn parse(inside: &str, depth: usize) -> Result<Self, String> {
        let choices = split_choices(inside);
        if choices.len() > 1 {
            let choices = choices.iter().map(|it| Template::parse_at(it, depth + 1));
            return Ok(Self::Choice(choices.collect::<Result<_, _>>()?));
        }
        if let Some((least, most)) = inside.split_once("..") {
            return range(least.trim(), most.trim())
                .ok_or_else(|| format!("`{{{inside}}}` is no range: write it as `{{1..10}}`"));
        }
        let (make, name): (fn(String) -> Self, &str) = match inside.split_once(' ') {
            Some(("any", name)) => (Self::Any, name),
            Some(("all", name)) => (Self::All, name),
            _ => (Self::Name, inside),
        };
        match name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') && !name.is_empty() {
            true => Ok(make(name.to_owned())),
            false => Err(format!("`{{{inside}}}` is no name; write `{{{{` for a bracket")),
        }
    }

    fn fill(&self, source: &mut Source<'_>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Name(name) => match source.captures.get(name).and_then(|it| it.first()) {
                Some(capture) => capture.clone(),
                None => source.phrase(name),
            },
            Self::Any(name) => source.any(name),
            Self::All(name) => source.all(name).join(", "),
            Self::Choice(choices) => {
                let choice = source.chance.below(choices.len());
                choices[choice].fill(source)
            }
            Self::Number { least, most, decimals } => {
                let number = source.chance.between(*least, *most);
                decimal(number, *decimals)
            }
        }
    }
}

impl<'a> Source<'a> {
    pub(crate) fn new(
        captures: &'a BTreeMap<String, Vec<String>>,
        lists: &'a BTreeMap<String, Vec<Template>>,
        chance: Chance,
        order: u64,
        turn: usize,
    ) -> Self {
        Self { captures, lists, chance, order, turn, used: BTreeMap::new() }
    }

    /// The next phrase of a list. The order is shuffled once a conversation, and each turn begins one further
    /// on, so phrases come back late though nothing is remembered.
    fn phrase(&mut self, name: &str) -> String {
        let Some(phrases) = self.lists.get(name).filter(|it| !it.is_empty()) else {
            return String::new();
        };
        let n = phrases.len();
        let used = self.use_of(name);
        let order = Chance::of(self.order, name).order(n);
        let place = self.turn.wrapping_add(used * (n / 2 + 1));
        phrases[order[place % n]].fill(self)
    }

    fn any(&mut self, name: &str) -> String {
        let Some(all) = self.captures.get(name).filter(|it| !it.is_empty()) else {
            return self.phrase(name);
        };
        let used = self.use_of(name);
        let order = Chance::of(mix(self.order, &self.turn.to_le_bytes()), name).order(all.len());
        all[order[used % all.len()]].clone()
    }

    fn all(&mut self, name: &str) -> Vec<String> {
        match (self.captures.get(name), self.lists.get(name)) {
            (Some(captures), _) => captures.clone(),
            (None, Some(phrases)) => phrases.iter().map(|it| it.fill(self)).collect(),
            (None, None) => Vec::new(),
        }
    }

    fn use_of(&mut self, name: &str) -> usize {
        let used = self.used.entry(name.to_owned()).or_insert(0);
        *used += 1;
        *used - 1
    }
}

impl Tree {
    /// Reads the strings of JSON as templates.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Template(Template::parse(text)?),
            Value::Array(items) => {
                Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, it)| Ok((key.clone(), Self::parse(it)?)));
                Self::Object(members.collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// The names its templates use.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Template(template) => template.names(),
            Self::Array(items) => items.iter().flat_map(Self::names).collect(),
            Self::Object(members) => members.iter().flat_map(|it| it.1.names()).collect(),
        }
    }

    /// Fills the templates.
    pub(crate) fn fill(&self, source: &mut Source<'_>) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Template(template) => template.fill_value(source),
            Self::Array(items) => items.iter().map(|it| it.fill(source)).collect(),
            Self::Object(members) => Value::Object(
                members.iter().map(|(key, it)| (key.clone(), it.fill(source))).collect(),
            ),
        }
    }
}

/// Where the bracket closes that a text begins with.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, it) in text.bytes().enumerate() {
        match it {
            b'{' => open += 1,
            b'}' if open == 1 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn split_choices(text: &str) -> Vec<&str> {
    let (mut open, mut start) = (0, 0);
    let mut choices = Vec::new();
    for (at, it) in text.bytes().enumerate() {
        match it {
            b'{' => open += 1,
            b'}' => open -= 1,
            b'|' if open == 0 => {
                choices.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    choices.push(&text[start..]);
    choices
}

fn range(least: &str, most: &str) -> Option<Part> {
    let decimals = |it: &str| it.split_once('.').map_or(0, |(_, after)| after.len() as u32);
    let decimals = decimals(least).max(decimals(most)).min(9);
    let units = |it: &str| {
        let number: f64 = it.parse().ok().filter(|it: &f64| it.abs() < 1e9)?;
        Some((number * f64::from(10u32.pow(decimals))).round() as i64)
    };
    let (least, most) = (units(least)?, units(most)?);
    (least <= most).then_some(Part::Number { least, most, decimals })
}

/// A number of units with a decimal point.
fn decimal(units: i64, decimals: u32) -> String {
    if decimals == 0 {
        return units.to_string();
    }
    let scale = 10i64.pow(decimals);
    let sign = if units < 0 { "-" } else { "" };
    let (whole, part) = ((units / scale).abs(), (units % scale).abs());
    format!("{sign}{whole}.{part:0width$}", width = decimals as usize)
}

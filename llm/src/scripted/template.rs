//! Templates: text with placeholders for captures, phrases, choices and numbers.
//!
//! | placeholder | replaced with |
//! |---|---|
//! | `{ticker}` | the first captured text with this name, or the next phrase of the list with this name |
//! | `{margin.now}` | the group `now` in the first match of the capture `margin`, which must be a regular expression |
//! | `{any fact}` | one of the captured texts with this name, a different one for each use |
//! | `{all fact}` | all captured texts or phrases with this name, separated by commas |
//! | `{good\|fair\|poor}` | one of these choices, which are templates themselves |
//! | `{3..9}`, `{0.50..0.95}` | a number in this range, with as many decimals as the bounds |
//! | `{2..4 of fact}` | the first 2 to 4 captured texts or phrases with this name, or all of them if there are fewer |
//! | `{if now < before: fell\|rose}` | the first choice if the number in the first capture is less than the number in the second, else the second choice; either side may be a literal number |
//! | `{by title: good\|poor}` | one of these choices, always the same for the same captured text |
//! | `{place debt}` | the position, starting at 1, of the phrase with this label in an earlier array of the answer |
//! | `{{`, `}}` | a literal brace |
//!
//! A template *can be filled* if every capture, phrase and label that it uses is available. Choices and phrases that
//! cannot be filled are skipped.

use serde_json::{Number, Value};

use super::{
    seeded_rng::{SeededRng, mix},
    source::TemplateSource,
};

/// Maximum nesting depth of choices.
const MAX_DEPTH: usize = 8;

/// A parsed template.
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
    Some { least: i64, most: i64, name: String },
    Choice(Vec<Template>),
    If { left: Operand, right: Operand, choices: Vec<Template> },
    By { name: String, salt: u64, choices: Vec<Template> },
    Place(String),
    Number { least: i64, most: i64, decimals: u32 },
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Number(f64),
    Name(String),
}

impl Template {
    /// Parses a template.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_at(text, 0)
    }

    fn parse_at(text: &str, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("choices are nested too deeply".to_owned());
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if rest.starts_with("{{") || rest.starts_with("}}") {
                literal.push(next);
                rest = &rest[2..];
            } else if next == '{' {
                let end =
                    closing(rest).ok_or("a `{` is not closed; write `{{` for a literal brace")?;
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::parse(&rest[1..end], depth)?);
                rest = &rest[end + 1..];
            } else if next == '}' {
                return Err("a `}` has no matching `{`; write `}}` for a literal brace".to_owned());
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

    /// Returns the names that the template uses, including those in choices.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.parts.iter().flat_map(Part::names).collect()
    }

    /// Returns the labels that the template's `{place …}` placeholders refer to.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let labels = self.parts.iter().flat_map(|part| match part {
            Part::Place(label) => vec![label.as_str()],
            other => other.choices().iter().flat_map(Self::labels).collect(),
        });
        labels.collect()
    }

    /// Returns whether every capture, phrase and label that the template uses is available.
    pub(crate) fn can_fill(&self, source: &TemplateSource<'_>) -> bool {
        self.parts.iter().all(|it| it.can_fill(source))
    }

    /// Returns the text with all placeholders filled.
    pub(crate) fn fill(&self, source: &mut TemplateSource<'_>) -> String {
        self.parts.iter().map(|it| it.fill(source)).collect()
    }

    /// Returns the filled template as JSON. A template that consists of a single placeholder becomes the value of
    /// that placeholder, such as a number or the JSON of a list entry. Any other template becomes a string.
    pub(crate) fn fill_value(&self, source: &mut TemplateSource<'_>) -> Value {
        match self.parts.as_slice() {
            [part] => part.fill_value(source),
            _ => Value::String(self.fill(source)),
        }
    }
}

impl Part {
    fn parse(inside: &str, depth: usize) -> Result<Self, String> {
        let read = |choices: &str| {
            let choices = split_choices(choices).into_iter();
            choices.map(|it| Template::parse_at(it, depth + 1)).collect::<Result<Vec<_>, _>>()
        };
        if let Some((left, right, choices)) = comparison(inside) {
            let choices = read(choices)?;
            return match choices.len() {
                2 => Ok(Self::If { left, right, choices }),
                n => Err(format!(
                    "`{{{inside}}}` has {n} choices, but needs two, as in `{{if a < b: yes|no}}`"
                )),
            };
        }
        if let Some((name, choices)) = inside.strip_prefix("by ").and_then(|it| it.split_once(':'))
            && is_name(name)
        {
            let (name, salt) = (name.to_owned(), mix(0, inside.as_bytes()));
            return Ok(Self::By { name, salt, choices: read(choices.trim_start())? });
        }
        if split_choices(inside).len() > 1 {
            return Ok(Self::Choice(read(inside)?));
        }
        if let Some((many, name)) = inside.split_once(" of ")
            && is_name(name)
        {
            let (least, most) = many.split_once("..").unwrap_or((many, many));
            return match range(least.trim(), most.trim()) {
                Some(Self::Number { least, most, decimals: 0 }) => {
                    Ok(Self::Some { least, most, name: name.to_owned() })
                }
                _ => Err(format!("`{{{inside}}}` has no count; write it as `{{2..4 of {name}}}`")),
            };
        }
        if let Some((least, most)) = inside.split_once("..") {
            return range(least.trim(), most.trim()).ok_or_else(|| {
                format!("`{{{inside}}}` is not a valid range; write it as `{{1..10}}`")
            });
        }
        let (make, name): (fn(String) -> Self, &str) = match inside.split_once(' ') {
            Some(("any", name)) => (Self::Any, name),
            Some(("all", name)) => (Self::All, name),
            Some(("place", name)) => (Self::Place, name),
            _ => (Self::Name, inside),
        };
        match is_name(name) {
            true => Ok(make(name.to_owned())),
            false => {
                Err(format!("`{{{inside}}}` is not a valid name; write `{{{{` for a literal brace"))
            }
        }
    }

    fn choices(&self) -> &[Template] {
        match self {
            Self::Choice(choices) | Self::If { choices, .. } | Self::By { choices, .. } => choices,
            _ => &[],
        }
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.choices().iter().flat_map(Template::names).collect();
        match self {
            Self::Name(name)
            | Self::Any(name)
            | Self::All(name)
            | Self::Some { name, .. }
            | Self::By { name, .. } => names.push(name),
            Self::If { left, right, .. } => {
                names.extend([left, right].into_iter().filter_map(Operand::name));
            }
            Self::Text(_) | Self::Choice(_) | Self::Place(_) | Self::Number { .. } => {}
        }
        names
    }

    fn can_fill(&self, source: &TemplateSource<'_>) -> bool {
        match self {
            // `Some` is empty if nothing is available, so it can always be filled.
            Self::Text(_) | Self::Number { .. } | Self::Some { .. } => true,
            Self::Name(name) | Self::Any(name) | Self::All(name) => source.has(name),
            Self::Place(label) => source.place(label).is_some(),
            Self::Choice(choices) => choices.iter().any(|it| it.can_fill(source)),
            Self::If { left, right, choices } => less(left, right, source)
                .is_some_and(|it| choices[usize::from(!it)].can_fill(source)),
            Self::By { name, choices, .. } => {
                source.capture(name).is_some() && choices.iter().any(|it| it.can_fill(source))
            }
        }
    }

    /// Returns the choice to use: the one that the comparison or the captured text determines, or a random one.
    fn chosen(&self, source: &mut TemplateSource<'_>) -> Option<&Template> {
        let fitting: Vec<&Template> =
            self.choices().iter().filter(|it| it.can_fill(source)).collect();
        let choice = match self {
            Self::If { left, right, choices } => {
                return choices.get(usize::from(!less(left, right, source)?));
            }
            Self::By { name, salt, .. } => {
                let capture = source.capture(name)?;
                let key = mix(source.seed(), capture.as_bytes());
                SeededRng::new(mix(key, &salt.to_le_bytes())).below(fitting.len())
            }
            _ => source.rng.below(fitting.len()),
        };
        fitting.get(choice).copied()
    }

    fn fill(&self, source: &mut TemplateSource<'_>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Name(name) => source.first(name),
            Self::Any(name) => source.any(name),
            Self::All(name) => source.all(name).join(", "),
            Self::Some { least, most, name } => {
                let some = source.some(name, *least, *most);
                some.into_iter().map(as_text).collect::<Vec<_>>().join(", ")
            }
            Self::Choice(_) | Self::If { .. } | Self::By { .. } => {
                self.chosen(source).map(|it| it.fill(source)).unwrap_or_default()
            }
            Self::Place(label) => source.place(label).map(|it| it.to_string()).unwrap_or_default(),
            Self::Number { least, most, decimals } => {
                let number = source.rng.between(*least, *most);
                decimal(number, *decimals)
            }
        }
    }

    fn fill_value(&self, source: &mut TemplateSource<'_>) -> Value {
        match self {
            Self::Name(name) | Self::Any(name) if source.capture(name).is_none() => {
                source.phrase(name)
            }
            Self::Some { least, most, name } => source.some(name, *least, *most).into(),
            Self::Choice(_) | Self::If { .. } | Self::By { .. } => {
                self.chosen(source).map_or(Value::Null, |it| it.fill_value(source))
            }
            Self::Place(_) | Self::Number { .. } => {
                let text = self.fill(source);
                text.parse::<Number>().map_or(Value::String(text), Value::Number)
            }
            Self::Text(_) | Self::Name(_) | Self::Any(_) | Self::All(_) => {
                Value::String(self.fill(source))
            }
        }
    }
}

/// Converts JSON to text. A string is returned without quotes.
pub(crate) fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl Operand {
    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().map(Self::Number);
        number.or_else(|| is_name(text).then(|| Self::Name(text.to_owned())))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Name(name) => Some(name),
        }
    }

    fn number(&self, source: &TemplateSource<'_>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(name) => first_number(&source.capture(name)?),
        }
    }
}

fn less(left: &Operand, right: &Operand, source: &TemplateSource<'_>) -> Option<bool> {
    Some(left.number(source)? < right.number(source)?)
}

/// Returns the first number in a text, ignoring units: `-$1,200m` gives -1200.
fn first_number(text: &str) -> Option<f64> {
    let start = text.find(|it: char| it.is_ascii_digit())?;
    let sign = if text[..start].trim_end_matches('$').ends_with('-') { "-" } else { "" };
    let end = text[start..].find(|it: char| !(it.is_ascii_digit() || ".,".contains(it)));
    let digits = &text[start..end.map_or(text.len(), |it| start + it)];
    format!("{sign}{}", digits.trim_end_matches(['.', ',']).replace(',', "")).parse().ok()
}

/// Parses `if a < b: choices` into the two operands and the text of the choices.
fn comparison(inside: &str) -> Option<(Operand, Operand, &str)> {
    let (sides, choices) = inside.strip_prefix("if ")?.split_once(':')?;
    let (left, right) = sides.split_once('<')?;
    Some((Operand::parse(left.trim())?, Operand::parse(right.trim())?, choices.trim_start()))
}

fn is_name(text: &str) -> bool {
    let plain =
        |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    text.split_once('.').map_or_else(|| plain(text), |(name, group)| plain(name) && plain(group))
}

/// Returns the position of the brace that closes the first opening brace.
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

/// Formats a fixed-point number: 125 units with 2 decimals are `1.25`.
fn decimal(units: i64, decimals: u32) -> String {
    if decimals == 0 {
        return units.to_string();
    }
    let scale = 10i64.pow(decimals);
    let sign = if units < 0 { "-" } else { "" };
    let (whole, part) = ((units / scale).abs(), (units % scale).abs());
    format!("{sign}{whole}.{part:0width$}", width = decimals as usize)
}

//! Reads labelled values from prose: `**Impact:** 8`, `1. Impact (1-10): 8`, `| Impact | 8/10 |`.
//!
//! Supports only schemas that are flat objects. If a label occurs several times, its last value is used. Quotations
//! are ignored, because a judge may quote other scores before giving its own. Values in sentences, as in
//! `impact is 8`, are used only for labels that occur in no other form.

use serde_json::{Map, Value};

use super::{coerce, fit::resolve};

/// Reads the values that follow the labels of a flat object's properties.
pub(crate) fn read(schema: &Value, text: &str) -> Result<Value, String> {
    let fields = fields(schema).ok_or("the schema is not a flat object")?;
    let label_matches = label_matches(&fields, text);
    let mut members = Map::new();
    for form in precedence(&fields, text, &label_matches) {
        for (key, value) in last_values(&fields, text, &label_matches, form) {
            members.entry(key).or_insert(value);
        }
    }
    match missing(&fields, &members).as_slice() {
        _ if members.is_empty() => Err("no label of the schema is followed by a value".to_owned()),
        [] => Ok(Value::Object(members)),
        missing => Err(format!("no value follows the labels of: {}", missing.join(", "))),
    }
}

/// Returns the forms in order of precedence. `Plain` precedes `Quoted`, or the other way round: the form in which all
/// required labels have values comes first. If both or neither have all values, the form that occurs last in the text
/// comes first. `InSentence` always comes last, because a number in a sentence may refer to something else.
fn precedence(fields: &[Field], text: &str, label_matches: &[LabelMatch]) -> [Form; 3] {
    let weight = |form: Form| {
        let is_whole = missing(fields, &last_values(fields, text, label_matches, form)).is_empty();
        (is_whole, label_matches.iter().rposition(|it| it.form == form))
    };
    if weight(Form::Quoted) > weight(Form::Plain) {
        [Form::Quoted, Form::Plain, Form::InSentence]
    } else {
        [Form::Plain, Form::Quoted, Form::InSentence]
    }
}

/// For each label, returns the last value that is written in the given form.
fn last_values(
    fields: &[Field],
    text: &str,
    label_matches: &[LabelMatch],
    form: Form,
) -> Map<String, Value> {
    let mut members = Map::new();
    for (n, label_match) in label_matches.iter().enumerate().rev().filter(|it| it.1.form == form) {
        let field = &fields[label_match.field];
        if members.contains_key(&field.key) {
            continue;
        }
        let end = label_matches.get(n + 1).map_or(text.len(), |it| it.label);
        if let Some(value) = field.kind.value(text, label_match.value, end.max(label_match.value)) {
            members.insert(field.key.clone(), value);
        }
    }
    members
}

fn missing<'f>(fields: &'f [Field], members: &Map<String, Value>) -> Vec<&'f str> {
    let is_missing = |it: &&Field| it.required && !members.contains_key(&it.key);
    fields.iter().filter(is_missing).map(|it| it.key.as_str()).collect()
}

struct Field {
    key: String,
    label: String,
    kind: Kind,
    required: bool,
}

enum Kind {
    Number,
    Bool,
    Choice(Vec<String>),
    Text,
}

/// A label found in the text: the index of its field, and the positions of the label and of its value.
struct LabelMatch {
    field: usize,
    label: usize,
    value: usize,
    form: Form,
}

/// How a label and its value are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `Impact: 8`.
    Plain,
    /// `"impact": 8`, from broken or quoted JSON.
    Quoted,
    /// `impact is 8`, `impact (8)`.
    InSentence,
}

/// Returns the properties of a flat object, or `None` if a required property is not flat. Skips optional properties
/// that are not flat.
fn fields(schema: &Value) -> Option<Vec<Field>> {
    let properties = schema.get("properties")?.as_object().filter(|it| it.len() <= 64)?;
    let required = schema.get("required").and_then(Value::as_array);
    let mut fields = Vec::new();
    for (key, property) in properties {
        let required = required.is_some_and(|it| it.iter().any(|it| it.as_str() == Some(key)));
        let label = coerce::normalize(key);
        match Kind::of(schema, property, 4).filter(|_| !label.is_empty()) {
            Some(kind) => fields.push(Field { key: key.clone(), label, kind, required }),
            None if required => return None,
            None => {}
        }
    }
    Some(fields)
}

impl Kind {
    fn of(root: &Value, schema: &Value, references: usize) -> Option<Self> {
        if let Some(reference) = schema.get("$ref") {
            let target = resolve(root, reference.as_str()?)?;
            return Self::of(root, target, references.checked_sub(1)?);
        }
        if let Some(choices) = choices(schema) {
            return Some(Self::Choice(choices));
        }
        if let Some(forms) = schema.get("anyOf").and_then(Value::as_array) {
            // schemars writes an optional value of a named type as `anyOf` of the type and null.
            let mut forms = forms.iter().filter(|it| it.get("type") != Some(&"null".into()));
            return match (forms.next(), forms.next()) {
                (Some(form), None) => Self::of(root, form, references.checked_sub(1)?),
                _ => None,
            };
        }
        let types = schema.get("type")?;
        let name = match types.as_array() {
            Some(types) => types.iter().filter_map(Value::as_str).find(|it| *it != "null"),
            None => types.as_str(),
        };
        match name? {
            "integer" | "number" => Some(Self::Number),
            "boolean" => Some(Self::Bool),
            "string" => Some(Self::Text),
            _ => None,
        }
    }

    fn value(&self, text: &str, start: usize, end: usize) -> Option<Value> {
        let rest = &text[start..];
        match self {
            Self::Number => number(rest),
            Self::Bool => {
                let word = rest.split(|it: char| !it.is_alphanumeric()).next()?;
                coerce::parse_bool(word).map(Value::Bool)
            }
            Self::Choice(choices) => {
                let fits = |it: &&String| label_length(rest, &coerce::normalize(it)).is_some();
                let choice = choices.iter().filter(fits).max_by_key(|it| it.len())?;
                Some(Value::String(choice.clone()))
            }
            Self::Text if text[..start].ends_with('"') => json_string(&text[start - 1..]),
            Self::Text => {
                let line = text[start..end].lines().next()?;
                let value_text =
                    line.trim_matches(|it: char| it.is_whitespace() || "*\"`,;/|{}".contains(it));
                (!value_text.is_empty()).then(|| Value::from(value_text))
            }
        }
    }
}

fn choices(schema: &Value) -> Option<Vec<String>> {
    let named = |it: &Value| it.as_str().map(str::to_owned);
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return choices.iter().filter(|it| !it.is_null()).map(named).collect();
    }
    let forms = schema.get("oneOf")?.as_array()?;
    forms.iter().map(|it| named(it.get("const")?)).collect()
}

/// Parses the number at the start of a text. Returns `None` if the number is the start of a range, of a longer
/// number, or of a quantity with a unit.
fn number(text: &str) -> Option<Value> {
    let (written, rest) = coerce::leading_number(text)?;
    let mut after = rest.chars();
    let (next, then) = (after.next(), after.next());
    let ends = match next {
        Some('%') => false,
        Some('-' | '–' | '—' | '.' | ',' | '/') => !then.is_some_and(|it| it.is_ascii_digit()),
        Some(it) => !it.is_alphanumeric(),
        None => true,
    };
    match written.out_of {
        _ if !ends => None,
        Some(_) => Some(Value::from(&text[..text.len() - rest.len()])),
        None => coerce::to_json(written.number),
    }
}

fn json_string(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    values.next()?.ok().filter(|it| !it.is_empty()).map(Value::String)
}

fn label_matches(fields: &[Field], text: &str) -> Vec<LabelMatch> {
    let mut label_matches = Vec::new();
    let mut quotations = QuotationFinder::default();
    let (mut at, mut before) = (0, '\n');
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        if before == '\n' && rest.trim_start_matches([' ', '\t']).starts_with('>') {
            at += rest.find('\n').unwrap_or(rest.len());
            before = ' ';
            continue;
        }
        let mut length = next.len_utf8();
        if let Some((inner, quotation)) = quotations.at(text, at) {
            // A quoted label is taken as a key of broken JSON. Other quotations are skipped, because they repeat
            // what someone else wrote.
            let folded = coerce::normalize(inner);
            if let Some(field) = fields.iter().position(|it| it.label == folded)
                && let Some(value) = value_start(&text[at + quotation..])
            {
                let value = at + quotation + value;
                label_matches.push(LabelMatch { field, label: at, value, form: Form::Quoted });
            }
            length = quotation;
        } else if next.is_alphanumeric() && !before.is_alphanumeric() {
            let labels = fields.iter().enumerate();
            let label = labels.filter_map(|(n, it)| Some((n, label_length(rest, &it.label)?)));
            if let Some((field, label)) = label.max_by_key(|it| it.1) {
                let plain = if matches!(before, '\'' | '‘') { Form::Quoted } else { Form::Plain };
                let separated = value_start(&rest[label..]).map(|it| (it, plain));
                let is_number = matches!(fields[field].kind, Kind::Number);
                let in_sentence = || number_in_sentence(&rest[label..]).filter(|_| is_number);
                let found = separated.or_else(|| Some((in_sentence()?, Form::InSentence)));
                if let Some((value, form)) = found {
                    label_matches.push(LabelMatch {
                        field,
                        label: at,
                        value: at + label + value,
                        form,
                    });
                    length = label;
                }
            }
        }
        before = text[at..at + length].chars().next_back().unwrap_or(next);
        at += length;
    }
    label_matches
}

/// Finds quotations that end on the line on which they start.
#[derive(Default)]
struct QuotationFinder {
    /// For each kind of quotation mark, the position up to which the search found no closing mark. A quotation that
    /// starts before this position is unclosed, so the same text is not searched twice.
    unclosed: [usize; 3],
}

impl QuotationFinder {
    const MARKS: [(char, char); 3] = [('"', '"'), ('“', '”'), ('«', '»')];

    /// Returns the contents and the total length of the quotation that starts at `at`, if there is one.
    fn at<'t>(&mut self, text: &'t str, at: usize) -> Option<(&'t str, usize)> {
        let rest = &text[at..];
        let kind = Self::MARKS.iter().position(|it| rest.starts_with(it.0))?;
        let (open, close) = Self::MARKS[kind];
        if at < self.unclosed[kind] {
            return None;
        }
        let inner = &rest[open.len_utf8()..];
        let end = inner.find([close, '\n']).unwrap_or(inner.len());
        if !inner[end..].starts_with(close) {
            self.unclosed[kind] = at + open.len_utf8() + end;
            return None;
        }
        Some((&inner[..end], open.len_utf8() + end + close.len_utf8()))
    }
}

/// Returns the number of bytes that a label occupies at the start of a text. `label` is normalised; case, spaces,
/// hyphens and underscores in the text are ignored. Returns `None` if the text does not start with the label.
fn label_length(text: &str, label: &str) -> Option<usize> {
    let mut label = label.chars().peekable();
    let mut gap = 0;
    for (at, it) in text.char_indices() {
        let Some(&wanted) = label.peek() else {
            return (!it.is_alphanumeric()).then_some(at);
        };
        if it.to_lowercase().eq([wanted]) {
            label.next();
            gap = 0;
        } else if matches!(it, ' ' | '-' | '_') && at > 0 && gap < 3 {
            gap += 1;
        } else {
            return None;
        }
    }
    label.peek().is_none().then_some(text.len())
}

/// Returns the position of the value in the text after a label. Optional emphasis, an optional remark such as `(1-10)`,
/// and a separator precede the value. Returns `None` if there is no separator.
fn value_start(text: &str) -> Option<usize> {
    let mut rest = text.trim_start_matches(is_markup);
    if let Some(more) = SCORE_WORDS.iter().find_map(|it| after_word(rest, it)) {
        rest = more.trim_start_matches(is_markup);
    }
    if let Some(remark) = rest.strip_prefix('(') {
        let end = remark.char_indices().take(60).find(|it| it.1 == ')')?.0;
        rest = remark[end + 1..].trim_start_matches(is_markup);
    }
    let separators = [":", "=", "|", "–", "—", "→", "->", "- "];
    let rest = separators.iter().find_map(|it| rest.strip_prefix(it))?;
    let rest = rest.trim_start_matches([' ', '\t', '*', '_', '`', '\n', '\r']);
    let rest = rest.strip_prefix('"').unwrap_or(rest);
    Some(text.len() - rest.len())
}

/// Returns the position of the number after a label in a sentence. Up to three words and an opening parenthesis may
/// precede the number.
fn number_in_sentence(text: &str) -> Option<usize> {
    let mut rest = text.trim_start_matches(is_markup);
    for _ in 0..3 {
        let word = SCORE_WORDS.iter().chain(&["is", "of", "gets"]);
        let Some(more) = word.into_iter().find_map(|it| after_word(rest, it)) else { break };
        rest = more.trim_start_matches(is_markup);
    }
    let rest = rest.strip_prefix('(').unwrap_or(rest);
    rest.starts_with(|it: char| it.is_ascii_digit()).then_some(text.len() - rest.len())
}

/// Words that may follow a label, as in `Impact score: 8`.
const SCORE_WORDS: [&str; 2] = ["score", "rating"];

fn is_markup(it: char) -> bool {
    matches!(it, ' ' | '\t' | '*' | '_' | '`' | '"' | '”' | '\'' | '’')
}

/// Returns the text after a word if the text starts with that word, ignoring case.
fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let ends = !rest.starts_with(char::is_alphanumeric);
    (start.eq_ignore_ascii_case(word) && ends).then_some(rest)
}

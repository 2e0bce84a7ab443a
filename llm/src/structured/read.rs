//! Parses a value from the text of a reply, with the methods that need no second call.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    coerce,
    extract::{self, Candidate, Json},
    fit::{self, Adjustment, Note},
    labels,
    parse_method::ParseMethod,
};
use crate::Schema;

/// A value parsed from a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<T> {
    /// The value.
    pub value: T,
    /// Method that produced the value.
    pub method: ParseMethod,
    /// Changes that made the value fit the schema, such as rounded and clamped numbers, strings that were converted
    /// to numbers, and respelled keys.
    pub notes: Vec<String>,
    /// The numbers that were rounded or clamped. A number that was both rounded and clamped appears once.
    pub adjustments: Vec<Adjustment>,
}

/// The error returned when no value can be parsed from a reply.
#[derive(Clone, PartialEq, Eq)]
pub struct UnreadableError {
    /// The methods that were tried, and why each of them failed.
    pub attempts: Vec<(ParseMethod, String)>,
}

/// Parses a value from a reply that is JSON, contains JSON in prose, or contains labelled values in prose.
///
/// The running time is proportional to the length of the text.
///
/// ```
/// use llm::{ParseMethod, read_json};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Score {
///     #[schemars(range(min = 1, max = 10))]
///     impact: u8,
///     reasoning: String,
/// }
///
/// let reply = "Here you go:\n```json\n{\"impact\": \"12\", \"reasoning\": \"It pays.\"}\n```";
/// let read = read_json::<Score>(reply)?;
/// assert_eq!((read.value.impact, read.method), (10, ParseMethod::JsonExtracted));
/// assert_eq!(read.notes, ["impact: \"12\" read as 12", "impact: 12 clamped to 10"]);
/// # Ok::<(), llm::UnreadableError>(())
/// ```
pub fn read_json<T: JsonSchema + DeserializeOwned>(
    text: &str,
) -> Result<Parsed<T>, UnreadableError> {
    read(&Schema::of::<T>().schema, text, false)
}

/// Like [`read_json`], for a schema that is built at run time rather than derived from a Rust type.
///
/// ```
/// use llm::{ParseMethod, Schema, read_json_as};
/// use serde_json::json;
///
/// let score = json!({ "type": "integer", "minimum": 1, "maximum": 10 });
/// let schema = json!({ "type": "object", "properties": { "impact": score }, "required": ["impact"] });
/// let schema = Schema { name: "Scores".to_owned(), schema };
/// let read = read_json_as(&schema, "**Impact:** 7.5, all in all.")?;
/// assert_eq!((read.value, read.method), (json!({ "impact": 8 }), ParseMethod::Labels));
/// assert_eq!((&read.adjustments[0].original, &read.adjustments[0].adjusted), (&json!(7.5), &json!(8)));
/// # Ok::<(), llm::UnreadableError>(())
/// ```
pub fn read_json_as(schema: &Schema, text: &str) -> Result<Parsed<Value>, UnreadableError> {
    read(&schema.schema, text, false)
}

/// Like [`read_json`], but with an explicit schema. If `is_cut` is true, the reply was truncated at the token limit.
pub(crate) fn read<T: DeserializeOwned>(
    schema: &Value,
    text: &str,
    is_cut: bool,
) -> Result<Parsed<T>, UnreadableError> {
    let mut attempts = Vec::new();
    match parse_whole(schema, text, is_cut) {
        Ok((value, notes)) => {
            let method = if notes.is_empty() { ParseMethod::Schema } else { ParseMethod::Json };
            return Ok(Parsed::new(value, method, notes));
        }
        Err(problem) => attempts.push((ParseMethod::Json, problem)),
    }
    let from_prose = |method, value, mut notes: Vec<Note>| {
        if is_cut {
            let text = "the reply was truncated after this value".to_owned();
            notes.push(Note { text, adjusted: None });
        }
        Parsed::new(value, method, notes)
    };
    let names = names(schema).unwrap_or_default();
    let found = extract::values(text, |it| names.contains(&coerce::normalize(it)));
    match parse_extracted(schema, &found) {
        Ok((value, notes)) => return Ok(from_prose(ParseMethod::JsonExtracted, value, notes)),
        Err(problem) => attempts.push((ParseMethod::JsonExtracted, problem)),
    }
    let prose = without_other_objects(schema, text, &found);
    let prose = if is_cut { without_last_word(&prose) } else { &prose };
    match labels::read(schema, prose).and_then(|value| fit_and_deserialize(schema, &value)) {
        Ok((value, notes)) => Ok(from_prose(ParseMethod::Labels, value, notes)),
        Err(problem) => {
            attempts.push((ParseMethod::Labels, problem));
            Err(UnreadableError { attempts })
        }
    }
}

fn parse_whole<T: DeserializeOwned>(
    schema: &Value,
    text: &str,
    is_cut: bool,
) -> Result<(T, Vec<Note>), String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("the reply is empty".to_owned());
    }
    let value: Value = serde_json::from_str(text).map_err(|it| format!("not JSON: {it}"))?;
    if is_cut && value.is_number() {
        return Err("the reply is a number and may be truncated".to_owned());
    }
    fit_or_unwrap(schema, &value)
}

fn parse_extracted<T: DeserializeOwned>(
    schema: &Value,
    found: &[Candidate],
) -> Result<(T, Vec<Note>), String> {
    if schema.get("properties").is_none() {
        return last_value(schema, found);
    }
    match last_object(schema, found).map(|it| &found[it].json) {
        Some(Json::Whole(value)) => fit_or_unwrap(schema, value),
        Some(Json::Broken(_)) => {
            Err("the last JSON object with a property of the schema is incomplete".to_owned())
        }
        None => Err("no JSON object in the reply has a property of the schema".to_owned()),
    }
}

/// Returns the index of the last object that matches the schema, complete or broken. Earlier objects are never used,
/// not even if the last one cannot be parsed, because a reply that quotes another answer quotes it before its own
/// answer.
fn last_object(schema: &Value, found: &[Candidate]) -> Option<usize> {
    found.iter().rposition(|it| !it.quoted && matches_schema(schema, &it.json))
}

/// Returns the last value that fits the schema, preferably one that fits without changes. Used for schemas without
/// property names. A value that does not fit is skipped, because brackets such as `[1]` also occur in prose.
fn last_value<T: DeserializeOwned>(
    schema: &Value,
    found: &[Candidate],
) -> Result<(T, Vec<Note>), String> {
    let own = found.iter().rev().filter(|it| !it.quoted);
    let values: Vec<&Value> = own.filter_map(|it| it.json.value()).collect();
    let exact = values.iter().find(|it| fit::check(schema, it).is_ok());
    if let Some(read) = exact.and_then(|it| fit_and_deserialize(schema, it).ok()) {
        return Ok(read);
    }
    let mut problem = None;
    for value in values {
        match fit_or_unwrap(schema, value) {
            Ok(read) => return Ok(read),
            Err(it) => problem = problem.or(Some(it)),
        }
    }
    Err(problem.unwrap_or_else(|| "the reply contains no complete JSON object or array".to_owned()))
}

/// Removes all objects that match the schema, except for the last one. Also removes all complete objects and arrays
/// inside broken objects. The keys of the removed objects must not be mistaken for labels of the answer.
fn without_other_objects(schema: &Value, text: &str, found: &[Candidate]) -> String {
    let last = last_object(schema, found);
    let others = found.iter().enumerate().flat_map(|(n, found)| match &found.json {
        Json::Broken(members) => members.as_slice(),
        Json::Whole(_) if Some(n) != last && matches_schema(schema, &found.json) => {
            std::slice::from_ref(&found.range)
        }
        Json::Whole(_) => &[],
    });
    let (mut prose, mut at) = (String::with_capacity(text.len()), 0);
    for range in others {
        prose.push_str(&text[at..range.start]);
        at = range.end;
    }
    prose.push_str(&text[at..]);
    prose
}

/// Removes the last word of a truncated reply, because the word may be incomplete: `1` may be the start of `10`.
fn without_last_word(text: &str) -> &str {
    let is_between = |it: char| it.is_whitespace() || ",;|{}".contains(it);
    text.rfind(is_between).map_or("", |end| &text[..end])
}

/// Returns whether JSON found in prose matches the schema. It does if the object, or an object directly inside it,
/// has one of the schema's property names. Broken objects always match.
fn matches_schema(schema: &Value, json: &Json) -> bool {
    let has_name = |it: &Map<String, Value>| has_name(schema, it);
    match json {
        Json::Whole(value) => value.as_object().is_some_and(|outer| {
            has_name(outer) || outer.values().filter_map(Value::as_object).any(has_name)
        }),
        Json::Broken(_) => true,
    }
}

fn has_name(schema: &Value, members: &Map<String, Value>) -> bool {
    names(schema)
        .is_none_or(|names| members.keys().any(|it| names.contains(&coerce::normalize(it))))
}

/// Returns the normalised property names of the schema, or `None` if the schema has no properties.
fn names(schema: &Value) -> Option<Vec<String>> {
    let properties = schema.get("properties")?.as_object()?;
    Some(properties.keys().map(|it| coerce::normalize(it)).collect())
}

fn fit_and_deserialize<T: DeserializeOwned>(
    schema: &Value,
    value: &Value,
) -> Result<(T, Vec<Note>), String> {
    let (value, notes) = fit::coerce(schema, value)?;
    let value = serde_json::from_value(value).map_err(|it| it.to_string())?;
    Ok((value, notes))
}

/// Fits a value to the schema. If that fails, tries each member that is an object or an array, because some models
/// wrap the answer, as in `{"scores": {…}, "reasoning": "…"}`.
fn fit_or_unwrap<T: DeserializeOwned>(
    schema: &Value,
    value: &Value,
) -> Result<(T, Vec<Note>), String> {
    let whole = fit_and_deserialize(schema, value);
    let Some(outer) = value.as_object().filter(|it| it.len() <= 16) else {
        return whole;
    };
    // If the schema requires no property, every object fits, even one that only wraps the answer. So the object must
    // also have one of the schema's property names.
    if whole.is_ok() && has_name(schema, outer) {
        return whole;
    }
    for (key, inner) in outer {
        let inner = match inner {
            Value::Object(inner) if has_name(schema, inner) => {
                Value::Object(merge_siblings(outer, key, inner))
            }
            Value::Array(_) => inner.clone(),
            _ => continue,
        };
        if let Ok((value, mut notes)) = fit_and_deserialize(schema, &inner) {
            notes.insert(0, Note { text: format!("`{key}` was unwrapped"), adjusted: None });
            return Ok((value, notes));
        }
    }
    whole
}

/// Replaces the member `key` of the outer object with the members of the inner object.
fn merge_siblings(
    outer: &Map<String, Value>,
    key: &str,
    inner: &Map<String, Value>,
) -> Map<String, Value> {
    let mut members = outer.clone();
    members.remove(key);
    members.extend(inner.clone());
    members
}

impl<T> Parsed<T> {
    fn new(value: T, method: ParseMethod, notes: Vec<Note>) -> Self {
        let mut adjustments: Vec<Adjustment> = Vec::new();
        for next in notes.iter().filter_map(|it| it.adjusted.clone()) {
            // A number that was first rounded and then clamped keeps its first original value.
            match adjustments.iter_mut().find(|it| it.path == next.path) {
                Some(earlier) => earlier.adjusted = next.adjusted,
                None => adjustments.push(next),
            }
        }
        Self { value, method, notes: notes.into_iter().map(|it| it.text).collect(), adjustments }
    }
}

impl fmt::Display for UnreadableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply contains no value that fits the schema")?;
        for (n, (method, problem)) in self.attempts.iter().enumerate() {
            write!(f, "{} {method}: {problem}", if n == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnreadableError {}

crate::error_chain::readable_debug!(UnreadableError);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Pair {
        impact: u8,
        risk: u8,
    }

    fn pair(text: &str, is_cut: bool) -> Option<(u8, u8)> {
        let read = read::<Pair>(&Schema::of::<Pair>().schema, text, is_cut);
        read.ok().map(|it| (it.value.impact, it.value.risk))
    }

    #[test]
    fn truncated_number_is_not_used() {
        assert_eq!(pair(r#"{"impact":3,"risk":1"#, false), Some((3, 1)));
        assert_eq!(pair(r#"{"impact":3,"risk":1"#, true), None);
        assert_eq!(pair("Impact: 3\nRisk: 1", true), None);
        assert_eq!(pair(r#"{"impact":3,"risk":10,"#, true), Some((3, 10)));
        assert_eq!(pair("Impact: 3\nRisk: 10\nSo", true), Some((3, 10)));
        let number = |is_cut| read::<u8>(&Schema::of::<u8>().schema, "1", is_cut).is_ok();
        assert!(number(false) && !number(true));
    }
}

//! Validates a value against a schema and, if that is allowed, changes the value to fit.
//!
//! Supports the keywords that schemars generates. A full JSON Schema validator would add twenty crates to the
//! dependencies, and changing a value requires walking the schema anyway. The keywords `pattern` and `format` are sent
//! to the model but are not checked here; a type that depends on them checks them when it is deserialised.

use serde_json::{Map, Value};

use super::{
    coerce,
    range::{parse_scaled_number, violated_bound},
};
use crate::excerpt::truncate;

/// Maximum nesting depth of schemas and values. Each level is a recursive call, so the limit protects the stack.
const MAX_DEPTH: usize = 160;

/// Maximum number of checks of a value, or of a value inside it, against a schema. The limit bounds the running time.
const MAX_EFFORT: usize = 1 << 21;

/// Checks that a value conforms to a schema.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    Fitter::new(schema, false).fit(schema, value).map(drop)
}

/// A number that was rounded or clamped to fit the schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Path of the number, such as `scores.impact`. Empty if the whole value is a number.
    pub path: String,
    /// The original value: a number, or a string that contains one.
    pub original: Value,
    /// The number that replaced the original value.
    pub adjusted: Value,
}

/// A change that made a value fit the schema.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// The number before and after the change, if the change rounded or clamped a number.
    pub(crate) adjusted: Option<Adjustment>,
}

/// Changes a value to fit a schema, if there is only one way to do so. Returns the new value and the changes.
pub(crate) fn coerce(schema: &Value, value: &Value) -> Result<(Value, Vec<Note>), String> {
    let mut fitter = Fitter::new(schema, true);
    let value = fitter.fit(schema, value)?;
    Ok((value, fitter.notes))
}

/// Resolves a reference to another part of the same schema. schemars generates no other references.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

struct Fitter<'a> {
    root: &'a Value,
    may_coerce: bool,
    notes: Vec<Note>,
    path: Vec<String>,
    depth: usize,
    effort: usize,
}

impl<'a> Fitter<'a> {
    fn new(root: &'a Value, may_coerce: bool) -> Self {
        let (notes, path) = (Vec::new(), Vec::new());
        Self { root, may_coerce, notes, path, depth: 0, effort: 0 }
    }

    fn fit(&mut self, schema: &'a Value, value: &Value) -> Result<Value, String> {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => {
                return Err(format!("{} is not allowed by the schema", self.location()));
            }
            _ => return Ok(value.clone()),
        };
        if self.depth == MAX_DEPTH || self.effort == MAX_EFFORT {
            return Err(format!("{} is nested too deeply or too large", self.location()));
        }
        self.effort += 1;
        self.depth += 1;
        let fitted = self.keywords(schema, value);
        self.depth -= 1;
        fitted
    }

    fn keywords(&mut self, schema: &'a Map<String, Value>, value: &Value) -> Result<Value, String> {
        let mut value = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let target = resolve(self.root, reference)
                    .ok_or_else(|| format!("the schema has no `{reference}`"))?;
                self.fit(target, value)?
            }
            None => value.clone(),
        };
        if let Some(choice) = schema.get("const") {
            value = self.choose(std::slice::from_ref(choice), value)?;
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            value = self.choose(choices, value)?;
        }
        if let Some(types) = schema.get("type") {
            value = self.typed(types, schema, value)?;
        }
        value = match value {
            Value::Number(_) => self.in_range(schema, value)?,
            Value::String(text) => self.string(schema, text)?,
            Value::Array(items) => self.array(schema, &items)?,
            Value::Object(members) => self.object(schema, &members)?,
            other => other,
        };
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            value = self.fit(part, &value)?;
        }
        // For `oneOf`, the first match is used, as in serde. The alternatives that schemars generates are mutually
        // exclusive.
        for forms in ["anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()) {
            value = self.any(forms, &value)?;
        }
        Ok(value)
    }

    fn any(&mut self, forms: &'a [Value], value: &Value) -> Result<Value, String> {
        let changing = self.may_coerce;
        let noted = self.notes.len();
        let mut problems = Vec::new();
        // The first pass allows no changes, so an alternative that fits without changes is preferred.
        for may_coerce in [false, true] {
            if may_coerce && !changing {
                break;
            }
            problems.clear();
            for form in forms {
                self.may_coerce = may_coerce;
                let fitted = self.fit(form, value);
                self.may_coerce = changing;
                match fitted {
                    Ok(value) => return Ok(value),
                    Err(problem) => problems.push(problem),
                }
                self.notes.truncate(noted);
            }
        }
        Err(match problems.as_slice() {
            [] => format!(
                "{} matches nothing, because its schema has no alternatives",
                self.location()
            ),
            [problem] => problem.clone(),
            [problem, ..] => {
                format!(
                    "{} matches none of the {} alternatives in its schema: {problem}",
                    self.location(),
                    problems.len()
                )
            }
        })
    }

    fn choose(&mut self, choices: &[Value], value: Value) -> Result<Value, String> {
        if choices.contains(&value) {
            return Ok(value);
        }
        if let (true, Some(text)) = (self.may_coerce, value.as_str()) {
            let folded = coerce::normalize(text);
            let mut alike = choices
                .iter()
                .filter(|it| it.as_str().is_some_and(|it| coerce::normalize(it) == folded));
            if let (Some(choice), None) = (alike.next(), alike.next()) {
                self.note(format!("{} read as {}", summary(&value), summary(choice)));
                return Ok(choice.clone());
            }
        }
        let choices: Vec<String> = choices.iter().take(12).map(summary).collect();
        Err(format!(
            "{} is {}, which is not one of {}",
            self.location(),
            summary(&value),
            choices.join(", ")
        ))
    }

    fn typed(
        &mut self,
        types: &Value,
        schema: &'a Map<String, Value>,
        value: Value,
    ) -> Result<Value, String> {
        let types: Vec<&str> = match types {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(value),
        };
        if types.iter().any(|it| is_type(it, &value)) {
            return Ok(value);
        }
        if self.may_coerce {
            for wanted in &types {
                if let Some(changed) = self.convert(wanted, schema, &value) {
                    return Ok(changed);
                }
            }
        }
        Err(format!(
            "{} is {}, not of type {}",
            self.location(),
            summary(&value),
            types.join(" or ")
        ))
    }

    fn convert(
        &mut self,
        wanted: &str,
        schema: &'a Map<String, Value>,
        value: &Value,
    ) -> Option<Value> {
        let changed = match (wanted, value) {
            ("integer", Value::Number(number)) => return self.round(number.as_f64()?, value),
            ("integer", Value::String(text)) => {
                return self.round(parse_scaled_number(schema, text)?, value);
            }
            ("number", Value::String(text)) => coerce::to_json(parse_scaled_number(schema, text)?)?,
            ("boolean", Value::String(text)) => Value::Bool(coerce::parse_bool(text)?),
            ("string", Value::Number(_) | Value::Bool(_)) => Value::String(value.to_string()),
            ("object" | "array", Value::String(text))
                if text.trim_start().starts_with(['{', '[']) =>
            {
                let inner = serde_json::from_str(text).ok().filter(|it| is_type(wanted, it))?;
                self.note("the JSON inside a string was parsed".to_owned());
                return Some(inner);
            }
            ("array", Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Object(_)) => {
                self.note("a single value was converted to a list with one item".to_owned());
                return Some(Value::Array(vec![value.clone()]));
            }
            _ => return None,
        };
        self.note(format!("{} read as {}", summary(value), summary(&changed)));
        Some(changed)
    }

    fn round(&mut self, number: f64, written: &Value) -> Option<Value> {
        let whole = coerce::to_integer(number)?;
        if number.fract() == 0.0 {
            self.note(format!("{} read as {whole}", summary(written)));
        } else {
            self.adjust(format!("{} rounded to {whole}", summary(written)), written, &whole);
        }
        Some(whole)
    }

    fn in_range(&mut self, schema: &Map<String, Value>, value: Value) -> Result<Value, String> {
        let Some(number) = value.as_f64() else {
            return Ok(value);
        };
        if let Some(step) = schema.get("multipleOf").and_then(Value::as_f64) {
            let steps = number / step;
            if (steps - steps.round()).abs() > 1e-9 {
                return Err(format!("{} is {value}, not a multiple of {step}", self.location()));
            }
        }
        let whole = value.is_i64() || value.is_u64();
        let Some(bound) = violated_bound(schema, number, whole) else {
            return Ok(value);
        };
        match bound.nearest {
            Some(nearest) if self.may_coerce => {
                self.adjust(format!("{value} clamped to {nearest}"), &value, &nearest);
                Ok(nearest)
            }
            _ => Err(format!("{} is {value}, {}", self.location(), bound.rule)),
        }
    }

    fn string(&self, schema: &Map<String, Value>, text: String) -> Result<Value, String> {
        self.check_count(schema, ["minLength", "maxLength"], text.chars().count(), "characters")?;
        Ok(Value::String(text))
    }

    fn array(&mut self, schema: &'a Map<String, Value>, items: &[Value]) -> Result<Value, String> {
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |it| it);
        let rest = schema.get("items").unwrap_or(&Value::Bool(true));
        let mut fitted = Vec::with_capacity(items.len());
        for (n, item) in items.iter().enumerate() {
            let item = self.fit_member(&n.to_string(), first.get(n).unwrap_or(rest), item)?;
            fitted.push(item);
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            fitted = self.unique(fitted)?;
        }
        self.check_count(schema, ["minItems", "maxItems"], fitted.len(), "items")?;
        Ok(Value::Array(fitted))
    }

    fn unique(&mut self, mut items: Vec<Value>) -> Result<Vec<Value>, String> {
        let before = items.len();
        let mut seen = std::collections::BTreeSet::new();
        items.retain(|it| seen.insert(it.to_string()));
        if items.len() < before {
            if !self.may_coerce {
                return Err(format!("{} contains an item twice", self.location()));
            }
            self.note("repeated items were dropped".to_owned());
        }
        Ok(items)
    }

    fn object(
        &mut self,
        schema: &'a Map<String, Value>,
        members: &Map<String, Value>,
    ) -> Result<Value, String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut fitted = Map::new();
        for (written, member) in members {
            let key = self.key(properties, members, written);
            let inner = match properties.and_then(|it| it.get(&key)) {
                Some(property) => property,
                None => match additional_members(schema) {
                    Value::Bool(false) if self.may_coerce => {
                        self.note(format!("`{key}` is not in the schema and was dropped"));
                        continue;
                    }
                    other => other,
                },
            };
            let noted = self.notes.len();
            match self.fit_member(&key, inner, member) {
                Ok(member) => drop(fitted.insert(key, member)),
                // Many models write null instead of omitting a property.
                Err(_) if self.may_coerce && member.is_null() && !is_required(schema, &key) => {
                    self.notes.truncate(noted);
                    self.note(format!("`{key}` is null and was omitted"));
                }
                Err(problem) => return Err(problem),
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.find(|it| !fitted.contains_key(*it)) {
            return Err(format!("{} has no `{missing}`", self.location()));
        }
        self.check_count(schema, ["minProperties", "maxProperties"], fitted.len(), "members")?;
        Ok(Value::Object(fitted))
    }

    /// Returns the schema's spelling of a key, such as `risk_adjusted_return` for `Risk-Adjusted Return`.
    fn key(
        &mut self,
        properties: Option<&'a Map<String, Value>>,
        members: &Map<String, Value>,
        written: &str,
    ) -> String {
        let Some(properties) = properties else { return written.to_owned() };
        if !self.may_coerce || properties.contains_key(written) {
            return written.to_owned();
        }
        let folded = coerce::normalize(written);
        let own = properties
            .keys()
            .find(|it| coerce::normalize(it) == folded && !members.contains_key(it.as_str()));
        match own {
            Some(own) => {
                self.note(format!("`{written}` read as `{own}`"));
                own.clone()
            }
            None => written.to_owned(),
        }
    }

    fn fit_member(
        &mut self,
        step: &str,
        schema: &'a Value,
        value: &Value,
    ) -> Result<Value, String> {
        self.path.push(step.to_owned());
        let fitted = self.fit(schema, value);
        self.path.pop();
        fitted
    }

    fn check_count(
        &self,
        schema: &Map<String, Value>,
        [least, most]: [&str; 2],
        count: usize,
        of: &str,
    ) -> Result<(), String> {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
        let count = count as u64;
        match (bound(least), bound(most)) {
            (Some(least), _) if count < least => {
                Err(format!("{} has {count} {of}, fewer than {least}", self.location()))
            }
            (_, Some(most)) if count > most => {
                Err(format!("{} has {count} {of}, more than {most}", self.location()))
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, change: String) {
        let text = match self.path.is_empty() {
            true => change,
            false => format!("{}: {change}", self.path.join(".")),
        };
        self.notes.push(Note { text, adjusted: None });
    }

    fn adjust(&mut self, change: String, original: &Value, adjusted: &Value) {
        self.note(change);
        if let Some(note) = self.notes.last_mut() {
            let path = self.path.join(".");
            note.adjusted =
                Some(Adjustment { path, original: original.clone(), adjusted: adjusted.clone() });
        }
    }

    fn location(&self) -> String {
        match self.path.is_empty() {
            true => "the value".to_owned(),
            false => format!("`{}`", self.path.join(".")),
        }
    }
}

/// Returns the schema for members that are not listed in `properties`. The patterns of `patternProperties` are
/// not checked here; deserialization rejects invalid keys.
fn additional_members(schema: &Map<String, Value>) -> &Value {
    let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
    match by_pattern.and_then(|it| it.values().next()) {
        Some(values) => values,
        None => schema.get("additionalProperties").unwrap_or(&Value::Bool(true)),
    }
}

fn is_required(schema: &Map<String, Value>, key: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|it| it.iter().any(|it| it.as_str() == Some(key)))
}

fn is_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // A float without a fraction, such as `8.0`, is not an integer, because serde does not deserialize an integer
        // from it.
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Returns a short description of a value.
fn summary(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => Value::from(truncate(text, 60)).to_string(),
        other => other.to_string(),
    }
}

//! Generates random values that conform to a schema.
//!
//! Supports the keywords that schemars generates except `pattern`. For a type with a pattern, the script needs a rule.

use serde_json::{Map, Value};

use super::{phrases, seeded_rng::SeededRng};
use crate::structured::fit::{check, resolve};

/// Values nested deeper than this have only their required properties, and arrays among them are as short as possible.
const SOFT_DEPTH: usize = 4;

/// Values nested deeper than this are null. Only a type that always contains itself reaches this depth.
const MAX_DEPTH: usize = 40;

/// Generates a random value that conforms to a schema.
pub(crate) fn fill(schema: &Value, rng: &mut SeededRng) -> Value {
    SchemaFiller { root: schema, rng, depth: 0 }.value(schema, "")
}

struct SchemaFiller<'a> {
    root: &'a Value,
    rng: &'a mut SeededRng,
    depth: usize,
}

impl<'a> SchemaFiller<'a> {
    fn value(&mut self, schema: &'a Value, name: &str) -> Value {
        let Some(keywords) = schema.as_object().filter(|_| self.depth < MAX_DEPTH) else {
            return Value::Null;
        };
        self.depth += 1;
        let value = self.keywords(keywords, name);
        self.depth -= 1;
        value
    }

    fn keywords(&mut self, schema: &'a Map<String, Value>, name: &str) -> Value {
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return choices.get(self.rng.below(choices.len())).cloned().unwrap_or_default();
        }
        let reference = schema.get("$ref").and_then(Value::as_str);
        if let Some(target) = reference.and_then(|it| resolve(self.root, it)) {
            return self.value(target, name);
        }
        let forms = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
        let form = forms.map(|forms| self.form(forms, name));
        let all = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let parts: Vec<Value> =
            form.into_iter().chain(all.map(|it| self.value(it, name))).collect();
        match self.kind(schema) {
            "object" => self.object(schema, parts),
            "array" => self.array(schema, name),
            "string" => Value::String(self.string(schema, name)),
            "integer" => self.integer(schema),
            "number" => self.number(schema),
            "boolean" => Value::Bool(self.rng.happens(0.5)),
            // A schema without a type takes the value of its first subschema.
            _ => parts.into_iter().next().unwrap_or_default(),
        }
    }

    fn kind(&mut self, schema: &'a Map<String, Value>) -> &'a str {
        let types = schema.get("type");
        let Some(types) = types.and_then(Value::as_array) else {
            let members = if schema.contains_key("properties") { "object" } else { "" };
            return types.and_then(Value::as_str).unwrap_or(members);
        };
        let mut names = types.iter().filter_map(Value::as_str).filter(|it| *it != "null");
        let optional = types.iter().any(|it| it == "null");
        match names.next() {
            Some(name) if !optional || (self.depth <= SOFT_DEPTH && self.rng.happens(0.8)) => name,
            _ => "null",
        }
    }

    /// Generates a value for one of several alternatives. At depths beyond [`SOFT_DEPTH`], prefers alternatives without
    /// references, so that the recursion ends.
    fn form(&mut self, forms: &'a [Value], name: &str) -> Value {
        let ends = |it: &&Value| !it.to_string().contains("$ref");
        let shallow: Vec<&Value> = match self.depth > SOFT_DEPTH {
            true => forms.iter().filter(ends).collect(),
            false => forms.iter().filter(|it| it.get("type") != Some(&"null".into())).collect(),
        };
        let forms = if shallow.is_empty() { forms.iter().collect() } else { shallow };
        match forms.get(self.rng.below(forms.len())) {
            Some(form) => self.value(form, name),
            None => Value::Null,
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, parts: Vec<Value>) -> Value {
        let mut members = Map::new();
        for part in parts {
            if let Value::Object(part) = part {
                members.extend(part);
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |key: &str| required.is_some_and(|it| it.iter().any(|it| it.as_str() == Some(key)));
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, property) in properties.into_iter().flatten() {
            if is_required(key) || self.depth <= SOFT_DEPTH {
                let value = self.value(property, key);
                if is_required(key) || !value.is_null() {
                    members.insert(key.clone(), value);
                }
            }
        }
        self.free_members(schema, &mut members);
        Value::Object(members)
    }

    /// Adds members that are not listed in `properties`, if the schema describes such members.
    fn free_members(&mut self, schema: &'a Map<String, Value>, members: &mut Map<String, Value>) {
        let numbered = schema.get("patternProperties").and_then(Value::as_object);
        let (values, keys): (&Value, fn(usize) -> String) = match (
            numbered.and_then(|it| it.values().next()),
            schema.get("additionalProperties"),
        ) {
            (Some(values), _) => (values, |n| (n + 1).to_string()),
            (None, Some(values @ Value::Object(_))) => (values, phrases::key),
            _ => return,
        };
        let least = bound(schema, "minProperties").unwrap_or(0);
        let wanted = least.max(if self.depth <= SOFT_DEPTH { 2 } else { 0 });
        for n in 0..wanted {
            let key = keys(n);
            let value = self.value(values, &key);
            members.insert(key, value);
        }
    }

    fn array(&mut self, schema: &'a Map<String, Value>, name: &str) -> Value {
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |it| it);
        let least = bound(schema, "minItems").unwrap_or(0);
        let most = bound(schema, "maxItems").unwrap_or(usize::MAX);
        let some = if self.depth <= SOFT_DEPTH { 1 + self.rng.below(3) } else { 0 };
        let wanted = some.max(least).max(first.len()).min(most);
        let unique = schema.get("uniqueItems") == Some(&Value::Bool(true));
        let mut items = Vec::new();
        // The number of attempts is limited, because there may be too few distinct values. For example, a set of three
        // distinct booleans cannot exist.
        for _ in 0..wanted.saturating_mul(8) {
            if items.len() == wanted {
                break;
            }
            let item = match first.get(items.len()).or_else(|| schema.get("items")) {
                Some(inner) => self.value(inner, name),
                None => Value::Null,
            };
            if !unique || !items.contains(&item) {
                items.push(item);
            }
        }
        Value::Array(items)
    }

    fn string(&mut self, schema: &Map<String, Value>, name: &str) -> String {
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let mut text = phrases::text(format, name, self.rng);
        let least = bound(schema, "minLength").unwrap_or(0);
        while text.chars().count() < least {
            text += " ";
            text += &phrases::sentence(self.rng);
        }
        match bound(schema, "maxLength").and_then(|it| text.char_indices().nth(it)) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        }
    }

    /// Generates an integer in the schema's range, or a small integer if the schema has no range.
    fn integer(&mut self, schema: &Map<String, Value>) -> Value {
        let least = schema.get("minimum").and_then(Value::as_i64);
        let above = schema.get("exclusiveMinimum").and_then(Value::as_i64);
        let least = least.or(above.map(|it| it.saturating_add(1)));
        let most = schema.get("maximum").and_then(Value::as_i64);
        let below = schema.get("exclusiveMaximum").and_then(Value::as_i64);
        let most = most.or(below.map(|it| it.saturating_sub(1)));
        let least = least.unwrap_or_else(|| most.map_or(0, |it| it.min(0)));
        // The integer is at most 100 above the minimum, because the range may be that of the whole integer type.
        let most = most.unwrap_or(i64::MAX).min(least.saturating_add(100));
        let step = schema.get("multipleOf").and_then(Value::as_i64).unwrap_or(1).max(1);
        let (first, last) = (least.div_euclid(step), most.div_euclid(step));
        let first = if first.saturating_mul(step) < least { first + 1 } else { first };
        Value::from(self.rng.between(first, last).saturating_mul(step))
    }

    fn number(&mut self, schema: &Map<String, Value>) -> Value {
        let limit = |names: [&str; 2]| names.iter().find_map(|it| schema.get(*it)?.as_f64());
        let least = limit(["minimum", "exclusiveMinimum"]);
        let most = limit(["maximum", "exclusiveMaximum"]);
        let least = least.unwrap_or_else(|| most.map_or(0.0, |it| it.min(0.0)));
        let most = most.unwrap_or(least + 100.0);
        let step = schema.get("multipleOf").and_then(Value::as_f64);
        let number = least + (most - least) * (0.05 + 0.9 * self.rng.unit());
        let number = step.map_or(number, |it| (number / it).round() * it);
        // Two decimals look more natural, so the number is rounded unless the rounded number violates the schema.
        let short = Value::from((number * 100.0).round() / 100.0);
        match check(&Value::Object(schema.clone()), &short) {
            Ok(()) => short,
            Err(_) => Value::from(number),
        }
    }
}

fn bound(schema: &Map<String, Value>, keyword: &str) -> Option<usize> {
    schema.get(keyword)?.as_u64().map(|it| it as usize)
}

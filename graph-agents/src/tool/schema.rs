//! Validation of values against a JSON Schema, with the conversions that pydantic makes.
//!
//! Models often write numbers as texts. Texts that are numbers pass as numbers, and whole floats pass as integers; a
//! number never passes as a text. Unknown object keys are dropped and defaults are filled in.

mod combined;
mod number;

use std::{collections::HashMap, fmt, mem, ptr};

use serde_json::{Map, Value};

use crate::notation;

/// A part of a value that does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the part, from the outside in.
    pub path: Vec<String>,
    /// Kind of the fault, such as `missing` or `int_parsing`.
    pub kind: &'static str,
    /// Description of the fault.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.join("."), self.message)
    }
}

/// Validates an object against a schema. Returns the converted object, or all faults.
pub fn check(
    schema: &Value,
    object: &Map<String, Value>,
) -> Result<Map<String, Value>, Vec<Fault>> {
    let mut checker = Checker {
        root: schema,
        path: Vec::new(),
        faults: Vec::new(),
        depth: 0,
        checked: HashMap::new(),
    };
    let converted = match checker.resolve(schema) {
        Some(schema) if is_combined(schema) => checker.combined_object(schema, object),
        Some(schema) => checker.object(schema, object),
        None => object.clone(),
    };
    if checker.faults.is_empty() { Ok(converted) } else { Err(checker.faults) }
}

/// Maximum nesting depth of combined schemas, and maximum length of a chain of references. A tool server may send a
/// schema that would overflow the stack or whose references form a cycle.
const MAX_DEPTH: usize = 128;

struct Checker<'a> {
    root: &'a Value,
    path: Vec<String>,
    faults: Vec<Fault>,
    /// Number of combined schemas that enclose the current part.
    depth: usize,
    /// Results of the checks inside combined schemas, by schema, value and depth. Several schemas may check the same
    /// part of the value against the same schema; without stored results, this would take exponential time.
    checked: HashMap<(*const Value, *const Value, usize), (Value, Vec<Fault>)>,
}

impl<'a> Checker<'a> {
    fn object(&mut self, schema: &'a Value, object: &Map<String, Value>) -> Map<String, Value> {
        let mut converted = Map::new();
        for name in ordered_names(schema) {
            let property = &schema["properties"][name];
            match object.get(name) {
                Some(value) => {
                    self.path.push(name.to_owned());
                    let value = self.value(property, value);
                    self.path.pop();
                    converted.insert(name.to_owned(), value);
                }
                None => match property.get("default") {
                    Some(default) => drop(converted.insert(name.to_owned(), default.clone())),
                    None if is_required(schema, name) => {
                        self.path.push(name.to_owned());
                        self.fault("missing", "Field required");
                        self.path.pop();
                    }
                    None => {}
                },
            }
        }
        let additional =
            schema.get("additionalProperties").is_some_and(|it| *it != Value::Bool(false));
        if additional || !schema["properties"].is_object() {
            for (name, value) in object {
                converted.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
        converted
    }

    fn value(&mut self, schema: &'a Value, value: &Value) -> Value {
        let Some(schema) = self.resolve(schema) else { return value.clone() };
        if self.depth == 0 {
            return self.untried(schema, value, &mut Vec::new());
        }
        let key = (ptr::from_ref(schema), ptr::from_ref(value), self.depth);
        let (converted, faults) = match self.checked.get(&key) {
            Some(result) => result.clone(),
            None => {
                let result = self.collect_faults(|it| it.untried(schema, value, &mut Vec::new()));
                self.checked.insert(key, result.clone());
                result
            }
        };
        self.faults.extend(faults);
        converted
    }

    /// Performs a check and returns its faults separately, without adding them to `self.faults`.
    fn collect_faults(&mut self, check: impl FnOnce(&mut Self) -> Value) -> (Value, Vec<Fault>) {
        let others = mem::take(&mut self.faults);
        let converted = check(self);
        (converted, mem::replace(&mut self.faults, others))
    }

    /// Checks a value against a schema. `tried` contains the combined schemas that were already tried for the value, so
    /// that the check of a schema whose alternatives refer to the schema itself terminates.
    fn untried(&mut self, schema: &'a Value, value: &Value, tried: &mut Vec<&'a Value>) -> Value {
        let Some(schema) = self.resolve(schema) else { return value.clone() };
        if !is_combined(schema) {
            return self.keywords(schema, value);
        }
        if self.depth == MAX_DEPTH || tried.iter().any(|it| ptr::eq(*it, schema)) {
            let message = "The schema nests `anyOf`, `oneOf` or `allOf` too deeply";
            self.fault("recursion_loop", message);
            return value.clone();
        }
        tried.push(schema);
        self.combined(schema, value, tried)
    }

    /// Checks a value against the keywords of a schema, except those that combine schemas.
    fn keywords(&mut self, schema: &'a Value, value: &Value) -> Value {
        if let Some(allowed) = allowed_values(schema) {
            if !allowed.contains(&value) {
                let message = format!("Input should be {}", one_of(&allowed));
                self.fault("literal_error", &message);
            }
            return value.clone();
        }
        let types = type_names(schema);
        if types.is_empty() {
            return match value {
                Value::Array(items) => self.array(schema, items),
                Value::Object(object) => Value::Object(self.object(schema, object)),
                other => other.clone(),
            };
        }
        if value.is_null() && types.contains(&"null") {
            return value.clone();
        }
        let mut names = types.into_iter().filter(|it| *it != "null");
        let Some(first) = names.next() else {
            self.fault("none_required", "Input should be None");
            return value.clone();
        };
        // If the value has one of the types, it is not converted to the first type.
        let exact = names.find(|it| has_type(value, it) && !has_type(value, first));
        self.typed(exact.unwrap_or(first), schema, value)
    }

    fn typed(&mut self, name: &str, schema: &'a Value, value: &Value) -> Value {
        let converted = match name {
            "string" if value.is_string() => Ok(value.clone()),
            "string" => Err(("string_type", "Input should be a valid string")),
            "integer" => number::to_integer(value),
            "number" => number::to_float(value),
            "boolean" => number::to_boolean(value),
            "array" => match value {
                Value::Array(items) => return self.array(schema, items),
                _ => Err(("list_type", "Input should be a valid list")),
            },
            "object" => match value {
                Value::Object(object) => return Value::Object(self.object(schema, object)),
                _ => Err(("dict_type", "Input should be a valid dictionary")),
            },
            _ => Ok(value.clone()),
        };
        converted.unwrap_or_else(|(kind, message)| {
            self.fault(kind, message);
            value.clone()
        })
    }

    fn array(&mut self, schema: &'a Value, items: &[Value]) -> Value {
        let Some(item_schema) = schema.get("items") else { return Value::from(items.to_vec()) };
        let mut converted = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(index.to_string());
            converted.push(self.value(item_schema, item));
            self.path.pop();
        }
        Value::Array(converted)
    }

    /// Follows the references of a schema. Reports a fault and returns `None` if the chain is too long, as in a cycle.
    fn resolve(&mut self, mut schema: &'a Value) -> Option<&'a Value> {
        for _ in 0..MAX_DEPTH {
            let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
            match target.and_then(|it| self.root.pointer(it)) {
                Some(target) => schema = target,
                None => return Some(schema),
            }
        }
        self.fault("recursion_loop", "The chain of references in the schema is too long");
        None
    }

    fn fault(&mut self, kind: &'static str, message: &str) {
        self.faults.push(Fault { path: self.path.clone(), kind, message: message.to_owned() });
    }
}

/// Returns the names of the required properties in the order of the schema, then those of the others.
fn ordered_names(schema: &Value) -> Vec<&str> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    let others = names.map(String::as_str).filter(|it| !required.contains(it));
    required.iter().copied().chain(others).collect()
}

/// Returns whether a schema combines other schemas.
fn is_combined(schema: &Value) -> bool {
    ["anyOf", "oneOf", "allOf"].iter().any(|it| schema[it].is_array())
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name))
}

fn allowed_values(schema: &Value) -> Option<Vec<&Value>> {
    match (&schema["enum"], schema.get("const")) {
        (Value::Array(values), _) => Some(values.iter().collect()),
        (_, Some(value)) => Some(vec![value]),
        _ => None,
    }
}

fn type_names(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a value has this type without a conversion.
fn has_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(it) => name == "number" || (name == "integer" && !it.is_f64()),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// Formats alternatives: `'a', 'b' or 'c'`.
fn one_of(values: &[&Value]) -> String {
    let texts: Vec<_> = values.iter().map(|it| notation::python(it)).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => texts.concat(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    fn faults(schema: &serde_json::Value, value: &serde_json::Value) -> Vec<String> {
        let error = check(schema, value.as_object().unwrap()).unwrap_err();
        error.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_are_converted_and_defaults_filled_in() {
        let schema = json!({"properties": {
            "a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": "boolean", "default": true}
        }, "required": ["a", "b"]});
        let value = json!({"a": "07", "b": 1, "unknown": 3});
        let converted = check(&schema, value.as_object().unwrap()).unwrap();
        assert_eq!(serde_json::Value::Object(converted), json!({"a": 7, "b": 1.0, "c": true}));
    }

    #[test]
    fn faults_name_their_path() {
        let schema = json!({"properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}}, "n": {"type": "integer"}
        }, "required": ["items", "n"], "$defs": {"item": {"enum": ["x", "y"]}}});
        assert_eq!(
            faults(&schema, &json!({"items": ["x", "z"]})),
            ["items.1: Input should be 'x' or 'y'", "n: Field required"]
        );
    }

    #[test]
    fn references_to_references_are_followed() {
        let schema = json!({"$ref": "#/$defs/args", "$defs": {
            "args": {"properties": {"a": {"$ref": "#/$defs/outer"}}},
            "outer": {"$ref": "#/$defs/inner"}, "inner": {"type": "integer"},
        }});
        let converted = check(&schema, json!({"a": "7"}).as_object().unwrap()).unwrap();
        assert_eq!(converted["a"], 7);
        assert_eq!(faults(&schema, &json!({"a": []})), ["a: Input should be a valid integer"]);
    }

    #[test]
    fn circular_references_are_faults() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {
            "b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/b"}
        }});
        assert_eq!(
            faults(&schema, &json!({"a": 1})),
            ["a: The chain of references in the schema is too long"]
        );
    }

    #[test]
    fn alternatives_with_common_parts_are_checked_in_polynomial_time() {
        let node = |kind: &str| {
            json!({"type": "object", "required": ["kind", "child"], "properties": {
                "kind": {"const": kind}, "child": {"$ref": "#/$defs/tree"}
            }})
        };
        let schema = json!({"properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {
            "tree": {"anyOf": [node("a"), node("b"), node("c"), {"type": "integer"}]}
        }});
        let tree = |leaf: serde_json::Value| {
            (0..50).fold(leaf, |child, _| json!({"kind": "c", "child": child}))
        };
        let value = json!({"tree": tree(json!("7"))});
        let converted = check(&schema, value.as_object().unwrap()).unwrap();
        assert_eq!(serde_json::Value::Object(converted), json!({"tree": tree(json!(7))}));
        assert!(!faults(&schema, &json!({"tree": tree(json!("x"))})).is_empty());
    }

    #[test]
    fn checks_of_self_referencing_schemas_terminate() {
        let itself = json!({"$ref": "#/$defs/loop"});
        let text = json!({"type": "string"});
        let schema = json!({"properties": {"a": itself}, "$defs": {
            "loop": {"anyOf": [itself, itself, text]}
        }});
        assert!(check(&schema, json!({"a": "x"}).as_object().unwrap()).is_ok());
        assert_eq!(
            faults(&schema, &json!({"a": 1})),
            ["a: The schema nests `anyOf`, `oneOf` or `allOf` too deeply"]
        );
    }

    #[test]
    fn checks_of_long_chains_of_alternatives_terminate() {
        let next = |index: usize| json!({"anyOf": [{"$ref": format!("#/$defs/{}", index + 1)}]});
        let chain: serde_json::Map<_, _> =
            (0..100_000).map(|index| (index.to_string(), next(index))).collect();
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": chain});
        assert_eq!(
            faults(&schema, &json!({"a": 1})),
            ["a: The schema nests `anyOf`, `oneOf` or `allOf` too deeply"]
        );
    }

    #[test]
    fn values_of_recursive_schemas_are_checked() {
        let schema = json!({"properties": {"list": {"$ref": "#/$defs/list"}}, "$defs": {
            "list": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {
                "head": {"type": "integer"}, "tail": {"$ref": "#/$defs/list"}
            }}]}
        }});
        let value = json!({"list": {"head": "1", "tail": {"head": 2, "tail": null}}});
        let converted = check(&schema, value.as_object().unwrap()).unwrap();
        assert_eq!(converted["list"]["head"], 1);
        let value = json!({"list": {"head": 1, "tail": {"head": "x", "tail": null}}});
        assert_eq!(faults(&schema, &value).len(), 1);
    }

    #[test]
    fn value_of_any_listed_type_is_not_converted() {
        let schema = json!({"properties": {
            "a": {"type": ["string", "number", "null"]}, "b": {"type": ["integer", "string"]},
        }});
        let value = json!({"a": 1.5, "b": "07"});
        let converted = check(&schema, value.as_object().unwrap()).unwrap();
        assert_eq!(serde_json::Value::Object(converted), value);
        let value = json!({"a": null, "b": 7});
        assert!(check(&schema, value.as_object().unwrap()).is_ok());
        assert_eq!(faults(&schema, &json!({"a": []})), ["a: Input should be a valid string"]);
    }

    #[test]
    fn optional_values_may_be_null() {
        let schema =
            json!({"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}});
        assert!(check(&schema, json!({"a": null}).as_object().unwrap()).is_ok());
        assert_eq!(faults(&schema, &json!({"a": []})), ["a: Input should be a valid integer"]);
    }
}

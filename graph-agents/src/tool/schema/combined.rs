//! Validation against schemas that combine others with `anyOf`, `oneOf` or `allOf`.

use serde_json::{Map, Value};

use super::Checker;

/// Keywords that are checked before `anyOf`, `oneOf` and `allOf`.
const KEYWORDS: [&str; 6] = ["type", "enum", "const", "properties", "required", "items"];

impl<'a> Checker<'a> {
    /// Checks the outermost object against a combined schema.
    pub(super) fn combined_object(
        &mut self,
        schema: &'a Value,
        object: &Map<String, Value>,
    ) -> Map<String, Value> {
        match self.value(schema, &Value::Object(object.clone())) {
            Value::Object(converted) => converted,
            // The object does not match the schema, which has already been reported as a fault.
            _ => object.clone(),
        }
    }

    /// Checks a value against the keywords of a schema and then against the schemas that it combines. Stops at the
    /// first mismatch, because a schema that refers to itself could otherwise report exponentially many faults.
    pub(super) fn combined(
        &mut self,
        schema: &'a Value,
        value: &Value,
        tried: &mut Vec<&'a Value>,
    ) -> Value {
        let faults = self.faults.len();
        let mut conversions = Vec::new();
        if KEYWORDS.iter().any(|it| schema.get(it).is_some()) {
            conversions.push(self.keywords(schema, value));
        }
        for name in ["anyOf", "oneOf"] {
            if self.faults.len() == faults
                && let Some(options) = schema[name].as_array()
            {
                conversions.push(self.any_of(options, value, tried));
            }
        }
        for member in schema["allOf"].as_array().into_iter().flatten() {
            if self.faults.len() == faults {
                self.depth += 1;
                conversions.push(self.value(member, value));
                self.depth -= 1;
            }
        }
        let merged = conversions.into_iter().reduce(|first, second| merge(value, first, second));
        merged.unwrap_or_else(|| value.clone())
    }

    /// Returns the value if it matches an option unchanged, otherwise the conversion by the first option that matches.
    /// If none does, reports the faults of the first option that is not `null`.
    fn any_of(&mut self, options: &'a [Value], value: &Value, tried: &mut Vec<&'a Value>) -> Value {
        let (mut first_match, mut first_faults) = (None, None);
        for option in options {
            self.depth += 1;
            let (converted, faults) =
                self.collect_faults(|it| it.untried(option, value, &mut *tried));
            self.depth -= 1;
            if faults.is_empty() {
                if converted == *value {
                    return converted;
                }
                first_match.get_or_insert(converted);
            } else if option["type"] != "null" {
                first_faults.get_or_insert(faults);
            }
        }
        first_match.unwrap_or_else(|| {
            self.faults.extend(first_faults.unwrap_or_default());
            value.clone()
        })
    }
}

/// Combines two conversions of a value: the parts that one of them changed, and the properties that one of them kept or
/// added.
fn merge(original: &Value, first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut merged), Value::Object(second)) => {
            for (name, value) in second {
                let value = match (original.get(&name), merged.get_mut(&name)) {
                    (Some(original), Some(first)) => merge(original, first.take(), value),
                    _ => value,
                };
                merged.insert(name, value);
            }
            Value::Object(merged)
        }
        (first, second) if second == *original => first,
        (_, second) => second,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::check;

    fn converted(schema: &Value, value: &Value) -> Value {
        Value::Object(check(schema, value.as_object().unwrap()).unwrap())
    }

    fn faults(schema: &Value, value: &Value) -> Vec<String> {
        let error = check(schema, value.as_object().unwrap()).unwrap_err();
        error.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_members_of_all_of_are_checked_and_converted() {
        let schema = json!({"allOf": [
            {"$ref": "#/$defs/base"},
            {"properties": {"b": {"type": "integer"}, "c": {"default": 3}}, "required": ["b"]},
        ], "$defs": {"base": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}});
        let value = json!({"a": "1", "b": "2", "unknown": 0});
        assert_eq!(converted(&schema, &value), json!({"a": 1, "b": 2, "c": 3}));
        assert_eq!(faults(&schema, &json!({"b": 2})), ["a: Field required"]);
        assert_eq!(faults(&schema, &json!({"a": 1})), ["b: Field required"]);
        let nested = json!({"properties": {"x": schema}, "$defs": schema["$defs"]});
        assert_eq!(converted(&nested, &json!({"x": value}))["x"], json!({"a": 1, "b": 2, "c": 3}));
        assert_eq!(faults(&nested, &json!({"x": {"b": 2}})), ["x.a: Field required"]);
    }

    #[test]
    fn alternative_that_matches_without_a_conversion_is_preferred() {
        let types = |names: [&str; 2]| json!({"anyOf": names.map(|it| json!({"type": it}))});
        let schema = json!({"properties": {
            "a": types(["integer", "string"]), "b": types(["number", "integer"]), "c": types(["integer", "boolean"]),
        }});
        let value = json!({"a": "007", "b": 1, "c": true});
        assert_eq!(converted(&schema, &value), value);
        assert_eq!(converted(&schema, &json!({"c": "yes"})), json!({"c": true}));
    }

    #[test]
    fn alternatives_of_the_outermost_object_are_checked() {
        let schema = json!({"type": "object", "anyOf": [
            {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        ]});
        assert_eq!(converted(&schema, &json!({"id": "7"})), json!({"id": 7}));
        assert_eq!(converted(&schema, &json!({"name": "x"})), json!({"name": "x"}));
        assert_eq!(faults(&schema, &json!({})), ["id: Field required"]);
    }

    #[test]
    fn properties_beside_alternatives_are_kept_and_checked() {
        let shape = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": "number"}},
                    "required": ["kind", "x"]},
            ],
        });
        let nested = json!({"properties": {"shape": shape}});
        let value = json!({"n": "1", "kind": "b", "x": "2"});
        let expected = json!({"n": 1, "kind": "b", "x": 2.0});
        assert_eq!(converted(&shape, &value), expected);
        assert_eq!(converted(&nested, &json!({"shape": value}))["shape"], expected);
        assert_eq!(faults(&shape, &json!({"kind": "a"})), ["n: Field required"]);
        assert_eq!(faults(&shape, &json!({"n": 1})), ["kind: Field required"]);
    }

    #[test]
    fn alternatives_can_require_different_properties() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        });
        assert_eq!(converted(&schema, &json!({"b": "2"})), json!({"b": 2}));
        assert_eq!(faults(&schema, &json!({})), ["a: Field required"]);
    }

    #[test]
    fn members_of_all_of_may_refer_to_the_same_base() {
        let extends = json!({"allOf": [{"$ref": "#/$defs/base"}]});
        let schema = json!({"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}], "$defs": {
            "base": {"allOf": [{"properties": {"a": {"type": "integer"}}}]}, "b": extends, "c": extends,
        }});
        assert_eq!(converted(&schema, &json!({"a": "1"})), json!({"a": 1}));
    }

    #[test]
    fn checks_of_self_referencing_all_of_terminate() {
        let itself = json!({"$ref": "#/$defs/loop"});
        let schema = json!({"properties": {"a": itself}, "$defs": {
            "loop": {"allOf": [itself, itself, {"type": "string"}]}
        }});
        let expected = ["a: The schema nests `anyOf`, `oneOf` or `allOf` too deeply"];
        assert_eq!(faults(&schema, &json!({"a": "x"})), expected);
    }

    #[test]
    fn all_of_with_common_parts_is_checked_in_polynomial_time() {
        let node = json!({"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}});
        let schema = json!({"properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {
            "tree": {"allOf": [node, node, node]}
        }});
        let value = (0..50).fold(json!({}), |child, _| json!({ "child": child }));
        let value = json!({"tree": value});
        assert_eq!(converted(&schema, &value), value);
    }
}

//! Adapts JSON Schemas to the subset that each provider supports.
//!
//! Constraints that a provider's subset cannot express are removed from the schema and added to the descriptions for
//! the model to read. The adapted schema may therefore allow values that the original does not allow, so the caller
//! validates responses against the original schema.

use serde_json::{Map, Value, json};

use super::call_error::CallError;
use crate::{ErrorKind, Request, Schema};

/// JSON Schema subset of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's strict mode. Every property is required, and additional properties are not allowed.
    OpenAi,
    /// OpenAI's strict mode on self-hosted servers such as llama.cpp's, whose grammars also limit the length of
    /// strings. Without such a limit, a small model may repeat itself until the answer is cut off.
    Server,
    /// Anthropic's subset. Additional properties are not allowed, and numeric bounds are not supported.
    Anthropic,
    /// Gemini's subset, which supports most keywords.
    Gemini,
}

/// Converts a schema to a dialect. Returns `None` if the dialect cannot express the schema.
pub(super) fn adapt(schema: &Value, dialect: Dialect) -> Option<Value> {
    let mut adapted = dialect.schema(schema)?;
    // The root schema must itself have the type `object`; a reference to such a schema is not allowed.
    if dialect != Dialect::Gemini && (adapted["type"] != "object" || adapted.get("$ref").is_some())
    {
        return None;
    }
    adapted.as_object_mut()?.remove("$schema");
    Some(adapted)
}

/// Returns a schema without `$schema` and otherwise unchanged, for providers that support all of JSON Schema.
pub(super) fn plain(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
    }
    schema
}

/// Fails if the request requires a strict schema and the provider cannot enforce the schema.
pub(super) fn check_strict(
    request: &Request,
    can_enforce: impl Fn(&Value) -> bool,
) -> Result<(), CallError> {
    match &request.schema {
        Some(schema) if request.strict_schema == Some(true) && !can_enforce(&schema.schema) => {
            let message = format!(
                "the provider cannot enforce the schema `{}`; simplify the schema or remove `strict_schema(true)`",
                schema.name
            );
            Err(CallError::new(ErrorKind::BadRequest, message))
        }
        _ => Ok(()),
    }
}

/// Encodes a schema for OpenAI's APIs. Uses strict mode if strict mode can express the schema, unless `strict` is
/// `Some(false)`.
pub(super) fn openai_schema(
    Schema { name, schema }: &Schema,
    strict: Option<bool>,
    dialect: Dialect,
) -> Value {
    match adapt(schema, dialect).filter(|_| strict != Some(false)) {
        Some(schema) => json!({ "name": name, "strict": true, "schema": schema }),
        None => json!({ "name": name, "strict": false, "schema": plain(schema) }),
    }
}

impl Dialect {
    fn schema(self, schema: &Value) -> Option<Value> {
        let Value::Object(given) = schema else {
            // A schema that is not an object is a boolean, which allows either everything or nothing. Only Gemini
            // supports it.
            return (self == Self::Gemini).then(|| schema.clone());
        };
        if let (Some(to), true) = (given.get("$ref"), self != Self::Gemini) {
            // A schema with `$ref` may have no other keyword except `$defs`.
            let definitions = given.get("$defs").map(|it| self.schemas(it));
            let mut reference = Map::from_iter([("$ref".to_owned(), to.clone())]);
            if let Some(definitions) = definitions {
                reference.insert("$defs".to_owned(), definitions?);
            }
            return Some(reference.into());
        }
        let mut adapted = Map::new();
        let mut described = Vec::new();
        for (keyword, value) in given {
            match self.keyword(keyword, value)? {
                KeywordMapping::Keep(keyword, value) => drop(adapted.insert(keyword, value)),
                KeywordMapping::Describe => described.push(format!("{keyword}: {value}")),
                KeywordMapping::Omit => {}
            }
        }
        if !described.is_empty() {
            let description = given.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = format!("{description} ({})", described.join(", "));
            adapted.insert("description".to_owned(), description.trim_start().into());
        }
        self.close_object(&mut adapted)?;
        Some(adapted.into())
    }

    fn keyword(self, keyword: &str, value: &Value) -> Option<KeywordMapping> {
        let same = |value| Some(KeywordMapping::Keep(keyword.to_owned(), value));
        match keyword {
            "properties" | "$defs" | "definitions" => same(self.schemas(value)?),
            "items" | "additionalProperties" if value.is_object() => same(self.schema(value)?),
            // `oneOf` is not supported. `anyOf` is less strict, but it is the closest supported keyword.
            "oneOf" if self != Self::Gemini => {
                Some(KeywordMapping::Keep("anyOf".to_owned(), self.each(value)?))
            }
            "anyOf" | "oneOf" | "prefixItems" => same(self.each(value)?),
            "const" if self == Self::Gemini => {
                Some(KeywordMapping::Keep("enum".to_owned(), json!([value])))
            }
            "allOf" | "not" | "if" | "then" | "else" | "patternProperties" | "dependentSchemas"
            | "dependentRequired" => None,
            "$schema" | "default" | "examples" | "$comment" => Some(KeywordMapping::Omit),
            "format" if !self.supports_format(value) => Some(KeywordMapping::Omit),
            _ if self.supports(keyword, value) => same(value.clone()),
            _ => Some(KeywordMapping::Describe),
        }
    }

    fn supports(self, keyword: &str, value: &Value) -> bool {
        match keyword {
            "minimum" | "maximum" | "maxItems" => self != Self::Anthropic,
            "minItems" => self != Self::Anthropic || value.as_u64().is_some_and(|it| it <= 1),
            "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => self.is_openai(),
            "minLength" | "maxLength" => self == Self::Server,
            "pattern" => self != Self::Gemini,
            "uniqueItems" | "minProperties" | "maxProperties" | "contains" | "minContains"
            | "maxContains" | "propertyNames" => false,
            _ => true,
        }
    }

    /// Returns whether a format is supported. Formats that schemars derives from Rust number types, such as `uint8`,
    /// are not supported.
    fn supports_format(self, format: &Value) -> bool {
        let formats: &[&str] = match self {
            Self::Gemini => &["date-time", "date", "time", "float", "double", "int32", "int64"],
            Self::OpenAi | Self::Server | Self::Anthropic => &[
                "date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6",
                "uuid",
            ],
        };
        format.as_str().is_some_and(|it| formats.contains(&it))
    }

    fn schemas(self, schemas: &Value) -> Option<Value> {
        let adapted = schemas.as_object()?.iter();
        let adapted: Option<Map<_, _>> =
            adapted.map(|(name, it)| Some((name.clone(), self.schema(it)?))).collect();
        adapted.map(Value::Object)
    }

    fn each(self, schemas: &Value) -> Option<Value> {
        schemas.as_array()?.iter().map(|it| self.schema(it)).collect()
    }

    fn is_openai(self) -> bool {
        matches!(self, Self::OpenAi | Self::Server)
    }

    /// Disallows additional properties. For OpenAI's strict mode, also makes all properties required.
    fn close_object(self, schema: &mut Map<String, Value>) -> Option<()> {
        let kind = schema.get("type");
        let is_object = kind.is_some_and(|it| {
            it == "object" || it.as_array().is_some_and(|it| it.contains(&"object".into()))
        });
        if self == Self::Gemini || !(is_object || schema.contains_key("properties")) {
            return Some(());
        }
        let is_map =
            schema.get("additionalProperties").is_some_and(|it| it.is_object() || *it == true);
        let fields: Vec<Value> =
            schema.get("properties")?.as_object()?.keys().map(|it| it.as_str().into()).collect();
        if is_map {
            return None;
        }
        schema.insert("additionalProperties".to_owned(), false.into());
        if self.is_openai() {
            schema.insert("required".to_owned(), fields.into());
        }
        Some(())
    }
}

/// How a keyword is converted: it is kept, described in words, or omitted.
enum KeywordMapping {
    Keep(String, Value),
    Describe,
    Omit,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn river() -> Value {
        json!({
            "$schema": "https://json-schema.org/builder/2020-12/schema",
            "type": "object",
            "description": "A river",
            "properties": {
                "km": { "type": "integer", "format": "uint32", "minimum": 1, "default": 3 },
                "name": { "type": "string", "maxLength": 40, "pattern": "^[A-Z]" },
                "mouth": { "oneOf": [{ "$ref": "#/$defs/Place", "description": "where" }, { "type": "null" }] },
                "towns": { "type": "array", "items": { "$ref": "#/$defs/Place" }, "minItems": 2 },
            },
            "required": ["km"],
            "$defs": { "Place": { "type": "object", "properties": { "at": { "const": "sea" } } } },
        })
    }

    #[test]
    fn openai_requires_all_properties() {
        let expect = json!({
            "type": "object",
            "description": "A river",
            "properties": {
                "km": { "type": "integer", "minimum": 1 },
                "name": { "type": "string", "description": "(maxLength: 40)", "pattern": "^[A-Z]" },
                "mouth": { "anyOf": [{ "$ref": "#/$defs/Place" }, { "type": "null" }] },
                "towns": { "type": "array", "items": { "$ref": "#/$defs/Place" }, "minItems": 2 },
            },
            "required": ["km", "mouth", "name", "towns"],
            "additionalProperties": false,
            "$defs": { "Place": {
                "type": "object",
                "properties": { "at": { "const": "sea" } },
                "required": ["at"],
                "additionalProperties": false,
            } },
        });
        assert_eq!(adapt(&river(), Dialect::OpenAi), Some(expect.clone()));
        // Self-hosted servers also limit the length of strings.
        let mut expect_of_server = expect;
        expect_of_server["properties"]["name"] =
            json!({ "type": "string", "maxLength": 40, "pattern": "^[A-Z]" });
        assert_eq!(adapt(&river(), Dialect::Server), Some(expect_of_server));
    }

    #[test]
    fn anthropic_bounds_become_descriptions() {
        let adapted = adapt(&river(), Dialect::Anthropic).unwrap();
        let km = json!({ "type": "integer", "description": "(minimum: 1)" });
        assert_eq!(adapted["properties"]["km"], km);
        assert_eq!(adapted["properties"]["towns"]["description"], "(minItems: 2)");
        assert_eq!(adapted["required"], json!(["km"]));
        assert_eq!(adapted["$defs"]["Place"]["additionalProperties"], false);
    }

    #[test]
    fn gemini_keeps_most_keywords() {
        let adapted = adapt(&river(), Dialect::Gemini).unwrap();
        assert_eq!(adapted["properties"]["km"], json!({ "type": "integer", "minimum": 1 }));
        assert_eq!(
            adapted["properties"]["name"]["description"],
            json!("(maxLength: 40, pattern: \"^[A-Z]\")")
        );
        assert_eq!(adapted["$defs"]["Place"]["properties"]["at"], json!({ "enum": ["sea"] }));
        assert_eq!(adapted.get("additionalProperties"), None);
        assert_eq!(adapted.get("$schema"), None);
    }

    #[test]
    fn unsupported_schemas_are_not_adapted() {
        let map = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
        let inside = json!({ "type": "object", "properties": { "map": map } });
        let list = json!({ "type": "array", "items": { "type": "string" } });
        let reference = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "type": "object", "properties": {} } } });
        let all_of =
            json!({ "type": "object", "properties": { "a": { "allOf": [{ "type": "string" }] } } });
        for schema in [&map, &inside, &list, &reference, &all_of, &json!(true)] {
            assert_eq!(adapt(schema, Dialect::OpenAi), None, "{schema}");
            assert_eq!(adapt(schema, Dialect::Anthropic), None, "{schema}");
        }
        assert_eq!(adapt(&inside, Dialect::Gemini), Some(inside));
    }
}

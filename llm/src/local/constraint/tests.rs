//! Tests of the constraint.

use serde_json::json;

use super::*;

fn constraint(schema: &Value) -> JsonConstraint {
    JsonConstraint::new(schema).expect("the schema can be enforced")
}

#[track_caller]
fn check(schema: &Value, good: &[&str], bad: &[&str]) {
    for text in good {
        let mut constraint = constraint(schema);
        for (at, byte) in text.bytes().enumerate() {
            assert!(!constraint.is_complete(), "{text} is complete at {at}");
            assert!(constraint.push(&[byte]), "{text} is rejected at {at}");
        }
        assert!(constraint.is_complete(), "{text} is incomplete");
        assert!(!constraint.accepts(b" "), "{text} continues");
    }
    for text in bad {
        assert!(!constraint(schema).accepts(text.as_bytes()), "{text}");
    }
}

/// Returns the schema of an object with one field, which has the given schema.
fn field(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"it": schema}})
}

#[test]
fn objects_have_all_fields_in_order() {
    let two = json!({
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b\"": {"type": "null"}},
    });
    check(
        &two,
        &[r#"{"a":true,"b\"":null}"#, r#"{"a": false, "b\"": null}"#],
        &[" {", "{ ", r#"{"b"#, r#"{"a":true}"#, r#"{"a":  t"#, r#"{"a":true,  "#, "{\n"],
    );
    check(&json!({"type": "object", "properties": {}}), &["{}"], &["{ ", "{\""]);
}

#[test]
fn numbers_respect_type_and_range() {
    let small = field(&json!({"type": "integer", "minimum": 1, "maximum": 10}));
    check(
        &small,
        &[r#"{"it":1}"#, r#"{"it":10}"#],
        &[r#"{"it":0"#, r#"{"it":11"#, r#"{"it":-"#, r#"{"it":1."#, r#"{"it":}"#],
    );
    let large = field(&json!({"type": "integer", "minimum": 0}));
    check(
        &large,
        &[r#"{"it":0}"#, r#"{"it":90210}"#],
        &[r#"{"it":-"#, r#"{"it":01"#, r#"{"it":1."#],
    );
    let any = field(&json!({"type": "number"}));
    check(
        &any,
        &[r#"{"it":-0.5}"#, r#"{"it":12}"#, r#"{"it":3.25}"#],
        &[r#"{"it":.5"#, r#"{"it":1.}"#, r#"{"it":-}"#, r#"{"it":1e"#, r#"{"it":1234567890123456"#],
    );
}

#[test]
fn strings_respect_length_and_encoding() {
    let short = field(&json!({"type": "string", "maxLength": 3}));
    check(
        &short,
        &[r#"{"it":""}"#, r#"{"it":"aß€"}"#, r#"{"it":"\"\n"}"#],
        &[r#"{"it":"abcd"#, r#"{"it":"\x"#, "{\"it\":\"\n", r#"{"it":x"#],
    );
    // Only the bytes of valid characters are accepted.
    for bytes in [&b"\xA0"[..], b"\xE2\x82\"", b"\xE2a", b"abc\xC3", b"\xE0\x80", b"\xFF"] {
        let mut constraint = constraint(&short);
        assert!(constraint.push(br#"{"it":""#));
        assert!(!constraint.accepts(bytes), "{bytes:?}");
    }
    let choice = field(&json!({"enum": ["yes", "yesterday"]}));
    check(
        &choice,
        &[r#"{"it":"yes"}"#, r#"{"it":"yesterday"}"#],
        &[r#"{"it":"yest""#, r#"{"it":"n"#],
    );
}

#[test]
fn arrays_respect_length() {
    let list = json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2});
    check(&list, &["[1]", "[1,2]", "[1, 20]"], &["[]", "[ ", "[1,]", "[1,2,", "[1,  "]);
    let free = json!({"type": "array", "items": {"type": "array", "items": {"type": "null"}}});
    check(&free, &["[]", "[[]]", "[[null],[]]"], &["[null", "[[],,"]);
}

#[test]
fn alternatives_are_selected_by_first_byte() {
    let maybe = field(&json!({"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}));
    let mut maybe = maybe;
    maybe["$defs"] = json!({"Point": field(&json!({"type": ["integer", "null"]}))});
    check(
        &maybe,
        &[r#"{"it":null}"#, r#"{"it":{"it":7}}"#, r#"{"it":{"it":null}}"#],
        &[r#"{"it":7"#, r#"{"it":""#],
    );
    let named = field(&json!({"oneOf": [{"const": "low"}, {"const": "high"}]}));
    check(&named, &[r#"{"it":"low"}"#, r#"{"it":"high"}"#], &[r#"{"it":"lot"#]);
}

#[test]
fn unenforceable_schemas_have_no_constraint() {
    let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let unclear = json!({"anyOf": [{"type": "string"}, {"const": "a"}]});
    let free_keys = json!({"type": "object", "additionalProperties": {"type": "string"}});
    for schema in
        [json!({}), json!(true), json!({"type": "string"}), endless, field(&unclear), free_keys]
    {
        assert!(JsonConstraint::new(&schema).is_none(), "{schema}");
    }
}

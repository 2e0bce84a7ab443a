//! Rules of OpenAPI that a generated document can break.

use std::collections::BTreeSet;

use serde_json::Value;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Checks that the path parameters of every operation are those in its path, that operation ids are unique, that every
/// response has a single status and not a range such as `4XX`, and that every reference has a target.
pub(crate) fn check(document: &Value) {
    let version = document["openapi"].as_str().unwrap();
    assert!(version.starts_with("3.1"), "{version}");
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let in_path: BTreeSet<&str> =
            path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}')).collect();
        let operations = item.as_object().unwrap().iter();
        for (method, operation) in operations.filter(|it| METHODS.contains(&it.0.as_str())) {
            let place = format!("{method} {path}");
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let described: BTreeSet<&str> = parameters
                .iter()
                .filter(|it| it["in"] == "path")
                .map(|it| it["name"].as_str().unwrap())
                .collect();
            assert_eq!(described, in_path, "{place}");
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{place}: {id} is used twice");
            let responses = operation["responses"].as_object().unwrap();
            assert!(!responses.is_empty(), "{place}");
            for (status, response) in responses {
                let number: u16 = status.parse().unwrap_or_else(|_| panic!("{place}: {status}"));
                assert!((200..600).contains(&number), "{place}: {status}");
                assert!(response["description"].is_string(), "{place}: {status}");
            }
        }
    }
    check_references(document, document);
}

fn check_references(part: &Value, document: &Value) {
    if let Some(target) = part.get("$ref").and_then(Value::as_str) {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target} does not exist");
    }
    match part {
        Value::Object(fields) => fields.values().for_each(|it| check_references(it, document)),
        Value::Array(items) => items.iter().for_each(|it| check_references(it, document)),
        _ => {}
    }
}

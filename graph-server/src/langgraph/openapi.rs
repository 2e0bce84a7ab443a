//! The OpenAPI document of the API.

mod schemas;

use serde_json::{Map, Value, json};

use self::schemas::{reference, schemas};
use super::operations::{Answer, OPERATIONS, Operation};

/// Returns the OpenAPI document.
pub(super) fn document() -> Value {
    let schemas = schemas();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation_json(operation, &schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "LangGraph's API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Assistants, threads, runs, crons and the long-term store of a graph server.",
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn operation_json(operation: &Operation, schemas: &Map<String, Value>) -> Value {
    let mut described = json!({
        "tags": [operation.tag.name],
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "parameters": parameters(operation),
        "responses": { operation.answer.status(): answer_json(&operation.answer) },
    });
    for (status, description) in errors(operation) {
        described["responses"][status] = json!({
            "description": description,
            "content": { "application/json": { "schema": reference("Error") } },
        });
    }
    if matches!(operation.answer, Answer::AnyOrAccepted) {
        described["responses"]["202"] = json!({ "description": "The request was accepted." });
    }
    if matches!(operation.answer, Answer::EventsOrEmpty) {
        described["responses"]["204"] = json!({ "description": "There are no events." });
    }
    if matches!(operation.answer, Answer::ObjectOrEmpty(_)) {
        described["responses"]["204"] = json!({
            "description": "Done. The client prefers a response without content.",
            "headers": { "Preference-Applied": { "schema": { "const": "return=minimal" } } },
        });
    }
    if let Some(schema) = operation.body {
        // A missing body and null are the same as an empty object.
        let is_optional = schemas[schema]["required"].as_array().is_some_and(Vec::is_empty);
        let schema = match is_optional {
            true => json!({ "anyOf": [reference(schema), { "type": "null" }] }),
            false => reference(schema),
        };
        described["requestBody"] = json!({
            "required": !is_optional,
            "content": { "application/json": { "schema": schema } },
        });
    }
    described
}

/// Derives the id of an operation from its method and path: `get_threads_thread_id_state`.
fn operation_id(operation: &Operation) -> String {
    let words = operation.path.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    let words: Vec<_> = std::iter::once(operation.method).chain(words).collect();
    words.join("_")
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let names = operation.path.split('{').skip(1).filter_map(|it| it.split_once('}'));
    let in_path = names.map(|(name, _)| {
        // Namespaces are names of nodes, and the paths of assistants also accept the names of graphs.
        let schema = match name {
            "namespace" | "assistant_id" => json!({ "type": "string", "minLength": 1 }),
            _ => json!({ "type": "string", "format": "uuid" }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let in_query = operation.query.iter().map(|(name, schema)| {
        // An empty parameter is the same as a missing one.
        let schema = json!({ "anyOf": [reference(schema), { "const": "" }] });
        json!({ "name": name, "in": "query", "required": false, "schema": schema })
    });
    let prefers = matches!(operation.answer, Answer::ObjectOrEmpty(_)).then(|| {
        json!({
            "name": "Prefer",
            "in": "header",
            "required": false,
            "description": "`return=minimal` asks for a response without content.",
            "schema": { "type": "string" },
        })
    });
    in_path.chain(in_query).chain(prefers).collect()
}

fn answer_json(answer: &Answer) -> Value {
    let json_content = |schema: Value| json!({ "description": "The result.", "content": { "application/json": { "schema": schema } } });
    match answer {
        Answer::Object(schema) | Answer::ObjectOrEmpty(schema) => json_content(reference(schema)),
        Answer::List(schema) => {
            json_content(json!({ "type": "array", "items": reference(schema) }))
        }
        Answer::Any | Answer::AnyOrAccepted => json_content(json!({})),
        Answer::Count => json_content(json!({ "type": "integer", "minimum": 0 })),
        Answer::Events | Answer::EventsOrEmpty => json!({
            "description": "A stream of server-sent events.",
            "content": { "text/event-stream": { "schema": {} } },
        }),
        Answer::Text => json!({
            "description": "The metrics.",
            "content": { "text/plain": { "schema": { "type": "string" } } },
        }),
        Answer::Empty => json!({ "description": "Done." }),
    }
}

/// Returns the statuses with which a request can be rejected, and their descriptions.
fn errors(operation: &Operation) -> Vec<(&'static str, &'static str)> {
    let mut errors = vec![
        ("403", "The client, the host name or the origin is not allowed."),
        ("429", "Too many requests."),
    ];
    if operation.access.is_some() {
        errors.push(("401", "The credentials are missing or invalid."));
    }
    let has_body = operation.body.is_some();
    if has_body || operation.path.contains('{') || !operation.query.is_empty() {
        errors.extend([
            ("400", "The request does not fit the graph or the thread."),
            ("404", "An object does not exist."),
            ("422", "A parameter or the body is invalid."),
        ]);
    }
    if operation.method != "get" {
        errors.push(("409", "The operation conflicts with the state of an object."));
    }
    if has_body {
        errors.extend([
            ("408", "The body was not received in time."),
            ("413", "The body is too large."),
            ("415", "The body is not JSON."),
        ]);
    }
    errors
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reference_has_a_schema() {
        let document = document();
        let text = document.to_string();
        let known = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(known.contains_key(name), "{name}");
        }
    }

    #[test]
    fn every_response_status_is_documented() {
        let document = document();
        let statuses = |path: &str, method: &str| -> Vec<String> {
            let responses = document["paths"][path][method]["responses"].as_object().unwrap();
            let mut statuses: Vec<_> = responses.keys().cloned().collect();
            statuses.sort();
            statuses
        };
        assert_eq!(statuses("/info", "get"), ["200", "403", "429"]);
        let of_read = ["200", "400", "401", "403", "404", "422", "429"];
        assert_eq!(statuses("/threads/{thread_id}", "get"), of_read);
        let of_start =
            ["200", "400", "401", "403", "404", "408", "409", "413", "415", "422", "429"];
        assert_eq!(statuses("/runs/wait", "post"), of_start);
        assert!(statuses("/threads/{thread_id}", "patch").contains(&"204".to_owned()));
    }

    #[test]
    fn operation_ids_are_unique() {
        let mut ids = HashSet::new();
        for operation in OPERATIONS {
            assert!(ids.insert(operation_id(operation)), "{}", operation.path);
        }
    }
}

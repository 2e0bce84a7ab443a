//! The OpenAPI document of the API.

mod operations;
mod schemas;

use serde_json::{Map, Value, json};

use self::{
    operations::{Answer, OPERATIONS, Operation},
    schemas::schemas,
};

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
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "parameters": parameters(operation),
        "responses": {
            operation.answer.status(): answer_json(&operation.answer),
            "4XX": {
                "description": "The request was refused.",
                "content": { "application/json": { "schema": reference("Error") } },
            },
        },
    });
    if matches!(operation.answer, Answer::AnyOrAccepted) {
        described["responses"]["202"] = json!({ "description": "The request was accepted." });
    }
    if matches!(operation.answer, Answer::EventsOrEmpty) {
        described["responses"]["204"] = json!({ "description": "There are no events." });
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
    in_path.chain(in_query).collect()
}

fn answer_json(answer: &Answer) -> Value {
    let json_content = |schema: Value| json!({ "description": "The result.", "content": { "application/json": { "schema": schema } } });
    match answer {
        Answer::Object(schema) => json_content(reference(schema)),
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

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
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
    fn operation_ids_are_unique() {
        let mut ids = HashSet::new();
        for operation in OPERATIONS {
            assert!(ids.insert(operation_id(operation)), "{}", operation.path);
        }
    }
}

//! JSON encodings that several streams share.

use graph_core::{FieldWrite, Interrupt, stream::writes_to_json};
use serde_json::{Value, json};

use super::{
    item::{Origin, RunFacts},
    message::complete_fields,
};
use crate::langgraph::id::wire_namespace;

/// Encodes interrupts.
pub(in crate::langgraph) fn interrupts_json(interrupts: &[Interrupt]) -> Value {
    interrupts.iter().map(|it| json!({ "id": it.id, "value": it.value })).collect()
}

/// Encodes the writes of a task as an object.
pub(in crate::langgraph) fn writes_json(writes: &[FieldWrite]) -> Value {
    complete_fields(writes_to_json(writes))
}

/// Returns the metadata of a message.
pub(in crate::langgraph) fn message_metadata(origin: &Origin, run: &RunFacts) -> Value {
    let mut metadata = run.to_metadata();
    let outer = wire_namespace(&origin.namespace);
    let own = format!("{}:{}", origin.node, origin.task);
    let namespace = if outer.is_empty() { own } else { format!("{outer}|{own}") };
    let facts = [
        ("langgraph_node", json!(origin.node)),
        ("langgraph_step", json!(origin.step)),
        ("langgraph_triggers", json!([format!("branch:to:{}", origin.node)])),
        ("langgraph_path", json!(["__pregel_pull", origin.node])),
        ("langgraph_checkpoint_ns", json!(namespace)),
        ("checkpoint_ns", json!(namespace)),
    ];
    metadata.extend(facts.map(|(key, value)| (key.to_owned(), value)));
    Value::Object(metadata)
}

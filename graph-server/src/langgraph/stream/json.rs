//! JSON encodings that several streams share.

use graph_core::{FieldWrite, Interrupt, stream::writes_to_json};
use serde_json::{Value, json};

use super::{
    item::{Origin, RunFacts},
    message::complete_fields,
    progress::Progress,
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

/// Encodes the path of a task, which states whether an edge or a payload started the task. `payload_index` is the index
/// of the payload, if the task has one.
pub(in crate::langgraph) fn task_path(node: &str, payload_index: Option<u32>) -> Value {
    match payload_index {
        Some(index) => json!(["__pregel_push", index, false]),
        None => json!(["__pregel_pull", node]),
    }
}

/// Encodes the trigger of a task.
pub(super) fn task_trigger(node: &str, is_sent: bool) -> String {
    if is_sent { "__pregel_push".to_owned() } else { format!("branch:to:{node}") }
}

/// Returns the metadata of a message.
pub(super) fn message_metadata(origin: &Origin, run: &RunFacts, progress: &Progress) -> Value {
    let mut metadata = run.to_metadata();
    let outer = wire_namespace(&origin.namespace);
    let own = format!("{}:{}", origin.node, origin.task);
    let namespace = if outer.is_empty() { own } else { format!("{outer}|{own}") };
    let payload_index = progress.payload_index(&origin.namespace, &origin.task);
    let trigger = task_trigger(&origin.node, payload_index.is_some());
    let facts = [
        ("langgraph_node", json!(origin.node)),
        ("langgraph_step", json!(origin.step)),
        ("langgraph_triggers", json!([trigger])),
        ("langgraph_path", task_path(&origin.node, payload_index)),
        ("langgraph_checkpoint_ns", json!(namespace)),
        ("checkpoint_ns", json!(namespace)),
    ];
    metadata.extend(facts.map(|(key, value)| (key.to_owned(), value)));
    Value::Object(metadata)
}

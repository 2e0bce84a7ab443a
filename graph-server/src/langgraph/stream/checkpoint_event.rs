//! Encodes checkpoints for event streams.

use graph_core::{Event, EventKind};
use serde_json::{Map, Value, json};

use super::{item::RunFacts, message::complete_fields};
use crate::langgraph::id::{wire_id, wire_namespace};

/// Encodes a checkpoint for the `checkpoints` stream.
pub(super) fn checkpoint(event: &Event, run: &RunFacts) -> Option<Value> {
    let EventKind::Checkpoint { id, parent, source, values, next, next_tasks } = &event.kind else {
        return None;
    };
    let namespace = wire_namespace(&event.namespace);
    let config = |id: String| {
        json!({ "configurable": {
            "thread_id": run.thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": id,
            "run_id": run.run,
            "graph_id": run.graph,
            "assistant_id": run.assistant,
        } })
    };
    let tasks = next.iter().zip(next_tasks).map(
        |(name, id)| json!({ "id": wire_id(id), "name": name, "interrupts": [], "state": null }),
    );
    let mut metadata = run.to_metadata();
    metadata.extend(checkpoint_metadata(source.as_str(), event.step));
    Some(json!({
        "config": config(wire_id(id)),
        "parent_config": parent.map(|it| config(wire_id(it))),
        "values": complete_fields(json!(values)),
        "metadata": metadata,
        "next": next,
        "tasks": tasks.collect::<Vec<_>>(),
    }))
}

/// Returns the entries that the metadata of every checkpoint has.
pub(in crate::langgraph) fn checkpoint_metadata(source: &str, step: i64) -> Map<String, Value> {
    Map::from_iter([
        ("source".to_owned(), json!(source)),
        ("step".to_owned(), json!(step)),
        ("parents".to_owned(), json!({})),
    ])
}

/// Adds the references to a checkpoint and its parent that the `debug` stream contains.
pub(super) fn with_references(mut checkpoint: Value) -> Value {
    let reference = |config: &Value| match config.get("configurable") {
        Some(config) => json!({
            "thread_id": config["thread_id"],
            "checkpoint_ns": config["checkpoint_ns"],
            "checkpoint_id": config["checkpoint_id"],
        }),
        None => Value::Null,
    };
    checkpoint["checkpoint"] = reference(&checkpoint["config"]);
    checkpoint["parent_checkpoint"] = reference(&checkpoint["parent_config"]);
    checkpoint
}

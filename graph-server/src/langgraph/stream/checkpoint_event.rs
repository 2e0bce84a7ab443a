//! Encodes checkpoints for event streams.

use std::collections::BTreeMap;

use graph_core::{Event, EventKind, checkpoint::CheckpointId};
use serde_json::{Map, Value, json};

use super::{item::RunFacts, message::complete_fields, progress::Progress};
use crate::langgraph::id::{wire_id, wire_namespace};

/// Encodes a checkpoint for the `checkpoints` stream.
pub(super) fn checkpoint(event: &Event, run: &RunFacts, progress: &Progress) -> Option<Value> {
    let EventKind::Checkpoint { id, parent, source, values, next, next_tasks, next_subgraphs } =
        &event.kind
    else {
        return None;
    };
    let enclosing = progress.enclosing_checkpoints(&event.namespace);
    let config = |id: CheckpointId| {
        let mut configurable = json!({
            "thread_id": run.thread,
            "checkpoint_ns": wire_namespace(&event.namespace),
            "checkpoint_id": wire_id(id),
            "run_id": run.run,
            "graph_id": run.graph,
            "assistant_id": run.assistant,
        });
        if !enclosing.is_empty() {
            let mut checkpoints = enclosing.clone();
            checkpoints.insert(event.namespace.to_string(), id);
            configurable["checkpoint_map"] = checkpoint_map(&checkpoints);
        }
        json!({ "configurable": configurable })
    };
    let tasks = next.iter().zip(next_tasks).enumerate().map(|(index, (name, id))| {
        let subgraph = next_subgraphs.get(index).and_then(Option::as_deref).map(|namespace| {
            let namespace = wire_namespace(namespace);
            json!({ "configurable": { "thread_id": run.thread, "checkpoint_ns": namespace } })
        });
        json!({ "id": wire_id(id), "name": name, "interrupts": [], "state": subgraph })
    });
    let mut metadata = run.to_metadata();
    metadata.extend(checkpoint_metadata(source.as_str(), event.step, &enclosing));
    Some(json!({
        "config": config(*id),
        "parent_config": parent.map(config),
        "values": complete_fields(json!(values)),
        "metadata": metadata,
        "next": next,
        "tasks": tasks.collect::<Vec<_>>(),
    }))
}

/// Returns the entries that the metadata of every checkpoint has. `enclosing` contains the checkpoints of the enclosing
/// graphs, by namespace.
pub(in crate::langgraph) fn checkpoint_metadata(
    source: &str,
    step: i64,
    enclosing: &BTreeMap<String, CheckpointId>,
) -> Map<String, Value> {
    Map::from_iter([
        ("source".to_owned(), json!(source)),
        ("step".to_owned(), json!(step)),
        ("parents".to_owned(), checkpoint_map(enclosing)),
    ])
}

/// Encodes checkpoints by namespace.
pub(in crate::langgraph) fn checkpoint_map(checkpoints: &BTreeMap<String, CheckpointId>) -> Value {
    let entry = |(namespace, id): (&String, &CheckpointId)| {
        (wire_namespace(namespace), Value::from(wire_id(id)))
    };
    Value::Object(checkpoints.iter().map(entry).collect())
}

/// Entries of `configurable` that refer to a checkpoint.
const REFERENCE_KEYS: [&str; 4] = ["thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"];

/// Adds the references to a checkpoint and its parent that the `debug` stream contains, and replaces the configurations
/// of subgraphs by references.
pub(super) fn with_references(mut checkpoint: Value) -> Value {
    let reference = |config: &Value| {
        let mut reference = config.get("configurable")?.as_object()?.clone();
        reference.retain(|key, _| REFERENCE_KEYS.contains(&key.as_str()));
        Some(Value::Object(reference))
    };
    checkpoint["checkpoint"] = json!(reference(&checkpoint["config"]));
    checkpoint["parent_checkpoint"] = json!(reference(&checkpoint["parent_config"]));
    for task in checkpoint["tasks"].as_array_mut().into_iter().flatten() {
        let Some(task) = task.as_object_mut() else { continue };
        if let Some(subgraph) = task.get("state").and_then(reference) {
            task.remove("state");
            task.insert("checkpoint".to_owned(), subgraph);
        }
    }
    checkpoint
}

//! JSON encoding of thread states.

use graph_core::{
    TaskState,
    checkpoint::{CheckpointId, Source},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    any_graph::Snapshot,
    id::{wire_id, wire_namespace},
    stream::{
        checkpoint_event::{checkpoint_map, checkpoint_metadata},
        json::{interrupts_json, task_path, writes_json},
    },
    time::wire_time,
};

/// Fields of a state on the wire.
pub(super) const STATE_FIELDS: [&str; 10] = [
    "values", "next", "tasks", "metadata", "created_at", "checkpoint", "parent_checkpoint",
    "interrupts", "checkpoint_id", "parent_checkpoint_id",
];

/// Encodes the state of a thread or of one of its subgraphs. `subgraphs` states whether it was read with the states of
/// subgraphs.
pub(super) fn state_json(thread: Uuid, state: &Snapshot, subgraphs: bool) -> Value {
    let reference = |id: CheckpointId| checkpoint_json(thread, state, id);
    let interrupts: Vec<_> = state.tasks.iter().flat_map(|it| it.interrupts.clone()).collect();
    json!({
        "values": state.values,
        "next": state.next,
        "tasks": state.tasks.iter().map(|it| task_json(thread, it, subgraphs)).collect::<Value>(),
        "metadata": state_metadata(thread, state),
        "created_at": wire_time(state.created_at),
        "checkpoint": reference(state.id),
        "parent_checkpoint": state.parent.map(reference),
        "interrupts": interrupts_json(&interrupts),
        "checkpoint_id": wire_id(state.id),
        "parent_checkpoint_id": state.parent.map(wire_id),
    })
}

/// Returns the metadata of a state's checkpoint.
pub(super) fn state_metadata(thread: Uuid, state: &Snapshot) -> Map<String, Value> {
    let mut metadata = state.metadata.clone();
    // An edit is not part of a run.
    if state.source != Source::Update {
        metadata.insert("run_id".to_owned(), json!(state.run));
    }
    metadata.insert("thread_id".to_owned(), json!(thread));
    metadata.extend(checkpoint_metadata(state.source.as_str(), state.step, &state.enclosing));
    metadata
}

/// Encodes a reference to a checkpoint in the namespace of a state. For a subgraph, it contains the checkpoints of the
/// enclosing graphs.
fn checkpoint_json(thread: Uuid, state: &Snapshot, id: CheckpointId) -> Value {
    let mut reference = json!({
        "thread_id": thread,
        "checkpoint_ns": wire_namespace(&state.namespace),
        "checkpoint_id": wire_id(id),
    });
    if !state.enclosing.is_empty() {
        let mut checkpoints = state.enclosing.clone();
        checkpoints.insert(state.namespace.clone(), id);
        reference["checkpoint_map"] = checkpoint_map(&checkpoints);
    }
    reference
}

/// Returns the state of a thread that has never run.
pub(super) fn empty_state() -> Value {
    json!({
        "values": {},
        "next": [],
        "tasks": [],
        "metadata": null,
        "created_at": null,
        "checkpoint": null,
        "parent_checkpoint": null,
        "interrupts": [],
        "checkpoint_id": null,
        "parent_checkpoint_id": null,
    })
}

fn task_json(thread: Uuid, task: &TaskState, subgraphs: bool) -> Value {
    let checkpoint = task.subgraph_namespace.as_deref().map(
        |namespace| json!({ "thread_id": thread, "checkpoint_ns": wire_namespace(namespace) }),
    );
    let state = checkpoint.as_ref().filter(|_| subgraphs).map(|checkpoint| {
        task.subgraph.as_deref().map_or_else(
            || {
                let mut state = empty_state();
                state["checkpoint"] = checkpoint.clone();
                state
            },
            |it| state_json(thread, it, true),
        )
    });
    json!({
        "id": wire_id(task.id),
        "name": task.node,
        "path": task_path(&task.node, task.payload_index),
        "error": task.error,
        "interrupts": interrupts_json(&task.interrupts),
        "checkpoint": checkpoint,
        "state": state,
        "result": task.result.as_deref().map(writes_json),
    })
}

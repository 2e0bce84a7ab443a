//! JSON encoding of thread states.

use graph_core::{SubgraphState, TaskState, checkpoint::Source};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    any_graph::Snapshot,
    id::{wire_id, wire_namespace},
    stream::{
        checkpoint_event::checkpoint_metadata,
        json::{interrupts_json, writes_json},
        message::complete_fields,
    },
    time::wire_time,
};

/// Fields of a state on the wire.
pub(super) const STATE_FIELDS: [&str; 10] = [
    "values",
    "next",
    "tasks",
    "metadata",
    "created_at",
    "checkpoint",
    "parent_checkpoint",
    "interrupts",
    "checkpoint_id",
    "parent_checkpoint_id",
];

/// Encodes the state of a thread.
pub(super) fn state_json(thread: Uuid, state: &Snapshot) -> Value {
    let reference =
        |id: String| json!({ "thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id });
    let (id, parent) = (wire_id(state.id), state.parent.map(wire_id));
    let interrupts: Vec<_> = state.tasks.iter().flat_map(|it| it.interrupts.clone()).collect();
    let mut metadata = state.metadata.clone();
    // An edit is not part of a run.
    if state.source != Source::Update {
        metadata.insert("run_id".to_owned(), json!(state.run));
    }
    metadata.insert("thread_id".to_owned(), json!(thread));
    metadata.extend(checkpoint_metadata(state.source.as_str(), state.step));
    json!({
        "values": state.values,
        "next": state.next,
        "tasks": tasks_json(thread, "", &state.tasks),
        "metadata": metadata,
        "created_at": wire_time(state.created_at),
        "checkpoint": reference(id.clone()),
        "parent_checkpoint": parent.clone().map(reference),
        "interrupts": interrupts_json(&interrupts),
        "checkpoint_id": id,
        "parent_checkpoint_id": parent,
    })
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

fn tasks_json(thread: Uuid, namespace: &str, tasks: &[TaskState]) -> Value {
    tasks.iter().map(|it| task_json(thread, namespace, it)).collect()
}

fn task_json(thread: Uuid, outer: &str, task: &TaskState) -> Value {
    let own = format!("{}:{}", task.node, task.id);
    let namespace = if outer.is_empty() { own } else { format!("{outer}|{own}") };
    let subgraph = task.subgraph.as_deref();
    json!({
        "id": wire_id(task.id),
        "name": task.node,
        "path": ["__pregel_pull", task.node],
        "error": task.error,
        "interrupts": interrupts_json(&task.interrupts),
        "checkpoint": subgraph.map(|_| {
            json!({ "thread_id": thread, "checkpoint_ns": wire_namespace(&namespace) })
        }),
        "state": subgraph.map(|it| subgraph_json(thread, &namespace, it)),
        "result": task.result.as_deref().map(writes_json),
    })
}

/// Encodes the state of a subgraph.
fn subgraph_json(thread: Uuid, namespace: &str, state: &SubgraphState) -> Value {
    let interrupts: Vec<_> = state.tasks.iter().flat_map(|it| it.interrupts.clone()).collect();
    let metadata =
        state.source.map(|it| checkpoint_metadata(it.as_str(), state.step.unwrap_or_default()));
    json!({
        "values": complete_fields(state.values.clone()),
        "next": state.next,
        "tasks": tasks_json(thread, namespace, &state.tasks),
        "metadata": metadata,
        "created_at": null,
        "checkpoint": { "thread_id": thread, "checkpoint_ns": wire_namespace(namespace) },
        "parent_checkpoint": null,
        "interrupts": interrupts_json(&interrupts),
        "checkpoint_id": null,
        "parent_checkpoint_id": null,
    })
}

/// Finds the subgraph with this namespace among the tasks of a state that was read with subgraphs.
pub(super) fn find_subgraph(thread: Uuid, state: &Snapshot, namespace: &str) -> Option<Value> {
    fn find<'a>(tasks: &'a [TaskState], outer: &str, wanted: &str) -> Option<&'a SubgraphState> {
        tasks.iter().find_map(|task| {
            let subgraph = task.subgraph.as_deref()?;
            let own = format!("{outer}{}:{}", task.node, task.id);
            match own == wanted {
                true => Some(subgraph),
                false => find(&subgraph.tasks, &format!("{own}|"), wanted),
            }
        })
    }
    let subgraph = find(&state.tasks, "", namespace)?;
    Some(subgraph_json(thread, namespace, subgraph))
}

//! Commands that read the state and the checkpoints of a thread.

use std::sync::Arc;

use graph_core::{HistoryFilter, RunError, checkpoint::Source};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::command::{CommandResult, applied_through, parse};
use crate::langgraph::{
    any_graph::{AnyGraph, Snapshot},
    id::{parse_checkpoint, parse_namespace, wire_id},
    manager::Manager,
    position::Position,
    request::page::Page,
    state_json::state_metadata,
    time::wire_time,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadState {
    #[serde(default)]
    namespace: Vec<String>,
    keys: Option<Vec<String>>,
}

/// Returns the values of a thread, or of one of its subgraphs.
pub(super) async fn read_state(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let ReadState { namespace, keys } = parse(params)?;
    let namespace = namespace.join("|");
    let at = Position { namespace: parse_namespace(&namespace), ..Position::HEAD };
    let stored = manager.thread(thread).await?;
    let state = match stored.graph() {
        Some(graph) => manager.graph(graph)?.state(&thread.to_string(), &at, false).await?,
        None => None,
    };
    let Some(state) = state else {
        return Ok((json!({ "values": {} }), applied_through(manager, thread).await?));
    };
    let mut values = state.values;
    if let (Some(keys), Value::Object(fields)) = (keys, &mut values) {
        fields.retain(|name, _| keys.contains(name));
    }
    let checkpoint = json!({ "id": wire_id(state.id), "ns": namespace });
    let result = json!({ "values": values, "checkpoint": checkpoint });
    Ok((result, applied_through(manager, thread).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListCheckpoints {
    #[serde(default)]
    namespace: Vec<String>,
    limit: Option<usize>,
    /// Id of a checkpoint. Only older checkpoints are listed.
    before: Option<String>,
}

/// Lists the checkpoints of a thread, or of one of its subgraphs, newest first.
pub(super) async fn list_checkpoints(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let ListCheckpoints { namespace, limit, before } = parse(params)?;
    let namespace = parse_namespace(&namespace.join("|"));
    let mut filter = HistoryFilter::new().limit(Page::new(limit, None)?.limit());
    if let Some(before) = before {
        filter = filter.before(parse_checkpoint(&before)?);
    }
    let stored = manager.thread(thread).await?;
    let mut checkpoints = Vec::new();
    if let Some(graph) = stored.graph() {
        let (graph, name) = (&**manager.graph(graph)?, thread.to_string());
        let states = graph.history(&name, &namespace, filter).await?;
        for state in &states {
            let mut summary = json!({
                "id": wire_id(state.id),
                "timestamp": wire_time(state.created_at),
                "step": state.step,
                "metadata": state_metadata(thread, state),
            });
            if let Some(node) = creator(graph, &name, &namespace, state, &states).await? {
                summary["node_name"] = json!(node);
            }
            checkpoints.push(summary);
        }
    }
    let result = json!({ "checkpoints": checkpoints });
    Ok((result, applied_through(manager, thread).await?))
}

/// Returns the node that created a checkpoint, if exactly one node did. `listed` contains states that were already
/// read.
async fn creator(
    graph: &dyn AnyGraph,
    thread: &str,
    namespace: &str,
    state: &Snapshot,
    listed: &[Snapshot],
) -> Result<Option<String>, RunError> {
    let Some(parent) = state.parent.filter(|_| state.source == Source::Loop) else {
        return Ok(None);
    };
    if let Some(parent) = listed.iter().find(|it| it.id == parent) {
        return Ok(only_node(parent));
    }
    let at = Position { namespace: namespace.to_owned(), checkpoint: Some(parent) };
    Ok(graph.state(thread, &at, false).await?.as_ref().and_then(only_node))
}

/// Returns the node of the step after a checkpoint, if the step has only one task.
fn only_node(state: &Snapshot) -> Option<String> {
    match state.tasks.as_slice() {
        [task] => Some(task.node.clone()),
        _ => None,
    }
}

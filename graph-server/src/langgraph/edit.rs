//! Edits of a thread's state.

use graph_core::{AsNode, checkpoint::CheckpointId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    any_graph::Edit,
    error::{ApiError, ApiResult},
    manager::Manager,
    position::Position,
    records::Thread,
    request::{body::or_default, checkpoint::CheckpointRef, command::Command},
    state_json::state_json,
};

/// A request to edit the state of a thread.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateRequest {
    values: Option<Values>,
    as_node: Option<String>,
    checkpoint_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    checkpoint: CheckpointRef,
}

/// One edit of a superstep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateItem {
    values: Option<Values>,
    command: Option<Command>,
    as_node: Option<String>,
}

/// Edits that form one step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Superstep {
    updates: Vec<UpdateItem>,
}

/// Values of an edit: an object, or a list of objects whose fields are merged.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`values` must be an object or a list of objects")]
enum Values {
    One(Map<String, Value>),
    Many(Vec<Map<String, Value>>),
}

impl UpdateRequest {
    /// Returns the checkpoint to edit and the edit.
    pub(super) fn into_edit(self) -> ApiResult<(Position, Edit)> {
        let mut at = self.checkpoint.position()?;
        if at.checkpoint.is_none() {
            at.checkpoint = CheckpointRef::of_id(self.checkpoint_id).id()?;
        }
        Ok((at, edit(self.values, self.as_node.as_deref())))
    }
}

impl Superstep {
    /// Returns the edits of the step.
    pub(super) fn into_edits(self) -> ApiResult<Vec<Edit>> {
        let edit = |item: UpdateItem| match item.command {
            None => Ok(edit(item.values, item.as_node.as_deref())),
            Some(command) if command.resume.is_none() && command.goto.is_none() => {
                Ok(Edit { fields: command.fields(), as_node: as_node(item.as_node.as_deref()) })
            }
            Some(_) => Err(ApiError::invalid(
                "a superstep supports only commands with `update`; remove `resume` and `goto`",
            )),
        };
        self.updates.into_iter().map(edit).collect()
    }
}

fn edit(values: Option<Values>, node: Option<&str>) -> Edit {
    let fields = values.map(|it| match it {
        Values::One(fields) => fields,
        Values::Many(many) => many.into_iter().flatten().collect(),
    });
    Edit { fields, as_node: as_node(node) }
}

fn as_node(name: Option<&str>) -> AsNode {
    match name {
        None => AsNode::Last,
        Some("__input__") => AsNode::Input,
        Some("__copy__") => AsNode::Copy,
        Some(name) => AsNode::node(name),
    }
}

/// Applies edits to a thread, or to one of its subgraphs. Each inner list forms one step. Returns the new checkpoint.
pub(super) async fn apply(
    manager: &Manager,
    thread: &Thread,
    at: &Position,
    steps: Vec<Vec<Edit>>,
) -> ApiResult<CheckpointId> {
    let id = thread.thread_id;
    let Some(graph_id) = thread.graph() else {
        return Err(ApiError::bad_request(format!(
            "thread {id} belongs to no graph yet; start a run on it or set `graph_id` in its metadata"
        )));
    };
    let graph = manager.graph(graph_id)?;
    let _lock = manager.lock_metadata(id).await?;
    let metadata = Map::from_iter([
        ("graph_id".to_owned(), json!(graph_id)),
        ("thread_id".to_owned(), json!(id)),
    ]);
    let name = id.to_string();
    let checkpoint = graph.edit(&name, at, metadata, steps).await?;
    manager.refresh_thread(id, None, None).await?;
    if let Some(state) = graph.state(&name, &Position::HEAD, false).await? {
        manager.publish_state(id, state_json(id, &state, false)).await;
    }
    Ok(checkpoint)
}

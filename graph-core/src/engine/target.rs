//! Targets: gotos that are resolved to nodes of the graph.

use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use crate::{
    checkpoint::record::GotoRecord,
    error::NodeError,
    goto::{Goto, Payload},
    graph::erased::{Graph, NodeIdx},
    label::END_NAME,
    state::{field::FieldError, limits},
};

/// A target of a task, resolved to a node of the graph.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Node(NodeIdx),
    Send(NodeIdx, Payload),
}

/// The targets of a task. Most tasks have one.
pub(super) type Targets = SmallVec<[Target; 1]>;

impl Target {
    /// Converts the target to its stored form.
    fn to_record(&self, graph: &Graph) -> Result<GotoRecord, FieldError> {
        let (node, payload) = match self {
            Self::Node(node) => (node, None),
            Self::Send(node, payload) => (node, Some(payload.to_json())),
        };
        let to = graph.node(*node).label.to_string();
        match payload.transpose() {
            Ok(payload) => {
                if let Some(payload) = &payload {
                    check_payload(graph, &to, payload)?;
                }
                Ok(GotoRecord { to, payload })
            }
            Err(error) => {
                let problem = format!("the payload cannot be stored: {error}");
                Err(FieldError::new(to, problem))
            }
        }
    }

    /// Resolves a stored target. Returns `None` if the node no longer exists.
    fn from_record(graph: &Graph, record: GotoRecord) -> Option<Self> {
        let node = graph.find(&record.to)?;
        Some(match record.payload {
            None => Self::Node(node),
            Some(payload) => Self::Send(node, Payload::Json(Arc::new(payload))),
        })
    }
}

/// Checks that the payload sent to a node is small enough to be stored. Runs without a checkpointer have no limit.
pub(super) fn check_payload(graph: &Graph, node: &str, payload: &Value) -> Result<(), FieldError> {
    let limit = if graph.checkpointer.is_some() { graph.max_stored_bytes } else { usize::MAX };
    limits::check_storable(&format!("payload of `{node}`"), payload, limit)
}

/// Converts targets to their stored form.
pub(super) fn goto_records(
    graph: &Graph,
    targets: &[Target],
) -> Result<Vec<GotoRecord>, FieldError> {
    targets.iter().map(|it| it.to_record(graph)).collect()
}

/// Resolves stored targets. Targets that no longer exist are skipped.
pub(super) fn stored_targets(
    graph: &Graph,
    gotos: impl IntoIterator<Item = GotoRecord>,
) -> Targets {
    gotos.into_iter().filter_map(|it| Target::from_record(graph, it)).collect()
}

/// Resolves gotos to nodes of the graph and appends them to `targets`. A goto to END adds nothing. The payloads are
/// moved out of the gotos.
pub(super) fn resolve_gotos(
    graph: &Graph,
    from: NodeIdx,
    gotos: &mut [Goto],
    targets: &mut Targets,
) -> Result<(), NodeError> {
    for goto in gotos {
        match (graph.find_label(&goto.to), goto.payload.take()) {
            (Some(node), None) if node != graph.start => targets.push(Target::Node(node)),
            (Some(node), Some(payload)) if node != graph.start => {
                let payload =
                    payload.ensure_depth(goto.to.as_str()).map_err(NodeError::terminal)?;
                targets.push(Target::Send(node, payload));
            }
            (None, None) if goto.to.as_str() == END_NAME => {}
            (None, Some(_)) if goto.to.as_str() == END_NAME => {
                let from = graph.node(from).label.to_string();
                return Err(NodeError::terminal(SentToEndError { from }));
            }
            _ => return Err(NodeError::terminal(graph.unknown_target(from, &goto.to))),
        }
    }
    Ok(())
}

/// The error returned when a node sends a payload to END.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{from}` sent a payload to END, which takes none; use `Goto::end()` without a payload")]
pub(super) struct SentToEndError {
    from: String,
}

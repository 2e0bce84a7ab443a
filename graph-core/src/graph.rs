//! Graphs: declared with [`StateGraph`], checked and closed with `compile`.

mod build;
pub mod draw;
mod validate;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

pub use build::StateGraph;

use crate::{
    NodeError, Problem,
    cache::Cache,
    checkpoint::{Checkpoint, CheckpointError, Checkpointer, Event},
    command::{Gotos, RouteTarget},
    error::UnknownTarget,
    label::Label,
    node::{AnyUpdate, NodeBody, options::NodeOptions},
    state::{FieldSet, erased::ErasedState, migrate::Migrations},
    store::Store,
};

/// The index of a node: nodes are ordered by name, so comparing indexes compares names.
pub(crate) type NodeIdx = u32;

/// A compiled graph as the engine sees it.
pub(crate) struct Graph {
    pub(crate) name: String,
    pub(crate) initial: Box<dyn ErasedState>,
    /// All nodes, START among them, by name.
    pub(crate) nodes: Vec<NodeEntry>,
    pub(crate) index: BTreeMap<Label, NodeIdx>,
    pub(crate) start: NodeIdx,
    pub(crate) joins: Vec<Join>,
    pub(crate) stop_before: Stops,
    pub(crate) stop_after: Stops,
    pub(crate) checkpointer: Option<Arc<dyn Checkpointer>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) cache: Option<Arc<dyn Cache>>,
    pub(crate) step_timeout: Option<Duration>,
    pub(crate) max_stored_bytes: usize,
    pub(crate) migrations: Migrations,
    /// Fields that a step which does not write them clears.
    pub(crate) volatile: FieldSet,
    /// Fields that checkpoints never hold.
    pub(crate) untracked: FieldSet,
    pub(crate) output: FieldSet,
    pub(crate) warnings: Vec<Problem>,
}

/// A node with all that leads out of it.
pub(crate) struct NodeEntry {
    pub(crate) label: Label,
    /// `None` for START, whose body is the input.
    pub(crate) body: Option<NodeBody>,
    pub(crate) options: NodeOptions,
    /// The fields the node sees, where that is not all of them.
    pub(crate) reads: Option<Arc<Vec<String>>>,
    /// Where the node's own commands can lead, if its type says so.
    pub(crate) targets: Option<Vec<RouteTarget>>,
    /// Targets of plain edges.
    pub(crate) edges: Vec<NodeIdx>,
    /// Whether an edge leads to END.
    pub(crate) ends: bool,
    pub(crate) routers: Vec<Router>,
    /// Joins that wait for this node.
    pub(crate) feeds: Vec<usize>,
    /// Joins that lead to this node.
    pub(crate) fed_by: Vec<usize>,
}

/// An edge that waits for several nodes.
pub(crate) struct Join {
    /// The name under which checkpoints hold what it has seen.
    pub(crate) key: String,
    pub(crate) sources: Vec<NodeIdx>,
    /// `None` for END.
    pub(crate) target: Option<NodeIdx>,
}

/// A conditional edge, the types of its function forgotten.
#[doc(hidden)]
#[derive(Clone)]
pub struct Router {
    pub(crate) name: Label,
    /// Every place it can lead to, if that is known.
    pub(crate) targets: Option<Vec<RouteTarget>>,
    /// Whether it takes one variant of them.
    pub(crate) one_of: bool,
    pub(crate) route: Arc<dyn Fn(&RouteCall<'_>) -> Result<Gotos, NodeError> + Send + Sync>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

/// What a router decides on: the state with its own node's writes.
pub(crate) struct RouteCall<'a> {
    pub(crate) state: &'a dyn ErasedState,
    pub(crate) updates: &'a [AnyUpdate],
    pub(crate) reads: Option<&'a Arc<Vec<String>>>,
    pub(crate) remaining: i64,
    pub(crate) deps: &'a (dyn Any + Send + Sync),
}

/// The nodes at which a run stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stops {
    /// None.
    #[default]
    Nowhere,
    /// These.
    At(Vec<Label>),
    /// All of them.
    Everywhere,
}

impl Stops {
    /// Stops at the nodes of these names.
    pub fn at<L: Into<Label>>(nodes: impl IntoIterator<Item = L>) -> Self {
        Self::At(nodes.into_iter().map(Into::into).collect())
    }

    pub(crate) fn holds(&self, node: &Label) -> bool {
        match self {
            Self::Nowhere => false,
            Self::At(nodes) => nodes.contains(node),
            Self::Everywhere => true,
        }
    }
}

impl Graph {
    pub(crate) fn node(&self, node: NodeIdx) -> &NodeEntry {
        &self.nodes[node as usize]
    }

    pub(crate) fn find(&self, name: &str) -> Option<NodeIdx> {
        self.index.get(name).copied()
    }

    /// The names of the nodes a user declared.
    pub(crate) fn node_names(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|it| it.body.is_some());
        nodes.map(|it| it.label.to_string()).collect()
    }

    pub(crate) fn unknown_target(&self, from: NodeIdx, to: &Label) -> UnknownTarget {
        UnknownTarget {
            from: self.node(from).label.to_string(),
            to: to.to_string(),
            graph: self.name.clone(),
            nodes: self.node_names(),
        }
    }

    /// Whether branches lead out of the node.
    pub(crate) fn has_routers(&self, node: NodeIdx) -> bool {
        !self.node(node).routers.is_empty()
    }

    /// Brings a stored checkpoint to the state's version; `true` if it was of another one.
    pub(crate) fn migrate(&self, checkpoint: &mut Checkpoint) -> Result<bool, CheckpointError> {
        let (from, to) = (checkpoint.header.version, self.initial.version());
        if from > to {
            return Err(CheckpointError::Damaged {
                thread: checkpoint.place.thread.clone(),
                id: checkpoint.place.id,
                problem: format!(
                    "it is of version {from} of the state, and this program knows {to}"
                ),
            });
        }
        if from == to {
            return Ok(false);
        }
        self.migrations.apply(from, to, &mut checkpoint.values);
        if let Some(input) = &mut checkpoint.cursor.input {
            self.migrations.apply_to_writes(from, to, &mut input.writes);
        }
        checkpoint.records.retain_mut(|record| match &mut record.event {
            // A task whose result cannot be brought along is run again.
            Event::Done { writes, .. } => self.migrations.apply_to_writes(from, to, writes),
            Event::Command { writes, .. } => {
                self.migrations.apply_to_writes(from, to, writes);
                true
            }
            _ => true,
        });
        checkpoint.header.version = to;
        Ok(true)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("name", &self.name)
            .field("nodes", &self.node_names())
            .finish_non_exhaustive()
    }
}

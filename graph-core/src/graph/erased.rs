//! The compiled, type-erased graph that the engine runs.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{
    cache::Cache,
    checkpoint::saver::Checkpointer,
    command::route::{DeclaredTargets, RouteTarget},
    context::task::TaskContext,
    error::{NodeError, UnknownTargetError},
    goto::Gotos,
    graph::{build_error::BuildProblem, fields::DeclaredFields, stops::Stops},
    label::Label,
    namespace::Persistence,
    node::{
        erased::{BoxFuture, NodeBody},
        options::NodeOptions,
    },
    remote::call::RemoteRunner,
    state::{
        erased::{AnyState, AnyUpdate, ErasedState},
        field::{FieldError, FieldSet, FieldWrite},
        limits,
        migrate::Migrations,
    },
    store::interface::Store,
};

/// Index of a node. Nodes are sorted by name, so comparing indexes compares names.
pub(crate) type NodeIdx = u32;

/// A compiled, type-erased graph.
pub(crate) struct Graph {
    pub(crate) name: String,
    pub(crate) initial: Box<dyn ErasedState>,
    /// All nodes including START, sorted by name.
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
    /// Fields that are cleared at the end of each step that does not write them.
    pub(crate) step_scoped: FieldSet,
    /// Fields that are never stored in checkpoints.
    pub(crate) untracked: FieldSet,
    pub(crate) output: FieldSet,
    /// Names of the fields' reducers, as stored in checkpoints. Fields without a reducer are left out.
    pub(crate) reducers: BTreeMap<String, String>,
    pub(crate) warnings: Vec<BuildProblem>,
    /// The declarations that decide which tasks run ahead. `None` unless the graph is eager.
    pub(crate) declared_fields: Option<DeclaredFields>,
}

/// A node with its outgoing edges.
pub(crate) struct NodeEntry {
    pub(crate) label: Label,
    /// `None` for START, which has no function.
    pub(crate) body: Option<NodeBody>,
    /// The graph inside the node, if the node is a subgraph.
    pub(crate) subgraph: Option<Subgraph>,
    pub(crate) options: NodeOptions,
    /// The fields visible to the node, or `None` if all fields are visible.
    pub(crate) reads: Option<Arc<Vec<String>>>,
    /// The part of the state that the routers of the node see, or `None` if they see all of it.
    pub(crate) view: Option<FieldView>,
    /// Whether the engine also hides the other fields from the node's function. False if the state type of the function
    /// already hides them.
    pub(crate) limits_node_to_view: bool,
    /// The targets of the node's commands.
    pub(crate) targets: DeclaredTargets,
    /// Targets of plain edges.
    pub(crate) edges: Vec<NodeIdx>,
    /// Whether a plain edge leads to END.
    pub(crate) leads_to_end: bool,
    pub(crate) routers: Vec<Router>,
    /// Indexes of the joins that wait for this node.
    pub(crate) outgoing_joins: Vec<usize>,
    /// Indexes of the joins that lead to this node.
    pub(crate) incoming_joins: Vec<usize>,
}

impl NodeEntry {
    /// Returns the nodes of this node's subgraph, or none if this node is not a subgraph.
    pub(crate) fn inner_nodes(&self) -> impl Iterator<Item = &Self> {
        self.subgraph.iter().flat_map(|it| &it.graph.nodes)
    }

    /// Returns the targets of the node's own commands, and of the commands that the nodes of a subgraph send to its
    /// parent. An item is `None` if its targets are only known at run time.
    pub(crate) fn command_targets(&self) -> impl Iterator<Item = Option<&[RouteTarget]>> {
        let from_inside = self.inner_nodes().map(|it| it.targets.parent.as_deref());
        [self.targets.own.as_deref()].into_iter().chain(from_inside)
    }
}

/// The part of the state that a node sees.
pub(crate) struct FieldView {
    /// Fields that the node sees with their values.
    pub(crate) visible: FieldSet,
    /// A state with the values that the node sees in all other fields.
    pub(crate) hidden: Box<dyn ErasedState>,
}

impl FieldView {
    /// Returns the state as the node sees it.
    pub(crate) fn apply(&self, state: &dyn ErasedState) -> Box<dyn ErasedState> {
        let mut view = self.hidden.fork();
        view.copy_fields(&self.visible, state);
        view
    }
}

/// An edge that is followed after all of its sources have run.
pub(crate) struct Join {
    /// Key under which checkpoints store the sources that have already run.
    pub(crate) key: String,
    pub(crate) sources: Vec<NodeIdx>,
    /// Target node, or `None` for END.
    pub(crate) target: Option<NodeIdx>,
}

/// A type-erased conditional edge.
#[doc(hidden)]
#[derive(Clone)]
pub struct Router {
    pub(crate) name: Label,
    /// All possible targets, or `None` if they are only known at run time.
    pub(crate) targets: Option<Vec<RouteTarget>>,
    /// See [`Route::EXCLUSIVE`](crate::command::Route::EXCLUSIVE).
    pub(crate) exclusive: bool,
    pub(crate) function: RouteFn,
}

/// The function of a router.
#[derive(Clone)]
pub(crate) enum RouteFn {
    Sync(Arc<dyn Fn(&RouteCall<'_>) -> Result<Gotos, NodeError> + Send + Sync>),
    /// Called with the state that includes the writes of the router's node, and the context of the node's task.
    Async(
        Arc<
            dyn Fn(AnyState, &Arc<TaskContext>) -> BoxFuture<Result<Gotos, NodeError>>
                + Send
                + Sync,
        >,
    ),
}

impl Router {
    pub(crate) fn is_async(&self) -> bool {
        matches!(self.function, RouteFn::Async(_))
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

/// The arguments of a router. `state` includes the writes of the node that the router belongs to.
pub(crate) struct RouteCall<'a> {
    pub(crate) state: &'a dyn ErasedState,
    pub(crate) updates: &'a [AnyUpdate],
    pub(crate) reads: Option<&'a Arc<Vec<String>>>,
    pub(crate) remaining: i64,
    pub(crate) deps: &'a (dyn Any + Send + Sync),
}

impl Graph {
    pub(crate) fn node(&self, node: NodeIdx) -> &NodeEntry {
        &self.nodes[node as usize]
    }

    pub(crate) fn find(&self, name: &str) -> Option<NodeIdx> {
        self.index.get(name).copied()
    }

    /// Like [`find`](Self::find), but faster for the labels of functions: the label of a node and the labels of the
    /// gotos that lead to it usually share one static string.
    pub(crate) fn find_label(&self, label: &Label) -> Option<NodeIdx> {
        /// Number of nodes that are compared by address before the index is searched.
        const COMPARED: usize = 8;
        let same = self.nodes.iter().take(COMPARED).position(|it| it.label.shares_name(label));
        same.map(|it| it as NodeIdx).or_else(|| self.find(label.as_str()))
    }

    /// Returns whether the tasks of a node of this graph can run in another process.
    pub(crate) fn is_movable(&self, node: NodeIdx) -> bool {
        let is_eager = self.declared_fields.is_some();
        // Untracked values need not be serialisable.
        self.node(node).subgraph.is_none() && self.untracked.is_empty() && !is_eager
    }

    /// Returns the names of the declared nodes, sorted. START is not included.
    pub(crate) fn node_names(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|it| it.body.is_some());
        nodes.map(|it| it.label.to_string()).collect()
    }

    pub(crate) fn unknown_target(&self, from: NodeIdx, to: &Label) -> UnknownTargetError {
        UnknownTargetError {
            from: self.node(from).label.to_string(),
            to: to.to_string(),
            graph: self.name.clone(),
            nodes: self.node_names(),
        }
    }

    /// Converts JSON fields into an update.
    pub(crate) fn update_from_json(
        &self,
        fields: Map<String, Value>,
    ) -> Result<AnyUpdate, FieldError> {
        let write = |(field, value): (String, Value)| {
            let value = limits::ensure_depth(&field, value)?;
            Ok(FieldWrite { field, value, overwrite: false })
        };
        let writes = fields.into_iter().map(write).collect::<Result<_, _>>()?;
        self.initial.update_from(writes)
    }

    /// Returns the values of the fields of a state of this graph.
    pub(crate) fn state_values(&self, state: &AnyState) -> Result<Map<String, Value>, FieldError> {
        match self.initial.to_json_fn()(&**state, |_| true) {
            Value::Object(values) => Ok(values),
            Value::String(problem) => Err(FieldError::new("*", problem)),
            _ => Ok(Map::new()),
        }
    }

    /// Removes the writes to fields that are never stored.
    pub(crate) fn strip_untracked(&self, writes: &mut Vec<FieldWrite>) {
        if !self.untracked.is_empty() {
            let fields = self.initial.fields();
            writes.retain(|it| !self.untracked.iter().any(|field| fields[field].name == it.field));
        }
    }

    /// Returns whether the node has conditional edges.
    pub(crate) fn has_routers(&self, node: NodeIdx) -> bool {
        !self.node(node).routers.is_empty()
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

/// The graph inside a subgraph node.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Subgraph {
    pub(crate) graph: Arc<Graph>,
    pub(crate) persistence: Persistence,
    /// Runs the graph in another process. `None` if the engine runs it.
    pub(crate) remote: Option<Arc<dyn RemoteRunner>>,
    /// Where the graph runs, as a noun for drawings. `None` if it runs in the process of the parent.
    pub(crate) runs_in: Option<String>,
    /// Whether a task of the node may run the graph several times.
    pub(crate) may_repeat: bool,
}

impl Subgraph {
    /// Returns a subgraph that the engine runs once for each task.
    pub(crate) fn local(graph: Arc<Graph>, persistence: Persistence) -> Self {
        Self { graph, persistence, remote: None, runs_in: None, may_repeat: false }
    }
}

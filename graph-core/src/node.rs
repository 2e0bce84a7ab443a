//! Nodes: plain async functions, type-erased when they are added to a graph.

mod function;
pub mod options;

use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc};

use serde_json::Value;
use smallvec::SmallVec;

pub use function::PayloadType;

use crate::{
    NodeError, State,
    command::{Command, Goto, ParentCommand, Payload, Route, RouteTarget},
    context::TaskContext,
    graph::Graph,
    label::Label,
    subgraph::Persistence,
};

/// A node of a graph with state `S` and dependencies `C`: an `async fn` or closure with one of these signatures.
///
/// | signature | runs on |
/// |---|---|
/// | `async fn(&S) -> R` | the state |
/// | `async fn(&S, &Context<C>) -> R` | the state, with access to the context |
/// | `async fn(P) -> R` | a payload that is sent to the node |
/// | `async fn(P, &Context<C>) -> R` | a payload, with access to the context |
///
/// `R` is the state's update, a [`Command`], a [`Goto`], `()`, or a `Result`, `Option` or `Vec` of these.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid node for a graph with state `{S}`",
    label = "not an async function with a supported signature",
    note = "a node is an `async fn(&{S}) -> R` or `async fn(P) -> R`, optionally with `&Context<{C}>` as second parameter",
    note = "the payload type `P` must implement `Clone + Serialize + DeserializeOwned + Send + Sync`",
    note = "`R` is the update of `{S}`, a `Command<{S}, _>`, a `Goto`, `()`, or a `Result`, `Option` or `Vec` of these",
    note = "the future that the function returns must be `Send`"
)]
pub trait Node<S: State, C, M>: Clone + Send + Sync + 'static {
    /// Type of the node's input: the state, or the payload.
    type Input;

    /// Returns the targets that the node's return type declares, or `None` if they are only known at run time.
    #[doc(hidden)]
    fn targets() -> Option<Vec<RouteTarget>>;

    #[doc(hidden)]
    fn erase(self, _: Private) -> NodeBody;
}

/// A node that accepts payloads of type `P`.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not accept a payload of type `{P}`",
    label = "cannot send a payload of type `{P}` to this node",
    note = "a node that accepts payloads is an `async fn(P) -> R` or `async fn(P, &Context<C>) -> R`",
    note = "the payload type `P` must implement `Clone + Serialize + DeserializeOwned + Send + Sync`"
)]
pub trait AcceptsPayload<P, M>: Sized {
    /// Returns the node's name.
    fn label() -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// A node that runs on the state.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node that runs on the state",
    label = "cannot go to this node without a payload",
    note = "a node that runs on the state is an `async fn(&S) -> R` or `async fn(&S, &Context<C>) -> R`",
    note = "use `send(node, payload)` for a node that takes a payload"
)]
pub trait RunsOnState<M>: Sized {
    /// Returns the node's name.
    fn label() -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// A return type of a node.
#[diagnostic::on_unimplemented(
    message = "a node of a graph with state `{S}` cannot return `{Self}`",
    label = "not a valid return type of a node",
    note = "return the update of `{S}`, a `Command<{S}, _>`, a `Goto`, `()`, or a `Result`, `Option` or `Vec` of these"
)]
pub trait IntoNodeOutput<S: State> {
    /// Returns the targets that the type declares, or `None` if they are only known at run time.
    fn targets() -> Option<Vec<RouteTarget>> {
        Some(Vec::new())
    }

    /// Converts the returned value into the node's output.
    fn into_node_output(self) -> Result<NodeOutput, NodeError>;
}

/// The type-erased function of a node.
#[doc(hidden)]
#[derive(Clone)]
pub struct NodeBody(pub(crate) Arc<dyn ErasedNode>);

impl fmt::Debug for NodeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeBody")
    }
}

/// An argument that seals a method. Only this crate can construct it, so only this crate can call the method.
#[doc(hidden)]
#[derive(Debug)]
pub struct Private(pub(crate) ());

/// A type-erased [`State::Update`].
pub(crate) type AnyUpdate = Box<dyn Any + Send + Sync>;

/// The output of a node: updates of the state, and the nodes to run next.
#[derive(Default)]
pub struct NodeOutput {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) parent: Option<Box<ParentCommand>>,
}

impl NodeOutput {
    /// Creates an output that consists of one update.
    pub fn update<S: State>(update: S::Update) -> Self {
        Self { updates: SmallVec::from_buf([Box::new(update) as AnyUpdate]), ..Self::default() }
    }

    fn append(&mut self, other: Self) {
        self.updates.extend(other.updates);
        self.gotos.extend(other.gotos);
        self.parent = self.parent.take().or(other.parent);
    }
}

impl fmt::Debug for NodeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOutput")
            .field("updates", &self.updates.len())
            .field("gotos", &self.gotos)
            .field("parent", &self.parent)
            .finish()
    }
}

impl<S: State> IntoNodeOutput<S> for () {
    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        Ok(NodeOutput::default())
    }
}

impl<S: State, R: Route> IntoNodeOutput<S> for Command<S, R> {
    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        let (update, route, parent) = self.into_parts();
        Ok(NodeOutput {
            updates: update.into_iter().map(|it| Box::new(it) as AnyUpdate).collect(),
            gotos: route.map(|it| it.gotos().into_vec()).unwrap_or_default(),
            parent,
        })
    }
}

impl<S: State, T: IntoNodeOutput<S>, E: Into<NodeError>> IntoNodeOutput<S> for Result<T, E> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        self.map_err(Into::into)?.into_node_output()
    }
}

impl<S: State, T: IntoNodeOutput<S>> IntoNodeOutput<S> for Option<T> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        self.map_or_else(|| Ok(NodeOutput::default()), IntoNodeOutput::into_node_output)
    }
}

impl<S: State, T: IntoNodeOutput<S>> IntoNodeOutput<S> for Vec<T> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        let mut all = NodeOutput::default();
        for part in self {
            all.append(part.into_node_output()?);
        }
        Ok(all)
    }
}

impl<S: State> IntoNodeOutput<S> for Goto {
    fn targets() -> Option<Vec<RouteTarget>> {
        None
    }

    fn into_node_output(self) -> Result<NodeOutput, NodeError> {
        Ok(NodeOutput { gotos: vec![self], ..NodeOutput::default() })
    }
}

/// The input of a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskInput {
    State(Arc<dyn Any + Send + Sync>),
    Payload(Payload),
}

impl TaskInput {
    /// Downcasts the state to the type that the node takes.
    pub(crate) fn state<S: State>(self, node: &str) -> Result<Arc<S>, NodeError> {
        match self {
            Self::State(state) => Ok(state.downcast::<S>().map_err(|_| {
                NodeError::terminal(TaskInputError::StateMismatch { node: node.to_owned() })
            })?),
            Self::Payload(_) => Err(NodeError::terminal(TaskInputError::UnexpectedPayload {
                node: node.to_owned(),
            })),
        }
    }
}

/// The error returned when a task cannot start because its input does not match the node's parameter.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskInputError {
    /// A payload was sent to a node that runs on the state.
    #[error(
        "node `{node}` runs on the state and cannot accept a payload; use an edge or `goto` to reach it, or change its first parameter to the payload type"
    )]
    UnexpectedPayload {
        /// Name of the node.
        node: String,
    },
    /// A node that takes a payload was reached without one.
    #[error(
        "node `{node}` takes a payload but was reached without one; use `send` to reach it, or change its first parameter to the state"
    )]
    MissingPayload {
        /// Name of the node.
        node: String,
    },
    /// A payload does not match the type of the node's parameter.
    #[error("node `{node}` cannot accept the payload sent to it: {problem}")]
    InvalidPayload {
        /// Name of the node.
        node: String,
        /// Description of the mismatch.
        problem: String,
    },
    /// The node takes a state whose type differs from the state type of the graph.
    #[error("node `{node}` takes a state whose type differs from the state type of its graph")]
    StateMismatch {
        /// Name of the node.
        node: String,
    },
}

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A type-erased node that the engine can run.
pub(crate) trait ErasedNode: Send + Sync {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>>;

    /// Returns the input as JSON, for events and for cache keys.
    fn input_json(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value>;

    /// Returns whether the node accepts only payloads.
    fn requires_payload(&self) -> bool {
        false
    }

    /// Returns the fields visible to the node, or `None` if all fields are visible.
    fn reads(&self) -> Option<Arc<Vec<String>>> {
        None
    }

    /// Returns the graph inside the node, if the node is a subgraph.
    fn subgraph(&self) -> Option<Subgraph<'_>> {
        None
    }
}

/// The graph inside a subgraph node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subgraph<'a> {
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) persistence: Persistence,
}

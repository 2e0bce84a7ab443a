//! Nodes: plain async functions, erased once when they are added to a graph.

mod handler;
pub mod options;

use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc};

use serde_json::Value;
use smallvec::SmallVec;

pub use handler::PayloadType;

use crate::{
    NodeError, State,
    command::{Command, Goto, ParentCommand, Payload, Route, RouteTarget},
    context::TaskContext,
    graph::Graph,
    label::Label,
    subgraph::Persistence,
};

/// A node of a graph over the state `S` with dependencies `C`: an `async fn` or closure of one of these forms.
///
/// | signature | runs on |
/// |---|---|
/// | `async fn(&S) -> R` | the state |
/// | `async fn(&S, &Context<C>) -> R` | the state, with the run's context |
/// | `async fn(P) -> R` | the payload it was sent |
/// | `async fn(P, &Context<C>) -> R` | the payload, with the run's context |
///
/// `R` is the state's update, a [`Command`], `()`, or a `Result` of these.
/// `M` only tells the compiler which row it is. This trait cannot be implemented by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node of a graph over `{S}`",
    label = "not an async function of a form that a node can have",
    note = "a node takes `&{S}` or a payload (`Clone + Serialize + DeserializeOwned`), then optionally `&Context<{C}>`",
    note = "it returns the update of `{S}`, a `Command<{S}, _>`, `()`, or a `Result` of these, and its future is `Send`"
)]
pub trait Node<S: State, C, M>: Clone + Send + Sync + 'static {
    /// What the node runs on: the state, or the payload of a send.
    type Input;

    /// Where the node's own return type says it can go.
    #[doc(hidden)]
    fn targets() -> Option<Vec<RouteTarget>>;

    #[doc(hidden)]
    fn erase(self, _: Private) -> NodeBody;
}

/// A node that takes payloads of type `P`.
///
/// `M` only tells the compiler which signature it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take a payload of type `{P}`",
    label = "this node cannot be sent a `{P}`",
    note = "a node that takes payloads is an `async fn(P) -> R` or `async fn(P, &Context<C>) -> R`"
)]
pub trait Accepts<P, M>: Sized {
    /// The node's name.
    fn label() -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// A node that runs on the state.
///
/// `M` only tells the compiler which signature it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not run on the state",
    label = "this node cannot be gone to without a payload",
    note = "a node that runs on the state is an `async fn(&S) -> R` or `async fn(&S, &Context<C>) -> R`"
)]
pub trait RunsOnState<M>: Sized {
    /// The node's name.
    fn label() -> Label {
        Label::of_fn_or_path::<Self>()
    }
}

/// What a node may return.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` cannot return `{Self}`",
    label = "not an answer of a node",
    note = "return the update of `{S}`, a `Command<{S}, _>`, `()`, or a `Result` of these"
)]
pub trait IntoOutcome<S: State> {
    /// Where it can lead to, if the type says so.
    fn targets() -> Option<Vec<RouteTarget>> {
        Some(Vec::new())
    }

    /// The outcome.
    fn into_outcome(self) -> Result<Outcome, NodeError>;
}

/// A node's code, its types forgotten.
#[doc(hidden)]
#[derive(Clone)]
pub struct NodeBody(pub(crate) Arc<dyn ErasedNode>);

impl fmt::Debug for NodeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeBody")
    }
}

/// Keeps users from implementing or calling what is the engine's own.
#[doc(hidden)]
#[derive(Debug)]
pub struct Private(pub(crate) ());

/// An update of some state's type.
pub(crate) type AnyUpdate = Box<dyn Any + Send + Sync>;

/// What a node's body came to: updates, and where to go.
#[derive(Default)]
pub struct Outcome {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) parent: Option<Box<ParentCommand>>,
}

impl Outcome {
    /// An outcome with this update alone.
    pub fn update<S: State>(update: S::Update) -> Self {
        Self { updates: SmallVec::from_buf([Box::new(update) as AnyUpdate]), ..Self::default() }
    }

    fn absorb(&mut self, other: Self) {
        self.updates.extend(other.updates);
        self.gotos.extend(other.gotos);
        self.parent = self.parent.take().or(other.parent);
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("updates", &self.updates.len())
            .field("gotos", &self.gotos)
            .field("parent", &self.parent)
            .finish()
    }
}

impl<S: State> IntoOutcome<S> for () {
    fn into_outcome(self) -> Result<Outcome, NodeError> {
        Ok(Outcome::default())
    }
}

impl<S: State, R: Route> IntoOutcome<S> for Command<S, R> {
    fn targets() -> Option<Vec<RouteTarget>> {
        R::targets()
    }

    fn into_outcome(self) -> Result<Outcome, NodeError> {
        let (update, route, parent) = self.into_parts();
        Ok(Outcome {
            updates: update.into_iter().map(|it| Box::new(it) as AnyUpdate).collect(),
            gotos: route.map(|it| it.gotos().into_vec()).unwrap_or_default(),
            parent,
        })
    }
}

impl<S: State, T: IntoOutcome<S>, E: Into<NodeError>> IntoOutcome<S> for Result<T, E> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_outcome(self) -> Result<Outcome, NodeError> {
        self.map_err(Into::into)?.into_outcome()
    }
}

impl<S: State, T: IntoOutcome<S>> IntoOutcome<S> for Option<T> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_outcome(self) -> Result<Outcome, NodeError> {
        self.map_or_else(|| Ok(Outcome::default()), IntoOutcome::into_outcome)
    }
}

impl<S: State, T: IntoOutcome<S>> IntoOutcome<S> for Vec<T> {
    fn targets() -> Option<Vec<RouteTarget>> {
        T::targets()
    }

    fn into_outcome(self) -> Result<Outcome, NodeError> {
        let mut all = Outcome::default();
        for part in self {
            all.absorb(part.into_outcome()?);
        }
        Ok(all)
    }
}

impl<S: State> IntoOutcome<S> for Goto {
    fn targets() -> Option<Vec<RouteTarget>> {
        None
    }

    fn into_outcome(self) -> Result<Outcome, NodeError> {
        Ok(Outcome { gotos: vec![self], ..Outcome::default() })
    }
}

/// What a task runs on.
#[derive(Clone, Debug)]
pub(crate) enum TaskInput {
    State(Arc<dyn Any + Send + Sync>),
    Payload(Payload),
}

impl TaskInput {
    /// The state, if it is of the type the node was written for.
    pub(crate) fn state<S: State>(self, node: &str) -> Result<Arc<S>, NodeError> {
        match self {
            Self::State(state) => Ok(state.downcast::<S>().map_err(|_| {
                NodeError::terminal(InputError::OtherState { node: node.to_owned() })
            })?),
            Self::Payload(_) => {
                Err(NodeError::terminal(InputError::WantsState { node: node.to_owned() }))
            }
        }
    }
}

/// A task that cannot start because what it is to run on does not fit its node.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A node that runs on the state was sent a payload.
    #[error(
        "node `{node}` runs on the state and cannot be sent a payload; take a payload in its first parameter, or lead to it by an edge"
    )]
    WantsState {
        /// The node.
        node: String,
    },
    /// A node that takes a payload was led to by an edge.
    #[error(
        "node `{node}` takes a payload and was reached without one; send it one, or take the state in its first parameter"
    )]
    WantsPayload {
        /// The node.
        node: String,
    },
    /// A payload does not fit the node's parameter.
    #[error("node `{node}` cannot take the payload it was sent: {problem}")]
    BadPayload {
        /// The node.
        node: String,
        /// What does not fit.
        problem: String,
    },
    /// The node belongs to a graph over another state.
    #[error("node `{node}` was written for another state than its graph's")]
    OtherState {
        /// The node.
        node: String,
    },
}

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node as the engine sees it.
pub(crate) trait ErasedNode: Send + Sync {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<Outcome, NodeError>>;

    /// The input as JSON, for those who watch and for the cache.
    fn describe(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value>;

    /// Whether the node runs on payloads alone.
    fn wants_payload(&self) -> bool {
        false
    }

    /// The fields the node sees, where that is not all of them.
    fn reads(&self) -> Option<Arc<Vec<String>>> {
        None
    }

    /// The graph inside, if the node is one.
    fn subgraph(&self) -> Option<Subgraph<'_>> {
        None
    }
}

/// The graph inside a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subgraph<'a> {
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) persistence: Persistence,
}

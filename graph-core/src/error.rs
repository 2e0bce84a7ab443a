//! Errors that occur when a graph is run, and errors that nodes return.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    checkpoint::{error::CheckpointError, id::CheckpointId},
    error_chain,
    goto::ParentCommand,
    interrupt::{Interrupt, StopReason},
    state::field::FieldError,
    suggestion::{list, suggestion},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a node did not finish: an error or an interrupt. Any error type converts into a `NodeError`.
///
/// An error may be retried unless it was created by [`NodeError::terminal`].
///
/// ```
/// use graph_core::{NodeError, State};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Order {
///     quantity: String,
///     total: u32,
/// }
///
/// async fn price(order: &Order) -> Result<OrderUpdate, NodeError> {
///     let quantity: u32 = order.quantity.parse()?;
///     if quantity == 0 {
///         return Err(NodeError::terminal("the quantity must be at least 1"));
///     }
///     Ok(Order::update().total(quantity * 3))
/// }
/// # let _ = price;
/// ```
pub struct NodeError(Box<Cause>);

/// Why a node did not finish.
#[derive(Debug)]
pub(crate) enum Cause {
    Failed {
        source: Arc<dyn std::error::Error + Send + Sync>,
        terminal: bool,
    },
    Halted(Halt),
    /// A command that the node's subgraph sent to the node's own graph.
    DeliveredCommand(Box<ParentCommand>),
}

/// Why a task or a graph ended early without failing.
#[derive(Debug)]
pub(crate) enum Halt {
    Interrupted(Vec<Interrupt>),
    /// A static stop was reached, or the run was drained.
    Stopped(StopReason),
    /// A command to the parent graph.
    ParentCommand(Box<ParentCommand>),
}

impl NodeError {
    /// Creates an error that must not be retried.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::failed(error.into(), true)
    }

    pub(crate) fn halted(halt: Halt) -> Self {
        Self::from_cause(Cause::Halted(halt))
    }

    fn failed(error: BoxError, terminal: bool) -> Self {
        Self::from_cause(Cause::Failed { source: Arc::from(error), terminal })
    }

    pub(crate) fn from_cause(cause: Cause) -> Self {
        Self(Box::new(cause))
    }

    pub(crate) fn into_cause(self) -> Cause {
        *self.0
    }

    /// Returns whether this is an interrupt. If so, the node runs again when the run is resumed.
    pub fn is_interrupt(&self) -> bool {
        matches!(*self.0, Cause::Halted(Halt::Interrupted(_)))
    }

    /// Returns whether the error must not be retried.
    pub fn is_terminal(&self) -> bool {
        matches!(*self.0, Cause::Failed { terminal: true, .. })
    }

    /// Returns the underlying error. Returns `None` for an interrupt, a command or a stop.
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        match &*self.0 {
            Cause::Failed { source, .. } => Some(&**source),
            _ => None,
        }
    }

    /// Returns the underlying error, if it has the type `E`.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.source().and_then(|it| (it as &(dyn std::error::Error + 'static)).downcast_ref())
    }
}

impl<E: Into<BoxError>> From<E> for NodeError {
    fn from(error: E) -> Self {
        Self::failed(error.into(), false)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Failed { source, .. } => source.fmt(f),
            Cause::Halted(Halt::Interrupted(interrupts)) => {
                write!(f, "the node was interrupted (pending interrupts: {})", interrupts.len())
            }
            Cause::Halted(Halt::ParentCommand(_)) => {
                f.write_str("the node sent a command to its parent graph")
            }
            Cause::DeliveredCommand(_) => {
                f.write_str("a subgraph of the node sent a command to its parent graph")
            }
            Cause::Halted(Halt::Stopped(_)) => f.write_str("a subgraph of the node stopped"),
        }
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        error_chain::debug(f, self, self.source().and_then(|it| it.source()))
    }
}

/// Marks the error of a result as terminal, so that it is not retried.
///
/// ```
/// use graph_core::{NodeError, Terminal};
///
/// fn parse(text: &str) -> Result<u32, NodeError> {
///     Ok(text.parse::<u32>().terminal()?)
/// }
/// assert!(parse("x").unwrap_err().is_terminal());
/// ```
pub trait Terminal<T> {
    /// Converts the error into a terminal [`NodeError`].
    fn terminal(self) -> Result<T, NodeError>;
}

impl<T, E: Into<BoxError>> Terminal<T> for Result<T, E> {
    fn terminal(self) -> Result<T, NodeError> {
        self.map_err(NodeError::terminal)
    }
}

/// The error returned when a run fails.
///
/// `Debug` prints the message and its causes, one per line, so a `main` that returns the error explains it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed, and neither a retry nor an error handler recovered from the failure.
    #[error("node `{node}` failed in step {step}: {error}")]
    Node {
        /// Name of the node.
        node: String,
        /// Number of the step.
        step: i64,
        /// The node's error.
        error: Arc<dyn std::error::Error + Send + Sync>,
        /// Whether the node marked its error as terminal.
        terminal: bool,
    },
    /// Two tasks of one step wrote a field that accepts one write per step.
    #[error(transparent)]
    Conflict(Box<WriteConflictError>),
    /// A value does not fit its field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The run exceeded its step limit.
    #[error(
        "the run exceeded its limit of {limit} steps; check the graph for an endless loop or raise the limit with `RunOptions::step_limit`"
    )]
    StepLimit {
        /// The step limit.
        limit: u32,
    },
    /// The step limit is 0.
    #[error("the step limit is 0; it must be at least 1")]
    ZeroStepLimit,
    /// A step exceeded the graph's step timeout.
    #[error("step {step} exceeded its timeout of {limit:?}")]
    StepTimeout {
        /// Number of the step.
        step: i64,
        /// The step timeout.
        limit: Duration,
    },
    /// There is neither an input nor a checkpoint to continue from.
    #[error(
        "no input was given and the thread has no checkpoint to continue from; the first run of a thread needs an input"
    )]
    EmptyInput,
    /// A resume value was given, but no interrupt is pending.
    #[error("cannot resume: thread `{thread}` {problem}")]
    NothingToResume {
        /// Name of the thread.
        thread: String,
        /// Why there is no pending interrupt, and what to do.
        problem: &'static str,
    },
    /// A whole state was given to a thread that already has one.
    #[error(
        "thread `{thread}` already has a state, and a whole state as input would reset its fields without a reducer \
         ({}); pass an update with only the fields to change, as in `thread.run(State::update().{}(..))`",
        fields.join(", "), fields[0]
    )]
    ThreadHasState {
        /// Name of the thread.
        thread: String,
        /// Fields that the input would reset. At least one.
        fields: Vec<String>,
    },
    /// A run id was used for two runs with different inputs.
    #[error(
        "run id `{run}` was already used on thread `{thread}` with another input; use a new id for a new run"
    )]
    RunIdReused {
        /// The run id.
        run: String,
        /// Name of the thread.
        thread: String,
    },
    /// A thread continues with a node that the graph does not have.
    #[error(
        "thread `{thread}` continues with node `{node}`, which is not a node of graph `{graph}` (nodes are: {}); if \
         the node was renamed, increase the state's version and add `Migrations::rename_node`; if it was removed, \
         give the thread new input, or move it to another node with `Thread::update_state`",
        nodes.join(", ")
    )]
    MissingNode {
        /// Name of the thread.
        thread: String,
        /// Name of the stored node.
        node: String,
        /// Name of the graph.
        graph: String,
        /// Names of the existing nodes.
        nodes: Vec<String>,
    },
    /// The graph has a checkpointer, but the run has no thread.
    #[error(
        "the graph has a checkpointer, so its runs need a thread; use `graph.thread(\"name\", ..)`"
    )]
    MissingThread,
    /// The operation needs a checkpointer, but the graph has none.
    #[error(
        "a thread needs a checkpointer, but the graph has none; add one before `compile()`, as in \
         `.checkpointer(MemorySaver::new())`, or run the graph without a thread: `graph.run(..)`"
    )]
    NoCheckpointer,
    /// A single resume value was given, but several interrupts are pending.
    #[error(
        "{pending} interrupts are pending, so a resume value needs an interrupt id; use `Input::resume_by_id`"
    )]
    AmbiguousResume {
        /// Number of pending interrupts.
        pending: usize,
    },
    /// A resume value was given for an interrupt that is not pending.
    #[error(
        "no interrupt with id `{id}` is pending; `ThreadState::interrupts` lists the pending ones"
    )]
    UnknownInterrupt {
        /// The interrupt id.
        id: String,
    },
    /// A node of a top-level graph sent a command to a parent graph.
    #[error(
        "node `{node}` sent a command to its parent graph, but its graph is not a subgraph; send the command to a node \
         of this graph, or run the graph as a subgraph"
    )]
    NoParent {
        /// Name of the node.
        node: String,
    },
    /// A route leads to a node that does not exist.
    #[error(transparent)]
    UnknownTarget(Box<UnknownTargetError>),
    /// A static stop of the run is set at a node that the graph does not have.
    #[error(
        "cannot stop at `{node}`: it is not a node of graph `{graph}`{}; nodes are: {}; to stop inside a subgraph, use \
         `StateGraph::stop_before` or `StateGraph::stop_after` of that graph",
        suggestion(node, nodes),
        list(nodes)
    )]
    UnknownStop {
        /// Name of the missing node.
        node: String,
        /// Name of the graph.
        graph: String,
        /// Names of the existing nodes.
        nodes: Vec<String>,
    },
    /// An edit is attributed to a node that does not exist.
    #[error("cannot update the state as node `{node}`: it does not exist; nodes are: {}", nodes.join(", "))]
    UnknownNode {
        /// Name of the missing node.
        node: String,
        /// Names of the existing nodes.
        nodes: Vec<String>,
    },
    /// A namespace belongs to none of the graph's subgraphs.
    #[error(
        "graph `{graph}` has no subgraph with namespace `{namespace}`; its subgraphs are: {}; `TaskState` contains the \
         namespaces of subgraphs; a node that runs a graph itself declares it with `runs_graph`",
        list(subgraphs)
    )]
    UnknownSubgraph {
        /// The namespace.
        namespace: String,
        /// Name of the graph.
        graph: String,
        /// Paths of the subgraphs, without task ids.
        subgraphs: Vec<String>,
    },
    /// A run cannot start from a checkpoint of a subgraph.
    #[error("cannot start a run from checkpoint {checkpoint} of subgraph `{namespace}`: {problem}")]
    SubgraphStart {
        /// The namespace.
        namespace: String,
        /// Id of the checkpoint.
        checkpoint: CheckpointId,
        /// Why the run cannot start, and what to do.
        problem: &'static str,
    },
    /// An edit specifies no node, but several nodes ran in the last step.
    #[error(
        "several nodes ran in the last step, so an update must name one of them; use `AsNode::node`"
    )]
    AmbiguousUpdate,
    /// An edit, a command or a send is not allowed.
    #[error("invalid update: {0}")]
    InvalidUpdate(String),
    /// A run that was started with `invoke` was interrupted or stopped.
    #[error("the run did not complete: {reason}; {advice}")]
    Unfinished {
        /// Why the run did not complete.
        reason: String,
        /// How to continue the run.
        advice: &'static str,
    },
    /// The run was cancelled.
    #[error("the run was cancelled; the thread can continue from its last checkpoint")]
    Cancelled,
    /// The checkpointer failed or rejected a write.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self {
            // The message already contains the node's error.
            Self::Node { error, .. } => error.source(),
            error => std::error::Error::source(error),
        };
        error_chain::debug(f, self, cause)
    }
}

impl From<WriteConflictError> for RunError {
    fn from(conflict: WriteConflictError) -> Self {
        Self::Conflict(Box::new(conflict))
    }
}

impl From<UnknownTargetError> for RunError {
    fn from(target: UnknownTargetError) -> Self {
        Self::UnknownTarget(Box::new(target))
    }
}

impl RunError {
    /// Returns the error of the node that failed, if that error has the type `E`.
    pub fn node_error<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Node { error, .. } => {
                (&**error as &(dyn std::error::Error + 'static)).downcast_ref()
            }
            _ => None,
        }
    }
}

/// The error returned when a route, goto or send leads to a node that does not exist in the graph.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("`{from}` leads to `{to}`, which is not a node of graph `{graph}`; nodes are: {}", nodes.join(", "))]
pub struct UnknownTargetError {
    /// Node that the route starts from.
    pub from: String,
    /// Target of the route.
    pub to: String,
    /// Name of the graph.
    pub graph: String,
    /// Names of the existing nodes.
    pub nodes: Vec<String>,
}

crate::readable_debug!(UnknownTargetError);

/// The error returned when a step writes a field twice although the field accepts only one write per step.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("field `{field}` was written by `{first}` and by `{second}` in step {step}; {}", self.advice())]
pub struct WriteConflictError {
    /// Name of the field.
    pub field: String,
    /// Node whose write comes first in task order.
    pub first: String,
    /// Node whose write comes second.
    pub second: String,
    /// Number of the step.
    pub step: i64,
    /// Whether both writes are overwrites of a field that has a reducer.
    pub overwrites: bool,
}

crate::readable_debug!(WriteConflictError);

impl WriteConflictError {
    fn advice(&self) -> &'static str {
        if self.overwrites {
            "a step can overwrite a field only once"
        } else {
            "add a reducer such as `#[reduce(append)]`, or write it from one node only"
        }
    }
}

/// The error returned when a node panics.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node panicked: {message}")]
pub struct NodePanicError {
    /// The panic message.
    pub message: String,
}

crate::readable_debug!(NodePanicError);

/// The error returned when a node raises an interrupt, but then returns a result instead of the interrupt's error.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node raised an interrupt but did not return its error, so the interrupt would be lost; pass the error on with \
     `?`, as in `cx.interrupt(..)?`"
)]
pub struct IgnoredInterruptError;

crate::readable_debug!(IgnoredInterruptError);

/// The error returned when a node of an [eager](crate::StateGraph::eager) graph does something that it does not
/// declare.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndeclaredError {
    /// The node wrote a field that it does not declare.
    #[error(
        "it wrote the field `{field}`, which it does not declare; add `{field}` to `.writes([..])`"
    )]
    Write {
        /// Name of the field.
        field: String,
    },
    /// The node routed to a node that is not among its declared targets.
    #[error(
        "it routed to `{to}`, which it does not declare; add `{to}` to the targets of the node or its branch"
    )]
    Target {
        /// Name of the target node.
        to: String,
    },
}

crate::readable_debug!(UndeclaredError);

/// The error returned when a node exceeds one of its timeouts.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node {} {limit:?}", if *.idle { "sent no heartbeat for" } else { "exceeded its timeout of" })]
pub struct NodeTimeoutError {
    /// The timeout.
    pub limit: Duration,
    /// Whether the limit is the idle timeout, which applies between two heartbeats.
    pub idle: bool,
}

crate::readable_debug!(NodeTimeoutError);

//! Errors, by phase: building a graph, running one, and what a node itself returns.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{checkpoint::CheckpointError, command::ParentCommand, label::Label, state::FieldError};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A question that a node asked, waiting for its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Names the question when several wait: see [`Input::answers`](crate::Input::answers).
    pub id: String,
    /// What is asked.
    pub value: Value,
    /// Where it is asked: the namespace of the task.
    pub namespace: String,
}

/// What a node returns when it does not finish: any error through `?`, or a question on its way out.
///
/// A failure may be retried unless it was made by [`NodeError::terminal`].
pub struct NodeError(Box<Halt>);

/// Why a task stopped short.
#[derive(Debug)]
pub(crate) enum Halt {
    Failed {
        source: Arc<dyn std::error::Error + Send + Sync>,
        terminal: bool,
    },
    Asked(Vec<Interrupt>),
    /// A command for the graph around the node's.
    Parent(Box<ParentCommand>),
    /// A command that a graph inside the node sent to the node's graph.
    Delivered(Box<ParentCommand>),
    /// A subgraph came to a static stop, or the run was drained inside it.
    Stopped(Stop),
}

/// Why a run stopped before its end, without failing and without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// A static stop before a node.
    Before,
    /// A static stop after a node.
    After,
    /// Somebody asked the run to stop at the end of a step.
    Drained,
}

impl NodeError {
    /// A failure that no retry would mend.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::failed(error.into(), true)
    }

    pub(crate) fn asked(interrupts: Vec<Interrupt>) -> Self {
        Self(Box::new(Halt::Asked(interrupts)))
    }

    pub(crate) fn parent(command: Box<ParentCommand>) -> Self {
        Self(Box::new(Halt::Parent(command)))
    }

    pub(crate) fn delivered(command: Box<ParentCommand>) -> Self {
        Self(Box::new(Halt::Delivered(command)))
    }

    pub(crate) fn stopped(stop: Stop) -> Self {
        Self(Box::new(Halt::Stopped(stop)))
    }

    /// The failure of a node inside a subgraph, as the failure of the subgraph's node.
    pub(crate) fn inner(source: Arc<dyn std::error::Error + Send + Sync>, terminal: bool) -> Self {
        Self(Box::new(Halt::Failed { source, terminal }))
    }

    fn failed(error: BoxError, terminal: bool) -> Self {
        Self(Box::new(Halt::Failed { source: Arc::from(error), terminal }))
    }

    pub(crate) fn from_halt(halt: Halt) -> Self {
        Self(Box::new(halt))
    }

    pub(crate) fn halt(self) -> Halt {
        *self.0
    }

    /// Whether the node asked something and is to be run again once there is an answer.
    pub fn is_interrupt(&self) -> bool {
        matches!(*self.0, Halt::Asked(_))
    }

    /// Whether the failure is final.
    pub fn is_terminal(&self) -> bool {
        matches!(*self.0, Halt::Failed { terminal: true, .. })
    }

    /// The error a failed node returned.
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        match &*self.0 {
            Halt::Failed { source, .. } => Some(&**source),
            _ => None,
        }
    }

    /// The error a failed node returned, if it is of that type.
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
            Halt::Failed { source, .. } => source.fmt(f),
            Halt::Asked(interrupts) => write!(f, "the node asks {} questions", interrupts.len()),
            Halt::Parent(_) => f.write_str("the node left its graph"),
            Halt::Delivered(_) => f.write_str("a graph inside the node sent a command"),
            Halt::Stopped(_) => f.write_str("a graph inside the node stopped"),
        }
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Marks the error of a result as final: no retry follows.
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
    /// The same result, its error final.
    fn terminal(self) -> Result<T, NodeError>;
}

impl<T, E: Into<BoxError>> Terminal<T> for Result<T, E> {
    fn terminal(self) -> Result<T, NodeError> {
        self.map_err(NodeError::terminal)
    }
}

/// A run that did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed, its retries used up and no handler there.
    #[error("node `{node}` failed in step {step}: {error}")]
    Node {
        /// The node.
        node: String,
        /// The step.
        step: i64,
        /// The node's error.
        error: Arc<dyn std::error::Error + Send + Sync>,
        /// Whether the node said that no retry would help.
        terminal: bool,
    },
    /// Two tasks of one step wrote a field that takes one write.
    #[error(transparent)]
    Conflict(Box<Conflict>),
    /// A value does not fit its field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The run took more steps than it may.
    #[error(
        "the run did not end within {limit} steps; raise the limit with `RunOptions::limit` or look for a loop that never ends"
    )]
    StepLimit {
        /// The limit.
        limit: u32,
    },
    /// A step limit of nought.
    #[error("a step limit must be at least 1")]
    BadLimit,
    /// A step took longer than it may.
    #[error("step {step} took longer than {limit:?}")]
    StepTimeout {
        /// The step.
        step: i64,
        /// How long it may take.
        limit: Duration,
    },
    /// There is neither input nor anything to go on with.
    #[error("there is no input, and nothing to go on with; give a thread's first run an input")]
    EmptyInput,
    /// The graph has a checkpointer, but the call names no thread.
    #[error(
        "the graph has a checkpointer, so a run needs a thread; use `graph.thread(\"name\", ..)`"
    )]
    MissingThread,
    /// The call needs a checkpointer, and the graph has none.
    #[error(
        "this needs a checkpointer, and the graph has none; add one with `StateGraph::checkpointer`"
    )]
    NoCheckpointer,
    /// One answer for several questions.
    #[error(
        "{pending} questions wait, so an answer must say which one it is for; use `Input::answers`"
    )]
    AmbiguousResume {
        /// How many questions wait.
        pending: usize,
    },
    /// An answer to a question that nobody asks.
    #[error("no question with id `{id}` waits; `ThreadState::interrupts` lists those that do")]
    UnknownInterrupt {
        /// The id.
        id: String,
    },
    /// A command to the parent in a graph that has none.
    #[error("node `{node}` sends a command to the parent graph, and there is none")]
    NoParent {
        /// The node.
        node: String,
    },
    /// A route to a node that does not exist.
    #[error(transparent)]
    UnknownTarget(Box<UnknownTarget>),
    /// An edit as a node that does not exist.
    #[error("the graph has no node `{node}` to update the state as; nodes are: {}", nodes.join(", "))]
    UnknownNode {
        /// The node.
        node: String,
        /// The nodes there are.
        nodes: Vec<String>,
    },
    /// An edit that names no node, where several ran last.
    #[error("several nodes ran last, so an update must say which one it stands for; use `as_node`")]
    AmbiguousUpdate,
    /// An edit that cannot be made.
    #[error("this update cannot be made: {0}")]
    InvalidUpdate(String),
    /// The run came to a question or a stop where only a result was asked for.
    #[error(
        "the run stopped before its end ({0}); use a thread with a checkpointer to go on from there"
    )]
    Unfinished(String),
    /// The run was cancelled.
    #[error("the run was cancelled; the thread can go on from its last step")]
    Cancelled,
    /// The storage refused or failed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl From<Conflict> for RunError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(Box::new(conflict))
    }
}

impl From<UnknownTarget> for RunError {
    fn from(target: UnknownTarget) -> Self {
        Self::UnknownTarget(Box::new(target))
    }
}

impl RunError {
    /// The node's own error, if it is of that type.
    pub fn node_error<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Node { error, .. } => {
                (&**error as &(dyn std::error::Error + 'static)).downcast_ref()
            }
            _ => None,
        }
    }
}

/// A route, goto or send to a node that the graph does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{from}` leads to `{to}`, which is not a node of graph `{graph}`; nodes are: {}", nodes.join(", "))]
pub struct UnknownTarget {
    /// Who leads there.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// The graph.
    pub graph: String,
    /// The nodes there are.
    pub nodes: Vec<String>,
}

/// Two writes of one step to a field that takes one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` was written by `{first}` and by `{second}` in step {step}; {}", self.advice())]
pub struct Conflict {
    /// The field.
    pub field: String,
    /// The node whose write came first in task order.
    pub first: String,
    /// The node whose write came second.
    pub second: String,
    /// The step.
    pub step: i64,
    /// Whether both writes are overwrites of a field that otherwise takes many.
    pub overwrites: bool,
}

impl Conflict {
    fn advice(&self) -> &'static str {
        if self.overwrites {
            "one step can overwrite a field once"
        } else {
            "give it a reducer, such as `#[reduce(append)]`, or let one node write it"
        }
    }
}

/// A node that panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node panicked: {message}")]
pub struct NodePanic {
    /// What it said.
    pub message: String,
}

/// A node that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node {} {limit:?}", if *.idle { "gave no sign of life for" } else { "took longer than" })]
pub struct NodeTimeout {
    /// How long it may take.
    pub limit: Duration,
    /// Whether that is the time between two signs of life.
    pub idle: bool,
}

/// All that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The graph's name.
    pub graph: String,
    /// What is wrong, one by one.
    pub problems: Vec<Problem>,
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be compiled", self.graph)?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a graph, or looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing leads out of START.
    #[error("nothing leads out of START; add `.edge(START, first_node)`")]
    NoEntry,
    /// Two nodes have one name.
    #[error("two nodes are called `{0}`; name one of them with `node_as`")]
    DuplicateNode(Label),
    /// A closure was added without a name.
    #[error("a closure has no name of its own; add it with `node_as(\"name\", ..)`")]
    UnnamedNode,
    /// A name that cannot be used.
    #[error("`{name}` cannot name a node: {reason}")]
    BadName {
        /// The name.
        name: Label,
        /// Why not.
        reason: &'static str,
    },
    /// An edge from or to nowhere.
    #[error("`{from}` leads to `{to}`, but `{missing}` is not a node; nodes are: {}", nodes.join(", "))]
    UnknownNode {
        /// The edge's source.
        from: Label,
        /// The edge's target.
        to: Label,
        /// The one that does not exist.
        missing: Label,
        /// The nodes there are.
        nodes: Vec<String>,
    },
    /// An edge out of END or into START.
    #[error("an edge cannot lead {0}")]
    BadEndpoint(&'static str),
    /// A static stop at a node that does not exist.
    #[error("a stop is set at `{0}`, which is not a node")]
    UnknownStop(Label),
    /// A node that takes a payload is led to without one.
    #[error("`{from}` leads to `{to}` without a payload, and `{to}` takes one; send it one")]
    NeedsPayload {
        /// The edge's source.
        from: Label,
        /// The node.
        to: Label,
    },
    /// Two branches of one node have the same name.
    #[error("`{node}` has two branches called `{branch}`")]
    DuplicateBranch {
        /// The node.
        node: Label,
        /// The branch.
        branch: Label,
    },
    /// A node that nothing leads to.
    #[error("nothing leads to `{0}`, so it never runs")]
    Unreachable(Label),
    /// A join one of whose sources never runs.
    #[error("the join into `{to}` waits for `{source_node}`, which never runs, so it never fires")]
    DeadJoin {
        /// The join's target.
        to: Label,
        /// The source that never runs.
        source_node: Label,
    },
    /// A join both of whose sources lie on different ways of one branch.
    #[error(
        "the join into `{to}` waits for both `{first}` and `{second}`, but `{branch}` goes to one of them only"
    )]
    ExclusiveJoin {
        /// The join's target.
        to: Label,
        /// One source.
        first: Label,
        /// The other.
        second: Label,
        /// The node that chooses.
        branch: Label,
    },
    /// Nodes that run side by side write a field that takes one write.
    #[error(
        "`{first}` and `{second}` run in one step and both declare to write `{field}`, which takes one write a step"
    )]
    ParallelWrite {
        /// The field.
        field: String,
        /// One node.
        first: Label,
        /// The other.
        second: Label,
    },
    /// A node says that it writes a field which does not exist.
    #[error("`{node}` says that it writes `{field}`, which the state lacks")]
    UnknownField {
        /// The node.
        node: Label,
        /// The field.
        field: String,
    },
}

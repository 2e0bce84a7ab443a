//! Outcomes: how tasks and graphs end.

use smallvec::SmallVec;

use crate::{
    engine::target::Targets,
    error::{Halt, RunError},
    graph::erased::NodeIdx,
    state::erased::{AnyState, AnyUpdate},
};

/// How a task ended.
pub(super) enum TaskOutcome {
    Done(TaskOutput),
    Failed(Box<RunError>),
    Halted(Halt),
}

/// The writes of a finished task, and the targets it routed to.
pub(super) struct TaskOutput {
    pub(super) node: NodeIdx,
    pub(super) updates: SmallVec<[AnyUpdate; 1]>,
    pub(super) targets: Targets,
    /// Whether the node's routers have been called. If not, they are called with the committed state.
    pub(super) routed: bool,
    /// Whether the output comes from the node's error handler. If so, the node's own edges do not fire.
    pub(super) handled: bool,
}

impl TaskOutput {
    /// Creates the output of a task whose routers have not been called.
    pub(super) fn new(node: NodeIdx, updates: SmallVec<[AnyUpdate; 1]>) -> Self {
        Self { node, updates, targets: Targets::new(), routed: false, handled: false }
    }
}

/// How a graph ended, unless it failed. The graph is a top-level graph or a subgraph.
pub(crate) struct GraphOutcome {
    /// Why the graph ended early, or `None` if it completed.
    pub(crate) halt: Option<Halt>,
    /// The final state.
    pub(crate) state: AnyState,
    /// Whether the graph produced output, that is, wrote an output field or continued from a checkpoint.
    pub(crate) has_output: bool,
}

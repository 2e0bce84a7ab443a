//! How a graph ends.

use crate::{
    goto::ParentCommand,
    interrupt::{Interrupt, StopReason},
    state::erased::AnyState,
};

/// The result of a run that did not fail, for a top-level graph or a subgraph.
pub(crate) struct GraphOutcome {
    pub(crate) exit: ExitReason,
    /// The final state.
    pub(crate) state: AnyState,
    /// Whether the graph produced output, that is, wrote an output field or continued from a checkpoint.
    pub(crate) has_output: bool,
}

/// Why a graph stopped running.
pub(crate) enum ExitReason {
    Done,
    Interrupted(Vec<Interrupt>),
    Stopped(StopReason),
    ParentCommand(Box<ParentCommand>),
}

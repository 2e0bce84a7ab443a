//! The outcome of a run.

use crate::{
    engine::outcome::GraphOutcome,
    error::{Halt, RunError},
    interrupt::{Interrupt, StopReason},
    state::{State, erased::downcast_state},
};

/// The outcome of a run that did not fail.
///
/// ```
/// use graph_core::{Context, MemorySaver, NodeError, RunOutcome, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Order { approved: bool }
/// # async fn approve(_: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
/// #     Ok(Order::update().approved(cx.interrupt::<bool>("buy tea?")?))
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Order>::new()
/// #     .node(approve)
/// #     .edge(START, approve)
/// #     .checkpointer(MemorySaver::new())
/// #     .compile()?;
/// # let thread = graph.thread("order", ());
/// let mut outcome = thread.run(Order::default()).await?;
/// while let RunOutcome::Interrupted { interrupts, .. } = &outcome {
///     println!("{} – answering yes", interrupts[0].value);
///     outcome = thread.resume(true).await?;
/// }
/// assert!(outcome.into_state().approved);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum RunOutcome<S> {
    /// The run completed.
    Done(S),
    /// Nodes raised interrupts; continue with [`Thread::resume`](crate::Thread::resume).
    Interrupted {
        /// State so far, including the writes of tasks that finished in the interrupted step.
        state: S,
        /// The pending interrupts.
        interrupts: Vec<Interrupt>,
    },
    /// The run reached a static stop or was drained; continue with [`Thread::proceed`](crate::Thread::proceed).
    Stopped {
        /// State so far.
        state: S,
        /// Why the run stopped.
        reason: StopReason,
    },
}

impl<S: State> RunOutcome<S> {
    pub(super) fn new(outcome: GraphOutcome) -> Self {
        let state = downcast_state(outcome.state);
        match outcome.halt {
            // `ParentCommand` does not occur here, because the engine reports it as an error in a top-level graph.
            None | Some(Halt::ParentCommand(_)) => Self::Done(state),
            Some(Halt::Interrupted(interrupts)) => Self::Interrupted { state, interrupts },
            Some(Halt::Stopped(reason)) => Self::Stopped { state, reason },
        }
    }
}

impl<S> RunOutcome<S> {
    /// Returns a reference to the final state of the run.
    pub fn state(&self) -> &S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// Consumes the outcome and returns the final state of the run.
    pub fn into_state(self) -> S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// Returns the pending interrupts. The slice is empty unless the run was interrupted.
    pub fn interrupts(&self) -> &[Interrupt] {
        match self {
            Self::Interrupted { interrupts, .. } => interrupts,
            _ => &[],
        }
    }

    /// Returns whether the run completed.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Returns the state of a completed run, or an error if the run is interrupted or stopped.
    pub(super) fn into_final_state(self) -> Result<S, RunError> {
        match self {
            Self::Done(state) => Ok(state),
            unfinished => Err(RunError::Unfinished(unfinished.reason())),
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Done(_) => "it completed".to_owned(),
            Self::Interrupted { interrupts, .. } => match interrupts.first() {
                Some(first) => format!("interrupted in `{}` with {}", first.namespace, first.value),
                None => "interrupted".to_owned(),
            },
            Self::Stopped { reason: StopReason::Drained, .. } => "drained".to_owned(),
            Self::Stopped { .. } => "static stop".to_owned(),
        }
    }
}

//! The outcome of a run.

use crate::{
    engine::outcome::GraphOutcome,
    error::{Halt, RunError},
    interrupt::{Interrupt, StopReason},
    namespace::without_task_ids,
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
/// # Ok(()) }
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
    /// Returns a reference to the state when the run ended, even if the run was interrupted or stopped: see
    /// [`is_done`](Self::is_done).
    pub fn state(&self) -> &S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// Consumes the outcome and returns the state when the run ended, even if the run was interrupted or stopped: see
    /// [`is_done`](Self::is_done).
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
    ///
    /// `resumable` is whether the run has a thread, which can continue it.
    pub(super) fn into_final_state(self, resumable: bool) -> Result<S, RunError> {
        let (reason, advice) = match self {
            Self::Done(state) => return Ok(state),
            Self::Interrupted { interrupts, .. } => match &interrupts[..] {
                [only] => (question(only), "answer with `thread.resume(..)`"),
                several => (
                    several.iter().map(question).collect::<Vec<_>>().join(" and "),
                    "answer with `thread.resume_by_id(..)`",
                ),
            },
            Self::Stopped { reason: StopReason::Drained, .. } => {
                ("it was drained".to_owned(), "continue it with `thread.proceed()`")
            }
            Self::Stopped { .. } => {
                ("it reached a static stop".to_owned(), "continue it with `thread.proceed()`")
            }
        };
        let advice = match resumable {
            true => advice,
            false => {
                "to be able to continue it, start it on a thread of a graph with a checkpointer"
            }
        };
        Err(RunError::Unfinished { reason, advice })
    }
}

/// Describes an interrupt by its node and its value.
fn question(interrupt: &Interrupt) -> String {
    let path = without_task_ids(&interrupt.namespace).replace('|', "/");
    format!("node `{path}` asks {}", interrupt.value)
}

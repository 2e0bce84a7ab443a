//! The kinds of differences.

/// The part of a run, step or task that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DivergenceKind {
    /// The input of the run or task.
    Input,
    /// The node of the task, or the existence of the task.
    Task,
    /// A failed attempt.
    Attempt,
    /// The name, key or result of an external call.
    Effect,
    /// A custom event or message.
    StreamItem,
    /// The graphs that a task ran, or their steps.
    Graph,
    /// The error, or whether it was handled by an error handler.
    Error,
    /// An interrupt.
    Interrupt,
    /// A write to this field.
    Write(String),
    /// The targets of routes.
    Route,
    /// A sent payload.
    Send,
    /// This field of the state after the step.
    State(String),
    /// How the run ended.
    End,
}

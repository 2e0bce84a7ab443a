//! Hooks that intercept the external calls of a run, for recording and replay.

use std::fmt;

use serde_json::Value;

use crate::NodeError;

/// An external call: a call made with [`Context::task`](crate::Context::task), a read of the clock, or a request for a
/// random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectCall<'a> {
    /// Path of the calling task through steps, nodes and subgraphs. The path is the same in every run that takes the
    /// same route.
    pub task_path: &'a str,
    /// Name and key of the call.
    pub key: &'a str,
}

/// An interceptor's decision about an external call.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectDecision {
    /// Make the call.
    Execute,
    /// Return this recorded result without making the call.
    Return(Value),
    /// Fail with this recorded error without making the call.
    Fail {
        /// Error message.
        error: String,
        /// Whether the error must not be retried: see [`NodeError::terminal`].
        terminal: bool,
    },
    /// Fail the run because the recording contains a different call here. The text describes the difference.
    Diverge(String),
}

/// Intercepts the external calls of a run: see
/// [`RunOptions::effect_interceptor`](crate::RunOptions::effect_interceptor).
///
/// The methods are called concurrently by many tasks and must not block for long.
pub trait EffectInterceptor: Send + Sync + fmt::Debug {
    /// Called before a call is made, unless the thread's journal already contains its result.
    fn before_call(&self, call: EffectCall<'_>) -> EffectDecision;

    /// Called with the result or the error of a call that was made.
    fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>);
}

/// A replayed run made a call that differs from its recording.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run diverged from its recording at {task_path}, call `{key}`: {problem}")]
pub struct DivergenceError {
    /// Path of the calling task.
    pub task_path: String,
    /// Name and key of the call.
    pub key: String,
    /// How the call differs from the recording.
    pub problem: String,
}

/// An error that comes from a recording instead of an actual call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordedError(pub String);

//! Effects: the outside calls of a run, seen by who records them or gives them back.

use std::fmt;

use serde_json::Value;

use crate::NodeError;

/// One outside call: a [`Context::task`](crate::Context::task), the clock or a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectCall<'a> {
    /// Where it is made: the way through steps, nodes and graphs. The same in every run that goes the same way.
    pub place: &'a str,
    /// Its name and key.
    pub key: &'a str,
}

/// What is to be done about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Recall {
    /// It is made.
    Make,
    /// It came back with this before, and is not made again.
    Came(Value),
    /// It failed before, and is not made again.
    Failed {
        /// Its error in words.
        error: String,
        /// Whether the failure is final: see [`NodeError::terminal`].
        terminal: bool,
    },
    /// It is not the call that was expected: the run ends with this problem.
    Diverged(String),
}

/// Watches the outside calls of a run: see [`RunOptions::effects`](crate::RunOptions::effects).
///
/// Its methods are called by many tasks at once and must not block for long.
pub trait Effects: Send + Sync + fmt::Debug {
    /// Asked before a call is made, unless the thread's own journal knows its result.
    fn recall(&self, call: EffectCall<'_>) -> Recall;

    /// Told what a call that was made came to: its result, or its error.
    fn made(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>);
}

/// A call that is not the one that was expected.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run has left its recording at {place}, call `{key}`: {problem}")]
pub struct Diverged {
    /// Where the call is made.
    pub place: String,
    /// The call's name and key.
    pub key: String,
    /// What was expected in its place.
    pub problem: String,
}

/// The error of a call that is given back from a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordedError(pub String);

//! Hooks that intercept the external calls of a run, for recording and replay.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::NodeError;

/// An external call: a call made with [`Context::task`](crate::Context::task), a read of the clock, or a request for a
/// random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectCall<'a> {
    /// Path of the calling task through steps, nodes and subgraphs. The path is the same in every run that executes the
    /// same tasks.
    pub task_path: &'a str,
    /// Name and key of the call.
    pub key: &'a str,
}

/// An interceptor's decision about an external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Fail the run because the recording contains a different call at this point. The text describes the difference.
    Diverge(String),
}

/// Intercepts the external calls of a run: see
/// [`RunOptions::effect_interceptor`](crate::RunOptions::effect_interceptor).
///
/// The methods are called concurrently by many tasks and must not block for long.
///
/// ```
/// use graph_core::{EffectCall, EffectDecision, EffectInterceptor, NodeError};
/// use serde_json::Value;
///
/// /// Prints every external call.
/// #[derive(Debug)]
/// struct CallLog;
///
/// impl EffectInterceptor for CallLog {
///     fn before_call(&self, call: EffectCall<'_>) -> EffectDecision {
///         println!("{} calls {}", call.task_path, call.key);
///         EffectDecision::Execute
///     }
///
///     fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>) {
///         println!("{}: {outcome:?}", call.key);
///     }
/// }
/// ```
pub trait EffectInterceptor: Send + Sync + fmt::Debug {
    /// Called before a call is made, unless the thread's journal already contains the call's result.
    fn before_call(&self, call: EffectCall<'_>) -> EffectDecision;

    /// Called with the result or the error of a call that was made.
    fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>);
}

/// The interceptor of a run in another process, as a subgraph of that run sees it: see
/// [`CompiledGraph::run_remote`](crate::CompiledGraph::run_remote).
#[async_trait]
pub trait RemoteInterceptor: Send + Sync + fmt::Debug {
    /// See [`EffectInterceptor::before_call`]. An error fails the call.
    async fn before_call(&self, call: EffectCall<'_>) -> Result<EffectDecision, NodeError>;

    /// See [`EffectInterceptor::after_call`].
    async fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>);
}

/// Stores the results of external calls of a task that runs for another process: see
/// [`CompiledGraph::run_remote_task`](crate::CompiledGraph::run_remote_task).
#[async_trait]
pub trait EffectRecorder: Send + Sync + fmt::Debug {
    /// Stores the result of a call before the node receives it. `key` contains the name and the key of the call.
    async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError>;
}

/// The interceptor of a run, in this process or in another one.
#[derive(Clone, Debug)]
pub(crate) enum Interceptor {
    Local(Arc<dyn EffectInterceptor>),
    Remote(Arc<dyn RemoteInterceptor>),
}

/// The error returned when a call of a replayed run differs from the recording.
#[derive(Clone, thiserror::Error)]
#[error("the run diverged from its recording at {task_path}, call `{key}`: {problem}")]
pub struct DivergenceError {
    /// Path of the calling task.
    pub task_path: String,
    /// Name and key of the call.
    pub key: String,
    /// How the call differs from the recording.
    pub problem: String,
}

crate::readable_debug!(DivergenceError);

/// The error returned for a replayed call that failed when it was recorded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordedError(pub String);

crate::readable_debug!(RecordedError);

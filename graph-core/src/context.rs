//! The context of a task, through which a node accesses its run.

pub(crate) mod resume;
pub(crate) mod settings;
pub(crate) mod task;

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    checkpoint::id::{CheckpointId, TaskId},
    context::task::{NodeFailure, TaskContext},
    error::NodeError,
    random,
    store::interface::Store,
    stream::EventKind,
};

/// Gives a node access to its run and to the caller's dependencies of type `C`.
///
/// ```
/// use graph_core::{Context, NodeError, State};
///
/// #[derive(State, Clone, Default)]
/// struct Essay {
///     topic: String,
/// }
///
/// struct Llm;
///
/// async fn review(essay: &Essay, cx: &Context<Llm>) -> Result<EssayUpdate, NodeError> {
///     cx.emit("waiting for a reviewer").await;
///     let topic: String = cx.interrupt(format!("Replace the topic {}?", essay.topic))?;
///     Ok(Essay::update().topic(topic))
/// }
/// ```
pub struct Context<C = ()> {
    pub(crate) task: Arc<TaskContext>,
    deps: PhantomData<fn() -> C>,
}

impl<C> Clone for Context<C> {
    fn clone(&self) -> Self {
        Self { task: self.task.clone(), deps: PhantomData }
    }
}

impl<C> fmt::Debug for Context<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("node", &self.task.node())
            .field("step", &self.task.step.number)
            .finish_non_exhaustive()
    }
}

impl<C: Send + Sync + 'static> Context<C> {
    pub(crate) fn new(task: Arc<TaskContext>) -> Self {
        Self { task, deps: PhantomData }
    }

    /// Returns the dependencies that were passed to the run.
    pub fn deps(&self) -> &C {
        let deps = self.task.scope.deps.downcast_ref();
        deps.expect("the graph's type parameter guarantees the type of the dependencies")
    }

    /// Returns the node's name.
    pub fn node(&self) -> &str {
        self.task.node()
    }

    /// Returns the number of the current step.
    pub fn step(&self) -> i64 {
        self.task.step.number
    }

    /// Returns the number of steps the run may still take, including the current one.
    pub fn remaining_steps(&self) -> i64 {
        self.task.step.remaining()
    }

    /// Returns whether this is the last step that the step limit allows.
    pub fn is_last_step(&self) -> bool {
        self.remaining_steps() == 1
    }

    /// Returns the number of the current attempt. The first attempt is 1, and each retry adds 1.
    pub fn attempt(&self) -> u32 {
        self.task.attempt.load(Ordering::Relaxed)
    }

    /// Returns the run's id.
    pub fn run_id(&self) -> &str {
        &self.task.scope.run
    }

    /// Returns the thread's name, if the run has a thread.
    pub fn thread(&self) -> Option<&str> {
        self.task.scope.thread.as_deref()
    }

    /// Returns the namespace of the graph: empty for the top-level graph, `node:task` for a subgraph.
    pub fn namespace(&self) -> &str {
        &self.task.scope.namespace
    }

    /// Returns the id of the checkpoint that the current step follows. The task's records are stored under this id.
    pub fn checkpoint(&self) -> CheckpointId {
        self.task.step.checkpoint
    }

    /// Returns the task's id. It stays the same when the task runs again, even in another process.
    pub fn task_id(&self) -> TaskId {
        self.task.id()
    }

    /// Returns an idempotency key for external calls of this task. It stays the same when the task runs again, even in
    /// another process.
    pub fn idempotency_key(&self) -> String {
        self.task.id().to_string()
    }

    /// Returns a configuration value set by [`RunOptions::config`](crate::RunOptions::config).
    pub fn config(&self, key: &str) -> Option<&Value> {
        self.task.scope.settings.config.get(key)
    }

    /// Returns the long-term store of the graph, if it has one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.task.scope.store.as_ref()
    }

    /// Returns the failure to handle, if this node is an error handler.
    pub fn failure(&self) -> Option<&NodeFailure> {
        self.task.failure.as_deref()
    }

    /// Returns whether the run was asked to stop at the end of this step: see
    /// [`RunControl::drain`](crate::RunControl::drain).
    pub fn drain_requested(&self) -> bool {
        self.task.scope.control.is_draining()
    }

    /// Sends a value to the custom stream. Waits if the stream's buffer is full.
    pub async fn emit(&self, value: impl Serialize) {
        self.send_event(value, EventKind::Custom).await;
    }

    /// Sends a message, or one token of a message, to the message stream. Waits if the stream's buffer is full.
    pub async fn message(&self, message: impl Serialize) {
        self.send_event(message, EventKind::Message).await;
    }

    async fn send_event(&self, value: impl Serialize, kind: fn(Value) -> EventKind) {
        self.task.heartbeat();
        if self.task.scope.events.is_some() {
            let value = serde_json::to_value(value).unwrap_or_else(|error| {
                Value::String(format!("<cannot be serialised to JSON: {error}>"))
            });
            self.task.send_event(kind(value)).await;
        }
    }

    /// Resets the node's idle timeout.
    pub fn heartbeat(&self) {
        self.task.heartbeat();
    }

    /// Interrupts the run with a value for the caller, and returns the value that the run is resumed with.
    ///
    /// The first call returns an error, which the node must propagate with `?`. When the run is resumed, the node runs
    /// again from its start, and the n-th call to `interrupt` returns the n-th resume value. Wrap external calls that
    /// precede an interrupt in [`task`](Self::task), so that they are not repeated.
    pub fn interrupt<A: DeserializeOwned>(&self, value: impl Serialize) -> Result<A, NodeError> {
        self.interrupt_checked(value, Ok)
    }

    /// Like [`interrupt`](Self::interrupt), and checks the resume value. If `check` returns an error, the node must
    /// propagate it. The value is then discarded, so that the run can be resumed with another one.
    ///
    /// ```
    /// # use graph_core::{Context, NodeError};
    /// async fn order(cx: &Context) -> Result<(), NodeError> {
    ///     let number: u32 = cx.interrupt_checked("How many?", |number| match number {
    ///         1..=9 => Ok(number),
    ///         other => Err(NodeError::from(std::io::Error::other(format!("{other} is not between 1 and 9")))),
    ///     })?;
    /// #   let _ = number;
    ///     Ok(())
    /// }
    /// ```
    pub fn interrupt_checked<A: DeserializeOwned, T>(
        &self,
        value: impl Serialize,
        check: impl FnOnce(A) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let (index, resume_value) = self.task.interrupt(value)?;
        let read = serde_json::from_value(resume_value).map_err(|error| {
            NodeError::terminal(ResumeValueError {
                node: self.node().to_owned(),
                problem: error.to_string(),
            })
        });
        let checked = read.and_then(check);
        if checked.is_err() {
            self.task.discard_resume_values(index);
        }
        checked
    }

    /// Makes an external call and journals its result. If the node runs again after a crash, a retry or an interrupt,
    /// returns the journaled result without polling `call`.
    ///
    /// Together, `name` and `key` identify the call and must be unique within the task. The result is stored before it
    /// is returned; errors are not stored. With [`Durability::Exit`](crate::Durability::Exit), a crash loses the run
    /// together with its journal.
    ///
    /// ```
    /// # use graph_core::{Context, NodeError};
    /// async fn charge(order: u64, cx: &Context) -> Result<(), NodeError> {
    ///     let receipt: String =
    ///         cx.task("charge", order, async { Ok(format!("paid {order}")) }).await?;
    /// #   let _ = receipt;
    ///     Ok(())
    /// }
    /// ```
    pub async fn task<T, F>(&self, name: &str, key: impl Serialize, call: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, NodeError>>,
    {
        self.task.heartbeat();
        let key = format!("{name}:{}", serde_json::to_value(key).map_err(NodeError::terminal)?);
        let bad = |problem: String| NodeError::terminal(JournalError { key: key.clone(), problem });
        if let Some(known) = self.task.journaled(&key) {
            self.task.emit_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        if let Some(known) = self.task.intercept_call(&key)? {
            self.task.journal(key.clone(), known.clone()).await?;
            self.task.emit_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        let result = call.await.inspect_err(|error| self.task.report_call(&key, Err(error)))?;
        let value = serde_json::to_value(&result).map_err(|error| bad(error.to_string()))?;
        self.task.report_call(&key, Ok(&value));
        self.task.journal(key.clone(), value.clone()).await?;
        self.task.emit_effect(&key, &value, false).await;
        Ok(result)
    }

    /// Returns the current time. The time is journaled like the result of a [`task`](Self::task), so a node that runs
    /// again gets the same time.
    pub async fn now(&self) -> Result<SystemTime, NodeError> {
        self.task("now", self.task.next_draw(), async { Ok(SystemTime::now()) }).await
    }

    /// Returns a random number in `0.0..1.0`. The number is journaled like the result of a [`task`](Self::task). It is
    /// not suitable for secrets.
    pub async fn random(&self) -> Result<f64, NodeError> {
        self.task("random", self.task.next_draw(), async { Ok(random::fraction()) }).await
    }
}

/// The error returned when a resume value does not have the type that the node expects. The interrupt stays pending, so
/// the run can be resumed again with another value.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "node `{node}` cannot use the resume value: {problem}; resume again with a value of the expected type"
)]
pub struct ResumeValueError {
    /// Node that raised the interrupt.
    pub node: String,
    /// Description of the mismatch.
    pub problem: String,
}

/// The error returned when the result of an external call cannot be journaled, or when a journaled result does not have
/// the type that the node expects.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the result of the journaled call `{key}` cannot be used: {problem}")]
pub struct JournalError {
    /// Name and key of the call.
    pub key: String,
    /// Description of the problem.
    pub problem: String,
}

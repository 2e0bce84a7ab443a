//! The context of a task, through which a node accesses its run.

pub(crate) mod ahead;
mod call_key;
mod call_numbers;
pub(crate) mod current;
pub(crate) mod host_link;
pub(crate) mod journal;
pub(crate) mod resume;
pub(crate) mod settings;
pub(crate) mod subgraph_start;
pub(crate) mod task;

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
};

use serde::Serialize;
use serde_json::Value;

use crate::{
    checkpoint::id::{CheckpointId, TaskId},
    context::task::{NodeFailure, TaskContext},
    error::NodeError,
    interrupt::ResumeValue,
    store::interface::Store,
    stream::{EventKind, StreamMode},
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
///
/// Library code that does not know the type of the dependencies uses a `Context<dyn Any>`: see
/// [`current_any`](Context::current_any).
pub struct Context<C: ?Sized = ()> {
    pub(crate) task: Arc<TaskContext>,
    deps: PhantomData<fn() -> PhantomData<C>>,
}

impl<C: ?Sized> Clone for Context<C> {
    fn clone(&self) -> Self {
        Self { task: self.task.clone(), deps: PhantomData }
    }
}

impl<C: ?Sized> fmt::Debug for Context<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("node", &self.task.node())
            .field("step", &self.task.step.number)
            .finish_non_exhaustive()
    }
}

impl Context<dyn Any> {
    /// Returns the context of the node that is running, with dependencies of any type. Returns `None` outside a node.
    ///
    /// See [`current`](Context::current).
    pub fn current_any() -> Option<Self> {
        Some(Self { task: current::get()?, deps: PhantomData })
    }
}

impl<C: Send + Sync + 'static> Context<C> {
    pub(crate) fn new(task: Arc<TaskContext>) -> Self {
        Self { task, deps: PhantomData }
    }

    /// Returns the context of the node that is running. Returns `None` outside a node, and if the run has dependencies
    /// of another type.
    ///
    /// Code that a node calls can use the context without taking it as a parameter. The context follows the node's
    /// future, but not tasks that the node spawns; pass them a clone of the context.
    ///
    /// ```
    /// use graph_core::{Context, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Default)]
    /// struct Essay {
    ///     topic: String,
    /// }
    ///
    /// /// A helper, far from the node's signature.
    /// fn caller() -> String {
    ///     Context::<()>::current().map_or("nobody".to_owned(), |cx| cx.node().to_owned())
    /// }
    ///
    /// async fn write(_: &Essay) -> EssayUpdate {
    ///     Essay::update().topic(caller())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// assert_eq!(graph.invoke(Essay::default(), ()).await?.topic, "write");
    /// assert_eq!(caller(), "nobody");
    /// # Ok(()) }
    /// ```
    pub fn current() -> Option<Self> {
        let task = current::get()?;
        task.scope.deps.is::<C>().then(|| Self::new(task))
    }

    /// Returns the dependencies that were passed to the run.
    pub fn deps(&self) -> &C {
        let deps = self.task.scope.deps.downcast_ref();
        deps.expect("the graph's type parameter guarantees the type of the dependencies")
    }
}

impl<C: ?Sized> Context<C> {
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
    ///
    /// In a task that runs ahead (see [`StateGraph::eager`](crate::StateGraph::eager)), returns the newest checkpoint.
    pub fn checkpoint(&self) -> CheckpointId {
        self.task.checkpoint()
    }

    /// Returns the id of the checkpoint at which the current branch of the thread starts: the newest ancestor of the
    /// current step that an input, an edit or a fork created. Without a checkpointer, each run has its own id.
    ///
    /// A run that is interrupted, fails or is cancelled has the same id when it is resumed. Use the id to check whether
    /// data that the process holds outside the state belongs to the current branch.
    pub fn origin(&self) -> CheckpointId {
        self.task.step.origin
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
    /// [`RunControl::drain`](crate::RunControl::drain). Always `false` in a task that runs in another process: see
    /// [`RunOptions::task_runner`](crate::RunOptions::task_runner).
    pub fn drain_requested(&self) -> bool {
        self.task.scope.control.is_draining()
    }

    /// Sends a value to the custom stream. Waits if the stream's buffer is full.
    pub async fn emit(&self, value: impl Serialize) {
        self.send_event(value, EventKind::Custom).await;
    }

    /// Returns whether the run's stream delivers messages, so that it is worth producing a message token by token.
    pub fn streams_messages(&self) -> bool {
        self.task.scope.events.as_ref().is_some_and(|it| it.accepts(StreamMode::Messages))
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

    /// Waits until all checkpoints that the run has created so far are stored.
    ///
    /// With [`Durability::Async`](crate::Durability::Async), checkpoints are stored while the next step runs. A node
    /// that makes an expensive call can wait for them first, so that the call belongs to the same task if the run is
    /// continued after a crash. With other durabilities, and without a checkpointer, there is nothing to wait for.
    pub async fn flush_checkpoints(&self) -> Result<(), NodeError> {
        match &self.task.scope.writer {
            Some(writer) => Ok(writer.flush().await?),
            None => Ok(()),
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
    pub fn interrupt<A: ResumeValue>(&self, value: impl Serialize) -> Result<A, NodeError> {
        self.interrupt_checked(value, Ok)
    }

    /// Interrupts the run like [`interrupt`](Self::interrupt), and checks the resume value with `check`. If `check`
    /// returns an error, the node must propagate the error. The value is then discarded, so that the run can be resumed
    /// with another value.
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
    pub fn interrupt_checked<A: ResumeValue, T>(
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
}

/// The error returned when a resume value does not have the type that the node expects. The interrupt stays pending, so
/// the run can be resumed again with another value.
#[derive(Clone, thiserror::Error)]
#[error(
    "node `{node}` cannot use the resume value: {problem}; resume again with a value of the expected type"
)]
pub struct ResumeValueError {
    /// Node that raised the interrupt.
    pub node: String,
    /// Description of the mismatch.
    pub problem: String,
}

crate::readable_debug!(ResumeValueError);

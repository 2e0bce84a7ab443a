//! The context of a task, through which a node accesses its run.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    future::Future,
    marker::PhantomData,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    CompiledGraph, Input, Interrupt, NodeError, State,
    cache::Cache,
    checkpoint::{CheckpointId, CheckpointKey, TaskEvent, TaskId, TaskRecord},
    effects::{DivergenceError, EffectCall, EffectDecision, RecordedError},
    engine::{CheckpointWriter, Replay, RunSettings},
    graph::{Graph, NodeIdx},
    random,
    run::RunControl,
    state::limits,
    store::Store,
    stream::{EventKind, EventSender, StreamMode},
    subgraph::{self, Persistence},
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
    task: Arc<TaskContext>,
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
            .field("step", &self.task.step)
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
        self.task.step
    }

    /// Returns the number of steps the run may still take, including the current one.
    pub fn remaining_steps(&self) -> i64 {
        self.task.max_step - self.task.step
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
        self.task.checkpoint
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

    /// Returns whether the run was asked to stop at the end of this step: see [`RunControl::drain`].
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
        if let Some(sender) = &self.task.scope.events {
            let value = serde_json::to_value(value).unwrap_or_else(|error| {
                Value::String(format!("<cannot be serialised to JSON: {error}>"))
            });
            sender.task_event(&self.task, kind(value)).await;
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
        let (index, resume_value) = self.task.interrupt(value)?;
        match serde_json::from_value(resume_value) {
            Ok(value) => Ok(value),
            Err(error) => {
                self.task.discard_resume_values(index);
                Err(NodeError::terminal(ResumeValueError {
                    node: self.node().to_owned(),
                    problem: error.to_string(),
                }))
            }
        }
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

    /// Runs another graph as a subgraph of this run, with its own namespace and history.
    ///
    /// The subgraph's interrupts and failures are returned as errors, which the node must propagate with `?`. When the
    /// node runs again, the subgraph resumes from its last checkpoint. Returns `None` if no output field was written.
    pub async fn run_graph<S: State>(
        &self,
        graph: &CompiledGraph<S, C>,
        persistence: Persistence,
        input: impl Into<Input<S>>,
    ) -> Result<Option<S>, NodeError> {
        let finished =
            subgraph::run_nested(&self.task, graph.erased(), persistence, input.into().erase())
                .await?;
        Ok(finished.has_output.then(|| subgraph::downcast_state(finished.state)))
    }
}

/// The failure of a node, as seen by its error handler.
#[derive(Clone, Debug)]
pub struct NodeFailure {
    /// Name of the failed node.
    pub node: String,
    /// Error message.
    pub error: String,
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
    /// Description of the mismatch.
    pub problem: String,
}

/// Data that all tasks of one running graph share.
pub(crate) struct Scope {
    pub(crate) graph: Arc<Graph>,
    pub(crate) run: Arc<str>,
    pub(crate) thread: Option<Arc<str>>,
    pub(crate) namespace: String,
    pub(crate) parent: Option<Arc<TaskContext>>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) cache: Option<Arc<dyn Cache>>,
    pub(crate) events: Option<EventSender>,
    pub(crate) control: RunControl,
    pub(crate) writer: Option<CheckpointWriter>,
    pub(crate) resume_values: Arc<ResumeValues>,
    pub(crate) replay: Option<Arc<Replay>>,
}

/// The values that a run was resumed with. Shared with its subgraphs.
#[derive(Debug, Default)]
pub(crate) struct ResumeValues {
    /// Value for the first interrupt raised in the run's first step.
    // This mutex and those below are std mutexes, because they are held briefly and never across an await.
    single: Mutex<Option<Value>>,
    by_id: BTreeMap<String, Value>,
}

impl ResumeValues {
    pub(crate) fn new(single: Option<Value>, by_id: BTreeMap<String, Value>) -> Self {
        Self { single: Mutex::new(single), by_id }
    }

    /// Drops the single value if no interrupt took it in the run's first step.
    pub(crate) fn end_first_step(&self) {
        lock(&self.single).take();
    }
}

/// The trigger of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// An edge, a join or a goto.
    Pull,
    /// A payload that was sent to the node, given as its index among the step's payloads.
    Push(u32),
    /// The failure of another task, given by its id. This task is the error handler for that task.
    Handler(TaskId),
}

/// The context of one task. [`Context`] is the typed public wrapper.
pub(crate) struct TaskContext {
    pub(crate) scope: Arc<Scope>,
    pub(crate) node: NodeIdx,
    pub(crate) kind: TaskKind,
    pub(crate) step: i64,
    pub(crate) max_step: i64,
    /// Checkpoint that the task id is derived from.
    pub(crate) origin: CheckpointId,
    /// Checkpoint that the task's records are stored under.
    pub(crate) checkpoint: CheckpointId,
    /// Whether subgraphs of the task resume from their own checkpoints.
    pub(crate) resuming: bool,
    pub(crate) attempt: AtomicU32,
    pub(crate) failure: Option<Box<NodeFailure>>,
    /// For an error handler, the index of the payload that was sent to the failed task.
    handled_push: Option<u32>,
    id: OnceLock<TaskId>,
    interrupt_count: AtomicUsize,
    subgraph_count: AtomicUsize,
    /// Number of times the current attempt has read the clock or drawn a random number.
    draw_count: AtomicUsize,
    /// Boxed because most tasks never need it, and a step may have a hundred thousand tasks.
    memory: Mutex<Option<Box<TaskMemory>>>,
}

/// Task data that is kept when the task is retried.
#[derive(Debug, Default)]
struct TaskMemory {
    resume_values: Vec<Value>,
    journal: BTreeMap<String, Value>,
    last_heartbeat: Option<Instant>,
}

impl TaskContext {
    #[expect(
        clippy::too_many_arguments,
        reason = "called from one place, with fields of the engine"
    )]
    pub(crate) fn new(
        scope: Arc<Scope>,
        node: NodeIdx,
        kind: TaskKind,
        step: i64,
        max_step: i64,
        origin: CheckpointId,
        checkpoint: CheckpointId,
        resuming: bool,
    ) -> Self {
        Self {
            scope,
            node,
            kind,
            step,
            max_step,
            origin,
            checkpoint,
            resuming,
            attempt: AtomicU32::new(1),
            failure: None,
            handled_push: None,
            id: OnceLock::new(),
            interrupt_count: AtomicUsize::new(0),
            subgraph_count: AtomicUsize::new(0),
            draw_count: AtomicUsize::new(0),
            memory: Mutex::default(),
        }
    }

    /// Reuses the context of a finished task for another task triggered by an edge.
    pub(crate) fn reuse_for(&mut self, node: NodeIdx, step: i64) {
        self.node = node;
        self.kind = TaskKind::Pull;
        self.step = step;
        self.resuming = false;
        self.id = OnceLock::new();
        *self.attempt.get_mut() = 1;
        *self.interrupt_count.get_mut() = 0;
        *self.subgraph_count.get_mut() = 0;
        *self.draw_count.get_mut() = 0;
        self.memory = Mutex::default();
    }

    /// Restores resume values and journal from the records of an earlier run.
    pub(crate) fn restore(&mut self, resume_values: Vec<Value>, journal: BTreeMap<String, Value>) {
        let memory = TaskMemory { resume_values, journal, last_heartbeat: None };
        self.memory = Mutex::new(Some(Box::new(memory)));
    }

    /// Creates the context for the error handler of this task.
    pub(crate) fn handler(&self, failure: NodeFailure) -> Self {
        let mut handler = Self::new(
            self.scope.clone(),
            self.node,
            TaskKind::Handler(self.id()),
            self.step,
            self.max_step,
            self.origin,
            self.checkpoint,
            self.resuming,
        );
        handler.failure = Some(Box::new(failure));
        handler.handled_push = match self.kind {
            TaskKind::Push(nth) => Some(nth),
            TaskKind::Pull | TaskKind::Handler(_) => None,
        };
        handler
    }

    pub(crate) fn node(&self) -> &str {
        self.scope.graph.node(self.node).label.as_str()
    }

    /// Returns the task's id. The id is computed on first use, because most tasks never need it in a run without a
    /// checkpointer and without a stream.
    pub(crate) fn id(&self) -> TaskId {
        *self.id.get_or_init(|| {
            task_id(self.origin, &self.scope.namespace, self.step, self.node(), self.kind)
        })
    }

    /// Returns the id of the failed task, if this task is its error handler.
    pub(crate) fn handled_task(&self) -> Option<TaskId> {
        match self.kind {
            TaskKind::Handler(failed) => Some(failed),
            TaskKind::Pull | TaskKind::Push(_) => None,
        }
    }

    /// Returns the namespace of the task: the graph's namespace, the node and the task id.
    pub(crate) fn namespace(&self) -> String {
        subgraph::nested_namespace(&self.scope.namespace, &format!("{}:{}", self.node(), self.id()))
    }

    /// Returns the index of the next subgraph that the task runs, starting at 0.
    pub(crate) fn next_subgraph(&self) -> usize {
        self.subgraph_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts another attempt. Resets the counters but keeps the resume values and the journal.
    pub(crate) fn next_attempt(&self) {
        self.attempt.fetch_add(1, Ordering::Relaxed);
        self.interrupt_count.store(0, Ordering::Relaxed);
        self.subgraph_count.store(0, Ordering::Relaxed);
        self.draw_count.store(0, Ordering::Relaxed);
    }

    pub(crate) fn heartbeat(&self) {
        if self.scope.graph.node(self.node).options.idle_timeout.is_some() {
            self.with_memory(|it| it.last_heartbeat = Some(Instant::now()));
        }
        if let Some(parent) = &self.scope.parent {
            parent.heartbeat();
        }
    }

    pub(crate) fn last_heartbeat(&self) -> Option<Instant> {
        lock(&self.memory).as_ref().and_then(|it| it.last_heartbeat)
    }

    pub(crate) fn resume_values(&self) -> Vec<Value> {
        lock(&self.memory).as_ref().map(|it| it.resume_values.clone()).unwrap_or_default()
    }

    /// Drops the resume values from `index` on, so that those interrupts are raised again.
    fn discard_resume_values(&self, index: usize) {
        self.with_memory(|it| it.resume_values.truncate(index));
    }

    /// Returns whether the task has resume values, a journal or a heartbeat.
    pub(crate) fn has_memory(&self) -> bool {
        lock(&self.memory).is_some()
    }

    fn with_memory<T>(&self, change: impl FnOnce(&mut TaskMemory) -> T) -> T {
        change(lock(&self.memory).get_or_insert_default())
    }

    fn interrupt(&self, value: impl Serialize) -> Result<(usize, Value), NodeError> {
        let index = self.interrupt_count.fetch_add(1, Ordering::Relaxed);
        let known = self.resume_values();
        if let Some(resume_value) = known.get(index) {
            return Ok((index, resume_value.clone()));
        }
        let namespace = self.namespace();
        let id = interrupt_id(&namespace, known.len());
        let given = &self.scope.resume_values;
        let resume_value = given.by_id.get(&id).cloned().or_else(|| lock(&given.single).take());
        if let Some(resume_value) = resume_value {
            self.with_memory(|it| it.resume_values.push(resume_value.clone()));
            return Ok((index, resume_value));
        }
        let value = serde_json::to_value(value).map_err(NodeError::terminal)?;
        limits::check_storable("interrupt value", &value, self.scope.graph.max_stored_bytes)
            .map_err(NodeError::terminal)?;
        Err(NodeError::interrupted(vec![Interrupt { id, value, namespace }]))
    }

    fn next_draw(&self) -> usize {
        self.draw_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the path of the task through steps, nodes and subgraphs. Unlike the task id, the path is the same in
    /// every run that executes the same tasks.
    fn task_path(&self) -> String {
        let graph = match &self.scope.parent {
            None => String::new(),
            // A node may run several subgraphs. All but the first have a number at the end of their namespace.
            Some(outer) => match self.scope.namespace.rsplit_once('|') {
                Some((_, nth)) if nth.bytes().all(|it| it.is_ascii_digit()) => {
                    format!("{}.{nth}/", outer.task_path())
                }
                _ => format!("{}/", outer.task_path()),
            },
        };
        let (step, node) = (self.step, self.node());
        match self.kind {
            TaskKind::Pull => format!("{graph}{step}:{node}"),
            TaskKind::Push(nth) => format!("{graph}{step}:{node}#{nth}"),
            TaskKind::Handler(_) => match self.handled_push {
                Some(nth) => format!("{graph}{step}:{node}#{nth}!"),
                None => format!("{graph}{step}:{node}!"),
            },
        }
    }

    /// Asks the effect interceptor, if there is one, for a recorded result of the call.
    fn intercept_call(&self, key: &str) -> Result<Option<Value>, NodeError> {
        let Some(effects) = &self.scope.settings.effects else { return Ok(None) };
        let task_path = self.task_path();
        match effects.before_call(EffectCall { task_path: &task_path, key }) {
            EffectDecision::Execute => Ok(None),
            EffectDecision::Return(value) => Ok(Some(value)),
            EffectDecision::Fail { error, terminal: true } => {
                Err(NodeError::terminal(RecordedError(error)))
            }
            EffectDecision::Fail { error, terminal: false } => Err(RecordedError(error).into()),
            EffectDecision::Diverge(problem) => Err(NodeError::terminal(DivergenceError {
                task_path,
                key: key.to_owned(),
                problem,
            })),
        }
    }

    /// Reports the result of a call to the effect interceptor.
    fn report_call(&self, key: &str, outcome: Result<&Value, &NodeError>) {
        // A call that raised an interrupt has no result yet.
        let is_interrupt = outcome.is_err_and(|it| it.source().is_none());
        if let Some(effects) = self.scope.settings.effects.as_ref().filter(|_| !is_interrupt) {
            effects.after_call(EffectCall { task_path: &self.task_path(), key }, outcome);
        }
    }

    async fn emit_effect(&self, key: &str, result: &Value, known: bool) {
        if let Some(sender) =
            self.scope.events.as_ref().filter(|it| it.accepts(StreamMode::Effects))
        {
            let kind = EventKind::Effect { key: key.to_owned(), result: result.clone(), known };
            sender.task_event(self, kind).await;
        }
    }

    fn journaled(&self, key: &str) -> Option<Value> {
        lock(&self.memory).as_ref().and_then(|it| it.journal.get(key).cloned())
    }

    async fn journal(&self, key: String, result: Value) -> Result<(), NodeError> {
        self.with_memory(|it| drop(it.journal.insert(key.clone(), result.clone())));
        if let Some(writer) = &self.scope.writer {
            limits::check_storable(&key, &result, self.scope.graph.max_stored_bytes)
                .map_err(NodeError::terminal)?;
            let event = TaskEvent::Effect { key, result };
            writer.record_now(self.checkpoint_key(), vec![self.record(event)]).await?;
        }
        Ok(())
    }

    pub(crate) fn record(&self, event: TaskEvent) -> TaskRecord {
        TaskRecord { task: self.id(), node: self.node().to_owned(), event }
    }

    pub(crate) fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.checkpoint,
        }
    }
}

/// Computes the id of a task. The id is deterministic: the same task in the same branch of checkpoints has the same
/// id.
pub(crate) fn task_id(
    origin: CheckpointId,
    namespace: &str,
    step: i64,
    node: &str,
    kind: TaskKind,
) -> TaskId {
    let (kind, detail) = match kind {
        TaskKind::Pull => (b"pull".as_slice(), [0; 16]),
        TaskKind::Push(index) => (b"push".as_slice(), u128::from(index).to_le_bytes()),
        TaskKind::Handler(of) => (b"handler".as_slice(), of.to_bytes()),
    };
    let step = step.to_le_bytes();
    TaskId::from_parts(&[
        &origin.to_bytes(),
        namespace.as_bytes(),
        &step,
        node.as_bytes(),
        kind,
        &detail,
    ])
}

/// Computes the id of an interrupt. `earlier` is the number of interrupts that the task raised before this one.
fn interrupt_id(namespace: &str, earlier: usize) -> String {
    TaskId::from_parts(&[namespace.as_bytes(), &earlier.to_le_bytes()]).to_string()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

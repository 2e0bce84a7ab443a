//! The context of a task: what a node can ask of the run around it.

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
    checkpoint::{CheckpointId, Event as Recorded, Place, TaskId, TaskRecord},
    effects::{Diverged, EffectCall, Recall, RecordedError},
    engine::{Replay, RunSettings, Writer},
    graph::{Graph, NodeIdx},
    random,
    run::Control,
    state::guard,
    store::Store,
    stream::{EventKind, Mode, Sink},
    subgraph::{self, Persistence},
};

/// What a node can ask of the run around it, with the user's dependencies of type `C`.
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
///     cx.emit("asking a person").await;
///     let topic: String = cx.interrupt(format!("another topic than {}?", essay.topic))?;
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

    /// The user's dependencies: what was given to the run.
    pub fn deps(&self) -> &C {
        let deps = self.task.scope.deps.downcast_ref();
        deps.expect("a run starts only with the dependencies its graph was built for")
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        self.task.node()
    }

    /// The number of the step.
    pub fn step(&self) -> i64 {
        self.task.step
    }

    /// How many steps the run may still take, this one counted: a run that takes one more fails.
    pub fn remaining_steps(&self) -> i64 {
        self.task.stop - self.task.step
    }

    /// Whether this is the last step the run may take.
    pub fn is_last_step(&self) -> bool {
        self.remaining_steps() == 1
    }

    /// Which attempt this is: 1, or more after a retry.
    pub fn attempt(&self) -> u32 {
        self.task.attempt.load(Ordering::Relaxed)
    }

    /// The run's id.
    pub fn run_id(&self) -> &str {
        &self.task.scope.run
    }

    /// The thread, if the run has one.
    pub fn thread(&self) -> Option<&str> {
        self.task.scope.thread.as_deref()
    }

    /// Where the graph stands among graphs: empty for the root, `node:task` for a subgraph.
    pub fn namespace(&self) -> &str {
        &self.task.scope.namespace
    }

    /// The checkpoint that the task's step follows, under which its records are kept.
    pub fn checkpoint(&self) -> CheckpointId {
        self.task.checkpoint
    }

    /// The task's id: the same when the task is run again, in any process.
    pub fn task_id(&self) -> TaskId {
        self.task.id()
    }

    /// A key for outside calls of this task: the same when the task is run again, in any process.
    pub fn idempotency_key(&self) -> String {
        self.task.id().to_string()
    }

    /// A value of the run's configuration: see [`RunOptions::config`](crate::RunOptions::config).
    pub fn config(&self, key: &str) -> Option<&Value> {
        self.task.scope.settings.config.get(key)
    }

    /// The long-term store of the graph.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.task.scope.store.as_ref()
    }

    /// The error this node handles, if it is an error handler.
    pub fn failure(&self) -> Option<&Failure> {
        self.task.failure.as_deref()
    }

    /// Whether somebody asked the run to stop at the end of this step.
    pub fn drain_requested(&self) -> bool {
        self.task.scope.control.is_draining()
    }

    /// Writes to the custom stream, waiting where its reader is behind.
    pub async fn emit(&self, value: impl Serialize) {
        self.send_event(value, EventKind::Custom).await;
    }

    /// Writes a message, or a token of one, to the stream of messages.
    pub async fn message(&self, message: impl Serialize) {
        self.send_event(message, EventKind::Message).await;
    }

    async fn send_event(&self, value: impl Serialize, kind: fn(Value) -> EventKind) {
        self.task.beat();
        if let Some(sink) = &self.task.scope.events {
            let value = serde_json::to_value(value)
                .unwrap_or_else(|error| Value::String(format!("<not JSON: {error}>")));
            sink.task_event(&self.task, kind(value)).await;
        }
    }

    /// Gives a sign of life, for a node with an idle time-out.
    pub fn heartbeat(&self) {
        self.task.beat();
    }

    /// Asks a question and gives the answer, or leaves the node through `?` until there is one.
    ///
    /// A node that is resumed runs again from its top, and each question finds its answer by its order;
    /// wrap outside calls before it in [`task`](Self::task) so that they are not made twice.
    pub fn interrupt<A: DeserializeOwned>(&self, question: impl Serialize) -> Result<A, NodeError> {
        let (index, answer) = self.task.ask(question)?;
        match serde_json::from_value(answer) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.task.forget_answers(index);
                Err(NodeError::terminal(BadAnswer {
                    node: self.node().to_owned(),
                    problem: error.to_string(),
                }))
            }
        }
    }

    /// Makes an outside call once: when the node is run again after a crash, a retry or an interrupt,
    /// the journaled result comes back and the future is not polled.
    ///
    /// `name` and `key` together name the call within this task; two calls of one task need different ones.
    /// The result is stored before the node sees it. Errors are not stored. With
    /// [`Durability::Exit`](crate::Durability::Exit) a crash loses the run and its journal with it.
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
        self.task.beat();
        let key = format!("{name}:{}", serde_json::to_value(key).map_err(NodeError::terminal)?);
        let bad = |problem: String| NodeError::terminal(BadEffect { key: key.clone(), problem });
        if let Some(known) = self.task.journaled(&key) {
            self.task.show_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        if let Some(known) = self.task.recall(&key)? {
            self.task.journal(key.clone(), known.clone()).await?;
            self.task.show_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        let result = call.await.inspect_err(|error| self.task.made(&key, Err(error)))?;
        let value = serde_json::to_value(&result).map_err(|error| bad(error.to_string()))?;
        self.task.made(&key, Ok(&value));
        self.task.journal(key.clone(), value.clone()).await?;
        self.task.show_effect(&key, &value, false).await;
        Ok(result)
    }

    /// The time. Journaled as [`task`](Self::task) is: a node that runs again sees the same time.
    pub async fn now(&self) -> Result<SystemTime, NodeError> {
        self.task("now", self.task.draw(), async { Ok(SystemTime::now()) }).await
    }

    /// A random number from 0 to 1, 1 excluded. Journaled as [`task`](Self::task) is; not for secrets.
    pub async fn random(&self) -> Result<f64, NodeError> {
        self.task("random", self.task.draw(), async { Ok(random::fraction()) }).await
    }

    /// Runs another graph from within the node, as part of this run, with its own namespace and history.
    ///
    /// Its questions and failures leave the node through `?`; when the node runs again, the graph goes on
    /// where it stood. `None` where the graph showed no output at all.
    pub async fn run_graph<S: State>(
        &self,
        graph: &CompiledGraph<S, C>,
        persistence: Persistence,
        input: impl Into<Input<S>>,
    ) -> Result<Option<S>, NodeError> {
        let finished =
            subgraph::run_nested(&self.task, graph.erased(), persistence, input.into().erase())
                .await?;
        Ok(finished.shown.then(|| subgraph::downcast(finished.state)))
    }
}

/// The failure an error handler takes care of.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The node that failed.
    pub node: String,
    /// Its error in words.
    pub error: String,
}

/// An answer that does not fit the question's type; the question can be answered again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node `{node}` cannot use the answer: {problem}; answer again with a value that fits")]
pub struct BadAnswer {
    /// The node that asked.
    pub node: String,
    /// What does not fit.
    pub problem: String,
}

/// A journaled result that cannot be stored or read as the type asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the journaled call `{key}` cannot be used: {problem}")]
pub struct BadEffect {
    /// The call's name and key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

/// One invocation of one graph: what all its tasks share.
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
    pub(crate) events: Option<Sink>,
    pub(crate) control: Control,
    pub(crate) writer: Option<Writer>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) replay: Option<Arc<Replay>>,
}

/// The answers a run was resumed with; shared with all graphs inside it.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The answer to whoever asks first in the run's first step.
    // A std mutex, here and below: held for a moment, never over an await.
    single: Mutex<Option<Value>>,
    by_id: BTreeMap<String, Value>,
}

impl Answers {
    pub(crate) fn new(single: Option<Value>, by_id: BTreeMap<String, Value>) -> Self {
        Self { single: Mutex::new(single), by_id }
    }

    /// An answer that nobody took in the run's first step is for nobody.
    pub(crate) fn end_first_step(&self) {
        lock(&self.single).take();
    }
}

/// Which of the tasks of a step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Led to by edges.
    Pull,
    /// Sent a payload: which of the payloads under way.
    Push(u32),
    /// The error handler of another task.
    Handler(TaskId),
}

/// One task: a node with what it runs on.
pub(crate) struct TaskContext {
    pub(crate) scope: Arc<Scope>,
    pub(crate) node: NodeIdx,
    pub(crate) kind: TaskKind,
    pub(crate) step: i64,
    pub(crate) stop: i64,
    /// What the task's id is made from, and where its records belong.
    pub(crate) origin: CheckpointId,
    pub(crate) checkpoint: CheckpointId,
    /// Whether graphs inside the task go on where they stood.
    pub(crate) resuming: bool,
    pub(crate) attempt: AtomicU32,
    pub(crate) failure: Option<Box<Failure>>,
    /// Which payload the failed task was sent, in a handler's context.
    handled_push: Option<u32>,
    id: OnceLock<TaskId>,
    asked: AtomicUsize,
    called: AtomicUsize,
    /// How often the clock was read and a random number drawn.
    drawn: AtomicUsize,
    /// Boxed, since most tasks never need it and a step may have a hundred thousand of them.
    memory: Mutex<Option<Box<Memory>>>,
}

/// What a task keeps over its attempts.
#[derive(Debug, Default)]
struct Memory {
    answers: Vec<Value>,
    journal: BTreeMap<String, Value>,
    last_beat: Option<Instant>,
}

impl TaskContext {
    #[expect(clippy::too_many_arguments, reason = "one place builds it, from the engine's fields")]
    pub(crate) fn new(
        scope: Arc<Scope>,
        node: NodeIdx,
        kind: TaskKind,
        step: i64,
        stop: i64,
        origin: CheckpointId,
        checkpoint: CheckpointId,
        resuming: bool,
    ) -> Self {
        Self {
            scope,
            node,
            kind,
            step,
            stop,
            origin,
            checkpoint,
            resuming,
            attempt: AtomicU32::new(1),
            failure: None,
            handled_push: None,
            id: OnceLock::new(),
            asked: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            drawn: AtomicUsize::new(0),
            memory: Mutex::default(),
        }
    }

    /// Makes of a finished task's context that of another task led to by an edge.
    pub(crate) fn renew(&mut self, node: NodeIdx, step: i64) {
        self.node = node;
        self.kind = TaskKind::Pull;
        self.step = step;
        self.resuming = false;
        self.id = OnceLock::new();
        *self.attempt.get_mut() = 1;
        *self.asked.get_mut() = 0;
        *self.called.get_mut() = 0;
        *self.drawn.get_mut() = 0;
        self.memory = Mutex::default();
    }

    /// Gives the task what an earlier run of it left behind.
    pub(crate) fn remember(&mut self, answers: Vec<Value>, journal: BTreeMap<String, Value>) {
        let memory = Memory { answers, journal, last_beat: None };
        self.memory = Mutex::new(Some(Box::new(memory)));
    }

    /// The context of the handler that takes over from this task.
    pub(crate) fn handler(&self, failure: Failure) -> Self {
        let mut handler = Self::new(
            self.scope.clone(),
            self.node,
            TaskKind::Handler(self.id()),
            self.step,
            self.stop,
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

    /// The task's id: made on first use, since most tasks of an unwatched run never need it.
    pub(crate) fn id(&self) -> TaskId {
        *self.id.get_or_init(|| {
            task_id(self.origin, &self.scope.namespace, self.step, self.node(), self.kind)
        })
    }

    /// The failed task whose place this one takes.
    pub(crate) fn handles(&self) -> Option<TaskId> {
        match self.kind {
            TaskKind::Handler(failed) => Some(failed),
            TaskKind::Pull | TaskKind::Push(_) => None,
        }
    }

    /// The namespace of the task: that of its graph, the node and the task.
    pub(crate) fn namespace(&self) -> String {
        subgraph::join(&self.scope.namespace, &format!("{}:{}", self.node(), self.id()))
    }

    /// Counts the graphs that the task runs: 0 for the first.
    pub(crate) fn next_graph(&self) -> usize {
        self.called.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts another attempt: questions and graphs are counted anew, answers and journal stay.
    pub(crate) fn next_attempt(&self) {
        self.attempt.fetch_add(1, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.called.store(0, Ordering::Relaxed);
        self.drawn.store(0, Ordering::Relaxed);
    }

    pub(crate) fn beat(&self) {
        if self.scope.graph.node(self.node).options.idle_timeout.is_some() {
            self.with_memory(|it| it.last_beat = Some(Instant::now()));
        }
        if let Some(parent) = &self.scope.parent {
            parent.beat();
        }
    }

    pub(crate) fn last_beat(&self) -> Option<Instant> {
        lock(&self.memory).as_ref().and_then(|it| it.last_beat)
    }

    pub(crate) fn given_answers(&self) -> Vec<Value> {
        lock(&self.memory).as_ref().map(|it| it.answers.clone()).unwrap_or_default()
    }

    /// Forgets the answer to that question and those after it, so that they are asked again.
    fn forget_answers(&self, index: usize) {
        self.with_memory(|it| it.answers.truncate(index));
    }

    /// Whether the task was ever answered, or given what an earlier run of it kept.
    pub(crate) fn has_memory(&self) -> bool {
        lock(&self.memory).is_some()
    }

    fn with_memory<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(lock(&self.memory).get_or_insert_default())
    }

    fn ask(&self, question: impl Serialize) -> Result<(usize, Value), NodeError> {
        let index = self.asked.fetch_add(1, Ordering::Relaxed);
        let answers = self.given_answers();
        if let Some(answer) = answers.get(index) {
            return Ok((index, answer.clone()));
        }
        let namespace = self.namespace();
        let id = interrupt_id(&namespace, answers.len());
        let given = &self.scope.answers;
        let answer = given.by_id.get(&id).cloned().or_else(|| lock(&given.single).take());
        if let Some(answer) = answer {
            self.with_memory(|it| it.answers.push(answer.clone()));
            return Ok((index, answer));
        }
        let value = serde_json::to_value(question).map_err(NodeError::terminal)?;
        guard::check("question", &value, self.scope.graph.max_stored_bytes)
            .map_err(NodeError::terminal)?;
        Err(NodeError::asked(vec![Interrupt { id, value, namespace }]))
    }

    fn draw(&self) -> usize {
        self.drawn.fetch_add(1, Ordering::Relaxed)
    }

    /// The way to the task: the same in every run that goes the same way, while ids differ.
    fn path(&self) -> String {
        let graph = match &self.scope.parent {
            None => String::new(),
            // A node may run several graphs; all but the first have a number in their namespace.
            Some(outer) => match self.scope.namespace.rsplit_once('|') {
                Some((_, nth)) if nth.bytes().all(|it| it.is_ascii_digit()) => {
                    format!("{}.{nth}/", outer.path())
                }
                _ => format!("{}/", outer.path()),
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

    /// What a call came to before, if somebody gives calls back.
    fn recall(&self, key: &str) -> Result<Option<Value>, NodeError> {
        let Some(effects) = &self.scope.settings.effects else { return Ok(None) };
        let place = self.path();
        match effects.recall(EffectCall { place: &place, key }) {
            Recall::Make => Ok(None),
            Recall::Came(value) => Ok(Some(value)),
            Recall::Failed { error, terminal: true } => {
                Err(NodeError::terminal(RecordedError(error)))
            }
            Recall::Failed { error, terminal: false } => Err(RecordedError(error).into()),
            Recall::Diverged(problem) => {
                Err(NodeError::terminal(Diverged { place, key: key.to_owned(), problem }))
            }
        }
    }

    /// Tells what a call came to, if somebody watches calls.
    fn made(&self, key: &str, outcome: Result<&Value, &NodeError>) {
        // A call that asks a question has not come to anything yet.
        let asks = outcome.is_err_and(|it| it.source().is_none());
        if let Some(effects) = self.scope.settings.effects.as_ref().filter(|_| !asks) {
            effects.made(EffectCall { place: &self.path(), key }, outcome);
        }
    }

    async fn show_effect(&self, key: &str, result: &Value, known: bool) {
        if let Some(sink) = self.scope.events.as_ref().filter(|it| it.wants(Mode::Effects)) {
            let kind = EventKind::Effect { key: key.to_owned(), result: result.clone(), known };
            sink.task_event(self, kind).await;
        }
    }

    fn journaled(&self, key: &str) -> Option<Value> {
        lock(&self.memory).as_ref().and_then(|it| it.journal.get(key).cloned())
    }

    async fn journal(&self, key: String, result: Value) -> Result<(), NodeError> {
        self.with_memory(|it| drop(it.journal.insert(key.clone(), result.clone())));
        if let Some(writer) = &self.scope.writer {
            guard::check(&key, &result, self.scope.graph.max_stored_bytes)
                .map_err(NodeError::terminal)?;
            let event = Recorded::Effect { key, result };
            writer.record_now(self.place(), vec![self.record(event)]).await?;
        }
        Ok(())
    }

    pub(crate) fn record(&self, event: Recorded) -> TaskRecord {
        TaskRecord { task: self.id(), node: self.node().to_owned(), event }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.checkpoint,
        }
    }
}

/// The id of a task: the same whenever the same line of checkpoints comes to the same work.
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
    TaskId::of(&[&origin.to_bytes(), namespace.as_bytes(), &step, node.as_bytes(), kind, &detail])
}

/// The id of the question that a task asks after so many answers.
fn interrupt_id(namespace: &str, answered: usize) -> String {
    TaskId::of(&[namespace.as_bytes(), &answered.to_le_bytes()]).to_string()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

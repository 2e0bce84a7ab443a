//! The type-erased context of a task, and the data that all tasks of a running graph share.

mod effects;
mod events;

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    cache::Cache,
    checkpoint::{
        id::{CheckpointId, TaskId},
        record::{TaskEvent, TaskRecord},
        stored::CheckpointKey,
        writer::CheckpointWriter,
    },
    context::{
        ahead::{AheadContext, RecordTarget},
        call_numbers::CallNumbers,
        host_link::HostLink,
        resume::{Replay, ResumeValues},
        settings::RunSettings,
        subgraph_start::SubgraphStart,
    },
    control::RunControl,
    error::{Halt, NodeError},
    interrupt::Interrupt,
    label::Label,
    namespace::nested_namespace,
    state::{
        erased::{AnyState, UpdateFromFn},
        limits,
    },
    store::interface::Store,
    stream::EventSender,
    sync::lock,
};

/// The failure of a node, as seen by its error handler.
#[derive(Clone, Debug)]
pub struct NodeFailure {
    /// Name of the failed node.
    pub node: String,
    /// Error message.
    pub error: String,
}

/// Data that all tasks of one running graph share.
pub(crate) struct Scope {
    /// The graph's initial state, from which the nodes of a dynamic graph read the schema.
    pub(crate) initial: AnyState,
    /// Builds an update of the graph's state, for a command from a subgraph that ran in another process.
    pub(crate) update_from: UpdateFromFn,
    /// Maximum size of a stored value, in bytes.
    pub(crate) max_stored_bytes: usize,
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
    /// Data for a run that starts from a checkpoint of a subgraph.
    pub(crate) subgraph_start: Option<Arc<SubgraphStart>>,
    /// The checkpoint of the tasks' records, if the graph is eager.
    pub(crate) record_target: Option<RecordTarget>,
    /// The connection to the process that executes the run, if this process executes only one of its tasks.
    pub(crate) host: Option<Arc<HostLink>>,
}

/// The step that a task belongs to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TaskStep {
    pub(crate) number: i64,
    /// Number of the first step that the step limit does not allow.
    pub(crate) max: i64,
    /// Checkpoint that task ids are derived from.
    pub(crate) origin: CheckpointId,
    /// Checkpoint that the records of tasks are stored under, unless the graph is eager: see [`RecordTarget`].
    pub(crate) checkpoint: CheckpointId,
    /// Whether subgraphs of the tasks resume from their own checkpoints.
    pub(crate) resuming: bool,
}

impl TaskStep {
    /// Returns the number of steps that the run may still take, including this one.
    pub(crate) fn remaining(&self) -> i64 {
        self.max - self.number
    }
}

/// The trigger of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskKind {
    /// An edge, a join or a goto.
    Pull,
    /// A payload that was sent to the node, given as its index among the step's payloads.
    Push(u32),
    /// The failure of another task, given by its id. This task is the error handler for that task.
    Handler(TaskId),
}

/// The context of one task. [`Context`](crate::Context) is the typed public wrapper.
pub(crate) struct TaskContext {
    pub(crate) scope: Arc<Scope>,
    pub(crate) kind: TaskKind,
    pub(crate) step: TaskStep,
    node: Label,
    /// Whether the node has an idle timeout, so that heartbeats matter.
    pub(crate) tracks_heartbeats: bool,
    pub(crate) attempt: AtomicU32,
    pub(crate) failure: Option<Box<NodeFailure>>,
    /// For an error handler, the index of the payload that was sent to the failed task.
    pub(crate) handled_push: Option<u32>,
    /// Present if the task started before its step.
    pub(crate) ahead: Option<Arc<AheadContext>>,
    id: OnceLock<TaskId>,
    interrupt_count: AtomicUsize,
    /// Whether the current attempt has raised an interrupt, itself or in a subgraph.
    raised_interrupt: AtomicBool,
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
    /// For each name and key, the numbers of the calls that the current attempt has created.
    calls: BTreeMap<String, CallNumbers>,
    last_heartbeat: Option<Instant>,
    /// Whether a resume value was discarded.
    discarded_resume: bool,
}

impl TaskContext {
    pub(crate) fn new(
        scope: Arc<Scope>,
        node: Label,
        kind: TaskKind,
        step: TaskStep,
        tracks_heartbeats: bool,
    ) -> Self {
        Self {
            scope,
            kind,
            step,
            node,
            tracks_heartbeats,
            attempt: AtomicU32::new(1),
            failure: None,
            handled_push: None,
            ahead: None,
            id: OnceLock::new(),
            interrupt_count: AtomicUsize::new(0),
            raised_interrupt: AtomicBool::new(false),
            subgraph_count: AtomicUsize::new(0),
            draw_count: AtomicUsize::new(0),
            memory: Mutex::default(),
        }
    }

    /// Reuses the context of a finished task for another task, which an edge triggered.
    ///
    /// Both tasks must belong to the same run, and the run must have no checkpointer, so that the steps of the two
    /// tasks differ only in their numbers.
    pub(crate) fn reuse_for(&mut self, node: Label, step: i64, tracks_heartbeats: bool) {
        self.node = node;
        self.kind = TaskKind::Pull;
        self.step.number = step;
        self.step.resuming = false;
        self.tracks_heartbeats = tracks_heartbeats;
        self.ahead = None;
        self.id = OnceLock::new();
        *self.attempt.get_mut() = 1;
        *self.interrupt_count.get_mut() = 0;
        *self.raised_interrupt.get_mut() = false;
        *self.subgraph_count.get_mut() = 0;
        *self.draw_count.get_mut() = 0;
        *self.memory.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Restores the resume values and the journal from the records of an earlier run.
    pub(crate) fn restore(&mut self, resume_values: Vec<Value>, journal: BTreeMap<String, Value>) {
        let memory = TaskMemory { resume_values, journal, ..TaskMemory::default() };
        self.memory = Mutex::new(Some(Box::new(memory)));
    }

    /// Creates the context for the error handler of this task.
    pub(crate) fn handler(&self, failure: NodeFailure) -> Self {
        let mut handler = Self::new(
            self.scope.clone(),
            self.node.clone(),
            TaskKind::Handler(self.id()),
            self.step,
            self.tracks_heartbeats,
        );
        handler.failure = Some(Box::new(failure));
        handler.handled_push = match self.kind {
            TaskKind::Push(nth) => Some(nth),
            TaskKind::Pull | TaskKind::Handler(_) => None,
        };
        handler
    }

    pub(crate) fn node(&self) -> &str {
        self.node.as_str()
    }

    /// Returns the task's id. The id is computed on first use, because most tasks never need it in a run without a
    /// checkpointer and without a stream.
    pub(crate) fn id(&self) -> TaskId {
        *self.id.get_or_init(|| {
            task_id(
                self.step.origin,
                &self.scope.namespace,
                self.step.number,
                self.node(),
                self.kind,
            )
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
        nested_namespace(&self.scope.namespace, &format!("{}:{}", self.node(), self.id()))
    }

    /// Returns the index of the next subgraph that the task runs, starting at 0.
    pub(crate) fn next_subgraph(&self) -> usize {
        self.subgraph_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts another attempt. Resets the counters but keeps the resume values and the journal.
    pub(crate) fn next_attempt(&self) {
        self.attempt.fetch_add(1, Ordering::Relaxed);
        self.interrupt_count.store(0, Ordering::Relaxed);
        self.raised_interrupt.store(false, Ordering::Relaxed);
        self.subgraph_count.store(0, Ordering::Relaxed);
        self.draw_count.store(0, Ordering::Relaxed);
        if let Some(memory) = &mut *lock(&self.memory) {
            memory.calls.clear();
        }
    }

    pub(crate) fn heartbeat(&self) {
        if self.tracks_heartbeats {
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
    pub(super) fn discard_resume_values(&self, index: usize) {
        self.with_memory(|it| {
            it.resume_values.truncate(index);
            it.discarded_resume = true;
        });
    }

    /// Returns whether the task received resume values, including discarded ones.
    pub(crate) fn was_resumed(&self) -> bool {
        let memory = lock(&self.memory);
        memory.as_ref().is_some_and(|it| !it.resume_values.is_empty() || it.discarded_resume)
    }

    /// Returns whether a resume value was discarded.
    pub(crate) fn discarded_resume_value(&self) -> bool {
        lock(&self.memory).as_ref().is_some_and(|it| it.discarded_resume)
    }

    /// Sets the resume values that the task has received in another process.
    pub(crate) fn set_resume_values(&self, values: Vec<Value>, discarded: bool) {
        self.with_memory(|it| {
            it.resume_values = values;
            it.discarded_resume = discarded;
        });
    }

    /// Returns whether the task has resume values, a journal or a heartbeat.
    pub(crate) fn has_memory(&self) -> bool {
        lock(&self.memory).is_some()
    }

    fn with_memory<T>(&self, change: impl FnOnce(&mut TaskMemory) -> T) -> T {
        change(lock(&self.memory).get_or_insert_default())
    }

    pub(super) fn interrupt(&self, value: impl Serialize) -> Result<(usize, Value), NodeError> {
        let index = self.interrupt_count.fetch_add(1, Ordering::Relaxed);
        let known = self.resume_values();
        if let Some(resume_value) = known.get(index) {
            return Ok((index, resume_value.clone()));
        }
        let namespace = self.namespace();
        let id = interrupt_id(&namespace, known.len());
        let given = &self.scope.resume_values;
        let resume_value = match &self.ahead {
            None => given.take(&id),
            // A single value is meant for the step with which the run was resumed.
            Some(_) => given.get(&id),
        };
        if let Some(resume_value) = resume_value {
            self.with_memory(|it| it.resume_values.push(resume_value.clone()));
            return Ok((index, resume_value));
        }
        let value = serde_json::to_value(value).map_err(NodeError::terminal)?;
        limits::check_storable("interrupt value", &value, self.scope.max_stored_bytes)
            .map_err(NodeError::terminal)?;
        Err(self.raise_interrupts(vec![Interrupt { id, value, namespace }]))
    }

    /// Returns the error for interrupts that the node or one of its subgraphs raised. The node must return this error.
    pub(crate) fn raise_interrupts(&self, interrupts: Vec<Interrupt>) -> NodeError {
        self.raised_interrupt.store(true, Ordering::Relaxed);
        NodeError::halted(Halt::Interrupted(interrupts))
    }

    /// Returns whether the current attempt has raised an interrupt, itself or in a subgraph.
    pub(crate) fn raised_interrupt(&self) -> bool {
        self.raised_interrupt.load(Ordering::Relaxed)
    }

    pub(super) fn next_draw(&self) -> usize {
        self.draw_count.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the path of the task through steps, nodes and subgraphs. Unlike the task id, the path is the same in
    /// every run that executes the same tasks.
    pub(crate) fn task_path(&self) -> String {
        let graph = match &self.scope.parent {
            None => String::new(),
            Some(outer) => outer.subgraph_path(&self.scope.namespace),
        };
        let (step, node) = (self.step.number, self.node());
        match self.kind {
            TaskKind::Pull => format!("{graph}{step}:{node}"),
            TaskKind::Push(nth) => format!("{graph}{step}:{node}#{nth}"),
            TaskKind::Handler(_) => match self.handled_push {
                Some(nth) => format!("{graph}{step}:{node}#{nth}!"),
                None => format!("{graph}{step}:{node}!"),
            },
        }
    }

    /// Returns the path of a subgraph that this task runs. It is the prefix of the paths of the subgraph's tasks.
    pub(crate) fn subgraph_path(&self, namespace: &str) -> String {
        // A node may run several subgraphs. All but the first have a number at the end of their namespace.
        match namespace.rsplit_once('|') {
            Some((_, nth)) if nth.bytes().all(|it| it.is_ascii_digit()) => {
                format!("{}.{nth}/", self.task_path())
            }
            _ => format!("{}/", self.task_path()),
        }
    }

    pub(crate) fn record(&self, event: TaskEvent) -> TaskRecord {
        TaskRecord { task: self.id(), node: self.node().to_owned(), event }
    }

    /// Returns the checkpoint that the records of the task are stored under.
    pub(crate) fn checkpoint(&self) -> CheckpointId {
        self.scope.record_target.as_ref().map_or(self.step.checkpoint, |it| it.get().0)
    }

    pub(crate) fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.checkpoint(),
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
pub(crate) fn interrupt_id(namespace: &str, earlier: usize) -> String {
    TaskId::from_parts(&[namespace.as_bytes(), &earlier.to_le_bytes()]).to_string()
}

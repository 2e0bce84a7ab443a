//! The call of a subgraph that runs in another process, as its runner sees it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    checkpoint::{saver::Checkpointer, writer::CheckpointWriter},
    context::{resume::InnerResumeValues, settings::RunSettings, task::TaskContext},
    effects::{EffectCall, EffectDecision, Interceptor},
    error::NodeError,
    namespace::{Persistence, belongs_to},
    remote::{
        checkpointer::QueuedCheckpointer,
        outcome::RemoteOutcome,
        start::{RemoteInput, RemoteReplay, RemoteStart, RemoteTask},
    },
    stream::{Event, EventSender},
};

/// Runs subgraphs in another process.
#[async_trait]
pub trait RemoteRunner: Send + Sync + fmt::Debug {
    /// Returns where the subgraphs run, as a noun for drawings, such as `sandbox`.
    fn runs_in(&self) -> &str;

    /// Returns whether a subgraph may send commands to its parent graph: see
    /// [`Command::parent`](crate::Command::parent). The default is `false`, because the other process is not trusted
    /// and such a command can write any field of the parent's state and start any of its nodes.
    fn allows_parent_commands(&self) -> bool {
        false
    }

    /// Returns whether a subgraph may raise interrupts and stop before or after its nodes. The default is `true`. If it
    /// is `false`, an interrupt or a stop fails the node.
    fn allows_interrupts(&self) -> bool {
        true
    }

    /// Runs a subgraph to its end.
    ///
    /// The future is dropped if the run is cancelled or the node exceeds its timeout; the runner must then stop the
    /// other process. An error means that the subgraph could not be run. A retry of the node calls this method again,
    /// and the subgraph then resumes from its last checkpoint.
    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError>;
}

/// A call of a subgraph that runs in another process.
///
/// The other process is not trusted: it can access only the checkpoints of the subgraph, and send only events of the
/// subgraph.
pub struct RemoteCall {
    start: RemoteStart,
    task: Arc<TaskContext>,
    events: Option<EventSender>,
    writer: Option<CheckpointWriter>,
}

impl RemoteCall {
    pub(super) fn new(
        task: &Arc<TaskContext>,
        namespace: String,
        persistence: Persistence,
        input: RemoteInput,
    ) -> Self {
        let scope = &task.scope;
        // An error handler has no start event, so events refer to the failed task instead.
        let parent_task = task.handled_task().unwrap_or_else(|| task.id());
        let events = scope.events.as_ref().and_then(|it| it.nested(&namespace, parent_task));
        let writer = scope.writer.clone().filter(|_| persistence != Persistence::None);
        let checkpoints = match (&writer, &scope.subgraph_start) {
            (Some(_), Some(start)) => start.enter_path(&namespace).to_vec(),
            _ => Vec::new(),
        };
        let settings = &scope.settings;
        let mut start = RemoteStart {
            run: scope.run.to_string(),
            thread: scope.thread.as_ref().map(|it| it.to_string()),
            persistence,
            stores: writer.is_some(),
            intercepts: settings.effects.is_some(),
            input,
            tasks: RemoteTask::chain(task),
            settings: RunSettings { effects: None, ..RunSettings::clone(settings) },
            resume_value: None,
            answered_interrupt: None,
            resume_values: BTreeMap::new(),
            replay: scope
                .replay
                .as_ref()
                .map(|it| RemoteReplay { bound: it.bound(), visited: it.visited() }),
            checkpoints,
            modes: events.as_ref().map(EventSender::modes).unwrap_or_default(),
            namespace,
        };
        let is_inside = |it: &str| belongs_to(it, &start.namespace) || start.starts_from(it);
        let InnerResumeValues { single, answered_interrupt, by_id } =
            scope.resume_values.inside(is_inside);
        (start.resume_value, start.answered_interrupt) = (single, answered_interrupt);
        start.resume_values = by_id;
        if task.attempt.load(Ordering::Relaxed) > 1 {
            // An earlier attempt may have used the value already.
            start.bind_resume_value();
        }
        Self { start, task: task.clone(), events, writer }
    }

    /// Returns the data that the other process needs to start the subgraph. If that process dies, the runner can send
    /// the data to another one: see [`RemoteStart::resume_in_new_process`].
    pub fn start(&self) -> &RemoteStart {
        &self.start
    }

    /// Returns whether a namespace belongs to the subgraph or to a graph inside it. The other process must not write to
    /// other namespaces; see [`may_read`](Self::may_read) for reading.
    pub fn owns(&self, namespace: &str) -> bool {
        belongs_to(namespace, &self.start.namespace)
    }

    /// Returns whether the other process may read checkpoints in a namespace. If the run starts from a checkpoint of
    /// the subgraph, it may also read the namespace in which that checkpoint is stored, but not write to it.
    pub fn may_read(&self, namespace: &str) -> bool {
        self.owns(namespace) || self.start.starts_from(namespace)
    }

    /// Returns the checkpointer for the subgraph, or `None` if its checkpoints are not stored. Its writes are stored in
    /// order with the other writes of the run. It does not check namespaces: see [`owns`](Self::owns) and
    /// [`may_read`](Self::may_read).
    pub fn checkpointer(&self) -> Option<Arc<dyn Checkpointer>> {
        let writer = self.writer.clone()?;
        let newest = self.start.newest_checkpoint();
        Some(Arc::new(QueuedCheckpointer { writer, newest }))
    }

    /// Sends an event of the subgraph to the stream of the run. Waits if the stream's buffer is full.
    ///
    /// The event's number, time and run id are replaced. Fails if the event does not belong to the subgraph.
    pub async fn forward(&self, event: Event) -> Result<(), ForeignNamespaceError> {
        if !self.owns(&event.namespace) {
            return Err(ForeignNamespaceError);
        }
        if let Some(events) = &self.events {
            events.forward(event).await;
        }
        Ok(())
    }

    /// Asks the run's effect interceptor about an external call of the subgraph: see
    /// [`EffectInterceptor::before_call`](crate::EffectInterceptor::before_call).
    pub fn before_call(
        &self,
        call: EffectCall<'_>,
    ) -> Result<EffectDecision, ForeignNamespaceError> {
        self.check_path(call)?;
        match &self.task.scope.settings.effects {
            Some(Interceptor::Local(effects)) => Ok(effects.before_call(call)),
            _ => Ok(EffectDecision::Execute),
        }
    }

    /// Reports the outcome of an external call of the subgraph to the run's effect interceptor: see
    /// [`EffectInterceptor::after_call`](crate::EffectInterceptor::after_call).
    pub fn after_call(
        &self,
        call: EffectCall<'_>,
        outcome: Result<&Value, &NodeError>,
    ) -> Result<(), ForeignNamespaceError> {
        self.check_path(call)?;
        if let Some(Interceptor::Local(effects)) = &self.task.scope.settings.effects {
            effects.after_call(call, outcome);
        }
        Ok(())
    }

    /// Checks that a call belongs to a task inside the subgraph.
    fn check_path(&self, call: EffectCall<'_>) -> Result<(), ForeignNamespaceError> {
        match call.task_path.starts_with(&self.task.subgraph_path(&self.start.namespace)) {
            true => Ok(()),
            false => Err(ForeignNamespaceError),
        }
    }

    /// Resets the idle timeout of the node that runs the subgraph.
    pub fn heartbeat(&self) {
        self.task.heartbeat();
    }

    /// Returns once the run is asked to stop at the end of its current step. The subgraph must then stop too: see
    /// [`RunControl::drain`](crate::RunControl::drain).
    pub async fn drained(&self) {
        self.task.scope.control.drained().await;
    }
}

impl fmt::Debug for RemoteCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCall")
            .field("namespace", &self.start.namespace)
            .finish_non_exhaustive()
    }
}

/// The error returned when a process sends data of a graph other than its own.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process that runs the subgraph sent data of another graph")]
pub struct ForeignNamespaceError;

crate::readable_debug!(ForeignNamespaceError);

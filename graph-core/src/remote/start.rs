//! The data that a subgraph needs to run in another process.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    checkpoint::{id::CheckpointId, record::GotoRecord},
    context::{
        settings::RunSettings,
        task::{Scope, TaskContext, TaskKind, TaskStep},
    },
    label::Label,
    namespace::{Persistence, belongs_to},
    state::field::FieldWrite,
    stream::StreamMode,
};

/// The start of a subgraph in another process. Only the engine interprets the content; a runner sends it with `serde`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteStart {
    pub(super) run: String,
    pub(super) thread: Option<String>,
    pub(super) namespace: String,
    pub(super) persistence: Persistence,
    /// Whether the checkpoints of the subgraph are stored.
    pub(super) stores: bool,
    /// Whether the run has an effect interceptor.
    pub(super) intercepts: bool,
    pub(super) input: RemoteInput,
    /// The enclosing tasks, outermost first. The last one runs the subgraph.
    pub(super) tasks: Vec<RemoteTask>,
    pub(super) settings: RunSettings,
    /// Value for the first interrupt that is raised.
    pub(super) resume_value: Option<Value>,
    /// Id of the pending interrupt that `resume_value` answers, if that interrupt was raised inside the subgraph.
    pub(super) answered_interrupt: Option<String>,
    pub(super) resume_values: BTreeMap<String, Value>,
    pub(super) replay: Option<RemoteReplay>,
    /// The checkpoints from which the subgraph and the graphs inside it start, with the namespaces in which they are
    /// stored, outermost first. Empty unless the run starts from a checkpoint of one of these graphs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) checkpoints: Vec<(String, CheckpointId)>,
    /// Kinds of events to send back. Empty if the run has no stream that includes subgraphs.
    pub(super) modes: Vec<StreamMode>,
}

impl RemoteStart {
    /// Returns the name of the thread that stores the checkpoints of the subgraph, if the run has a thread.
    pub fn thread(&self) -> Option<&str> {
        self.thread.as_deref()
    }

    /// Returns the namespace of the subgraph.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the newest checkpoint of the enclosing graphs.
    pub(super) fn newest_checkpoint(&self) -> Option<CheckpointId> {
        self.tasks.iter().map(|it| it.step.checkpoint).max()
    }

    /// Returns whether a namespace is, or is inside, the one that stores the checkpoint from which the subgraph starts.
    /// That checkpoint may be stored outside the subgraph's namespace, because the subgraph's task had another id in
    /// the run that created the checkpoint.
    pub(super) fn starts_from(&self, namespace: &str) -> bool {
        self.checkpoints.first().is_some_and(|(stored_in, _)| belongs_to(namespace, stored_in))
    }

    /// Returns whether the subgraph must report heartbeats, because a node that encloses it has an idle timeout.
    pub fn tracks_heartbeats(&self) -> bool {
        self.tasks.iter().any(|it| it.tracks_heartbeats)
    }

    /// Lets the subgraph resume from its last stored checkpoint, if it has one; otherwise it starts again. Call this
    /// method before the start is sent to a second process, because the first one has died.
    pub fn resume_in_new_process(&mut self) {
        if let Some(task) = self.tasks.last_mut() {
            task.attempt = task.attempt.max(1).saturating_add(1);
        }
        // The first process may have used the value already.
        self.bind_resume_value();
    }

    /// Makes the single resume value answer only the interrupt that was pending when the run was resumed. Otherwise,
    /// the value could answer a later interrupt if an earlier attempt has stored the step that used it. If the subgraph
    /// had no pending interrupt, the value is dropped; the interrupt that it was meant for is then raised again.
    pub(super) fn bind_resume_value(&mut self) {
        if let (Some(value), Some(id)) = (self.resume_value.take(), &self.answered_interrupt) {
            self.resume_values.insert(id.clone(), value);
        }
    }
}

/// The input of a subgraph.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RemoteInput {
    Fresh(Vec<FieldWrite>),
    Continue,
    Command { writes: Option<Vec<FieldWrite>>, gotos: Vec<GotoRecord> },
}

/// The data of a time-travel run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RemoteReplay {
    pub(super) bound: CheckpointId,
    pub(super) visited: BTreeSet<String>,
}

/// A task that encloses the subgraph. Task ids, paths and the headers of checkpoints are derived from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RemoteTask {
    namespace: String,
    node: String,
    kind: TaskKind,
    step: TaskStep,
    attempt: u32,
    handled_push: Option<u32>,
    tracks_heartbeats: bool,
}

impl RemoteTask {
    /// Returns a task and the tasks that enclose it, outermost first.
    pub(super) fn chain(task: &Arc<TaskContext>) -> Vec<Self> {
        let chain = std::iter::successors(Some(task), |it| it.scope.parent.as_ref());
        let mut tasks: Vec<_> = chain.map(|it| Self::of(it)).collect();
        tasks.reverse();
        tasks
    }

    pub(super) fn of(task: &TaskContext) -> Self {
        Self {
            namespace: task.scope.namespace.clone(),
            node: task.node().to_owned(),
            kind: task.kind,
            step: TaskStep { checkpoint: task.checkpoint(), ..task.step },
            attempt: task.attempt.load(Ordering::Relaxed),
            handled_push: task.handled_push,
            tracks_heartbeats: task.tracks_heartbeats,
        }
    }

    /// Recreates the task. `scope` builds the scope of its graph from the namespace and the enclosing task.
    pub(super) fn into_context(
        self,
        parent: Option<Arc<TaskContext>>,
        scope: impl FnOnce(String, Option<Arc<TaskContext>>) -> Scope,
    ) -> TaskContext {
        let scope = Arc::new(scope(self.namespace, parent));
        let node = Label::from(self.node);
        let mut task = TaskContext::new(scope, node, self.kind, self.step, self.tracks_heartbeats);
        task.attempt = self.attempt.into();
        task.handled_push = self.handled_push;
        task
    }
}

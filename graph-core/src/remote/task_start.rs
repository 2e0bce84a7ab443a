//! The data that a single task needs to run in another process.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    context::{resume::InnerResumeValues, settings::RunSettings, task::TaskContext},
    namespace::belongs_to,
    remote::start::RemoteTask,
    stream::{EventSender, StreamMode},
};

/// The start of a task in another process. Only the engine interprets the content; a runner sends it with `serde`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoteTaskStart {
    pub(super) run: String,
    pub(super) thread: Option<String>,
    pub(super) task: RemoteTask,
    pub(super) settings: RunSettings,
    pub(super) input: RemoteTaskInput,
    /// The state that the node's branches read, if they are called as part of the task.
    pub(super) view: Option<Map<String, Value>>,
    /// Resume values that the task has received in earlier runs.
    pub(super) known_resume_values: Vec<Value>,
    /// Results of external calls that the task has made in earlier runs.
    pub(super) effects: BTreeMap<String, Value>,
    /// Value for the first interrupt that is raised.
    pub(super) resume_value: Option<Value>,
    pub(super) resume_values: BTreeMap<String, Value>,
    /// Kinds of events to send back.
    pub(super) modes: Vec<StreamMode>,
}

/// The input of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteTaskInput {
    State(Map<String, Value>),
    Payload(Value),
}

impl RemoteTaskStart {
    pub(crate) fn new(
        task: &Arc<TaskContext>,
        input: RemoteTaskInput,
        view: Option<Map<String, Value>>,
    ) -> Self {
        let scope = &task.scope;
        let namespace = task.namespace();
        let InnerResumeValues { single, by_id, .. } =
            scope.resume_values.inside(|it| belongs_to(it, &namespace));
        Self {
            run: scope.run.to_string(),
            thread: scope.thread.as_ref().map(|it| it.to_string()),
            task: RemoteTask::of(task),
            settings: RunSettings { effects: None, ..RunSettings::clone(&scope.settings) },
            input,
            view,
            known_resume_values: task.resume_values(),
            effects: task.effects(),
            resume_value: single,
            resume_values: by_id,
            modes: scope.events.as_ref().map(EventSender::modes).unwrap_or_default(),
        }
    }
}

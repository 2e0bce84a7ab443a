//! Runs a single task for a run in another process.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    context::{host_link::HostLink, resume::ResumeValues, task::Scope},
    control::RunControl,
    effects::EffectRecorder,
    engine::receive_task,
    graph::compiled::CompiledGraph,
    remote::{
        task_call::{RemoteTaskOutcome, ResumeMemory},
        task_start::RemoteTaskStart,
    },
    run::driven::Driven,
    state::State,
    stream::{Event, EventSender},
};

/// Maximum number of events that wait to be read.
const EVENT_BUFFER: usize = 64;

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Runs a single task of this graph for a run in another process, which sent `start`: see the
    /// [module](crate::remote). The graph's own checkpointer is not used.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn run_remote_task(
        &self,
        start: RemoteTaskStart,
        deps: C,
        host: RemoteTaskHost,
    ) -> RemoteTaskRun {
        let RemoteTaskStart { run, thread, task, settings, input, view, .. } = start;
        let run: Arc<str> = Arc::from(run);
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let modes = &start.modes;
        let events_to_host =
            (!modes.is_empty()).then(|| EventSender::new(sender, modes, true, run.clone()));
        let given = ResumeValues::new(start.resume_value, start.resume_values, BTreeMap::new());
        let given = Arc::new(given);
        let had_resume_value = given.has_single();
        let link = Arc::new(HostLink::new(host.recorder));
        let graph = self.erased().clone();
        let scope = |namespace, parent| Scope {
            initial: graph.initial.snapshot(),
            update_from: graph.initial.update_from_fn(),
            max_stored_bytes: graph.max_stored_bytes,
            run,
            thread: thread.map(Arc::from),
            namespace,
            parent,
            deps: Arc::new(deps),
            settings: Arc::new(settings),
            store: graph.store.clone(),
            cache: graph.cache.clone(),
            events: events_to_host,
            control: RunControl::new(),
            writer: None,
            resume_values: given.clone(),
            replay: None,
            subgraph_start: None,
            record_target: None,
            host: Some(link.clone()),
        };
        let mut effects = start.effects;
        effects.extend(host.effects);
        let mut cx = task.into_context(None, scope);
        if !effects.is_empty() || !start.known_resume_values.is_empty() {
            cx.restore(start.known_resume_values, effects);
        }
        let cx = Arc::new(cx);
        let run = async move {
            let end = receive_task::run_for_host(graph, &cx, input, view).await;
            let memory = cx.has_memory().then(|| ResumeMemory {
                values: cx.resume_values(),
                discarded: cx.discarded_resume_value(),
            });
            let took_resume_value = had_resume_value && !given.has_single();
            RemoteTaskOutcome { end, took_resume_value, memory }
        };
        RemoteTaskRun { driven: Driven::new(Box::pin(run), events) }
    }
}

/// The services of the process for which a task runs.
#[derive(Clone, Debug)]
pub struct RemoteTaskHost {
    /// Results of external calls that earlier executions of the task have recorded.
    pub effects: BTreeMap<String, Value>,
    /// Stores the results of external calls.
    pub recorder: Arc<dyn EffectRecorder>,
}

/// A running task of a run in another process. Reading its events drives the task; dropping it cancels the task.
#[must_use]
pub struct RemoteTaskRun {
    driven: Driven<RemoteTaskOutcome>,
}

impl RemoteTaskRun {
    /// Returns the next event, or `None` when the task has ended.
    pub async fn next(&mut self) -> Option<Event> {
        self.driven.next().await
    }

    /// Discards the remaining events and returns the outcome, which must be sent to the process of the run.
    pub async fn finish(self) -> RemoteTaskOutcome {
        self.driven.finish().await
    }
}

impl fmt::Debug for RemoteTaskRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTaskRun").finish_non_exhaustive()
    }
}

//! Execution of a server's runs on a cluster (feature `server`).

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{Event, EventKind, Interrupt, Stops, StreamMode};
use graph_server::langgraph::{
    ExecutorError, ExecutorInput, ExecutorOutcome, ExecutorRun, NamedError, RunExecutor,
};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    client::Client,
    error::ClusterError,
    failure::FailureKind,
    limits::POLL_INTERVAL,
    run::{RunInfo, RunResult, StartRun},
    run_command::{RunCommand, RunTarget},
    run_settings::RunSettings,
    run_status::RunStatus,
    store::RunEvent,
    timer::is_timer,
};

/// Executes the runs of a server on the workers of the cluster: pass the client to
/// [`Graphs::execute_with`](graph_server::langgraph::Graphs::execute_with).
#[async_trait]
impl RunExecutor for Client {
    async fn has_started(&self, run: &str) -> Result<bool, ExecutorError> {
        match self.run(run).await {
            Ok(_) => Ok(true),
            Err(ClusterError::UnknownRun(_)) => Ok(false),
            Err(error) => Err(executor_error(&error)),
        }
    }

    async fn start(&self, run: &ExecutorRun) -> Result<(), ExecutorError> {
        Self::start(self, &start_run(run)).await.map(drop).map_err(|it| executor_error(&it))
    }

    async fn watch(
        &self,
        run: &str,
        publish: &mut (dyn FnMut(Event) + Send),
    ) -> Result<ExecutorOutcome, ExecutorError> {
        let id: Arc<str> = Arc::from(run);
        let mut events = self.events(run, 0);
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    if let Some(kind) = without_timers(event.kind) {
                        publish(RunEvent { kind, ..event }.into_event(id.clone()));
                    }
                }
                Ok(None) => match self.wait(run).await {
                    Ok(ended) => return outcome(ended),
                    Err(error) => wait_if_unavailable(run, &error).await?,
                },
                Err(error) => wait_if_unavailable(run, &error).await?,
            }
        }
    }

    async fn cancel(&self, run: &str) -> Result<(), ExecutorError> {
        match Self::cancel(self, run).await {
            Ok(()) => match self.wait(run).await {
                Ok(_) | Err(ClusterError::UnknownRun(_)) => Ok(()),
                Err(error) => Err(executor_error(&error)),
            },
            Err(ClusterError::UnknownRun(_) | ClusterError::NotCancellable { .. }) => Ok(()),
            Err(error) => Err(executor_error(&error)),
        }
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), ExecutorError> {
        self.delete_runs_of_thread(thread).await.map(drop).map_err(|it| executor_error(&it))
    }

    fn answers_interrupt(&self, interrupt: &Interrupt) -> bool {
        is_timer(interrupt)
    }
}

/// Returns the error, unless the database may be available again later.
async fn wait_if_unavailable(run: &str, error: &ClusterError) -> Result<(), ExecutorError> {
    match executor_error(error) {
        ExecutorError::Unavailable(problem) => {
            tracing::warn!(run, problem, "cannot read the events of a run; retrying");
            sleep(POLL_INTERVAL).await;
            Ok(())
        }
        error => Err(error),
    }
}

/// Removes timers from the interrupts of an event, because the cluster answers them. Returns `None` if all interrupts
/// of the event are timers. An event without interrupts, which reports a static stop, is kept.
fn without_timers(mut kind: EventKind) -> Option<EventKind> {
    match &mut kind {
        EventKind::Interrupted(interrupts) if !interrupts.is_empty() => {
            interrupts.retain(|it| !is_timer(it));
            if interrupts.is_empty() {
                return None;
            }
        }
        EventKind::TaskFinished { interrupts, .. } => interrupts.retain(|it| !is_timer(it)),
        _ => {}
    }
    Some(kind)
}

fn executor_error(error: &ClusterError) -> ExecutorError {
    match error {
        ClusterError::Database(_) | ClusterError::Scheduler { .. } => {
            ExecutorError::Unavailable(error.to_string())
        }
        _ => ExecutorError::Failed(NamedError::new("ClusterError", error.to_string())),
    }
}

/// Returns the outcome of a run that is not active.
fn outcome(run: RunInfo) -> Result<ExecutorOutcome, ExecutorError> {
    let RunResult { values, interrupts, error, failure, node_error, .. } = run.outcome;
    match run.status {
        RunStatus::Cancelled => return Err(ExecutorError::Cancelled),
        RunStatus::Failed => {}
        _ => return Ok(ExecutorOutcome { values, interrupts }),
    }
    let error = error.unwrap_or_default();
    let name = match failure {
        Some(FailureKind::Node) => {
            let named = node_error.map(|it| NamedError::parse(&it));
            // The names of all other errors are unknown.
            if let Some(named) = named.filter(|it| it.name != NODE_ERROR) {
                return Err(ExecutorError::Failed(named));
            }
            NODE_ERROR
        }
        Some(FailureKind::InvalidUpdate) => "InvalidUpdateError",
        Some(FailureKind::StepLimit) => "GraphRecursionError",
        Some(FailureKind::StepTimeout) => {
            return Err(ExecutorError::TimedOut(NamedError::new("TimeoutError", error)));
        }
        Some(FailureKind::EmptyInput) => "EmptyInputError",
        Some(FailureKind::UnknownInterrupt) => "UnknownInterruptError",
        Some(FailureKind::AmbiguousResume) => "RuntimeError",
        Some(FailureKind::Other) | None => "GraphError",
    };
    Err(ExecutorError::Failed(NamedError::new(name, error)))
}

/// Name of node errors that have no other name.
const NODE_ERROR: &str = "NodeError";

fn start_run(run: &ExecutorRun) -> StartRun {
    let mut request = StartRun::new(&run.id, &run.graph, &run.thread)
        .stream_modes(StreamMode::DEBUG)
        .context(Value::Object(run.context.clone()));
    request.tenant.clone_from(&run.owner);
    request.trace_parent.clone_from(&run.trace_parent);
    request.checkpoint = run.checkpoint;
    request.settings = RunSettings {
        step_limit: run.step_limit,
        max_concurrency: run.max_concurrency,
        durability: Some(run.durability),
        stop_before: run.stop_before.as_ref().map(stop_names),
        stop_after: run.stop_after.as_ref().map(stop_names),
        config: run.config.clone(),
        metadata: run.metadata.clone(),
    };
    match run.input.clone() {
        ExecutorInput::Fields(fields) => request.input = fields,
        ExecutorInput::Command { answer, answers, update, targets } => {
            let target = |(node, payload)| RunTarget { node, payload };
            let targets = targets.into_iter().map(target).collect();
            request.command = Some(RunCommand { answers, resume: answer, update, targets });
        }
        // An empty command continues the thread.
        _ => request.command = Some(RunCommand::new()),
    }
    request
}

fn stop_names(stops: &Stops) -> Vec<String> {
    match stops {
        Stops::None => Vec::new(),
        Stops::At(nodes) => nodes.iter().map(ToString::to_string).collect(),
        Stops::All => vec![crate::run_settings::ALL_NODES.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_contain_only_interrupts_that_wait_for_a_person() {
        let interrupt = |id: &str, value: Value| Interrupt {
            id: id.to_owned(),
            value,
            namespace: String::new(),
        };
        let timer = interrupt("t", json!({ "graph_cluster_sleep_until": 5 }));
        let question = interrupt("q", json!("Go on?"));
        let shown = |interrupts: Vec<Interrupt>| {
            without_timers(EventKind::Interrupted(interrupts)).map(|it| json!(it))
        };
        assert_eq!(shown(vec![timer.clone()]), None);
        assert_eq!(shown(Vec::new()), Some(json!({ "interrupted": [] })));
        let expected = json!({ "interrupted": [question] });
        assert_eq!(shown(vec![timer, question]), Some(expected));
    }
}

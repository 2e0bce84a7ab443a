//! Executes a claimed task, and stores its messages and its outcome. This or another worker executes the task's run.

use std::{
    any::Any,
    collections::BTreeMap,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use async_trait::async_trait;
use graph_core::{
    NodeError,
    remote::{EffectRecorder, RemoteTaskHost, RemoteTaskOutcome},
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tracing::{Instrument, info_span};

use crate::{
    error::ClusterError,
    leg::LegRunner,
    limits::{MAX_ATTEMPTS, MAX_BATCH, RETRY_DELAY},
    run::StartRun,
    store::{TaskClaim, TaskWrite},
    task_message::TaskMessage,
    task_writer::TaskWriter,
};

/// The reason why the engine returned no outcome for a task.
enum TaskError {
    /// Another worker has claimed the task.
    Lost,
    /// The task cannot be executed, or its messages cannot be stored.
    Failed(String),
}

impl From<ClusterError> for TaskError {
    fn from(error: ClusterError) -> Self {
        Self::Failed(format!("cannot store or read the messages of the task: {error}"))
    }
}

/// Executes a claimed task and stores its outcome.
pub(crate) async fn execute(runner: &LegRunner, writer: &TaskWriter, claim: &TaskClaim) {
    let TaskClaim { run, id, graph, .. } = claim;
    let (worker, number) = (&runner.worker, claim.claim_count());
    let span = info_span!("task", run, task = id, graph, worker, claim = number);
    runner.options.set_parent(&span, claim.trace_parent.as_deref());
    execute_in_span(runner, writer, claim).instrument(span).await;
}

async fn execute_in_span(runner: &LegRunner, writer: &TaskWriter, claim: &TaskClaim) {
    // The engine catches panics of the node. This panic is in the code around it, such as the creation of the
    // dependencies.
    let outcome = match catch_panic(run(runner, writer, claim)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(TaskError::Failed(problem))) => RemoteTaskOutcome::failed(problem),
        Ok(Err(TaskError::Lost)) => return,
        Err(panic) => {
            let message = panic_message(&*panic);
            RemoteTaskOutcome::failed(format!("the task panicked outside its node: {message}"))
        }
    };
    let Err(error) = store_outcome(writer, claim, &outcome).await else { return };
    let problem = format!("cannot store the outcome of the task: {error}");
    let failure = RemoteTaskOutcome::failed(problem);
    if let Err(error) = store_outcome(writer, claim, &failure).await {
        tracing::error!(run = claim.run, task = claim.id, error, "cannot store the end of a task");
    }
}

/// Stores the outcome of a task, unless another worker has claimed the task.
async fn store_outcome(
    writer: &TaskWriter,
    claim: &TaskClaim,
    outcome: &RemoteTaskOutcome,
) -> Result<(), String> {
    let outcome = serde_json::to_string(outcome).map_err(|it| it.to_string())?;
    match writer.store(TaskWrite::outcome(claim, outcome)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs a future until it completes or panics.
async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Runs a task with the effects that earlier executions have recorded.
async fn run(
    runner: &LegRunner,
    writer: &TaskWriter,
    claim: &TaskClaim,
) -> Result<RemoteTaskOutcome, TaskError> {
    if claim.attempts > MAX_ATTEMPTS {
        return Err(TaskError::Failed(format!(
            "{MAX_ATTEMPTS} executions of the task ended without a result, because the worker died or lost its \
             connection; fix the cause, which the logs of the workers show, and resume the run"
        )));
    }
    let graph =
        runner.graphs.find(&claim.graph).expect("only tasks of registered graphs are claimed");
    let unreadable = |error: serde_json::Error| {
        let fix = "give each version of the graph its own name with `RegisteredGraph::version`";
        TaskError::Failed(format!("the task cannot be read: {error}; {fix}"))
    };
    let start = serde_json::from_str(&claim.start).map_err(unreadable)?;
    let request: StartRun = serde_json::from_str(&claim.request).map_err(unreadable)?;
    let mut next_seq = 0;
    let mut effects = BTreeMap::new();
    if claim.claim_count() > 1 {
        for (seq, body) in retry(claim, || runner.store.task_history(claim)).await? {
            next_seq = seq + 1;
            if let Ok(TaskMessage::Effect { key, result }) = serde_json::from_str(&body) {
                effects.entry(key).or_insert(result);
            }
        }
    }
    let (recorder, recorded) = mpsc::unbounded_channel();
    let (sender, events) = mpsc::channel(MAX_BATCH);
    let host = RemoteTaskHost { effects, recorder: Arc::new(Recorder(recorder)) };
    let mut task = graph
        .start_task(request.context, start, host)
        .await
        .map_err(|error| TaskError::Failed(error.to_string()))?;
    // The node is polled while its messages are stored: it may wait for the result of an effect that the writer stores.
    let drive = async move {
        while let Some(event) = task.next().await {
            // Sending fails only if the writer has failed. This future is then dropped.
            let _ = sender.send(TaskMessage::Event(Box::new(event))).await;
        }
        Ok::<_, TaskError>(task.finish().await)
    };
    let messages = MessageWriter { writer, claim, next_seq };
    let (outcome, ()) = tokio::try_join!(drive, messages.write(events, recorded))?;
    Ok(outcome)
}

/// The result of an external call. The node waits until the result is stored.
#[derive(Debug)]
struct RecordedEffect {
    message: TaskMessage,
    stored: oneshot::Sender<()>,
}

/// Passes results of external calls to the writer. The channel has no limit, because each sender waits for its reply.
#[derive(Debug)]
struct Recorder(mpsc::UnboundedSender<RecordedEffect>);

#[async_trait]
impl EffectRecorder for Recorder {
    async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError> {
        let message = TaskMessage::Effect { key: key.to_owned(), result: result.clone() };
        let (stored, reply) = oneshot::channel();
        let ended = || {
            NodeError::terminal(
                "the result of the call cannot be stored, because the task has ended or another worker has claimed it",
            )
        };
        self.0.send(RecordedEffect { message, stored }).map_err(|_| ended())?;
        reply.await.map_err(|_| ended())
    }
}

/// Stores the messages of a task, in batches.
struct MessageWriter<'a> {
    writer: &'a TaskWriter,
    claim: &'a TaskClaim,
    next_seq: i64,
}

impl MessageWriter<'_> {
    /// Stores messages until the sender of the events is dropped.
    async fn write(
        mut self,
        mut events: mpsc::Receiver<TaskMessage>,
        mut effects: mpsc::UnboundedReceiver<RecordedEffect>,
    ) -> Result<(), TaskError> {
        loop {
            let (mut bodies, mut waiting) = (Vec::new(), Vec::new());
            // A node waits for its effects, so they are stored first.
            tokio::select! {
                biased;
                Some(effect) = effects.recv() => {
                    bodies.push(to_body(&effect.message)?);
                    waiting.push(effect.stored);
                }
                event = events.recv() => match event {
                    Some(event) => bodies.push(to_body(&event)?),
                    None => return Ok(()),
                },
            }
            while bodies.len() < MAX_BATCH
                && let Ok(effect) = effects.try_recv()
            {
                bodies.push(to_body(&effect.message)?);
                waiting.push(effect.stored);
            }
            while bodies.len() < MAX_BATCH
                && let Ok(event) = events.try_recv()
            {
                bodies.push(to_body(&event)?);
            }
            self.append(bodies).await?;
            for stored in waiting {
                // The node no longer waits if it dropped the future of its call.
                let _ = stored.send(());
            }
        }
    }

    /// Stores messages. Waits while the database is unreachable.
    async fn append(&mut self, bodies: Vec<String>) -> Result<(), TaskError> {
        let n_bodies = bodies.len() as i64;
        let write = TaskWrite::messages(self.claim, self.next_seq, bodies);
        match self.writer.store(write).await? {
            true => self.next_seq += n_bodies,
            false => return Err(TaskError::Lost),
        }
        Ok(())
    }
}

fn to_body(message: &TaskMessage) -> Result<String, TaskError> {
    serde_json::to_string(message)
        .map_err(|error| TaskError::Failed(format!("cannot serialise a message: {error}")))
}

/// Repeats an operation while the database is unreachable.
async fn retry<T, F>(claim: &TaskClaim, operation: impl Fn() -> F) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    loop {
        match operation().await {
            Err(error @ ClusterError::Database(_)) => {
                tracing::warn!(run = claim.run, task = claim.id, %error, "the database is unreachable; retrying");
                sleep(RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

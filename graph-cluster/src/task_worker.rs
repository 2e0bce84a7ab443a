//! Executes tasks of runs that other workers hold.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt;
use graph_core::{
    Event, NodeError,
    remote::{EffectRecorder, RemoteTaskHost, RemoteTaskOutcome, RemoteTaskRun},
};
use serde_json::Value;
use tokio::{
    sync::{Mutex, broadcast::error::RecvError},
    task::{AbortHandle, JoinSet},
    time::{interval, sleep},
};

use crate::{
    error::ClusterError,
    leg::LegRunner,
    store::{Notice, RunStore, TaskClaim, TaskFilter},
    task_message::TaskMessage,
};

/// Delay between attempts to reach the database.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of events stored in one statement.
const MAX_BATCH: usize = 64;
/// Maximum number of times that a task is claimed before it fails, so that a task that crashes its process does not end
/// all workers again and again.
const MAX_ATTEMPTS: i32 = 20;

/// A task that this worker executes.
struct ActiveTask {
    claim: TaskClaim,
    abort: AbortHandle,
}

/// Executes tasks until the worker has drained. While it drains, executes only tasks of its own runs.
pub(crate) async fn work(runner: Arc<LegRunner>) {
    let mut tasks = JoinSet::new();
    let mut active: BTreeMap<(String, String), ActiveTask> = BTreeMap::new();
    let mut notices = runner.store.notices();
    let mut changes = runner.changes();
    let mut beats = interval(runner.heartbeat_interval());
    let (mut claims_more, mut is_beat) = (true, false);
    loop {
        if is_beat {
            extend_leases(&runner, &mut active).await;
            is_beat = false;
        }
        if claims_more {
            claims_more = claim(&runner, &mut tasks, &mut active).await;
        }
        if runner.is_aborting() {
            break;
        }
        if runner.is_draining() && tasks.is_empty() && runner.is_idle() {
            return;
        }
        tokio::select! {
            _ = beats.tick() => (is_beat, claims_more) = (true, true),
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                let ended = std::iter::once(ended).chain(std::iter::from_fn(|| tasks.try_join_next()));
                // An aborted task is removed by the code that aborts it.
                for key in ended.flatten().collect::<Vec<_>>() {
                    active.remove(&key);
                }
            }
            () = changes.next() => {}
            notice = notices.recv() => match notice {
                Ok(Notice::Task) => claims_more = true,
                Ok(Notice::Cancel(_)) => is_beat = true,
                Ok(Notice::Lost) | Err(RecvError::Lagged(_)) => (is_beat, claims_more) = (true, true),
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            },
        }
    }
    tasks.shutdown().await;
    let claims: Vec<_> = active.values().map(|it| &it.claim).collect();
    if let Err(error) = runner.store.hand_back_tasks(&claims).await {
        tracing::warn!(%error, "cannot return tasks to the queue; their leases expire");
    }
}

/// Claims as many tasks as this worker can start. Returns whether there may be more.
async fn claim(
    runner: &Arc<LegRunner>,
    tasks: &mut JoinSet<(String, String)>,
    active: &mut BTreeMap<(String, String), ActiveTask>,
) -> bool {
    let free = runner.options.task_capacity.saturating_sub(tasks.len());
    if free == 0 {
        return true;
    }
    let pools: Vec<String> = runner.options.fan_out.pools.iter().cloned().collect();
    let filter = TaskFilter {
        worker: &runner.worker,
        graphs: &runner.graphs(),
        pools: &pools,
        only_own_runs: runner.is_draining(),
    };
    match runner.store.claim_tasks(&filter, runner.options.lease, free).await {
        Ok(claims) => {
            let is_full = claims.len() == free;
            for claim in claims {
                let key = (claim.run.clone(), claim.id.clone());
                let (runner, task) = (runner.clone(), claim.clone());
                let ended = key.clone();
                let abort = tasks.spawn(async move {
                    execute(&runner, task).await;
                    ended
                });
                active.insert(key, ActiveTask { claim, abort });
            }
            is_full
        }
        Err(error) => {
            tracing::warn!(%error, "cannot claim tasks");
            false
        }
    }
}

/// Extends the leases of all tasks, and stops those that this worker has lost or whose run was cancelled.
async fn extend_leases(runner: &LegRunner, active: &mut BTreeMap<(String, String), ActiveTask>) {
    if active.is_empty() {
        return;
    }
    let claims: Vec<_> = active.values().map(|it| &it.claim).collect();
    match runner.store.extend_task_leases(&claims, runner.options.lease).await {
        Ok(held) => {
            active.retain(|key, task| {
                let is_held = held.contains(key);
                if !is_held {
                    task.abort.abort();
                }
                is_held
            });
        }
        Err(error) => tracing::warn!(%error, "cannot extend the leases of tasks"),
    }
}

/// Executes a claimed task and stores its outcome.
async fn execute(runner: &LegRunner, claim: TaskClaim) {
    let log = Arc::new(TaskLog { store: runner.store.clone(), claim, next_seq: Mutex::new(0) });
    let outcome = match start(runner, &log).await {
        Ok(mut run) => {
            while let Some(events) = next_batch(&mut run).await {
                if log.append(&events).await.is_err() {
                    return;
                }
            }
            run.finish().await
        }
        Err(problem) => RemoteTaskOutcome::failed(problem),
    };
    let outcome = match serde_json::to_string(&outcome) {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!(%error, "cannot serialise the outcome of a task");
            return;
        }
    };
    retry(&log.claim, || runner.store.end_task(&log.claim, &outcome)).await.unwrap_or_else(
        |error| {
            tracing::error!(run = log.claim.run, %error, "cannot store the outcome of a task");
        },
    );
}

/// Starts a task, with the effects that earlier executions have recorded.
async fn start(runner: &LegRunner, log: &Arc<TaskLog>) -> Result<RemoteTaskRun, String> {
    let claim = &log.claim;
    if claim.attempts > MAX_ATTEMPTS {
        return Err(format!(
            "{MAX_ATTEMPTS} executions of the task ended without a result, because the worker died or lost its \
             connection; fix the cause, which the logs of the workers show, and resume the run"
        ));
    }
    let graph = runner.graphs.get(&claim.graph).ok_or("this worker does not have the graph")?;
    let start = serde_json::from_str(&claim.start).map_err(|error| {
        format!("the task cannot be read: {error}; run the same version on all workers")
    })?;
    let mut effects = BTreeMap::new();
    if claim.fence > 1 {
        let history = retry(claim, || runner.store.task_history(claim)).await;
        for (seq, body) in history.map_err(|it| it.to_string())? {
            *log.next_seq.lock().await = seq + 1;
            if let Ok(TaskMessage::Effect { key, result }) = serde_json::from_str(&body) {
                effects.entry(key).or_insert(result);
            }
        }
    }
    Ok(graph.start_task(start, RemoteTaskHost { effects, recorder: log.clone() }))
}

/// Waits for an event and returns it together with all events that are already available.
async fn next_batch(run: &mut RemoteTaskRun) -> Option<Vec<TaskMessage>> {
    let message = |event: Event| TaskMessage::Event(Box::new(event.into()));
    let mut events = vec![message(run.next().await?)];
    while events.len() < MAX_BATCH
        && let Some(Some(event)) = run.next().now_or_never()
    {
        events.push(message(event));
    }
    Some(events)
}

/// Stores the messages of a task.
#[derive(Debug)]
struct TaskLog {
    store: RunStore,
    claim: TaskClaim,
    next_seq: Mutex<i64>,
}

impl TaskLog {
    /// Stores messages. While the database cannot be reached, waits. Fails if this worker has lost the task.
    async fn append(&self, messages: &[TaskMessage]) -> Result<(), NodeError> {
        let bodies: Vec<String> =
            messages.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let mut next_seq = self.next_seq.lock().await;
        let seq = *next_seq;
        match retry(&self.claim, || self.store.append_messages(&self.claim, seq, &bodies)).await? {
            true => *next_seq += bodies.len() as i64,
            false => return Err(NodeError::terminal("another worker has claimed the task")),
        }
        Ok(())
    }
}

#[async_trait]
impl EffectRecorder for TaskLog {
    async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError> {
        self.append(&[TaskMessage::Effect { key: key.to_owned(), result: result.clone() }]).await
    }
}

/// Repeats an operation while the database cannot be reached.
async fn retry<T, F>(claim: &TaskClaim, operation: impl Fn() -> F) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    loop {
        match operation().await {
            Err(error @ ClusterError::Database(_)) => {
                tracing::warn!(run = claim.run, task = claim.id, %error, "trying again");
                sleep(RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

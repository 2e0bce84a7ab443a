//! Posts tasks of a leg for other workers, and receives their messages and outcomes.
//!
//! The engine folds the outcomes in task order, so the result is the same as on one worker. If the worker of the run
//! dies, the next one finds the posted tasks and their outcomes in the database, because task ids are deterministic.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::join_all;
use graph_core::{
    NodeError,
    remote::{RemoteTaskCall, RemoteTaskOutcome, RemoteTaskRunner, TaskPlacement},
};
use tokio::{
    sync::{broadcast::Receiver, mpsc, oneshot},
    time::{Instant, sleep},
};

use crate::{
    error::ClusterError,
    leg_end::LegEnd,
    limits::RETRY_DELAY,
    store::{Claim, NewTask, Notice, RunStore, wait_for_notice},
    task_message::TaskMessage,
};

/// Minimum and maximum time to wait for more notifications before the tables are read. Within these limits, the wait is
/// as long as the last read took. In a wide step, each read then returns the results of many tasks.
const COLLECT_TIME: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

/// Determines which tasks of a run are executed by other workers.
#[derive(Clone, Debug)]
pub(crate) struct FanOutRules {
    /// Minimum number of tasks in a step that is spread over workers. `None`: no step is spread.
    pub(crate) min_tasks: Option<usize>,
    /// Pools that this worker serves.
    pub(crate) pools: BTreeSet<String>,
}

/// Receives tasks of a leg from the engine. [`dispatch_tasks`] posts them.
pub(crate) struct FanOut {
    rules: FanOutRules,
    calls: mpsc::UnboundedSender<PostedCall>,
}

/// A call whose caller waits for the outcome.
pub(crate) struct PostedCall {
    call: RemoteTaskCall,
    reply: oneshot::Sender<Result<RemoteTaskOutcome, NodeError>>,
}

impl FanOut {
    pub(crate) fn new(rules: FanOutRules) -> (Arc<Self>, mpsc::UnboundedReceiver<PostedCall>) {
        let (calls, posted) = mpsc::unbounded_channel();
        (Arc::new(Self { rules, calls }), posted)
    }
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[async_trait]
impl RemoteTaskRunner for FanOut {
    fn accepts(&self, task: TaskPlacement<'_>) -> bool {
        let is_wide = self.rules.min_tasks.is_some_and(|it| task.tasks_in_step >= it);
        is_wide || task.pool.is_some_and(|it| !self.rules.pools.contains(it))
    }

    async fn run(&self, call: RemoteTaskCall) -> Result<RemoteTaskOutcome, NodeError> {
        let (reply, outcome) = oneshot::channel();
        let ended = || NodeError::terminal("the leg of the run has ended");
        self.calls.send(PostedCall { call, reply }).map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

/// A task that another worker executes or will execute.
struct OpenTask {
    call: RemoteTaskCall,
    reply: oneshot::Sender<Result<RemoteTaskOutcome, NodeError>>,
    next_seq: i64,
}

/// Posts the tasks of a leg, and delivers their messages and outcomes. Returns only if another worker has claimed the
/// run.
pub(crate) async fn dispatch_tasks(
    store: &RunStore,
    claim: &Claim,
    mut posted: mpsc::UnboundedReceiver<PostedCall>,
) -> LegEnd {
    let run = &claim.request.id;
    let mut notices = store.notices();
    let mut open: BTreeMap<String, OpenTask> = BTreeMap::new();
    let [min_collect_time, max_collect_time] = COLLECT_TIME;
    let mut collect_time = min_collect_time;
    loop {
        tokio::select! {
            Some(call) = posted.recv() => {
                let mut calls = vec![call];
                while let Ok(call) = posted.try_recv() {
                    calls.push(call);
                }
                match post(store, claim, calls).await {
                    Some(tasks) => open.extend(tasks),
                    None => return LegEnd::Lost,
                }
            }
            () = wait_for_update(&mut notices, run, collect_time), if !open.is_empty() => {}
            // The run has ended, and its last events are being stored.
            else => return std::future::pending().await,
        }
        let started = Instant::now();
        match deliver(store, run, &mut open).await {
            Ok(()) => collect_time = started.elapsed().clamp(min_collect_time, max_collect_time),
            Err(error @ ClusterError::Database(_)) => {
                tracing::warn!(run, %error, "cannot read the tasks of a run");
                sleep(RETRY_DELAY).await;
            }
            Err(error) => {
                let problem = format!("cannot read the result of the task: {error}");
                fail_tasks(std::mem::take(&mut open).into_values(), &problem);
            }
        }
    }
}

/// Posts tasks. Returns `None` if another worker has claimed the run.
async fn post(
    store: &RunStore,
    claim: &Claim,
    calls: Vec<PostedCall>,
) -> Option<Vec<(String, OpenTask)>> {
    let mut tasks = Vec::with_capacity(calls.len());
    let mut open = Vec::with_capacity(calls.len());
    for PostedCall { call, reply } in calls {
        let start = match serde_json::to_string(call.start()) {
            Ok(start) => start,
            Err(error) => {
                // The caller may have been dropped.
                let _ = reply.send(Err(NodeError::terminal(error)));
                continue;
            }
        };
        let id = call.task().to_string();
        let pool = call.required_pool().map(str::to_owned);
        tasks.push(NewTask { id: id.clone(), pool, step: call.step(), start });
        open.push((id, OpenTask { call, reply, next_seq: 0 }));
    }
    loop {
        match store.post_tasks(claim, &tasks).await {
            Ok(true) => return Some(open),
            Ok(false) => return None,
            Err(error @ ClusterError::Database(_)) => {
                tracing::warn!(run = claim.request.id, %error, "cannot post tasks");
                sleep(RETRY_DELAY).await;
            }
            Err(error) => {
                let problem = format!("cannot post the task for another worker: {error}");
                fail_tasks(open.into_iter().map(|(_, task)| task), &problem);
                return Some(Vec::new());
            }
        }
    }
}

/// Reports a failure to the callers of tasks.
fn fail_tasks(tasks: impl Iterator<Item = OpenTask>, problem: &str) {
    for task in tasks {
        // The caller may have been dropped.
        let _ = task.reply.send(Err(NodeError::terminal(problem.to_owned())));
    }
}

/// Returns once tasks of the run may have changed, and the time to collect more changes has passed.
async fn wait_for_update(notices: &mut Receiver<Notice>, run: &str, collect_time: Duration) {
    if wait_for_notice(notices, &Notice::TaskUpdated(run.to_owned())).await {
        sleep(collect_time).await;
        while notices.try_recv().is_ok() {}
    }
}

/// Delivers new messages and outcomes. The outcome of a task is delivered after all its messages.
async fn deliver(
    store: &RunStore,
    run: &str,
    open: &mut BTreeMap<String, OpenTask>,
) -> Result<(), ClusterError> {
    if open.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = open.keys().cloned().collect();
    // The outcomes are read first, because all messages of a task are stored before its outcome.
    let outcomes = store.read_outcomes(run, &ids).await?;
    loop {
        let positions: Vec<i64> = open.values().map(|it| it.next_seq).collect();
        let (messages, has_more) = store.read_messages(run, &ids, &positions).await?;
        let mut by_task: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (task, seq, body) in messages {
            if let Some(open) = open.get_mut(&task) {
                open.next_seq = seq + 1;
            }
            by_task.entry(task).or_default().push(body);
        }
        let tasks: &BTreeMap<_, _> = open;
        let deliveries = by_task.into_iter().filter_map(|(id, bodies)| {
            let call = &tasks.get(&id)?.call;
            Some(async move { (id, apply_messages(call, bodies).await) })
        });
        for (id, result) in join_all(deliveries).await {
            let Err(error) = result else { continue };
            if let Some(task) = open.remove(&id) {
                // The caller may have been dropped.
                let _ = task.reply.send(Err(error));
            }
        }
        if !has_more {
            break;
        }
        if open.len() < ids.len() {
            // A task failed and was removed, so its messages must not be read again. Continue with the remaining tasks.
            return Box::pin(deliver(store, run, open)).await;
        }
    }
    for (id, outcome) in outcomes {
        if let Some(task) = open.remove(&id) {
            let outcome = serde_json::from_str(&outcome).map_err(NodeError::terminal);
            // The caller may have been dropped.
            let _ = task.reply.send(outcome);
        }
    }
    Ok(())
}

/// Sends events to the stream of the run, and stores results of external calls in its thread.
async fn apply_messages(call: &RemoteTaskCall, bodies: Vec<String>) -> Result<(), NodeError> {
    for body in bodies {
        match serde_json::from_str(&body).map_err(NodeError::terminal)? {
            TaskMessage::Event(event) => call.forward(*event).await,
            TaskMessage::Effect { key, result } => call.record_effect(key, result).await?,
        }
    }
    Ok(())
}

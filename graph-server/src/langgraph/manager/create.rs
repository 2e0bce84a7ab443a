//! Creates runs, and resumes the runs of an earlier process.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    LiveRun, Manager,
    cancellation::{CancelAction, Cancellation},
};
use crate::langgraph::{
    database::Select,
    error::{ApiError, ApiResult},
    records::{Run, RunStatus, Thread, ThreadStatus},
    request::run::MultitaskStrategy,
    time::{now, time_until},
};

impl Manager {
    /// Stores a run and starts it, now or when the active runs of its thread have ended. `new_thread` is stored if the
    /// thread of the run does not exist.
    pub(in crate::langgraph) fn create(
        self: &Arc<Self>,
        run: &Run,
        new_thread: Thread,
    ) -> ApiResult<Arc<LiveRun>> {
        self.check_access(run.thread_id)?;
        let mut schedule = self.lock();
        schedule.check_not_reserved(run.thread_id)?;
        let active: Vec<_> =
            schedule.queues.get(&run.thread_id).into_iter().flatten().cloned().collect();
        if !active.is_empty() && run.multitask_strategy == MultitaskStrategy::Reject {
            let detail = "the thread already has an active run; wait for it, cancel it or choose another \
                          `multitask_strategy`";
            return Err(ApiError::conflict(detail));
        }
        // The thread may have been changed since the caller read it.
        let id = run.thread_id.to_string();
        let stored = self.database.get(&id)?;
        let mut thread: Thread = stored.unwrap_or(new_thread);
        let graph = Value::from(run.kwargs.graph_id.clone());
        thread.metadata.insert("graph_id".to_owned(), graph);
        thread.metadata.insert("assistant_id".to_owned(), json!(run.assistant_id));
        thread.config = json!(run.kwargs.config);
        thread.config["configurable"] = json!(run.kwargs.config.configurable);
        thread.updated_at = now();
        thread.status = ThreadStatus::Busy;
        let delay = Duration::try_from_secs_f64(run.kwargs.after_seconds).unwrap_or_default();
        self.database.put(&thread)?;
        // The run belongs to the owner of its thread, who can differ from the owner who starts the run.
        let owner = self.database.owner_of::<Thread>(&id)?.flatten();
        self.database.put_owned(run, owner.as_deref())?;
        let counter = schedule.feed(run.thread_id).counter.clone();
        let live = Arc::new(LiveRun::new(run, owner, counter));
        if delay.is_zero() {
            if schedule.enqueue(&live) {
                tokio::spawn(self.clone().work(live.clone()));
            }
        } else {
            schedule.live.insert(run.run_id, live.clone());
            tokio::spawn(self.clone().start_later(live.clone(), delay));
        }
        drop(schedule);
        let action = match run.multitask_strategy {
            MultitaskStrategy::Interrupt => Some(CancelAction::Interrupt),
            MultitaskStrategy::Rollback => Some(CancelAction::Rollback),
            MultitaskStrategy::Reject | MultitaskStrategy::Enqueue => None,
        };
        if let Some(action) = action {
            let reason = format!("run {} was created on the same thread", run.run_id);
            let cancellation = Cancellation::new(action, reason);
            active.iter().for_each(|it| it.request_cancel(cancellation.clone()));
        }
        Ok(live)
    }

    /// Starts a run after a delay.
    async fn start_later(self: Arc<Self>, live: Arc<LiveRun>, delay: Duration) {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = live.wake.notified() => {}
        }
        let is_first = self.lock().enqueue(&live);
        if is_first {
            self.work(live).await;
        }
    }

    /// Starts the runs that were pending or executing when an earlier process ended.
    pub(in crate::langgraph) fn recover(self: &Arc<Self>) -> ApiResult<usize> {
        let mut runs = Vec::new();
        for status in [RunStatus::Running, RunStatus::Pending] {
            let select = Select { status: Some(status.name()), ..Select::default() };
            runs.extend(self.database.list::<Run>(select)?);
        }
        for run in &runs {
            let owner = self.database.owner_of::<Run>(&run.run_id.to_string())?.flatten();
            let mut schedule = self.lock();
            let counter = schedule.feed(run.thread_id).counter.clone();
            let live = Arc::new(LiveRun::new(run, owner, counter));
            let delay = match run.status {
                RunStatus::Pending => time_until(&run.created_at, run.kwargs.after_seconds),
                _ => Duration::ZERO,
            };
            if !delay.is_zero() {
                schedule.live.insert(run.run_id, live.clone());
                tokio::spawn(self.clone().start_later(live, delay));
            } else if schedule.enqueue(&live) {
                tokio::spawn(self.clone().work(live));
            }
        }
        Ok(runs.len())
    }
}

//! Creates runs.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{LiveRun, Manager, reservation::check_not_reserved};
use crate::langgraph::{
    cancellation::{CancelAction, Cancellation},
    document::to_row,
    error::{ApiError, ApiResult},
    records::{Run, Thread, ThreadStatus},
    request::run::MultitaskStrategy,
    storage::{NewRun, ThreadChange, ThreadEntry},
    time::now,
};

impl Manager {
    /// Stores a run and adds it to the queue of its thread. `new_thread` is stored if the thread of the run does not
    /// exist.
    pub(in crate::langgraph) async fn create(
        &self,
        run: &Run,
        new_thread: Thread,
    ) -> ApiResult<Arc<LiveRun>> {
        // Declared before `created`, and therefore dropped after it, when the run is no longer in use.
        let mut unstored = UnstoredRun { manager: self, run: run.run_id, is_stored: false };
        let (mut new_thread, mut created) = (Some(new_thread), None);
        let mut cancelled = Vec::new();
        let mut decide = |entry: ThreadEntry| {
            let view = self.database.view();
            let stored = self.locked_thread(run.thread_id, &entry)?;
            check_admission(run, &entry)?;
            let active: Vec<_> = entry.active.iter().filter(|it| it.due).collect();
            // The run belongs to the owner of its thread, which can differ from the owner that starts the run.
            let owner = match &stored {
                Some(_) => entry.owner.clone(),
                None => view.owner().map(str::to_owned),
            };
            let Some(mut thread) = stored.or_else(|| new_thread.take()) else {
                return Err(ApiError::internal(
                    "the closure that changes a thread was called twice",
                ));
            };
            prepare_thread(&mut thread, run);
            // The run is added before it can be claimed, so that it is executed under the same `LiveRun`.
            created = Some(self.lock().add(run, owner.clone()));
            let cancel = cancellation_of_others(run).filter(|_| !active.is_empty());
            cancelled.extend(active.iter().map(|it| it.run));
            let delay = Duration::try_from_secs_f64(run.kwargs.after_seconds).unwrap_or_default();
            Ok(ThreadChange {
                put: vec![to_row(&thread, owner.as_deref())?, to_row(run, owner.as_deref())?],
                run: Some(NewRun { run: run.run_id, owner, delay }),
                cancel,
                ..ThreadChange::default()
            })
        };
        self.queue.change_thread(run.thread_id, &mut decide).await?;
        unstored.is_stored = true;
        if let Some(cancellation) = cancellation_of_others(run) {
            self.cancel_here(&cancelled, &cancellation);
        }
        created.ok_or_else(|| ApiError::internal("the run was not created"))
    }

    /// Cancels the given runs, except those that this process does not have in memory.
    fn cancel_here(&self, runs: &[Uuid], cancellation: &Cancellation) {
        let live_runs = self.lock();
        let live = runs.iter().filter_map(|it| live_runs.live.get(it));
        live.for_each(|it| it.request_cancel(cancellation.clone()));
    }
}

/// Removes a run from memory when it is dropped, unless the run was stored. It is dropped before the run is stored if
/// the storage fails or the client disconnects.
struct UnstoredRun<'a> {
    manager: &'a Manager,
    run: Uuid,
    is_stored: bool,
}

impl Drop for UnstoredRun<'_> {
    fn drop(&mut self) {
        // A run that was stored although the connection was lost may already be executing.
        if !self.is_stored {
            self.manager.lock().remove_unused(self.run);
        }
    }
}

/// Fails if a run cannot be created on a thread.
fn check_admission(run: &Run, entry: &ThreadEntry) -> ApiResult<()> {
    check_not_reserved(run.thread_id, entry)?;
    // A run that has ended stays in the queue for a moment. It does not count as active, because a client may already
    // have seen its end. The new run waits in the queue until it is removed.
    let is_busy = entry.active.iter().any(|it| it.due && !it.has_ended);
    if is_busy && run.multitask_strategy == MultitaskStrategy::Reject {
        let detail = "the thread already has an active run; wait for it, cancel it or choose another \
                      `multitask_strategy`";
        return Err(ApiError::conflict(detail));
    }
    Ok(())
}

/// Sets the fields of a thread that depend on its latest run.
fn prepare_thread(thread: &mut Thread, run: &Run) {
    let graph = Value::from(run.kwargs.graph_id.clone());
    thread.metadata.insert("graph_id".to_owned(), graph);
    thread.metadata.insert("assistant_id".to_owned(), json!(run.assistant_id));
    thread.config = json!(run.kwargs.config);
    thread.config["configurable"] = json!(run.kwargs.config.settings());
    thread.updated_at = now();
    thread.status = ThreadStatus::Busy;
}

/// Returns the cancellation of the other runs of the thread, if the run demands it.
fn cancellation_of_others(run: &Run) -> Option<Cancellation> {
    let action = match run.multitask_strategy {
        MultitaskStrategy::Interrupt => CancelAction::Interrupt,
        MultitaskStrategy::Rollback => CancelAction::Rollback,
        MultitaskStrategy::Reject | MultitaskStrategy::Enqueue => return None,
    };
    let reason = format!("run {} was created on the same thread", run.run_id);
    Some(Cancellation::new(action, reason))
}

#[cfg(test)]
mod tests {
    use axum::{http::StatusCode, response::IntoResponse};

    use crate::langgraph::{
        manager::test_records::{claim_next, manager_with, new_run, new_thread},
        records::RunStatus,
        request::run::MultitaskStrategy,
        storage::{self, Storage},
    };

    async fn a_run_follows_a_run_that_has_ended(storage: Storage) {
        let manager = manager_with(storage);
        let thread = new_thread();
        let mut first = new_run(thread.thread_id);
        let mut second = new_run(thread.thread_id);
        second.multitask_strategy = MultitaskStrategy::Reject;
        manager.create(&first, thread.clone()).await.unwrap();
        let claim = claim_next(&manager).await;
        let rejected = manager.create(&second, thread.clone()).await.unwrap_err();
        assert_eq!(rejected.into_response().status(), StatusCode::CONFLICT);

        first.status = RunStatus::Success;
        assert!(manager.put_ended(&claim, &first, None).await.unwrap());
        manager.create(&second, thread).await.unwrap();
        manager.execute(claim).await;
        assert_eq!(claim_next(&manager).await.run, second.run_id);
    }

    #[tokio::test]
    async fn a_run_is_accepted_once_the_final_status_of_the_active_run_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let storage = storage::open(&dir.path().join("server.sqlite")).unwrap();
        a_run_follows_a_run_that_has_ended(storage).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_run_is_accepted_once_the_final_status_of_the_active_run_is_stored_in_postgres() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        a_run_follows_a_run_that_has_ended(storage::connect(&url).await.unwrap()).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_run_whose_client_disconnects_before_it_is_stored_is_not_in_memory() {
        use std::{future::poll_fn, task::Poll};

        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        let manager = manager_with(storage::connect(&url).await.unwrap());
        let thread = new_thread();
        let run = new_run(thread.thread_id);
        let mut creating = Box::pin(manager.create(&run, thread));
        while manager.find_or_abandon(run.run_id).is_none() {
            let is_pending =
                poll_fn(|cx| Poll::Ready(creating.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending, "the run is in memory before it is stored");
            tokio::task::yield_now().await;
        }
        drop(creating);
        assert!(manager.find_or_abandon(run.run_id).is_none());
    }
}

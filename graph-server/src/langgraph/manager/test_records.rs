//! Managers and records for the tests of the manager.

use std::{path::Path, sync::Arc};

use serde_json::{Map, json};
use uuid::Uuid;

use super::Manager;
use crate::langgraph::{
    Graphs,
    id::new_id,
    records::{Run, RunStatus, Thread},
    request::run::RunCreate,
    storage::{self, Claim, Next, Storage},
    time,
    webhook::Webhooks,
};

/// Returns a manager with the SQLite database at `path`. It executes no runs by itself.
pub(super) fn open_manager(path: impl AsRef<Path>) -> Arc<Manager> {
    manager_with(storage::open(path.as_ref()).unwrap())
}

/// Returns a manager with this storage. It executes no runs by itself.
pub(super) fn manager_with(storage: Storage) -> Arc<Manager> {
    Manager::new(Graphs::in_memory(), storage, Webhooks { allow_private: true }, 1)
}

/// Claims the next run.
pub(super) async fn claim_next(manager: &Manager) -> Claim {
    match manager.queue.claim_next().await.unwrap() {
        Next::Run(claim) => claim,
        Next::Wait(_) => panic!("no run can be claimed"),
    }
}

/// Returns an idle thread that is not stored.
pub(super) fn new_thread() -> Thread {
    Thread::new(new_id(), Map::new())
}

/// Returns a pending run of a graph that does not exist. The run is not stored.
pub(super) fn new_run(thread_id: Uuid) -> Run {
    let request = json!({ "assistant_id": "missing" });
    let request: RunCreate = serde_json::from_value(request).unwrap();
    Run {
        run_id: new_id(),
        thread_id,
        assistant_id: new_id(),
        metadata: Map::new(),
        status: RunStatus::Pending,
        kwargs: request.kwargs("missing".to_owned(), false, Map::new()).unwrap(),
        multitask_strategy: request.multitask_strategy,
        created_at: time::now(),
        updated_at: time::now(),
        attempt: 0,
        cancel_reason: None,
    }
}

//! Records for the tests of the manager.

use serde_json::{Map, json};
use uuid::Uuid;

use crate::langgraph::{
    id::new_id,
    records::{Run, RunStatus, Thread},
    request::run::RunCreate,
    time,
};

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

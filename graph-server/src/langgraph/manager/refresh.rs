//! Updates the stored thread from its checkpoints.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::Manager;
use crate::langgraph::{
    error::{ApiResult, NamedError},
    id::wire_id,
    records::{Thread, ThreadStatus},
    stream::json::interrupts_json,
    time::now,
};

impl Manager {
    /// Updates a thread after a run or an edit of its state. `ended` is the run that has ended, and `error` its error.
    /// Returns the values of the thread.
    pub(in crate::langgraph) async fn refresh_thread(
        &self,
        id: Uuid,
        ended: Option<Uuid>,
        error: Option<NamedError>,
    ) -> ApiResult<Option<Value>> {
        let key = id.to_string();
        let Some(thread) = self.database.get::<Thread>(&key)? else { return Ok(None) };
        let graph = thread.graph().and_then(|it| self.graphs.get(it));
        let state = match graph {
            Some(graph) => graph.state(&key, None, false).await?,
            None => None,
        };
        let schedule = self.lock();
        // The thread is read again, because it may have been changed while the state was read.
        let Some(mut thread) = self.database.get::<Thread>(&key)? else { return Ok(None) };
        thread.updated_at = now();
        thread.state_updated_at = thread.updated_at.clone();
        thread.values = state.as_ref().map(|it| it.values.clone());
        thread.interrupts = state.as_ref().map_or_else(Map::new, |state| {
            let tasks = state.tasks.iter().filter(|it| !it.interrupts.is_empty());
            tasks.map(|it| (wire_id(it.id), interrupts_json(&it.interrupts))).collect()
        });
        let waits = state.is_some_and(|it| !it.next.is_empty());
        let queue = schedule.queues.get(&id);
        let is_busy = queue.is_some_and(|it| it.iter().any(|run| Some(run.facts.run) != ended));
        thread.status = match (&error, waits) {
            _ if is_busy => ThreadStatus::Busy,
            (Some(_), _) => ThreadStatus::Error,
            (None, true) => ThreadStatus::Interrupted,
            (None, false) => ThreadStatus::Idle,
        };
        thread.error = error;
        self.database.put(&thread)?;
        Ok(thread.values)
    }
}

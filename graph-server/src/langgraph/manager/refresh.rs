//! Updates the stored thread from its checkpoints.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::Manager;
use crate::langgraph::{
    document::{from_data, to_row},
    error::{ApiResult, NamedError, UNKNOWN_INTERRUPT},
    id::wire_id,
    position::Position,
    records::{Thread, ThreadStatus},
    storage::{ThreadChange, ThreadEntry},
    stream::json::interrupts_json,
    time::now,
};

impl Manager {
    /// Updates a thread after a run or an edit of its state. `ended` is the run that has ended, and `error` its error.
    /// A run that answered an unknown interrupt does not change its thread. Returns the values of the thread.
    pub(in crate::langgraph) async fn refresh_thread(
        &self,
        id: Uuid,
        ended: Option<Uuid>,
        error: Option<NamedError>,
    ) -> ApiResult<Option<Value>> {
        let error = error.filter(|it| it.name != UNKNOWN_INTERRUPT);
        let key = id.to_string();
        let Some(thread) = self.database.get::<Thread>(&key).await? else { return Ok(None) };
        let graph = thread.graph().and_then(|it| self.graphs.get(it));
        let state = match graph {
            Some(graph) => graph.state(&key, &Position::HEAD, false).await?,
            None => None,
        };
        let values = state.as_ref().map(|it| it.values.clone());
        let interrupts = state.as_ref().map_or_else(Map::new, |state| {
            let tasks = state.tasks.iter().filter(|it| !it.interrupts.is_empty());
            tasks.map(|it| (wire_id(it.id), interrupts_json(&it.interrupts))).collect()
        });
        let waits = state.is_some_and(|it| !it.next.is_empty());
        let mut decide = |entry: ThreadEntry| {
            // The thread may have been deleted or changed while the state was read.
            let Some(document) = entry.document else { return Ok(ThreadChange::default()) };
            let mut thread: Thread = from_data(&document)?;
            thread.updated_at = now();
            thread.state_updated_at = thread.updated_at.clone();
            thread.values.clone_from(&values);
            thread.interrupts.clone_from(&interrupts);
            let is_busy = entry.active.iter().any(|it| it.due && Some(it.run) != ended);
            thread.status = match (&error, waits) {
                // An edit does not make a thread busy: the active run may have updated the thread already, and be about
                // to leave the queue.
                _ if is_busy && ended.is_none() => thread.status,
                _ if is_busy => ThreadStatus::Busy,
                (Some(_), _) => ThreadStatus::Error,
                (None, true) => ThreadStatus::Interrupted,
                (None, false) => ThreadStatus::Idle,
            };
            thread.error.clone_from(&error);
            Ok(ThreadChange { put: vec![to_row(&thread, None)?], ..ThreadChange::default() })
        };
        self.queue.change_thread(id, &mut decide).await?;
        Ok(values)
    }
}

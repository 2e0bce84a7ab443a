//! The events of a task: the task, the answer as it grows, the complete answer, and the final state.

use std::{collections::VecDeque, sync::Arc};

use axum::body::Bytes;
use serde_json::Value;

use super::{
    super::envelope::response,
    task::{Outcome, Task, text_of},
};
use crate::langgraph::{
    manager::{LiveRun, Manager},
    request::mode::Mode,
    stream::{
        encode::{Selection, WireEvent},
        sse::{EventSource, RunEvents},
    },
};

/// Streams the events of a task as responses to one JSON-RPC request.
pub(super) struct TaskEvents {
    manager: Arc<Manager>,
    request: Option<Value>,
    task: Task,
    live: Arc<LiveRun>,
    /// The pieces of messages. `None` once the run has ended.
    pieces: Option<RunEvents>,
    ready: VecDeque<Value>,
}

impl TaskEvents {
    /// Creates the stream. `request` is the id of the JSON-RPC request.
    pub(super) fn new(
        manager: Arc<Manager>,
        request: Option<Value>,
        task: Task,
        live: Arc<LiveRun>,
    ) -> Self {
        let selection = Selection { modes: vec![Mode::Messages], subgraphs: false };
        let pieces = Some(live.events(selection, None));
        let ready = VecDeque::from([task.to_json("submitted", None)]);
        Self { manager, request, task, live, pieces, ready }
    }

    /// Waits for the next event. Returns `None` after the final state.
    async fn next_result(&mut self) -> Option<Value> {
        loop {
            if let Some(result) = self.ready.pop_front() {
                return Some(result);
            }
            match self.pieces.as_mut()?.next().await {
                Some(piece) if piece.event == "messages/partial" => {
                    let text = text_of(&piece.data[0]);
                    self.ready.push_back(self.task.status_update("working", Some(&text), false));
                }
                Some(_) => {}
                None => {
                    self.pieces = None;
                    // If there is no output, the server is shutting down.
                    let output = self.live.output().await?;
                    // If the storage fails, the stream ends without a final state, and the client reads the task.
                    let outcome = self.task.outcome(&self.manager, &output).await;
                    let Outcome { state, text } = outcome.ok()?;
                    self.ready.extend(text.map(|it| self.task.artifact_update(&it)));
                    self.ready.push_back(self.task.status_update(state, None, true));
                }
            }
        }
    }
}

impl EventSource for TaskEvents {
    async fn next(&mut self) -> Option<WireEvent> {
        let result = self.next_result().await?;
        let data = response(self.request.as_ref(), Ok(result));
        Some(WireEvent { id: (0, 0), event: "message".to_owned(), data })
    }

    fn to_bytes(event: &WireEvent) -> Bytes {
        Bytes::from(format!("event: {}\r\ndata: {}\r\n\r\n", event.event, event.data))
    }
}

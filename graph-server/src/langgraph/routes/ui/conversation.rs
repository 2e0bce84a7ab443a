//! The thread behind a conversation of a user interface.

use std::{collections::HashSet, sync::Arc};

use graph_core::HistoryFilter;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::langgraph::{
    any_graph::AnyGraph,
    assistants::find_assistant,
    error::{ApiError, ApiResult},
    id::{conversation_thread, wire_id},
    manager::Manager,
    records::Assistant,
};

/// A conversation with an assistant, and the state of its thread.
pub(super) struct Conversation {
    pub(super) assistant: Assistant,
    pub(super) thread: Uuid,
    graph: Arc<dyn AnyGraph>,
    values: Map<String, Value>,
}

impl Conversation {
    /// Finds the conversation with this id, which the client has chosen. The thread need not exist yet.
    pub(super) async fn open(manager: &Manager, assistant: &str, id: &str) -> ApiResult<Self> {
        let assistant = find_assistant(&manager.graphs, &manager.database, assistant)?;
        let graph = manager.graph(&assistant.graph_id)?.clone();
        let thread = conversation_thread(manager.database.view().owner(), id);
        manager.check_access(thread)?;
        let state = graph.state(&thread.to_string(), None, false).await?;
        let values = match state.map(|it| it.values) {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        Ok(Self { assistant, thread, graph, values })
    }

    /// Returns the messages that the thread does not contain yet.
    pub(super) fn new_messages(&self, messages: Vec<Value>) -> Vec<Value> {
        let stored = self.values.get("messages").and_then(Value::as_array);
        let ids: HashSet<_> =
            stored.into_iter().flatten().filter_map(|it| it["id"].as_str()).collect();
        let is_new = |it: &Value| it["id"].as_str().is_none_or(|id| !ids.contains(id));
        messages.into_iter().filter(is_new).collect()
    }

    /// Returns the fields of a client's state that differ from the state of the thread. Clients send back the whole
    /// state, but a graph would append an unchanged list again.
    pub(super) fn changed_fields(&self, state: Map<String, Value>) -> Map<String, Value> {
        let changed = state
            .into_iter()
            .filter(|(key, value)| key != "messages" && self.values.get(key) != Some(value));
        changed.collect()
    }

    /// Returns the id of the latest checkpoint at which the answer to the last message of the user was pending.
    pub(super) async fn before_answer(&self) -> ApiResult<String> {
        let states = self.graph.history(&self.thread.to_string(), HistoryFilter::new()).await?;
        let is_question = |values: &Value| {
            let last = values["messages"].as_array().and_then(|it| it.last());
            last.is_some_and(|it| it["type"] == "human")
        };
        let found = states.iter().find(|it| !it.next.is_empty() && is_question(&it.values));
        found.map(|it| wire_id(it.id)).ok_or_else(|| {
            ApiError::bad_request("there is no answer to regenerate; send a message first")
        })
    }
}

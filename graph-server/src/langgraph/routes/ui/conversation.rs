//! The thread behind a conversation of a user interface.

use std::{collections::HashMap, sync::Arc};

use graph_core::HistoryFilter;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::langgraph::{
    any_graph::AnyGraph,
    assistants::find_assistant,
    database::Database,
    error::{ApiError, ApiResult},
    id::{conversation_thread, wire_id},
    manager::Manager,
    position::Position,
    records::{Assistant, Run},
    stream::ui::text_of,
};

/// A conversation with an assistant, and the state of its thread.
pub(super) struct Conversation {
    pub(super) assistant: Assistant,
    pub(super) thread: Uuid,
    graph: Arc<dyn AnyGraph>,
    database: Database,
    values: Map<String, Value>,
}

impl Conversation {
    /// Finds the conversation with this id, which the client has chosen. The thread need not exist yet.
    pub(super) async fn open(manager: &Manager, assistant: &str, id: &str) -> ApiResult<Self> {
        let assistant = find_assistant(&manager.graphs, &manager.database, assistant).await?;
        let graph = manager.graph(&assistant.graph_id)?.clone();
        let thread = conversation_thread(manager.database.view().owner(), id);
        manager.check_access(thread).await?;
        let state = graph.state(&thread.to_string(), &Position::HEAD, false).await?;
        let values = match state.map(|it| it.values) {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        let database = manager.database.clone();
        Ok(Self { assistant, thread, graph, database, values })
    }

    /// Returns the messages in the thread.
    fn messages(&self) -> &[Value] {
        let stored = self.values.get("messages").and_then(Value::as_array);
        stored.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the runs of the thread, oldest first.
    async fn runs(&self) -> ApiResult<Vec<Run>> {
        let thread = self.thread.to_string();
        self.database.list(Some(&thread)).await
    }

    /// Returns the messages that the thread does not contain yet. Fails if the user has edited a message that the
    /// thread contains.
    pub(super) async fn new_messages(&self, messages: Vec<Value>) -> ApiResult<Vec<Value>> {
        let by_id: HashMap<_, _> =
            self.messages().iter().filter_map(|it| Some((it["id"].as_str()?, it))).collect();
        let stored = |it: &Value| it["id"].as_str().and_then(|id| by_id.get(id));
        let (known, new): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|it| stored(it).is_some());
        let is_changed = |it: &Value| {
            it["type"] == "human" && !stored(it).is_some_and(|stored| same_content(it, stored))
        };
        let changed: Vec<_> = known.iter().filter(|it| is_changed(it)).collect();
        if changed.is_empty() {
            return Ok(new);
        }
        // The graph itself can change a message, for example to redact it. The client then still sends the original.
        let runs = self.runs().await?;
        let is_original = |message: &Value| {
            let mut originals = runs.iter().flat_map(input_messages);
            originals.any(|it| it["id"] == message["id"] && same_content(message, it))
        };
        match changed.into_iter().find(|it| !is_original(it)) {
            None => Ok(new),
            Some(edited) => Err(ApiError::bad_request(format!(
                "message {} differs from the stored message with this id: editing an earlier message is not \
                 supported; send a new message or fork the thread",
                edited["id"]
            ))),
        }
    }

    /// Fails unless `message` is the last answer or the last message of the user. An answer has the id of its run in
    /// the streams, and its own id in the thread.
    pub(super) async fn check_is_last(&self, message: &str) -> ApiResult<()> {
        let stored = self.messages();
        if [last_id(stored, "ai"), last_id(stored, "human")].contains(&Some(message)) {
            return Ok(());
        }
        let runs = self.runs().await?;
        // If the graph adds messages of the user, the last such message in the thread is not the last one that was
        // sent.
        let question = runs.iter().rev().find_map(|it| last_id(input_messages(it), "human"));
        let is_last_run = runs.last().is_some_and(|it| it.run_id.to_string() == message);
        if is_last_run || question == Some(message) {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "cannot regenerate the answer for message `{message}`: only the last answer of the thread can be \
             regenerated; send a new message or fork the thread"
        )))
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
        let states = self.graph.history(&self.thread.to_string(), "", HistoryFilter::new()).await?;
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

/// Returns the id of the last message of this type.
pub(super) fn last_id<'a>(messages: &'a [Value], kind: &str) -> Option<&'a str> {
    messages.iter().rfind(|it| it["type"] == kind)?["id"].as_str()
}

/// Returns the messages in the input of a run.
fn input_messages(run: &Run) -> &[Value] {
    let messages = run.kwargs.input.as_ref().and_then(|it| it["messages"].as_array());
    messages.map(Vec::as_slice).unwrap_or_default()
}

/// Returns whether a message that a client sent has the content of a stored message. Clients of AG-UI receive and send
/// back only the text of a message, so `sent` may lack the images.
fn same_content(sent: &Value, stored: &Value) -> bool {
    let (sent, stored) = (&sent["content"], &stored["content"]);
    let images = |content: &Value| {
        let blocks = content.as_array().cloned().unwrap_or_default();
        blocks.into_iter().filter(|it| it.is_object() && it["type"] != "text").collect::<Vec<_>>()
    };
    let sent_images = images(sent);
    text_of(sent) == text_of(stored) && (sent_images.is_empty() || sent_images == images(stored))
}

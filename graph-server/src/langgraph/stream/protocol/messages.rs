//! Messages as content blocks: each message is a start event, the start, pieces and end of its blocks, and an end
//! event.

use serde_json::{Map, Value, json};

use super::event::Content;
use crate::langgraph::{
    id::wire_namespace,
    stream::{
        item::{MessageItem, RunFacts},
        json::message_metadata,
        progress::Progress,
    },
};

/// The messages of a run that are still arriving.
#[derive(Debug, Default)]
pub(super) struct OpenMessages(Vec<OpenMessage>);

#[derive(Debug)]
struct OpenMessage {
    id: String,
    namespace: Vec<String>,
    node: String,
    task: String,
    /// Number of blocks that have ended.
    ended_blocks: usize,
    /// The block that is still arriving, with all its pieces.
    block: Option<Value>,
    usage: Value,
}

impl OpenMessages {
    /// Encodes a message or one piece of a message.
    pub(super) fn encode(
        &mut self,
        item: &MessageItem,
        run: &RunFacts,
        progress: &Progress,
    ) -> Vec<Content> {
        let Some(role) = role(&item.message) else { return Vec::new() };
        let id = match item.message["id"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("run-{}", item.origin.task),
        };
        let mut events = Vec::new();
        let position = self.0.iter().position(|it| it.id == id).unwrap_or_else(|| {
            let message = OpenMessage::new(id.clone(), item);
            let metadata = message_metadata(&item.origin, run, progress);
            let start = json!({ "event": "message-start", "role": role, "metadata": metadata });
            events.push(message.event(start, "id"));
            self.0.push(message);
            self.0.len() - 1
        });
        let message = &mut self.0[position];
        blocks(&item.message).for_each(|it| message.append(&it, &mut events));
        if item.message["usage_metadata"].is_object() {
            message.usage = item.message["usage_metadata"].clone();
        }
        if item.so_far.is_none() {
            self.0.remove(position).finish(&mut events);
        }
        events
    }

    /// Ends the messages of a task that has ended.
    pub(super) fn finish_task(&mut self, task: &str) -> Vec<Content> {
        let mut events = Vec::new();
        let ended = self.0.extract_if(.., |it| it.task == task);
        ended.for_each(|it| it.finish(&mut events));
        events
    }

    /// Ends all messages.
    pub(super) fn finish_all(&mut self) -> Vec<Content> {
        let mut events = Vec::new();
        self.0.drain(..).for_each(|it| it.finish(&mut events));
        events
    }
}

impl OpenMessage {
    fn new(id: String, item: &MessageItem) -> Self {
        Self {
            id,
            namespace: segments(&item.origin.namespace),
            node: item.origin.node.clone(),
            task: item.origin.task.clone(),
            ended_blocks: 0,
            block: None,
            usage: Value::Null,
        }
    }

    /// Creates an event of this message. `id_field` is the field for the message's id.
    fn event(&self, mut data: Value, id_field: &str) -> Content {
        data[id_field] = json!(self.id);
        Content::new("messages", &self.namespace, data).of_node(&self.node)
    }

    fn block_event(&self, event: &str, field: &str, value: Value) -> Content {
        let mut data = json!({ "event": event, "index": self.ended_blocks });
        data[field] = value;
        self.event(data, "message_id")
    }

    /// Appends a block, or a piece of the block that is still arriving.
    fn append(&mut self, piece: &Value, events: &mut Vec<Content>) {
        if !self.block.as_ref().is_some_and(|block| continues(block, piece)) {
            self.finish_block(events);
            let start = empty(piece);
            events.push(self.block_event("content-block-start", "content", start.clone()));
            self.block = Some(start);
        }
        let Some(block) = &mut self.block else { return };
        let kind = piece["type"].as_str().unwrap_or_default();
        let delta = match kind {
            "text" | "reasoning" => {
                push(block, kind, piece);
                let mut delta = json!({ "type": format!("{kind}-delta") });
                delta[kind] = piece[kind].clone();
                delta
            }
            "tool_call_chunk" => {
                push(block, "args", piece);
                json!({ "type": "block-delta", "fields": block })
            }
            _ => return self.finish_block(events),
        };
        events.push(self.block_event("content-block-delta", "delta", delta));
    }

    fn finish_block(&mut self, events: &mut Vec<Content>) {
        if let Some(block) = self.block.take() {
            events.push(self.block_event("content-block-finish", "content", complete(block)));
            self.ended_blocks += 1;
        }
    }

    fn finish(mut self, events: &mut Vec<Content>) {
        self.finish_block(events);
        let mut finish = json!({ "event": "message-finish" });
        if self.usage.is_object() {
            finish["usage"] = self.usage.take();
        }
        events.push(self.event(finish, "message_id"));
    }
}

/// Splits a namespace into its segments.
pub(super) fn segments(namespace: &str) -> Vec<String> {
    match namespace {
        "" => Vec::new(),
        namespace => wire_namespace(namespace).split('|').map(str::to_owned).collect(),
    }
}

/// Returns the role of a message's author. Results of tools are not part of the messages channel.
fn role(message: &Value) -> Option<&'static str> {
    match message["type"].as_str()? {
        "ai" | "AIMessageChunk" => Some("ai"),
        "human" | "HumanMessageChunk" => Some("human"),
        "system" | "developer" => Some("system"),
        _ => None,
    }
}

/// Returns the content blocks of a message or a piece of a message.
fn blocks(message: &Value) -> impl Iterator<Item = Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let content: Vec<_> = match &message["content"] {
        Value::String(content) if content.is_empty() => Vec::new(),
        Value::String(content) => vec![text(content)],
        Value::Array(blocks) => blocks
            .iter()
            .map(|it| match it {
                Value::String(part) => text(part),
                block => block.clone(),
            })
            .filter(Value::is_object)
            .collect(),
        _ => Vec::new(),
    };
    let calls = |field: &str, kind: &'static str| {
        let calls = message[field].as_array().cloned().unwrap_or_default();
        calls.into_iter().filter(Value::is_object).map(move |mut call| {
            call["type"] = json!(kind);
            call
        })
    };
    let chunks: Vec<_> = calls("tool_call_chunks", "tool_call_chunk").collect();
    // A piece with chunks of tool calls repeats them in `tool_calls`, if they can be parsed.
    let whole = match chunks.is_empty() {
        true => calls("tool_calls", "tool_call").collect(),
        false => Vec::new(),
    };
    content.into_iter().chain(chunks).chain(whole)
}

/// Returns whether `piece` continues `block`.
fn continues(block: &Value, piece: &Value) -> bool {
    match (block["type"].as_str(), piece["type"].as_str()) {
        (Some("text"), Some("text")) | (Some("reasoning"), Some("reasoning")) => true,
        (Some("tool_call_chunk"), Some("tool_call_chunk")) => {
            block["index"] == piece["index"]
                && (piece["id"].is_null() || block["id"] == piece["id"])
        }
        _ => false,
    }
}

/// Returns the block without the part that arrives in pieces.
fn empty(block: &Value) -> Value {
    let mut block = block.clone();
    match block["type"].as_str() {
        Some("text") => block["text"] = json!(""),
        Some("reasoning") => block["reasoning"] = json!(""),
        Some("tool_call_chunk") => block["args"] = json!(""),
        _ => {}
    }
    block
}

/// Appends the text in `field` of a piece to the same field of a block.
fn push(block: &mut Value, field: &str, piece: &Value) {
    let text = block[field].as_str().unwrap_or_default();
    block[field] = json!(format!("{text}{}", piece[field].as_str().unwrap_or_default()));
}

/// Returns the final form of a block: pieces of a tool call become a tool call.
fn complete(block: Value) -> Value {
    if block["type"] != "tool_call_chunk" {
        return block;
    }
    let args = block["args"].as_str().unwrap_or_default();
    let parsed = match args {
        "" => Ok(Map::new()),
        args => serde_json::from_str::<Map<String, Value>>(args),
    };
    let (id, name) = (&block["id"], &block["name"]);
    match parsed {
        Ok(args) => json!({ "type": "tool_call", "id": id, "name": name, "args": args }),
        Err(error) => json!({
            "type": "invalid_tool_call",
            "id": id,
            "name": name,
            "args": args,
            "error": format!("the arguments are not a JSON object: {error}"),
        }),
    }
}

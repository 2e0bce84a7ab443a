//! The stored form of events, which other replicas read.

use std::time::{Instant, SystemTime};

use graph_core::{Event, EventKind, Interrupt, checkpoint::TaskId, stream::Values};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::item::{Body, Item, MessageItem, Origin};
use crate::langgraph::error::NamedError;

#[derive(Serialize, Deserialize)]
struct StoredItem {
    at: SystemTime,
    body: StoredBody,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBody {
    Started(Option<Value>),
    Engine(StoredEvent),
    Interrupted { namespace: String, values: Option<Values>, interrupts: Vec<Interrupt> },
    Message(StoredMessage),
    MessageEnd(StoredMessage),
    Finished(Value),
    Failed(NamedError),
}

/// An event of the engine, without its time on the monotonic clock, which has no meaning in another process.
#[derive(Serialize, Deserialize)]
struct StoredEvent {
    seq: u64,
    run: String,
    namespace: String,
    step: i64,
    task: Option<TaskId>,
    node: Option<String>,
    handled_task: Option<TaskId>,
    parent_task: Option<TaskId>,
    kind: EventKind,
}

#[derive(Serialize, Deserialize)]
struct StoredMessage {
    namespace: String,
    step: i64,
    node: String,
    task: String,
    message: Value,
    so_far: Option<Value>,
    first: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
}

/// Encodes an event without its number.
pub(in crate::langgraph) fn to_text(item: &Item) -> serde_json::Result<String> {
    let body = match &item.body {
        Body::Started(input) => StoredBody::Started(input.clone()),
        Body::Engine(event) => StoredBody::Engine(store_event(event)),
        Body::Interrupted { namespace, values, interrupts } => StoredBody::Interrupted {
            namespace: namespace.to_string(),
            values: values.clone(),
            interrupts: interrupts.clone(),
        },
        Body::Message(message) => StoredBody::Message(store_message(message)),
        Body::MessageEnd(message) => StoredBody::MessageEnd(store_message(message)),
        Body::Finished(output) => StoredBody::Finished(output.clone()),
        Body::Failed(error) => StoredBody::Failed(error.clone()),
    };
    serde_json::to_string(&StoredItem { at: item.at, body })
}

/// Decodes the event with this number.
pub(in crate::langgraph) fn from_text(seq: u64, text: &str) -> serde_json::Result<Item> {
    let StoredItem { at, body } = serde_json::from_str(text)?;
    let body = match body {
        StoredBody::Started(input) => Body::Started(input),
        StoredBody::Engine(event) => Body::Engine(restore_event(event)),
        StoredBody::Interrupted { namespace, values, interrupts } => {
            Body::Interrupted { namespace: namespace.into(), values, interrupts }
        }
        StoredBody::Message(message) => Body::Message(restore_message(message)),
        StoredBody::MessageEnd(message) => Body::MessageEnd(restore_message(message)),
        StoredBody::Finished(output) => Body::Finished(output),
        StoredBody::Failed(error) => Body::Failed(error),
    };
    Ok(Item { seq, at, body })
}

fn store_event(event: &Event) -> StoredEvent {
    StoredEvent {
        seq: event.seq,
        run: event.run.to_string(),
        namespace: event.namespace.to_string(),
        step: event.step,
        task: event.task,
        node: event.node.as_deref().map(str::to_owned),
        handled_task: event.handled_task,
        parent_task: event.parent_task,
        kind: event.kind.clone(),
    }
}

fn restore_event(event: StoredEvent) -> Event {
    Event {
        seq: event.seq,
        at: Instant::now(),
        run: event.run.into(),
        namespace: event.namespace.into(),
        step: event.step,
        task: event.task,
        node: event.node.map(Into::into),
        handled_task: event.handled_task,
        parent_task: event.parent_task,
        kind: event.kind,
    }
}

fn store_message(item: &MessageItem) -> StoredMessage {
    let Origin { namespace, step, node, task } = &item.origin;
    StoredMessage {
        namespace: namespace.to_string(),
        step: *step,
        node: node.clone(),
        task: task.clone(),
        message: item.message.clone(),
        so_far: item.so_far.clone(),
        first: item.first,
        arguments: item.arguments.clone(),
    }
}

fn restore_message(item: StoredMessage) -> MessageItem {
    MessageItem {
        origin: Origin {
            namespace: item.namespace.into(),
            step: item.step,
            node: item.node,
            task: item.task,
        },
        message: item.message,
        so_far: item.so_far,
        first: item.first,
        arguments: item.arguments,
    }
}

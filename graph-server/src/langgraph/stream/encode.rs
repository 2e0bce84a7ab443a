//! Encodes the events of a run for the stream modes that a client selected.

use graph_core::{Event, EventKind, FieldWrite};
use serde_json::{Map, Value, json};

use super::{
    checkpoint_event::{checkpoint, with_references},
    item::{Body, Item, MessageItem, RunFacts},
    json::{interrupts_json, message_metadata, task_trigger, writes_json},
    message::complete_fields,
    progress::Progress,
    tool_event::tool_events,
    tracing_event::tracing_events,
};
use crate::langgraph::{
    error::NamedError,
    id::{wire_id, wire_namespace},
    request::mode::Mode,
    time::wire_time,
};

/// The events that a client receives.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct Selection {
    pub(in crate::langgraph) modes: Vec<Mode>,
    pub(in crate::langgraph) subgraphs: bool,
}

/// An event on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::langgraph) struct WireEvent {
    /// Id that a client resumes its stream with: the number of the event, and the position among the wire events that
    /// encode the same event.
    pub(in crate::langgraph) id: (u64, usize),
    pub(in crate::langgraph) event: String,
    pub(in crate::langgraph) data: Value,
}

/// Encodes an event. `progress` contains the event and the earlier events of the run.
pub(super) fn encode(
    item: &Item,
    selection: &Selection,
    run: &RunFacts,
    progress: &Progress,
) -> Vec<WireEvent> {
    let namespace = namespace_of(&item.body);
    // As in LangGraph, messages and tracing events of subgraphs are part of every stream.
    let is_selected = |mode: &&Mode| {
        namespace.is_empty()
            || selection.subgraphs
            || **mode == Mode::Events
            || matches!(item.body, Body::Message(_))
    };
    let suffix = match namespace.is_empty() || !selection.subgraphs {
        true => String::new(),
        false => format!("|{}", wire_namespace(namespace)),
    };
    let mut events = Vec::new();
    let mut send = |event: &str, suffix: &str, data: Value| {
        let id = (item.seq, events.len());
        events.push(WireEvent { id, event: format!("{event}{suffix}"), data });
    };
    match &item.body {
        Body::Started(_) => {
            send("metadata", "", json!({ "run_id": run.run, "attempt": run.attempt() }));
        }
        Body::Failed(error) => send("error", "", json!(error)),
        _ => {}
    }
    for mode in selection.modes.iter().filter(is_selected) {
        match (mode, &item.body) {
            (Mode::Values, Body::Engine(event)) => {
                if let EventKind::Values(values) = &event.kind {
                    send("values", &suffix, complete_fields(values.to_json()));
                }
            }
            (Mode::Values, Body::Interrupted { values, interrupts, .. }) => {
                let mut values =
                    values.as_ref().map_or_else(|| json!({}), |it| complete_fields(it.to_json()));
                values["__interrupt__"] = interrupts_json(interrupts);
                send("values", &suffix, values);
            }
            (Mode::Updates, Body::Engine(event)) => {
                updates(event).into_iter().for_each(|it| send("updates", &suffix, it));
            }
            (Mode::Custom, Body::Engine(event)) => {
                if let EventKind::Custom(value) = &event.kind {
                    send("custom", &suffix, value.clone());
                }
            }
            (Mode::Tasks, Body::Engine(event)) => {
                task(event, run).into_iter().for_each(|(_, it)| send("tasks", &suffix, it));
            }
            (Mode::Checkpoints, Body::Engine(event)) => {
                checkpoint(event, run, progress)
                    .into_iter()
                    .for_each(|it| send("checkpoints", &suffix, it));
            }
            (Mode::Debug, Body::Engine(event)) => {
                debug(event, item, run, progress)
                    .into_iter()
                    .for_each(|it| send("debug", &suffix, it));
            }
            (Mode::MessagesTuple, Body::Message(message)) => {
                let metadata = message_metadata(&message.origin, run, progress);
                send("messages", &suffix, json!([message.message, metadata]));
            }
            (Mode::Messages, Body::Message(message)) => {
                for (event, data) in accumulated_message(message, run, progress) {
                    send(event, &suffix, data);
                }
            }
            (Mode::Tools, Body::Message(message) | Body::MessageEnd(message)) => {
                tool_events(message)
                    .into_iter()
                    .for_each(|it| send("tools", &suffix, it.to_json()));
            }
            (Mode::Events, _) => {
                tracing_events(item, run, progress)
                    .into_iter()
                    .for_each(|it| send("events", "", it));
            }
            _ => {}
        }
    }
    events
}

fn namespace_of(body: &Body) -> &str {
    match body {
        Body::Engine(event) => &event.namespace,
        Body::Interrupted { namespace, .. } => namespace,
        Body::Message(message) | Body::MessageEnd(message) => &message.origin.namespace,
        Body::Started(_) | Body::Finished(_) | Body::Failed(_) => "",
    }
}

/// Encodes an event for the `updates` stream.
fn updates(event: &Event) -> Option<Value> {
    match &event.kind {
        EventKind::Update { writes, cached, .. } => {
            let node = event.node.as_deref().unwrap_or_default().to_owned();
            let mut update = Map::from_iter([(node, update(writes))]);
            if *cached {
                update.insert("__metadata__".to_owned(), json!({ "cached": true }));
            }
            Some(Value::Object(update))
        }
        EventKind::Interrupted(interrupts) => {
            Some(json!({ "__interrupt__": interrupts_json(interrupts) }))
        }
        _ => None,
    }
}

/// Encodes the writes of a task: an object, or a list of objects if a field was written several times.
pub(super) fn update(writes: &[FieldWrite]) -> Value {
    let repeated =
        |it: &FieldWrite| writes.iter().filter(|other| other.field == it.field).count() > 1;
    if writes.is_empty() {
        Value::Null
    } else if writes.iter().any(repeated) {
        writes.iter().map(|it| writes_json(std::slice::from_ref(it))).collect()
    } else {
        writes_json(writes)
    }
}

/// Encodes the start or the end of a task. Also returns the type of the event in the `debug` stream.
pub(super) fn task(event: &Event, run: &RunFacts) -> Option<(&'static str, Value)> {
    let id = wire_id(event.task?);
    let name = event.node.as_deref().unwrap_or_default();
    match &event.kind {
        EventKind::TaskStarted { input, sent } => {
            let task = json!({
                "id": id,
                "name": name,
                "input": complete_fields(json!(input)),
                "triggers": [task_trigger(name, *sent)],
                "metadata": run.to_metadata(),
            });
            Some(("task", task))
        }
        EventKind::TaskFinished { writes, error, interrupts, .. } => {
            let task = json!({
                "id": id,
                "name": name,
                "error": error.as_deref().map(NamedError::parse),
                "result": writes_json(writes),
                "interrupts": interrupts_json(interrupts),
            });
            Some(("task_result", task))
        }
        _ => None,
    }
}

/// Encodes an event for the `debug` stream.
fn debug(event: &Event, item: &Item, run: &RunFacts, progress: &Progress) -> Option<Value> {
    let (kind, payload) = match checkpoint(event, run, progress) {
        Some(checkpoint) => ("checkpoint", with_references(checkpoint)),
        None => task(event, run)?,
    };
    let timestamp = wire_time(item.at);
    Some(json!({ "step": event.step, "timestamp": timestamp, "type": kind, "payload": payload }))
}

/// Encodes a message for the `messages` stream, which repeats the whole message so far with every piece.
fn accumulated_message(
    message: &MessageItem,
    run: &RunFacts,
    progress: &Progress,
) -> Vec<(&'static str, Value)> {
    let mut events = Vec::new();
    if message.first {
        let id = message.message["id"].as_str().unwrap_or_default().to_owned();
        let metadata = message_metadata(&message.origin, run, progress);
        let metadata = json!({ "metadata": metadata });
        let metadata = Map::from_iter([(id, metadata)]);
        events.push(("messages/metadata", Value::Object(metadata)));
    }
    match &message.so_far {
        Some(so_far) => events.push(("messages/partial", json!([so_far]))),
        None => events.push(("messages/complete", json!([message.message]))),
    }
    events
}

//! The `events` stream: the start and end of graphs, nodes, models and tools, in LangChain's tracing format.

use graph_core::{Event, EventKind};
use serde_json::{Value, json};

use super::{
    item::{Body, Item, MessageItem, Origin, RunFacts},
    json::{message_metadata, writes_json},
    message::complete_fields,
    progress::Progress,
    tool_event::{ToolEvent, tool_events},
};
use crate::langgraph::id::{wire_id, wire_namespace};

/// Converts an event of a run to tracing events.
pub(super) fn tracing_events(item: &Item, run: &RunFacts, progress: &Progress) -> Vec<Value> {
    match &item.body {
        Body::Started(input) => vec![of_graph("on_chain_start", &json!({ "input": input }), run)],
        Body::Finished(output) => vec![of_graph("on_chain_end", &json!({ "output": output }), run)],
        Body::Engine(event) => of_node(event, run, progress),
        Body::Message(message) => of_model(message, run, progress),
        Body::MessageEnd(message) => model_end(message, run, progress),
        Body::Interrupted { .. } | Body::Failed(_) => Vec::new(),
    }
}

fn of_graph(event: &str, data: &Value, run: &RunFacts) -> Value {
    json!({
        "event": event,
        "name": run.name,
        "run_id": run.run,
        "parent_ids": [],
        "tags": run.tags,
        "metadata": run.to_metadata(),
        "data": data,
    })
}

fn of_node(event: &Event, run: &RunFacts, progress: &Progress) -> Vec<Value> {
    let (Some(task), Some(node)) = (event.task, event.node.as_deref()) else { return Vec::new() };
    let origin = Origin {
        namespace: event.namespace.clone(),
        step: event.step,
        node: node.to_owned(),
        task: wire_id(task),
    };
    let traced = |name: &str, data: Value| {
        let mut traced = of_task(name, node, &origin, run, progress, &data);
        let step = format!("graph:step:{}", event.step);
        traced["tags"] = run.tags.iter().chain([&step]).cloned().collect();
        traced
    };
    match &event.kind {
        EventKind::TaskStarted { input, .. } => {
            vec![traced("on_chain_start", json!({ "input": complete_fields(json!(input)) }))]
        }
        EventKind::TaskFinished { writes, error: None, interrupts, .. }
            if interrupts.is_empty() =>
        {
            let output = writes_json(writes);
            let mut end = json!({ "output": output });
            if let Some(input) = progress.input(&origin.namespace, &origin.task) {
                end["input"] = complete_fields(input.clone());
            }
            vec![traced("on_chain_stream", json!({ "chunk": output })), traced("on_chain_end", end)]
        }
        EventKind::Custom(value) => vec![traced("on_custom_event", value.clone())],
        _ => Vec::new(),
    }
}

/// Returns the events of a message that a model or a tool sent whole, or of one piece of a message.
fn of_model(message: &MessageItem, run: &RunFacts, progress: &Progress) -> Vec<Value> {
    let is_of_model = matches!(message.message["type"].as_str(), Some("ai" | "AIMessageChunk"));
    let event = |name: &str, data: Value| {
        of_task(name, &message.origin.node, &message.origin, run, progress, &data)
    };
    let mut events = Vec::new();
    if is_of_model && message.first {
        events.push(event("on_chat_model_start", json!({})));
    }
    match &message.so_far {
        Some(_) => {
            events.push(event("on_chat_model_stream", json!({ "chunk": message.message })));
        }
        None if is_of_model => events.extend(model_end(message, run, progress)),
        None => events.extend(of_tools(message, run, progress)),
    }
    events
}

/// Returns the end of a model's message, and the start of the tools that it calls.
fn model_end(message: &MessageItem, run: &RunFacts, progress: &Progress) -> Vec<Value> {
    let data = json!({ "output": message.message });
    let end =
        of_task("on_chat_model_end", &message.origin.node, &message.origin, run, progress, &data);
    [end].into_iter().chain(of_tools(message, run, progress)).collect()
}

/// Returns the start of the tools that a message calls, or the end of the tool whose result the message is.
fn of_tools(message: &MessageItem, run: &RunFacts, progress: &Progress) -> Vec<Value> {
    let traced = |event: ToolEvent| {
        let (kind, name, data) = match event {
            ToolEvent::Started { name, input, .. } => {
                ("on_tool_start", name, json!({ "input": input }))
            }
            // A failed call has a message too, so it ends like the others.
            ToolEvent::Finished { name, .. } | ToolEvent::Failed { name, .. } => {
                let input = message.arguments.clone().unwrap_or_else(|| json!({}));
                ("on_tool_end", name, json!({ "output": message.message, "input": input }))
            }
        };
        of_task(kind, name.as_str().unwrap_or_default(), &message.origin, run, progress, &data)
    };
    tool_events(message).into_iter().map(traced).collect()
}

fn of_task(
    event: &str,
    name: &str,
    origin: &Origin,
    run: &RunFacts,
    progress: &Progress,
    data: &Value,
) -> Value {
    let namespace = wire_namespace(&origin.namespace);
    let enclosing = namespace.split('|').filter_map(|it| Some(it.split_once(':')?.1.to_owned()));
    let parents: Vec<_> = [run.run.to_string()].into_iter().chain(enclosing).collect();
    json!({
        "event": event,
        "name": name,
        "run_id": origin.task,
        "parent_ids": parents,
        "tags": run.tags,
        "metadata": message_metadata(origin, run, progress),
        "data": data,
    })
}

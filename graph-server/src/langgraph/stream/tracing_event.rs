//! The `events` stream: the start and end of graphs, nodes and models, in LangChain's tracing format.

use graph_core::{Event, EventKind, stream::writes_to_json};
use serde_json::{Value, json};

use super::item::{Body, Item, MessageItem, RunFacts};
use crate::langgraph::id::wire_id;

/// Returns the tracing events that an event of a run stands for.
pub(super) fn tracing_events(item: &Item, run: &RunFacts) -> Vec<Value> {
    match &item.body {
        Body::Started(input) => vec![of_graph("on_chain_start", &json!({ "input": input }), run)],
        Body::Finished(output) => vec![of_graph("on_chain_end", &json!({ "output": output }), run)],
        Body::Engine(event) => of_node(event, run),
        Body::Message(message) => vec![of_model(message, run)],
        Body::Interrupted { .. } | Body::Failed(_) => Vec::new(),
    }
}

fn of_graph(event: &str, data: &Value, run: &RunFacts) -> Value {
    json!({
        "event": event,
        "name": run.graph,
        "run_id": run.run,
        "parent_ids": [],
        "tags": [],
        "metadata": run.to_metadata(),
        "data": data,
    })
}

fn of_node(event: &Event, run: &RunFacts) -> Vec<Value> {
    let (Some(task), Some(node)) = (event.task, event.node.as_deref()) else { return Vec::new() };
    let traced = |name: &str, data: Value| {
        let mut metadata = run.to_metadata();
        metadata.insert("langgraph_node".to_owned(), json!(node));
        metadata.insert("langgraph_step".to_owned(), json!(event.step));
        json!({
            "event": name,
            "name": node,
            "run_id": wire_id(task),
            "parent_ids": [run.run],
            "tags": [format!("graph:step:{}", event.step)],
            "metadata": metadata,
            "data": data,
        })
    };
    match &event.kind {
        EventKind::TaskStarted { input, .. } => {
            vec![traced("on_chain_start", json!({ "input": input }))]
        }
        EventKind::TaskFinished { writes, error: None, .. } => {
            let output = writes_to_json(writes);
            vec![
                traced("on_chain_stream", json!({ "chunk": output })),
                traced("on_chain_end", json!({ "output": output })),
            ]
        }
        EventKind::Custom(value) => vec![traced("on_custom_event", value.clone())],
        _ => Vec::new(),
    }
}

fn of_model(message: &MessageItem, run: &RunFacts) -> Value {
    let mut metadata = run.to_metadata();
    metadata.insert("langgraph_node".to_owned(), json!(message.origin.node));
    metadata.insert("langgraph_step".to_owned(), json!(message.origin.step));
    let (event, data) = match &message.so_far {
        Some(_) => ("on_chat_model_stream", json!({ "chunk": message.message })),
        None => ("on_chat_model_end", json!({ "output": message.message })),
    };
    json!({
        "event": event,
        "name": message.origin.node,
        "run_id": message.origin.task,
        "parent_ids": [run.run],
        "tags": [],
        "metadata": metadata,
        "data": data,
    })
}

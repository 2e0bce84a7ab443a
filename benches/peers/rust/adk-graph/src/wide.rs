//! The wide state on adk-graph.

use std::sync::Arc;

use adk_graph::{
    CompiledGraph, END, NodeContext, NodeOutput, Reducer, START, State, StateGraph, StateSchema,
};
use peer_support::{data, protocol::Job};
use serde_json::{Value, json};

use crate::{number, run, state};

const LISTS: [&str; 4] = ["messages", "trigger_events", "categorizations", "responses"];

pub fn prepare(size: usize) -> Job {
    let document = json!(data::document(size));
    let input = state([("size", json!(size)), ("messages", json!([document]))]);
    run(graph(), input, |it| {
        let [messages, events, categorizations, responses] = LISTS.map(|name| length(it, name));
        data::wide_answer(messages, events, categorizations, responses)
    })
}

fn length(state: &State, name: &str) -> usize {
    state.get(name).and_then(Value::as_array).map_or(0, Vec::len)
}

fn new_or_old(old: Value, new: Value) -> Value {
    if new.is_null() { old } else { new }
}

fn merge(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Object(mut old), Value::Object(new)) => {
            old.extend(new);
            Value::Object(old)
        }
        (old, new) => new_or_old(old, new),
    }
}

fn schema() -> StateSchema {
    let mut schema = StateSchema::builder();
    for name in LISTS {
        schema = schema.list_channel(name);
    }
    for name in ["size", "autoresponse", "relevant_rules", "memory_docs", "bot_id"] {
        schema = schema.channel(name);
    }
    for name in ["primary_issue_medium", "issue", "user_info", "crm_info", "email_thread_id"] {
        schema = schema.channel_with_reducer(name, Reducer::Custom(Arc::new(new_or_old)));
    }
    for name in ["slack_participants", "notified_assignees"] {
        schema = schema.channel_with_reducer(name, Reducer::Custom(Arc::new(merge)));
    }
    schema.build()
}

fn graph() -> CompiledGraph {
    let again = |state: &State| {
        let done = length(state, "messages") as u64 > number(state, "size");
        if done { END.to_owned() } else { "again".to_owned() }
    };
    // A node with two incoming edges waits for both.
    StateGraph::new(schema())
        .add_node_fn("one", one)
        .add_node_fn("two", two)
        .add_node_fn("three", three)
        .add_node_fn("four", four)
        .add_node_fn("five", five)
        .add_node_fn("six", six)
        .add_edge(START, "one")
        .add_edge("one", "two")
        .add_edge("two", "three")
        .add_edge("two", "four")
        .add_edge("three", "five")
        .add_edge("four", "five")
        .add_edge("five", "six")
        .add_conditional_edges("six", again, [("again", "one"), (END, END)])
        .compile()
        .expect("the graph is valid")
}

type Output = adk_graph::Result<NodeOutput>;

fn value(context: &NodeContext, name: &str) -> Value {
    context.get(name).cloned().unwrap_or_default()
}

fn last(context: &NodeContext, name: &str) -> Value {
    context.get(name).and_then(|it| it.as_array()?.last().cloned()).unwrap_or_default()
}

fn wide_text(context: &NodeContext) -> String {
    data::wide_text(number(&context.state, "size") as usize)
}

async fn one(context: NodeContext) -> Output {
    let output = NodeOutput::new().with_update("trigger_events", value(&context, "messages"));
    Ok(output.with_update("primary_issue_medium", wide_text(&context)))
}

async fn two(context: NodeContext) -> Output {
    let last = last(&context, "trigger_events");
    Ok(NodeOutput::new().with_update("autoresponse", last.clone()).with_update("issue", last))
}

async fn three(context: NodeContext) -> Output {
    let rules = json!([value(&context, "autoresponse")]);
    Ok(NodeOutput::new().with_update("relevant_rules", rules))
}

async fn four(context: NodeContext) -> Output {
    let events = value(&context, "trigger_events");
    Ok(NodeOutput::new()
        .with_update("categorizations", events.clone())
        .with_update("responses", events.clone())
        .with_update("memory_docs", events))
}

async fn five(context: NodeContext) -> Output {
    let (last, text) = (last(&context, "categorizations"), wide_text(&context));
    Ok(NodeOutput::new()
        .with_update("user_info", last.clone())
        .with_update("crm_info", last.clone())
        .with_update("email_thread_id", text.clone())
        .with_update("bot_id", text)
        .with_update("slack_participants", last.clone())
        .with_update("notified_assignees", last))
}

async fn six(context: NodeContext) -> Output {
    Ok(NodeOutput::new().with_update("messages", value(&context, "responses")))
}

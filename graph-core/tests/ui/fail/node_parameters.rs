//! Nodes whose parameters a graph cannot provide.

use graph_core::{Context, Goto, NodeExt, Route, START, State, StateGraph, send};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(State, Clone, Default)]
struct Report {
    title: String,
}

struct Llm;

#[derive(Clone)]
struct NotSerde(String);

#[derive(Serialize, Deserialize)]
struct NotClone(String);

fn graph() -> StateGraph<Essay> {
    StateGraph::new()
}

/// A node has one or two parameters.
fn no_parameters() {
    async fn review() {}
    let _ = graph().node(review);
}

/// A node takes the state by reference.
fn state_by_value() {
    async fn review(_: Essay) {}
    let _ = graph().node(review);
}

/// A node with options takes the state by reference.
fn configured_state_by_value() {
    async fn review(_: Essay) -> EssayUpdate {
        Essay::update()
    }
    let _ = graph().node(review.retry(2)).edge(START, "review");
}

/// A node cannot change the state in place.
fn state_by_mutable_reference() {
    async fn review(_: &mut Essay) {}
    let _ = graph().node(review);
}

/// A node must take the state of its graph.
fn other_state() {
    async fn review(_: &Report) -> ReportUpdate {
        Report::update()
    }
    let _ = graph().node(review).edge(START, "review");
}

/// The context is the second parameter of a node.
fn context_first() {
    async fn review(_: &Context, _: &Essay) {}
    let _ = graph().node(review);
}

/// A node takes the context by reference.
fn context_by_value() {
    async fn review(_: &Essay, _: Context) {}
    let _ = graph().node(review);
}

/// A node must take the dependencies of its graph.
fn other_dependencies() {
    async fn review(_: &Essay, _: &Context<Llm>) {}
    let _ = graph().node(review).edge(START, "review");
}

/// A payload must be serialisable.
fn payload_not_serde() {
    async fn write(_: NotSerde) {}
    let _ = graph().node(write).edge(START, "write");
}

/// A payload must implement `Clone`, because it is cloned for retries.
fn payload_not_clone() {
    #[derive(Route)]
    enum Plan {
        #[to(write)]
        Write(NotClone),
    }
    async fn write(_: NotClone) {}
    let plan = |essay: &Essay| Plan::Write(NotClone(essay.topic.clone()));
    let _ = graph().node(write).branch(START, plan);
}

/// A payload that is sent must implement `Clone`, because it is cloned for retries.
fn sent_payload_not_clone() {
    async fn write(_: NotClone) {}
    let plan = |essay: &Essay| -> Goto { send(write, NotClone(essay.topic.clone())) };
    let _ = graph().node(write).branch(START, plan);
}

fn main() {}

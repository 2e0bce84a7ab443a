//! Edges, routes and sends to nodes that do not accept them.

use graph_core::{Route, START, State, StateGraph, goto, send};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(State, Clone, Default)]
struct Report {
    title: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Section(String);

async fn review(_: &Essay) {}
async fn write(_: Section) {}

/// An edge cannot lead to a node that takes a state other than that of the graph.
fn edge_to_node_of_other_state() {
    async fn review(_: &Report) {}
    let _ = StateGraph::<Essay>::new().edge(START, review);
}

/// An edge cannot lead to a node that takes a payload.
fn edge_to_payload_node() {
    let _ = StateGraph::<Essay>::new().node(write).edge(START, write);
}

/// `goto` needs a node that runs on the state.
fn goto_payload_node() {
    let _ = goto(write);
}

/// The payload of a send must have the type that the node takes.
fn send_payload_type() {
    let _ = send(write, "a section".to_owned());
}

/// A payload cannot be sent to a node that runs on the state.
fn send_to_state_node() {
    let _ = send(review, 3_u32);
}

/// A route cannot send a payload to a node that runs on the state.
#[derive(Route)]
enum PayloadToStateNode {
    #[to(review)]
    Review(u32),
}

/// The payload of a route must have the type that the node takes.
#[derive(Route)]
enum PayloadOfOtherType {
    #[to(write)]
    Write(Vec<String>),
}

/// A route to a node that takes a payload must have one.
#[derive(Route)]
enum WithoutPayload {
    #[to(write)]
    Write,
}

fn main() {}

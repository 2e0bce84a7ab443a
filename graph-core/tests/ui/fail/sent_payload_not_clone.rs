//! A payload that is sent must implement `Clone`, because it is cloned for retries.

use graph_core::{Goto, State, StateGraph, START, send};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(Serialize, Deserialize)]
struct Section(String);

fn plan(essay: &Essay) -> Goto {
    send(write, Section(essay.topic.clone()))
}

async fn write(_: Section) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(write).branch(START, plan);
}

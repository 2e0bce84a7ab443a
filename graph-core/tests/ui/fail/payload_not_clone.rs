//! A payload must implement `Clone`, because it is cloned for retries.

use graph_core::{Route, START, State, StateGraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

#[derive(Serialize, Deserialize)]
struct Section(String);

#[derive(Route)]
enum Plan {
    #[to(write)]
    Write(Section),
}

fn plan(essay: &Essay) -> Plan {
    Plan::Write(Section(essay.topic.clone()))
}

async fn write(_: Section) {}

fn main() {
    let _ = StateGraph::<Essay>::new().node(write).branch(START, plan);
}

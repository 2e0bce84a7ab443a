//! The payload of a route must have the type that the node takes.

use graph_core::Route;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Section(String);

async fn write(_: Section) {}

#[derive(Route)]
enum Next {
    #[to(write)]
    Write(Vec<String>),
}

fn main() {
    let _ = Next::Write(vec![]);
}

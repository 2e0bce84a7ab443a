//! The payload of a send must have the type that the node takes.

use graph_core::send;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Section(String);

async fn write(_: Section) {}

fn main() {
    let _ = send(write, "a section".to_owned());
}

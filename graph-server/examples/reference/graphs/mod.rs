//! The graphs.

mod approval;
mod chat;
mod ctx;
mod fail;
mod fanout;
mod parent;
mod route;
mod slow;
mod tiny;

use graph_core::JsonStateSchema;
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Adds all graphs.
pub(crate) fn add_all(graphs: Graphs) -> Result<Graphs> {
    let adds = [
        tiny::add,
        approval::add,
        fanout::add,
        parent::add,
        chat::add,
        slow::add,
        fail::add,
        ctx::add,
        route::add,
    ];
    adds.into_iter().try_fold(graphs, |graphs, add| add(graphs))
}

/// Returns the schemas of a graph whose state has these properties.
fn schemas(name: &str, properties: &Value) -> Schemas {
    Schemas::of_state(json!({ "title": name, "type": "object", "properties": properties }))
}

/// Returns the schema of a list of strings.
fn strings() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// Returns the state of the graphs that only keep a log.
fn log_state() -> Result<JsonStateSchema> {
    Ok(JsonStateSchema::new([("log", graph_core::JsonFieldKind::Append)])?)
}

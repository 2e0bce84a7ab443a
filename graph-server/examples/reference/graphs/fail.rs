//! A node that fails.

use graph_core::{END, NodeError, START, json_node};
use graph_server::langgraph::{Graphs, NamedError};
use serde_json::{Value, json};

use super::support::{Result, log_state, schemas, strings};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let graph = log_state()?
        .graph()
        .node(json_node("ok", |_, _| async move { Ok(json!({ "log": ["ok"] })) }))
        .node(json_node("bad", |_, _| async move {
            Err::<Value, _>(NodeError::terminal(NamedError::new("ValueError", "boom")))
        }))
        .edge(START, "ok")
        .edge("ok", "bad")
        .edge("bad", END);
    Ok(graphs.add("fail", graph, schemas("fail", &json!({ "log": strings() })))?)
}

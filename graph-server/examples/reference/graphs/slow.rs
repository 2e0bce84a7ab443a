//! A loop that reports its progress and sleeps.

use std::time::Duration;

use graph_core::{
    Goto, JsonFieldKind, JsonStateSchema, START,
    json::{JsonBranch, JsonInput},
    json_node,
};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([
        ("steps", JsonFieldKind::Last),
        ("delay", JsonFieldKind::Last),
        ("ticks", JsonFieldKind::Sum),
    ])?;
    let again = JsonBranch::new("again", |input| {
        let is_done = integer(input, "ticks") >= integer(input, "steps");
        Ok(vec![if is_done { Goto::end() } else { Goto::node("tick") }])
    });
    let graph = state
        .graph()
        .node(json_node("tick", |input, cx| async move {
            cx.emit(json!({ "tick": integer(&input, "ticks") + 1 })).await;
            let delay = input.get("delay").and_then(Value::as_f64).unwrap_or_default();
            tokio::time::sleep(Duration::try_from_secs_f64(delay)?).await;
            Ok(json!({ "ticks": 1 }))
        }))
        .edge(START, "tick")
        .json_branch("tick", again.destinations(["tick", "__end__"]));
    let properties = json!({
        "steps": { "type": "integer" },
        "delay": { "type": "number" },
        "ticks": { "type": "integer" },
    });
    Ok(graphs.add("slow", graph, schemas("slow", &properties))?)
}

fn integer(input: &JsonInput, field: &str) -> i64 {
    input.get(field).and_then(Value::as_i64).unwrap_or_default()
}

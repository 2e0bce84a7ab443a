//! A draft that waits for a decision.

use graph_core::{END, JsonFieldKind, JsonStateSchema, START, json_node};
use graph_server::langgraph::Graphs;
use serde_json::{Value, json};

use super::support::{Result, schemas, strings};

pub(super) fn add(graphs: Graphs) -> Result<Graphs> {
    let state = JsonStateSchema::new([
        ("topic", JsonFieldKind::Last),
        ("draft", JsonFieldKind::Last),
        ("decision", JsonFieldKind::Last),
        ("log", JsonFieldKind::Append),
    ])?;
    let graph = state
        .graph()
        .node(json_node("draft", |input, _| async move {
            let topic = input.get("topic").and_then(Value::as_str).unwrap_or_default();
            Ok(json!({ "draft": format!("draft about {topic}"), "log": ["draft"] }))
        }))
        .node(json_node("review", |input, cx| async move {
            let question = json!({ "question": "approve?", "draft": input.get("draft") });
            let decision: Value = cx.interrupt(question)?;
            Ok(json!({ "decision": decision, "log": ["review"] }))
        }))
        .node(json_node("publish", |_, _| async move { Ok(json!({ "log": ["publish"] })) }))
        .edge(START, "draft")
        .edge("draft", "review")
        .edge("review", "publish")
        .edge("publish", END);
    let properties = json!({
        "topic": { "type": "string" },
        "draft": { "type": "string" },
        "decision": {},
        "log": strings(),
    });
    Ok(graphs.add("approval", graph, schemas("approval", &properties))?)
}

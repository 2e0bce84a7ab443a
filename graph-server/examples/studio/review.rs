//! A draft that a person approves or sends back.

use graph_core::{
    Goto, JsonFieldKind, JsonStateSchema, START,
    json::{JsonBranch, JsonInput},
    json_node,
};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};

use super::schema::object;

pub(super) fn add(graphs: Graphs) -> Result<Graphs, Box<dyn std::error::Error>> {
    let state = JsonStateSchema::new([
        ("topic", JsonFieldKind::Last),
        ("style", JsonFieldKind::Last),
        ("draft", JsonFieldKind::Last),
        ("decision", JsonFieldKind::Last),
        ("log", JsonFieldKind::Append),
    ])?;
    let decide = JsonBranch::new("decide", |input| {
        let node = if text(input, "decision") == "approve" { "publish" } else { "write" };
        Ok(vec![Goto::node(node)])
    });
    let graph = state
        .graph()
        .node(json_node("write", |input, _| async move {
            let (topic, style) = (text(&input, "topic"), text(&input, "style"));
            let style = if style.is_empty() { "short".to_owned() } else { style };
            let draft = match text(&input, "decision").as_str() {
                "" => format!("A {style} text about {topic}."),
                wish => format!("A {style} text about {topic}, with this wish: {wish}."),
            };
            Ok(json!({ "draft": draft, "log": ["written"] }))
        }))
        .node(json_node("review", |input, cx| async move {
            let question = "Enter `approve`, or what to change";
            let decision: Value =
                cx.interrupt(json!({ "question": question, "draft": text(&input, "draft") }))?;
            Ok(json!({ "decision": decision, "log": ["reviewed"] }))
        }))
        .node(json_node("publish", |_, _| async move { Ok(json!({ "log": ["published"] })) }))
        .edge(START, "write")
        .edge("write", "review")
        .json_branch("review", decide.destinations(["publish", "write"]));
    let input = json!({
        "topic": { "type": "string", "title": "Topic", "description": "Subject of the text" },
        "style": { "title": "Style", "enum": ["short", "funny", "formal"] },
    });
    let mut schemas = Schemas::default();
    schemas.input = Some(json!({
        "title": "review", "type": "object", "properties": input, "required": ["topic"],
    }));
    schemas.state = Some(object("review", &input));
    Ok(graphs.add("review", graph, schemas)?)
}

fn text(input: &JsonInput, field: &str) -> String {
    input.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

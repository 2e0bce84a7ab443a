//! A plan whose questions are answered by a subgraph, slowly enough to watch.

use std::time::Duration;

use graph_core::{
    Context, END, Goto, JsonFieldKind, JsonState, JsonStateSchema, NodeError, Persistence, START,
    StateGraph,
    json::{JsonBranch, JsonInput, json_subgraph},
    json_node,
};
use graph_server::langgraph::{Graphs, Schemas};
use serde_json::{Value, json};

use super::schema::object;

pub(super) fn add(graphs: Graphs) -> Result<Graphs, Box<dyn std::error::Error>> {
    let state = JsonStateSchema::new([
        ("question", JsonFieldKind::Last),
        ("rounds", JsonFieldKind::Last),
        ("seconds", JsonFieldKind::Last),
        ("done", JsonFieldKind::Sum),
        ("note", JsonFieldKind::Last),
        ("notes", JsonFieldKind::Append),
        ("answer", JsonFieldKind::Last),
    ])?;
    let search_state =
        JsonStateSchema::new(["question", "seconds", "note"].map(|it| (it, JsonFieldKind::Last)))?;
    let search = step(step(search_state.graph(), "query", "looked for"), "read", "read about")
        .edge(START, "query")
        .edge("query", "read")
        .edge("read", END)
        .compile()?;
    let again = JsonBranch::new("again", |input| {
        let is_done = number(input, "done", 0.0) >= number(input, "rounds", 2.0);
        Ok(vec![Goto::node(if is_done { "summarize" } else { "search" })])
    });
    let graph = state
        .graph()
        .node(json_node("plan", |_, _| async move { Ok(json!({})) }))
        .node(json_subgraph("search", &search, Persistence::Invocation))
        .node(json_node("check", |input, _| async move {
            Ok(json!({ "done": 1, "notes": [input.get("note")] }))
        }))
        .node(json_node("summarize", |input, _| async move {
            let count = input.get("notes").and_then(Value::as_array).map_or(0, Vec::len);
            Ok(json!({ "answer": format!("{count} notes were taken.") }))
        }))
        .edge(START, "plan")
        .edge("plan", "search")
        .edge("search", "check")
        .json_branch("check", again.destinations(["search", "summarize"]))
        .edge("summarize", END);
    let input = json!({
        "question": { "type": "string", "title": "Question" },
        "rounds": { "type": "integer", "title": "Rounds", "default": 2 },
        "seconds": {
            "type": "number",
            "title": "Seconds",
            "description": "Time for each step of the search",
            "default": 0.4,
        },
    });
    let mut schemas = Schemas::of_state(object("research", &input));
    schemas.output = None;
    Ok(graphs.add("research", graph, schemas)?)
}

/// Adds a node that writes a note.
fn step(
    graph: StateGraph<JsonState>,
    name: &'static str,
    verb: &'static str,
) -> StateGraph<JsonState> {
    graph.node(json_node(name, move |input, cx| async move { take_note(&input, &cx, verb).await }))
}

async fn take_note(input: &JsonInput, cx: &Context, verb: &str) -> Result<Value, NodeError> {
    let question = input.get("question").and_then(Value::as_str).unwrap_or("nothing");
    cx.emit(json!({ "progress": format!("{verb} {question}") })).await;
    let seconds = number(input, "seconds", 0.4);
    tokio::time::sleep(Duration::try_from_secs_f64(seconds)?).await;
    Ok(json!({ "note": format!("{verb} {question}") }))
}

fn number(input: &JsonInput, field: &str, default: f64) -> f64 {
    input.get(field).and_then(Value::as_f64).unwrap_or(default)
}

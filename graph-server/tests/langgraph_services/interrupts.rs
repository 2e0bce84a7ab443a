//! Several interrupts of one thread, which are answered by their ids.

use graph_core::{Context, NodeError, START, State, StateGraph};
use graph_server::langgraph::{Graphs, Schemas};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::server::Server;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    city: String,
    month: String,
}

async fn ask_city(_: &Trip, cx: &Context) -> Result<TripUpdate, NodeError> {
    let city: String = cx.interrupt("Which city?")?;
    Ok(Trip::update().city(city))
}

async fn ask_month(_: &Trip, cx: &Context) -> Result<TripUpdate, NodeError> {
    let month: String = cx.interrupt("Which month?")?;
    Ok(Trip::update().month(month))
}

fn add_trip(graphs: Graphs) -> Graphs {
    let graph = StateGraph::<Trip>::new()
        .node(ask_city)
        .node(ask_month)
        .edge(START, ask_city)
        .edge(START, ask_month);
    graphs.add("trip", graph, Schemas::default()).unwrap()
}

/// Returns the id of the interrupt with this question.
fn id_of(output: &Value, question: &str) -> String {
    let interrupts = output["__interrupt__"].as_array().unwrap();
    let found = interrupts.iter().find(|it| it["value"] == question).unwrap();
    found["id"].as_str().unwrap().to_owned()
}

/// Starts a run that waits for two answers. Returns the path of its thread and its output.
async fn start(server: &Server) -> (String, Value) {
    let thread = format!("/threads/{}", server.new_thread().await);
    let run = json!({ "assistant_id": "trip", "input": { "city": "?" } });
    let (_, output) = server.post(&format!("{thread}/runs/wait"), &run).await;
    assert_eq!(output["__interrupt__"].as_array().unwrap().len(), 2, "{output}");
    (thread, output)
}

async fn resume(server: &Server, thread: &str, answers: Value) -> Value {
    let run = json!({ "assistant_id": "trip", "command": { "resume": answers } });
    server.post(&format!("{thread}/runs/wait"), &run).await.1
}

#[tokio::test]
async fn several_interrupts_are_answered_one_by_one_in_any_order() {
    let server = Server::start_with_graphs(add_trip).await;
    let (thread, output) = start(&server).await;
    let (_, shown) = server.get(&thread).await;
    assert_eq!(shown["interrupts"].as_object().unwrap().len(), 2, "{shown}");

    let (city, month) = (id_of(&output, "Which city?"), id_of(&output, "Which month?"));
    let output = resume(&server, &thread, json!({ month: "May" })).await;
    assert_eq!(output["__interrupt__"].as_array().unwrap().len(), 1, "{output}");
    assert_eq!(id_of(&output, "Which city?"), city, "the open interrupt keeps its id");
    assert_eq!(server.get(&thread).await.1["status"], "interrupted");

    let output = resume(&server, &thread, json!({ city: "Rome" })).await;
    assert_eq!(output, json!({ "city": "Rome", "month": "May" }));
    assert_eq!(server.get(&thread).await.1["status"], "idle");
}

#[tokio::test]
async fn several_interrupts_are_answered_at_once() {
    let server = Server::start_with_graphs(add_trip).await;
    let (thread, output) = start(&server).await;
    let (city, month) = (id_of(&output, "Which city?"), id_of(&output, "Which month?"));
    let output = resume(&server, &thread, json!({ city: "Rome", month: "May" })).await;
    assert_eq!(output, json!({ "city": "Rome", "month": "May" }));
}

#[tokio::test]
async fn one_answer_without_an_id_is_ambiguous() {
    let server = Server::start_with_graphs(add_trip).await;
    let (thread, output) = start(&server).await;
    let (city, month) = (id_of(&output, "Which city?"), id_of(&output, "Which month?"));
    let output = resume(&server, &thread, json!("Rome")).await;
    assert!(output["__error__"]["message"].is_string(), "{output}");
    let output = resume(&server, &thread, json!({ city: "Rome", month: "May" })).await;
    assert_eq!(output, json!({ "city": "Rome", "month": "May" }));
}

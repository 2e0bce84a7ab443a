//! Checks that the routes of compiled graphs conform to their OpenAPI document.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use graph_core::{Context, MemorySaver, NodeError, START, State, StateGraph};
use graph_server::{
    Capacity, Registry, Service,
    graph::{Graphs, routes},
    http::{Guard, KeyHash, Metrics},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::{schemathesis, web::Server};

#[derive(State, Clone, Debug, Default)]
struct Order {
    dish: String,
    guests: u32,
}

async fn ask(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
    let dish: String = cx.interrupt(json!({ "really": order.dish }))?;
    Ok(Order::update().dish(dish))
}

#[tokio::test(flavor = "multi_thread")]
async fn graph_routes_conform_to_their_openapi_document() {
    let Some(program) = schemathesis::find() else { return };
    let server = server().await;
    let start = async || {
        let body = json!({ "input": { "dish": "soup" }, "thread": "table-1" });
        let request = server.request(Method::POST, "/graphs/orders/runs").bearer_auth("right");
        let request = request.header("content-type", "application/json").body(body.to_string());
        let run: Value =
            serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
        run["id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (start().await, start().await);
    let configuration = format!(
        r#"
[dictionaries]
runs.values = ["{first}", "{second}"]
graphs.values = ["orders"]
threads.values = ["table-1"]

[parameters]
"path.id" = {{ dictionary = "runs", probability = 0.7 }}
"path.graph" = {{ dictionary = "graphs", probability = 0.8 }}
"path.thread" = {{ dictionary = "threads", probability = 0.7 }}

# The fields of the state depend on the graph.
[[operations]]
include-name = "POST /graphs/{{graph}}/runs"
checks.positive_data_acceptance.enabled = false
"#
    );
    let address = format!("http://{}", server.address);
    let key = ["--header", "Authorization: Bearer right"];
    block_in_place(|| schemathesis::run(&program, &address, &configuration, &key));
    server.stop().await;
}

async fn server() -> Server {
    let graph = StateGraph::<Order>::new().node(ask).edge(START, ask);
    let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
    let registry = Registry::in_memory().unwrap();
    let graphs = Graphs::new(registry.clone()).add("orders", graph, || ());
    let service =
        Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await.unwrap();
    let metrics = Metrics::default();
    let guard = Guard::new().key(KeyHash::of("right")).rate_limit(u32::MAX);
    let (locked, mut document) = routes(graphs, service.clone(), 100, metrics.clone());
    guard.add_security_schemes(&mut document);
    Guard::add_error_responses(&mut document);
    let open = Router::new().route("/openapi.json", get(move || async move { Json(document) }));
    Server::start(guard.wrap(open, locked, metrics), service).await
}

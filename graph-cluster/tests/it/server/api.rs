//! Servers of LangGraph's API, and requests to them.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, BodyDataStream},
    http::{HeaderValue, Method, Request},
    middleware::map_request,
};
use futures_util::StreamExt;
use graph_core::store::InMemoryStore;
use graph_server::{
    http::Client,
    langgraph::{ApiOptions, Graphs, LangGraphApi, Schemas},
};
use graph_store::PostgresSaver;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::talk_cluster::{Gate, TalkCluster, graph};

#[derive(Clone)]
pub(super) struct Api {
    pub(super) api: LangGraphApi,
    routes: Router,
    _files: Option<Arc<TempDir>>,
}

impl Api {
    /// Starts a server that executes runs itself.
    pub(super) async fn local() -> Self {
        let files = tempfile::tempdir().expect("a temporary directory");
        let graphs = add_graph(Graphs::in_memory());
        let api = LangGraphApi::open(graphs, files.path().join("api.db")).await;
        Self::new(api.expect("the directory is empty"), Some(files))
    }

    /// Starts a server whose runs are executed by a worker.
    pub(super) async fn on_cluster(cluster: &TalkCluster) -> Self {
        let saver = PostgresSaver::connect(&cluster.url).await.expect("the database is running");
        let graphs = Graphs::new(Arc::new(saver), Arc::new(InMemoryStore::new()));
        let graphs = add_graph(graphs).execute_with("talk", cluster.client.clone());
        let graphs = graphs.expect("the graph was added");
        let api = LangGraphApi::connect(graphs, &cluster.url, ApiOptions::default()).await;
        Self::new(api.expect("the database is running"), None)
    }

    fn new(api: LangGraphApi, files: Option<TempDir>) -> Self {
        let routes = api.routes();
        Self { api, routes, _files: files.map(Arc::new) }
    }

    /// Returns a handle whose requests come from a client of this owner and carry this trace context.
    pub(super) fn client(&self, owner: &str, trace_parent: &'static str) -> Self {
        let add_header = move |mut request: Request<Body>| async move {
            let value = HeaderValue::from_static(trace_parent);
            request.headers_mut().insert("traceparent", value);
            request
        };
        let routes = self.routes.clone().layer(map_request(add_header));
        Self { routes: routes.layer(Extension(Client::new(owner))), ..self.clone() }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        after: Option<&str>,
    ) -> BodyDataStream {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = match after {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        let request = request.body(Body::from(body.to_string())).expect("the request is valid");
        let response = self.routes.clone().oneshot(request).await.expect("routes do not fail");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.into_body().into_data_stream()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let body = self.send(Method::GET, path, &json!({}), None).await;
        serde_json::from_str(&text(body).await).unwrap_or_default()
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Value {
        let body = self.send(Method::POST, path, body, None).await;
        serde_json::from_str(&text(body).await).unwrap_or_default()
    }

    pub(super) async fn delete(&self, path: &str) {
        let _ = self.send(Method::DELETE, path, &json!({}), None).await;
    }

    /// Creates a thread and returns its path.
    pub(super) async fn new_thread(&self) -> String {
        let thread = self.post("/threads", &json!({})).await;
        format!("/threads/{}", thread["thread_id"].as_str().unwrap_or_default())
    }

    /// Starts a run and returns its events.
    pub(super) async fn stream(&self, path: &str, body: &Value) -> Vec<SseEvent> {
        SseEvent::parse_all(&text(self.send(Method::POST, path, body, None).await).await)
    }

    /// Returns the events of a run after the event with this id.
    pub(super) async fn stream_after(&self, path: &str, id: &str) -> Vec<SseEvent> {
        let body = self.send(Method::GET, path, &json!({}), Some(id)).await;
        SseEvent::parse_all(&text(body).await)
    }

    /// Reads the events of a run up to the first one with this name.
    pub(super) async fn read_until(&self, path: &str, name: &str) -> Vec<SseEvent> {
        let mut body = self.send(Method::GET, path, &json!({}), Some("-1")).await;
        let mut text = String::new();
        loop {
            let chunk = body.next().await.expect("the stream goes on").expect("the run is active");
            text.push_str(&String::from_utf8_lossy(&chunk));
            let mut events = SseEvent::parse_all(&text);
            if let Some(found) = events.iter().position(|it| it.name == name) {
                events.truncate(found + 1);
                return events;
            }
        }
    }
}

fn add_graph(graphs: Graphs) -> Graphs {
    let gate = Gate(Arc::new(Semaphore::new(0)));
    let added =
        graphs.add_with_context("talk", graph(), Schemas::default(), move |_| Ok(gate.clone()));
    added.expect("the graph is valid")
}

async fn text(mut body: BodyDataStream) -> String {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.expect("the body is complete"));
    }
    String::from_utf8(bytes).expect("bodies are text")
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) id: String,
    pub(super) name: String,
    data: String,
}

impl SseEvent {
    /// Parses the complete events of a stream.
    fn parse_all(text: &str) -> Vec<Self> {
        let complete = text.rfind("\r\n\r\n").map_or("", |end| &text[..end]);
        let parse = |text: &str| {
            let field = |name: &str| {
                let line = text.lines().find_map(|it| it.strip_prefix(name));
                line.unwrap_or_default().to_owned()
            };
            Self { id: field("id: "), name: field("event: "), data: field("data: ") }
        };
        let events = complete.split("\r\n\r\n").filter(|it| it.starts_with("event: "));
        events.map(parse).collect()
    }
}

/// Returns the names and data of events, without ids, which differ in every run.
pub(super) fn names_and_data(events: &[SseEvent]) -> Vec<(String, String)> {
    let of = |event: &SseEvent| {
        let mut data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        mask_ids(&mut data);
        (event.name.clone(), data.to_string())
    };
    events.iter().map(of).collect()
}

/// Replaces the ids of runs, threads, tasks, checkpoints and interrupts in a value.
pub(super) fn mask_ids(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Array(items) => items.iter_mut().for_each(mask_ids),
        Value::Object(fields) => fields.values_mut().for_each(mask_ids),
        _ => {}
    }
}

fn masked(text: &str) -> String {
    let is_id =
        |it: &str| it.len() >= 32 && it.chars().all(|it| it.is_ascii_hexdigit() || it == '-');
    let parts = text.split(':').map(|it| if is_id(it) { "<id>" } else { it });
    parts.collect::<Vec<_>>().join(":")
}

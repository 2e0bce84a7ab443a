//! A server of LangGraph's API, and an HTTP client for it.

use std::{net::SocketAddr, path::Path, sync::Arc};

use graph_server::{
    http::Guard,
    langgraph::{ApiOptions, Authorize, Graphs, LangGraphApi},
    serve_until,
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{audit_log, graphs::add_all};

/// A server that listens on its own port. It stops and its files are deleted when it is dropped.
pub(crate) struct Server {
    api: LangGraphApi,
    address: SocketAddr,
    client: Client,
    task: JoinHandle<()>,
    files: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with_graphs(|graphs| graphs).await
    }

    /// Starts a server with additional graphs.
    pub(crate) async fn start_with_graphs(add: impl FnOnce(Graphs) -> Graphs) -> Self {
        let guard = Guard::new().rate_limit(u32::MAX);
        Self::start_with(ApiOptions::default(), guard, add, |api| api).await
    }

    /// Starts a server with this guard.
    pub(crate) async fn start_guarded(guard: Guard) -> Self {
        Self::start_with(ApiOptions::default(), guard, |graphs| graphs, |api| api).await
    }

    /// Starts a server with this guard and authorizer.
    pub(crate) async fn start_authorized(
        guard: Guard,
        authorizer: impl Authorize + 'static,
    ) -> Self {
        let authorize = |api: LangGraphApi| api.authorizer(authorizer);
        Self::start_with(ApiOptions::default(), guard, |graphs| graphs, authorize).await
    }

    /// Starts a server that calls webhooks on this machine.
    pub(crate) async fn start_with_private_webhooks() -> Self {
        let options = ApiOptions::default().private_webhooks(true);
        let guard = Guard::new().rate_limit(u32::MAX);
        Self::start_with(options, guard, |graphs| graphs, |api| api).await
    }

    /// Starts a server with these options, this guard and additional graphs.
    pub(crate) async fn start_with(
        options: ApiOptions,
        guard: Guard,
        add: impl FnOnce(Graphs) -> Graphs,
        configure: impl FnOnce(LangGraphApi) -> LangGraphApi,
    ) -> Self {
        audit_log::record();
        let files = tempfile::tempdir().unwrap();
        let database = Sqlite::open(files.path().join("threads.db")).unwrap();
        let saver = Arc::new(SqliteSaver::new(&database));
        let store = Arc::new(SqliteStore::new(&database));
        let graphs = add(add_all(Graphs::new(saver, store)).unwrap());
        let path = files.path().join("api.db");
        let api = configure(LangGraphApi::open_with(graphs, path, options).await.unwrap());
        let guarded = guard.wrap(api.open_routes(), api.routes(), api.metrics());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            serve_until(listener, guarded, std::future::pending()).await.unwrap();
        });
        // The client requires a TLS provider, although these tests use plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The server closes idle connections, possibly while the client sends a request on one of them.
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        Self { api, address, client, task, files }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops the runs of the server.
    pub(crate) async fn shut_down(&self) {
        self.api.shut_down().await;
    }

    /// Returns the directory of the server's databases.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    /// Returns a request with a JSON body.
    pub(crate) fn json_request(&self, method: Method, path: &str, body: &Value) -> RequestBuilder {
        let request = self.request(method, path).header("content-type", "application/json");
        request.body(body.to_string())
    }

    /// Sends a request and returns the status and the body. An empty body is returned as null.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let response = self.json_request(method, path, body).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.request(Method::GET, path).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(Method::POST, path, body).await
    }

    /// Sends a POST request and returns the text of the response.
    pub(crate) async fn post_text(&self, path: &str, body: &Value) -> String {
        let request = self.json_request(Method::POST, path, body);
        request.send().await.unwrap().text().await.unwrap()
    }

    /// Creates a thread and returns its id.
    pub(crate) async fn new_thread(&self) -> String {
        let (_, thread) = self.post("/threads", &json!({})).await;
        thread["thread_id"].as_str().unwrap().to_owned()
    }

    /// Creates a thread and runs the graph `tiny` on it. Returns the path of the thread.
    pub(crate) async fn run_tiny(&self) -> String {
        let thread = format!("/threads/{}", self.new_thread().await);
        let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
        self.post(&format!("{thread}/runs/wait"), &run).await;
        thread
    }
}

/// Returns the data of the events in a stream.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let events = text.lines().filter_map(|it| it.strip_prefix("data: "));
    events.map(|it| serde_json::from_str(it).unwrap()).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

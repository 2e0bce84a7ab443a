//! An HTTP client for tests. It sends plain requests and reads event streams like a browser.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use graph_server::{Service, http::Guarded};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// A server that listens on its own port.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    end: watch::Sender<bool>,
    ended: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(guarded: Guarded, service: Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, mut end_requested) = watch::channel(false);
        let grace = Duration::from_millis(20);
        let ended = tokio::spawn(async move {
            let signal = async move { drop(end_requested.wait_for(|it| *it).await) };
            graph_server::serve(listener, guarded, service, grace, signal).await.unwrap();
        });
        Self { address, end, ended }
    }

    /// Asks the server to shut down.
    pub(crate) fn end(&self) {
        self.end.send_replace(true);
    }

    /// Asks the server to shut down and waits until it has stopped.
    pub(crate) async fn stop(self) {
        self.end();
        self.ended.await.unwrap();
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_from(Ipv4Addr::LOCALHOST, method, path)
    }

    /// Creates a request from another address of this machine, such as 127.0.0.2.
    pub(crate) fn request_from(
        &self,
        address: Ipv4Addr,
        method: Method,
        path: &str,
    ) -> RequestBuilder {
        // The client requires a TLS provider, although these tests use plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().local_address(IpAddr::V4(address));
        let client = client.build().unwrap();
        client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        json(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        json(request.body(body.to_string()).send().await.unwrap()).await
    }

    /// Reads a stream to its end; see [`parse_events`].
    pub(crate) async fn events(
        &self,
        path: &str,
        after: u64,
    ) -> (Vec<(u64, Value)>, Option<String>) {
        let request = self.request(Method::GET, path).header("last-event-id", after.to_string());
        parse_events(&request.send().await.unwrap().text().await.unwrap())
    }
}

/// Parses a stream. Returns the events with their sequence numbers, and the status in the final message, if there is
/// one.
pub(crate) fn parse_events(text: &str) -> (Vec<(u64, Value)>, Option<String>) {
    let mut events = Vec::new();
    let mut end = None;
    for message in text.split("\n\n").filter(|it| !it.trim().is_empty()) {
        let field =
            |name: &str| message.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
        let Some(data) = field("data") else { continue };
        let data: Value = serde_json::from_str(data).unwrap();
        match field("event") {
            Some("end") => end = data["status"].as_str().map(str::to_owned),
            _ => events.push((field("id").unwrap().parse().unwrap(), data)),
        }
    }
    (events, end)
}

async fn json(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
}

//! Webhooks: runs that have ended are posted to a URL.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::server::Server;

/// Reads one request with a JSON body, and answers it with a status.
async fn answer(listener: &TcpListener, status: &str) -> Value {
    let (mut connection, _) = listener.accept().await.unwrap();
    let body = read_body(&mut connection).await;
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    connection.write_all(response.as_bytes()).await.unwrap();
    body
}

async fn read_body(connection: &mut TcpStream) -> Value {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = connection.read(&mut chunk).await.unwrap();
        text.extend_from_slice(&chunk[..length]);
        let request = String::from_utf8_lossy(&text);
        if let Some((_, body)) = request.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return body;
        }
        assert!(length > 0, "the request has no JSON body: {request}");
    }
}

#[tokio::test]
async fn an_ended_run_is_posted_and_a_failed_delivery_is_retried() {
    let server = Server::start_with_private_webhooks().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = format!("http://{}/hook", listener.local_addr().unwrap());
    let thread = server.new_thread().await;
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" }, "webhook": webhook });
    let (status, run) = server.post(&format!("/threads/{thread}/runs"), &body).await;
    assert_eq!(status, 200, "{run}");
    let first = answer(&listener, "503 Service Unavailable").await;
    let second = answer(&listener, "200 OK").await;
    assert_eq!(first, second);
    assert_eq!(first["run_id"], run["run_id"]);
    assert_eq!(first["status"], "success");
    assert_eq!(first["values"]["value"], "xab");
}

#[tokio::test]
async fn webhooks_to_private_addresses_are_refused_by_default() {
    let server = Server::start().await;
    let thread = server.new_thread().await;
    for webhook in ["http://127.0.0.1:9/", "http://localhost/", "http://[::1]/", "file:///etc/"] {
        let body = json!({ "assistant_id": "tiny", "input": {}, "webhook": webhook });
        let (status, answer) = server.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 422, "{answer}");
    }
}

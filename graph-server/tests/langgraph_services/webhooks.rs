//! Webhooks: runs that have ended are posted to a URL.

use serde_json::json;

use crate::{server::Server, webhook_receiver::WebhookReceiver};

#[tokio::test]
async fn an_ended_run_is_posted_and_a_failed_delivery_is_retried() {
    let server = Server::start_with_private_webhooks().await;
    let receiver = WebhookReceiver::start().await;
    let thread = server.new_thread().await;
    let webhook = receiver.url();
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" }, "webhook": webhook });
    let (status, run) = server.post(&format!("/threads/{thread}/runs"), &body).await;
    assert_eq!(status, 200, "{run}");
    let first = receiver.receive().await.answer("503 Service Unavailable").await;
    let second = receiver.receive().await.answer("200 OK").await;
    assert_eq!(first, second);
    assert_eq!(first["run_id"], run["run_id"]);
    assert_eq!(first["status"], "success");
    assert_eq!(first["values"]["value"], "xab");
}

#[tokio::test]
async fn webhooks_to_private_addresses_are_rejected_by_default() {
    let server = Server::start().await;
    let thread = server.new_thread().await;
    for webhook in ["http://127.0.0.1:9/", "http://localhost/", "http://[::1]/", "file:///etc/"] {
        let body = json!({ "assistant_id": "tiny", "input": {}, "webhook": webhook });
        let (status, answer) = server.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 422, "{answer}");
    }
}

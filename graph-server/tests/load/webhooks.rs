//! Webhooks of a server that is killed.

use serde_json::json;

use crate::{reference::Reference, webhook_receiver::WebhookReceiver};

#[tokio::test]
async fn a_webhook_that_was_pending_when_the_server_was_killed_is_sent_again() {
    let data = tempfile::tempdir().unwrap();
    let receiver = WebhookReceiver::start().await;
    let start = || Reference::start_with(data.path(), &["--private-webhooks"]);
    let server = start();
    let request = json!({
        "assistant_id": "tiny", "input": { "value": "x" }, "webhook": receiver.url(),
    });
    // The thread of the run is deleted when the run ends, but its webhook is not.
    let run = server.post("/runs", &request).await;
    let unanswered = receiver.receive().await;
    // Dropping the server kills its process with SIGKILL.
    drop(server);

    let _restarted = start();
    let sent_again = receiver.receive().await.answer("200 OK").await;
    assert_eq!(sent_again, unanswered.body);
    assert_eq!(sent_again["run_id"], run["run_id"]);
    assert_eq!(sent_again["values"]["value"], "xab");
}

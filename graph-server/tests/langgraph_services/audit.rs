//! The audit log: changes and rejected requests, with their client and without credentials.

use reqwest::Method;
use serde_json::json;

use crate::{
    audit_log::assert_logged,
    auth::{server, user},
    protocol_socket::Socket,
};

#[tokio::test]
async fn changes_and_rejected_requests_are_logged_without_credentials() {
    let server = server().await;
    let (bob, reader) = (user(&server, "bob"), user(&server, "reader"));
    let path = bob.new_thread().await;
    let patch = json!({ "metadata": { "topic": "cats" } });
    assert_eq!(bob.send(Method::PATCH, &path, patch.clone()).await.0, 200);
    assert_eq!(bob.status(&path).await, 200, "reading is not logged");
    assert_eq!(reader.send(Method::PATCH, &path, patch.clone()).await.0, 403);
    assert_eq!(reader.status(&format!("{path}/stream/events")).await, 403);
    assert_eq!(user(&server, "nobody").status(&path).await, 401);
    assert_eq!(user(&server, "ada").send(Method::PATCH, &path, patch).await.0, 404);
    assert_eq!(bob.send(Method::DELETE, &path, json!({})).await.0, 204);
    assert_logged(
        &path,
        &[
            &["request answered", "owner=\"bob\";", "method=PATCH;", "status=200;"],
            &["request answered", "owner=\"bob\";", "method=PATCH;", "status=403;"],
            &["request answered", "owner=\"bob\";", "method=GET;", "status=403;"],
            &["request rejected", "method=GET;", "problem="],
            &["request answered", "owner=\"ada@example.org\";", "method=PATCH;", "status=404;"],
            &["request answered", "owner=\"bob\";", "method=DELETE;", "status=204;"],
        ],
    );
}

#[tokio::test]
async fn commands_over_a_websocket_that_change_something_are_logged() {
    let server = server().await;
    let ada = user(&server, "ada");
    let path = ada.new_thread().await;
    let request = ada.request(Method::GET, &format!("{path}/stream/events"));
    let mut socket = Socket::connect(request).await;
    socket.command("state.get", json!({})).await;
    socket.command("subscription.subscribe", json!({ "channels": ["values"] })).await;
    for (assistant, result) in [("tiny", "success"), ("unknown", "error")] {
        let params = json!({ "assistant_id": assistant, "input": { "value": "x" } });
        let answer = socket.command("run.start", params).await;
        assert_eq!(answer["type"], result, "{answer}");
    }
    let logged = |result| {
        ["command answered", "owner=\"ada@example.org\";", "method=\"run.start\";", result]
    };
    let thread = path.strip_prefix("/threads/").unwrap();
    assert_logged(thread, &[&logged("result=\"success\";"), &logged("result=\"error\";")]);
}

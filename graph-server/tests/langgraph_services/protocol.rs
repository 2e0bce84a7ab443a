//! The event protocol: commands and the stream of a thread's events.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::Server;

pub(crate) const NEW_THREAD: &str = "/threads/01890a5d-ac96-774b-bcce-b302099a8057";

/// Reads events until one of them is the end of a run: a lifecycle event of the top-level graph.
async fn read_run(server: &Server, thread: &str, filter: &Value) -> Vec<Value> {
    let request = server.json_request(Method::POST, &format!("{thread}/stream/events"), filter);
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    let mut events = Vec::new();
    while let Some(bytes) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        while let Some((message, rest)) = text.split_once("\r\n\r\n") {
            let data = message.lines().find_map(|it| it.strip_prefix("data: ").map(str::to_owned));
            text = rest.to_owned();
            let Some(data) = data else { continue };
            let event: Value = serde_json::from_str(&data).unwrap();
            let end = ["completed", "failed", "interrupted"].map(Value::from);
            let params = &event["params"];
            let is_end = event["method"] == "lifecycle"
                && params["namespace"] == json!([])
                && end.contains(&params["data"]["event"]);
            events.push(event);
            if is_end {
                return events;
            }
        }
    }
    events
}

/// Sends a command over HTTP and returns the answer.
pub(crate) async fn command(server: &Server, thread: &str, method: &str, params: Value) -> Value {
    let body = json!({ "id": 7, "method": method, "params": params });
    let (status, answer) = server.post(&format!("{thread}/commands"), &body).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["id"], 7);
    answer
}

fn data<'a>(events: &'a [Value], method: &str) -> Vec<&'a Value> {
    events.iter().filter(|it| it["method"] == method).map(|it| &it["params"]["data"]).collect()
}

#[tokio::test]
async fn a_run_is_started_and_its_events_are_ordered() {
    let server = Server::start().await;
    let params = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let answer = command(&server, NEW_THREAD, "run.start", params).await;
    assert_eq!(answer["type"], "success");
    assert!(answer["result"]["run_id"].is_string());
    let start = answer["meta"]["applied_through_seq"].as_u64().unwrap();

    let filter = json!({ "channels": ["values", "updates", "lifecycle", "checkpoints", "tasks"] });
    let events = read_run(&server, NEW_THREAD, &filter).await;
    let numbers: Vec<_> = events.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert!(numbers[0] > start && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    // JavaScript clients read greater numbers inexactly.
    assert!(numbers.iter().all(|it| *it < 1 << 53));
    let last = data(&events, "values").pop().unwrap().clone();
    assert_eq!(last, json!({ "value": "xab", "log": ["a", "b"], "count": 2 }));
    assert_eq!(data(&events, "updates")[0]["node"], "a");
    assert_eq!(data(&events, "lifecycle")[0]["event"], "running");
    // Each state follows the checkpoint that contains it.
    for (position, event) in events.iter().enumerate() {
        if event["method"] == "values" {
            assert_eq!(events[position - 1]["method"], "checkpoints", "{event}");
        }
    }

    let since = json!({ "channels": ["values", "lifecycle"], "since": numbers[numbers.len() - 3] });
    let rest = read_run(&server, NEW_THREAD, &since).await;
    assert!(rest.len() <= 2 && rest.last() == events.last(), "{rest:?}");
}

#[tokio::test]
async fn interrupts_are_requested_and_answered() {
    let server = Server::start().await;
    let params = json!({ "assistant_id": "approval", "input": { "topic": "cats" } });
    command(&server, NEW_THREAD, "run.start", params).await;
    let filter = json!({ "channels": ["input", "lifecycle", "values"] });
    let events = read_run(&server, NEW_THREAD, &filter).await;
    let request = data(&events, "input.requested")[0].clone();
    assert_eq!(request["payload"]["question"], "approve?");
    assert_eq!(data(&events, "lifecycle").last().unwrap()["event"], "interrupted");

    let unknown = json!({ "interrupt_id": "0".repeat(32), "response": "yes" });
    let answer = command(&server, NEW_THREAD, "input.respond", unknown).await;
    assert_eq!((&answer["type"], &answer["error"]), (&json!("error"), &json!("no_such_interrupt")));

    let response = json!({
        "namespace": [],
        "interrupt_id": request["interrupt_id"],
        "response": "yes",
    });
    let answer = command(&server, NEW_THREAD, "input.respond", response).await;
    assert_eq!(answer["type"], "success", "{answer}");
    let since = answer["meta"]["applied_through_seq"].clone();
    let filter = json!({ "channels": ["lifecycle", "values"], "since": since });
    let events = read_run(&server, NEW_THREAD, &filter).await;
    assert_eq!(data(&events, "lifecycle").last().unwrap()["event"], "completed");
    assert_eq!(data(&events, "values").last().unwrap()["decision"], "yes");

    let keys = json!({ "namespace": [], "keys": ["decision"] });
    let answer = command(&server, NEW_THREAD, "state.get", keys).await;
    assert_eq!(answer["result"]["values"], json!({ "decision": "yes" }));
}

#[tokio::test]
async fn messages_are_streamed_as_content_blocks() {
    let server = Server::start().await;
    let message = json!({ "role": "user", "content": "hi" });
    let params = json!({ "assistant_id": "chat", "input": { "messages": [message] } });
    command(&server, NEW_THREAD, "run.start", params).await;
    let filter = json!({ "channels": ["messages", "lifecycle"] });
    let events = read_run(&server, NEW_THREAD, &filter).await;
    let messages = data(&events, "messages");
    let kinds: Vec<_> = messages.iter().map(|it| it["event"].as_str().unwrap()).collect();
    let delta = "content-block-delta";
    let expected = [
        "message-start", "content-block-start", delta, delta, delta, "content-block-finish",
        "message-finish",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(messages[0]["role"], "ai");
    assert_eq!(messages[0]["metadata"]["langgraph_node"], "model");
    assert_eq!(messages[2]["delta"], json!({ "type": "text-delta", "text": "you " }));
    assert_eq!(messages[5]["content"], json!({ "type": "text", "text": "you said hi" }));
}

#[tokio::test]
async fn subgraphs_have_a_lifecycle_and_can_be_selected() {
    let server = Server::start().await;
    let params = json!({ "assistant_id": "parent", "input": { "log": [] } });
    command(&server, NEW_THREAD, "run.start", params).await;
    let events = read_run(&server, NEW_THREAD, &json!({ "channels": ["lifecycle"] })).await;
    let states: Vec<_> = events
        .iter()
        .map(|it| {
            let depth = it["params"]["namespace"].as_array().unwrap().len();
            (depth, it["params"]["data"]["event"].as_str().unwrap())
        })
        .collect();
    assert_eq!(states, [(0, "running"), (1, "started"), (1, "completed"), (0, "completed")]);

    let channels = json!(["lifecycle", "updates"]);
    let filter = json!({ "channels": channels, "namespaces": [[]], "depth": 0 });
    let events = read_run(&server, NEW_THREAD, &filter).await;
    let nodes: Vec<_> = data(&events, "updates").iter().map(|it| it["node"].clone()).collect();
    assert_eq!(nodes, ["p0", "child", "p9"]);
}

#[tokio::test]
async fn failures_and_invalid_commands_are_reported() {
    let server = Server::start().await;
    let params = json!({ "assistant_id": "fail", "input": { "log": [] } });
    command(&server, NEW_THREAD, "run.start", params).await;
    let events = read_run(&server, NEW_THREAD, &json!({ "channels": ["lifecycle"] })).await;
    let end = data(&events, "lifecycle").pop().unwrap().clone();
    assert_eq!(end, json!({ "event": "failed", "graph_name": "fail", "error": "boom" }));

    let unknown = command(&server, NEW_THREAD, "run.stop", json!({})).await;
    assert_eq!(unknown["error"], "unknown_command");
    let subscription = command(&server, NEW_THREAD, "subscription.reconnect", json!({})).await;
    assert_eq!(subscription["error"], "not_supported", "subscriptions require a WebSocket");
    let extra = json!({ "assistant_id": "tiny", "input": {}, "surprise": 1 });
    let rejected = command(&server, NEW_THREAD, "run.start", extra).await;
    assert_eq!(rejected["error"], "invalid_argument");
    for body in [
        json!({ "channels": ["unknown"] }),
        json!({ "channels": [] }),
        json!({ "channels": ["values"], "surprise": 1 }),
    ] {
        let (status, _) = server.post(&format!("{NEW_THREAD}/stream/events"), &body).await;
        assert_eq!(status, 422, "{body}");
    }
}

//! The event protocol over a WebSocket.

use reqwest::{Method, RequestBuilder, Upgraded};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    auth,
    protocol::{NEW_THREAD, command},
    server::Server,
};

/// An open WebSocket.
pub(crate) struct Socket(Upgraded);

impl Socket {
    async fn open(server: &Server) -> Self {
        Self::connect(server.request(Method::GET, &format!("{NEW_THREAD}/stream/events"))).await
    }

    /// Opens a WebSocket with this request.
    pub(crate) async fn connect(request: RequestBuilder) -> Self {
        let request = request.header("connection", "upgrade").header("upgrade", "websocket");
        let request = request.header("sec-websocket-version", "13");
        let request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 101);
        Self(response.upgrade().await.unwrap())
    }

    /// Sends a command and returns the answer. Skips events that arrive before it.
    pub(crate) async fn command(&mut self, method: &str, params: Value) -> Value {
        let text = json!({ "id": 7, "method": method, "params": params }).to_string();
        // A final text frame whose mask is zero.
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
        loop {
            let message = self.read().await;
            if message["type"] != "event" {
                assert_eq!(message["id"], 7, "{message}");
                return message;
            }
        }
    }

    /// Reads a message.
    async fn read(&mut self) -> Value {
        assert_eq!(self.0.read_u8().await.unwrap(), 0x81, "a final text frame");
        let length = match self.0.read_u8().await.unwrap() {
            126 => u64::from(self.0.read_u16().await.unwrap()),
            127 => self.0.read_u64().await.unwrap(),
            length => u64::from(length),
        };
        let mut text = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut text).await.unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Reads events up to the end of the run.
    async fn read_run(&mut self) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        while events.last().is_none_or(|it| {
            it["params"]["namespace"] != json!([]) || it["params"]["data"]["event"] != "completed"
        }) {
            events.push(self.read().await);
        }
        events
    }

    /// Starts a run of the graph `parent`, subscribes to its lifecycle, and reads its events. Returns the ids of the
    /// run and of the subscription, and the events.
    async fn observe(&mut self) -> (Value, Value, Vec<Value>) {
        let started = self.command("run.start", run_of_parent()).await;
        let params = json!({ "channels": ["lifecycle"] });
        let subscribed = self.command("subscription.subscribe", params).await;
        let (run, subscription) =
            (&started["result"]["run_id"], &subscribed["result"]["subscription_id"]);
        (run.clone(), subscription.clone(), self.read_run().await)
    }
}

/// Returns the parameters of a command that starts a run of the graph `parent`.
fn run_of_parent() -> Value {
    json!({ "assistant_id": "parent", "input": { "log": [] } })
}

/// Returns the number by which a client orders an event.
fn seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap()
}

#[tokio::test]
async fn events_of_several_subscriptions_are_sent_in_their_order() {
    let server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    let mut subscriptions = Vec::new();
    for channels in [json!(["lifecycle"]), json!(["values", "updates", "tasks"])] {
        let params = json!({ "channels": channels });
        let answer = socket.command("subscription.subscribe", params).await;
        subscriptions.push(answer["result"]["subscription_id"].clone());
    }
    let started = command(&server, NEW_THREAD, "run.start", run_of_parent()).await;
    let events = socket.read_run().await;
    assert!(events.is_sorted_by(|a, b| seq(a) < seq(b)), "{events:?}");
    assert!(events.iter().any(|it| it["method"] == "values"), "{events:?}");

    // Both subscriptions now have all events at once.
    let mut socket = Socket::open(&server).await;
    let params = json!({ "run_id": started["result"]["run_id"], "subscriptions": subscriptions });
    let answer = socket.command("subscription.reconnect", params).await;
    assert_eq!(answer["result"]["restored"], true, "{answer}");
    assert_eq!(socket.read_run().await, events);
}

/// JavaScript's client stops reading a subscription at the end of a run, until an event with a greater number arrives.
/// It starts a run before it subscribes, and the run can end between two of its subscriptions.
#[tokio::test]
async fn events_that_follow_the_end_of_their_run_have_greater_numbers() {
    let server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    let (_, _, lifecycle) = socket.observe().await;
    let end = seq(lifecycle.last().unwrap());

    let params = json!({ "channels": ["values", "lifecycle"], "namespaces": [[]], "depth": 0 });
    socket.command("subscription.subscribe", params).await;
    let (statuses, values): (Vec<_>, Vec<_>) =
        socket.read_run().await.into_iter().partition(|it| it["method"] == "lifecycle");
    assert!(values.len() > 1 && values.iter().all(|it| seq(it) > end), "{end}: {values:?}");
    // The id does not change, so that clients drop events that they receive again.
    let mut ids = values.iter().map(|it| it["event_id"].as_str().unwrap().parse::<u64>().unwrap());
    assert!(ids.clone().is_sorted() && ids.all(|it| it < end), "{values:?}");
    // Clients recognise outdated statuses by their numbers.
    assert_eq!(statuses, [lifecycle[0].clone(), lifecycle[3].clone()]);

    // A client that continues after the greatest number receives all events of the next run.
    let last = values.iter().map(seq).max();
    let mut socket = Socket::open(&server).await;
    socket.command("run.start", run_of_parent()).await;
    let params = json!({ "channels": ["lifecycle"], "since": last });
    socket.command("subscription.subscribe", params).await;
    assert_eq!(socket.read_run().await.len(), 4);
}

#[tokio::test]
async fn a_client_that_reconnects_receives_the_events_that_it_missed() {
    let server = Server::start().await;
    let (run, subscription, events) = Socket::open(&server).await.observe().await;
    assert_eq!(events.len(), 4, "{events:?}");

    let mut socket = Socket::open(&server).await;
    let params = json!({
        "run_id": run, "last_event_id": events[1]["event_id"], "subscriptions": [subscription],
    });
    let answer = socket.command("subscription.reconnect", params.clone()).await;
    assert_eq!(answer["result"]["restored"], true, "{answer}");
    let statuses = answer["result"]["current_namespaces"].as_array().unwrap();
    let statuses: Vec<_> =
        statuses.iter().map(|it| (&it["namespace"], it["status"].as_str().unwrap())).collect();
    let child = &events[1]["params"]["namespace"];
    assert_eq!(statuses, [(&json!([]), "completed"), (child, "completed")]);
    assert_eq!(socket.read_run().await, events[2..]);

    // The subscription is active, so it is not added again.
    let answer = socket.command("subscription.reconnect", params).await;
    assert_eq!(answer["result"]["restored"], true, "{answer}");
    let id = json!({ "subscription_id": subscription });
    let ended = socket.command("subscription.unsubscribe", id.clone()).await;
    assert_eq!(ended["type"], "success", "{ended}");
    let ended = socket.command("subscription.unsubscribe", id).await;
    assert_eq!(ended["error"], "no_such_subscription", "{ended}");
}

#[tokio::test]
async fn invalid_reconnections_are_rejected() {
    let server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    let (run, subscription, _) = socket.observe().await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (params, error) in [
        (json!({}), "invalid_argument"),
        (json!({ "run_id": "first" }), "invalid_argument"),
        (json!({ "run_id": run, "last_event_id": "first" }), "invalid_argument"),
        (json!({ "run_id": run, "surprise": 1 }), "invalid_argument"),
        (json!({ "run_id": unknown }), "no_such_run"),
        (json!({ "run_id": run, "subscriptions": ["first"] }), "no_such_subscription"),
        (
            json!({ "run_id": run, "subscriptions": [subscription, "x.e30"] }),
            "no_such_subscription",
        ),
    ] {
        let answer = socket.command("subscription.reconnect", params.clone()).await;
        assert_eq!(answer["error"], error, "{params}: {answer}");
    }
}

#[tokio::test]
async fn a_subscription_is_not_restored_if_missed_events_are_no_longer_kept() {
    let server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    let (run, subscription, _) = socket.observe().await;
    // The server keeps the events of 16 runs of a thread.
    for _ in 0..16 {
        let body = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
        server.post(&format!("{NEW_THREAD}/runs/wait"), &body).await;
    }
    let mut socket = Socket::open(&server).await;
    let params = json!({ "run_id": run, "subscriptions": [subscription] });
    let answer = socket.command("subscription.reconnect", params).await;
    assert_eq!(answer["result"], json!({ "restored": false }));
}

#[tokio::test]
async fn a_websocket_for_the_thread_of_another_owner_is_rejected() {
    let server = auth::server().await;
    let (ada, bob) = (auth::user(&server, "ada"), auth::user(&server, "bob"));
    let path = format!("{}/stream/events", ada.new_thread().await);
    assert_eq!(bob.status(&path).await, 404);
    // The thread is visible, but this is not the handshake of a WebSocket.
    assert_eq!(ada.status(&path).await, 400);
}

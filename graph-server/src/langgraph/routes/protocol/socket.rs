//! The event protocol over a WebSocket: commands in one direction, answers and events in the other.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use serde_json::{Map, Value, json};
use tokio_websockets::{CloseCode, Limits, Message, ServerBuilder, WebSocketStream};
use uuid::Uuid;

use super::{
    command::{CommandError, CommandRequest, CommandResult, parse, success},
    execute::execute,
    release_feed::ReleaseFeed,
    subscription::{Reconnect, filter_of, subscription_id},
    subscription_events::SubscriptionEvents,
    tree::find_run,
};
use crate::{
    http::Client,
    langgraph::{
        access::Access,
        error::{ApiError, ApiResult},
        id::parse_id,
        manager::{Manager, ProtocolEvents},
        stream::protocol::Filter,
    },
    server::RequestPermit,
};

/// Maximum size of a command in bytes.
const MAX_COMMAND: usize = 1 << 20;
/// Maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 64;
/// Commands that are logged with the target `audit`. Commands over HTTP are logged with their requests.
const CHANGES: [&str; 4] = ["run.start", "input.respond", "input.inject", "state.fork"];
/// The constant that RFC 6455 adds to the client's key.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Opens a WebSocket. As with server-sent events, the thread need not exist yet.
pub(super) async fn open(
    Access(manager): Access,
    Path(thread): Path<String>,
    mut request: Request,
) -> ApiResult<Response> {
    let thread = parse_id("thread", &thread)?;
    manager.check_access(thread).await?;
    let accept = accept_key(request.headers())?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade
        .ok_or_else(|| ApiError::bad_request("the connection cannot be upgraded; use HTTP/1.1"))?;
    let permit = request.extensions_mut().remove::<RequestPermit>();
    let owner = request.extensions_mut().remove::<Client>().map(|it| it.owner);
    tokio::spawn(async move {
        // The socket counts as a connection, and is not replaced by another one, until it is closed.
        let _permit = permit;
        // The client may have disconnected.
        if let Ok(upgraded) = upgrade.await {
            let limits = Limits::default().max_payload_len(Some(MAX_COMMAND));
            let socket = ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded));
            let events = SubscriptionEvents::default();
            let release = ReleaseFeed { manager: manager.clone(), thread };
            let connection =
                Connection { manager, thread, owner, socket, events, _release: release };
            connection.run().await;
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Checks the handshake of a client, and returns the value of the header `Sec-WebSocket-Accept`.
fn accept_key(headers: &HeaderMap) -> ApiResult<HeaderValue> {
    let text = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
    let upgrades = text(header::UPGRADE).is_some_and(|it| it.eq_ignore_ascii_case("websocket"));
    let key = text(header::SEC_WEBSOCKET_KEY)
        .filter(|_| upgrades && text(header::SEC_WEBSOCKET_VERSION) == Some("13"));
    let Some(key) = key else {
        let detail = "this URL needs a WebSocket of version 13; use POST for server-sent events";
        return Err(ApiError::bad_request(detail));
    };
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key.as_bytes());
    digest.update(KEY_SUFFIX);
    let accept = BASE64_STANDARD.encode(digest.finish());
    HeaderValue::try_from(accept).map_err(|error| ApiError::internal(&error))
}

/// An open WebSocket.
struct Connection {
    manager: Arc<Manager>,
    thread: Uuid,
    /// Owner that the client belongs to.
    owner: Option<String>,
    socket: WebSocketStream<TokioIo<Upgraded>>,
    events: SubscriptionEvents,
    _release: ReleaseFeed,
}

impl Connection {
    /// Answers commands and sends events until either side closes the connection.
    async fn run(mut self) {
        loop {
            let message = tokio::select! {
                // Clients send several subscriptions at once. Those that have arrived are added before events are sent.
                biased;
                received = self.socket.next() => match received {
                    Some(Ok(message)) if message.is_text() => self.answer(&message).await,
                    Some(Ok(message)) if message.is_close() => return,
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => return,
                },
                event = self.events.next() => match event {
                    Some(event) => event,
                    None => break,
                },
            };
            if self.socket.send(Message::text(message.to_string())).await.is_err() {
                return;
            }
        }
        let _ = self.socket.send(Message::close(Some(CloseCode::GOING_AWAY), "")).await;
    }

    async fn answer(&mut self, message: &Message) -> Value {
        let text = message.as_text().unwrap_or_default();
        let command: CommandRequest = match serde_json::from_str(text) {
            Ok(command) => command,
            Err(error) => {
                let problem = format!("the message is not a command: {error}");
                return CommandError::invalid(problem).answer(None);
            }
        };
        let id = command.id;
        let done = match command.method.as_str() {
            "subscription.subscribe" => self.subscribe(command.params).await,
            "subscription.unsubscribe" => self.unsubscribe(&command.params),
            "subscription.reconnect" => self.reconnect(command.params).await,
            _ => return self.execute(command).await,
        };
        match done {
            Ok(result) => success(id, result, json!({ "thread_id": self.thread })),
            Err(error) => error.answer(Some(id)),
        }
    }

    /// Executes a command that is not about subscriptions.
    async fn execute(&mut self, command: CommandRequest) -> Value {
        let method = command.method.clone();
        let answer = execute(&self.manager, self.thread, command).await;
        if CHANGES.contains(&method.as_str()) {
            let (owner, result) = (self.owner.as_deref(), answer["type"].as_str());
            tracing::info!(target: "audit", owner, thread = %self.thread, method, result, "command answered");
        }
        answer
    }

    async fn subscribe(&mut self, params: Map<String, Value>) -> CommandResult<Value> {
        let filter: Filter = parse(params)?;
        filter.check()?;
        self.check_room(1)?;
        let id = subscription_id(&filter)?;
        self.add(id.clone(), filter).await?;
        Ok(json!({ "subscription_id": id }))
    }

    /// Fails if `further` new subscriptions would exceed the limit of the connection.
    fn check_room(&self, further: usize) -> CommandResult<()> {
        match self.events.n_subscriptions() + further {
            ..=MAX_SUBSCRIPTIONS => Ok(()),
            _ => Err(CommandError::invalid(format!(
                "a connection has at most {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe from one first"
            ))),
        }
    }

    /// Adds a subscription.
    async fn add(&mut self, id: String, filter: Filter) -> ApiResult<()> {
        let feed = self.manager.feed(self.thread).await?;
        let events = ProtocolEvents::new(feed, filter, self.manager.database.view().clone());
        self.events.add(id, events);
        Ok(())
    }

    fn unsubscribe(&mut self, params: &Map<String, Value>) -> CommandResult<Value> {
        let id = params.get("subscription_id").and_then(Value::as_str);
        if id.is_none_or(|it| !self.events.remove(it)) {
            let problem = "`subscription_id` must be the id of a subscription of this connection";
            return Err(CommandError("no_such_subscription", problem.to_owned()));
        }
        Ok(json!({}))
    }

    /// Restores subscriptions of a connection that was lost, unless events that the client has missed are no longer
    /// buffered. Subscriptions that are still active on this connection do not change.
    async fn reconnect(&mut self, params: Map<String, Value>) -> CommandResult<Value> {
        let request: Reconnect = parse(params)?;
        let seen = request.seen()?;
        let run = find_run(&self.manager, self.thread, &request.run_id).await?;
        let mut lost = BTreeMap::new();
        for id in request.subscriptions {
            let filter = filter_of(&id)?.after(seen);
            if !self.events.contains(&id) {
                lost.insert(id, filter);
            }
        }
        self.check_room(lost.len())?;
        let feed = self.manager.feed(self.thread).await?;
        let live = self.manager.live(run).await?;
        let Some(live) = live.filter(|_| feed.has_events_after(run, seen.unwrap_or(0))) else {
            return Ok(json!({ "restored": false }));
        };
        for (id, filter) in lost {
            self.add(id, filter).await?;
        }
        let statuses = live.agent_tree().statuses();
        Ok(json!({ "restored": true, "current_namespaces": statuses }))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::accept_key;

    #[test]
    fn the_accept_key_equals_the_example_of_rfc_6455() {
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        assert!(accept_key(&headers).is_err());
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
        assert_eq!(accept_key(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

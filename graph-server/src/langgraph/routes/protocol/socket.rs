//! The event protocol over a WebSocket: commands in one direction, answers and events in the other.

use std::{pin::Pin, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{
    SinkExt, Stream, StreamExt,
    stream::{self, SelectAll},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use serde_json::{Map, Value, json};
use tokio_websockets::{CloseCode, Limits, Message, ServerBuilder, WebSocketStream};
use uuid::Uuid;

use super::{
    command::{CommandRequest, execute},
    release_feed::ReleaseFeed,
};
use crate::{
    langgraph::{
        access::Access,
        error::{ApiError, ApiResult},
        id::{new_id, parse_id},
        manager::{Manager, ProtocolEvents},
        stream::{protocol::Filter, sse::EventSource},
    },
    server::RequestPermit,
};

/// Maximum size of a command in bytes.
const MAX_COMMAND: usize = 1 << 20;
/// Maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 64;
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
    tokio::spawn(async move {
        // The socket counts as a connection, and is not replaced by another one, until it is closed.
        let _permit = permit;
        // The client may have disconnected.
        if let Ok(upgraded) = upgrade.await {
            let limits = Limits::default().max_payload_len(Some(MAX_COMMAND));
            let socket = ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded));
            Connection::new(manager, thread, socket).run().await;
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

type Events = Pin<Box<dyn Stream<Item = (Uuid, Option<Value>)> + Send>>;

/// An open WebSocket.
struct Connection {
    manager: Arc<Manager>,
    thread: Uuid,
    socket: WebSocketStream<TokioIo<Upgraded>>,
    /// The events of the subscriptions. Clients drop events that they receive through several subscriptions.
    events: SelectAll<Events>,
    subscriptions: Vec<Uuid>,
    _release: ReleaseFeed,
}

impl Connection {
    fn new(
        manager: Arc<Manager>,
        thread: Uuid,
        socket: WebSocketStream<TokioIo<Upgraded>>,
    ) -> Self {
        let release = ReleaseFeed { manager: manager.clone(), thread };
        Self {
            manager,
            thread,
            socket,
            events: SelectAll::new(),
            subscriptions: Vec::new(),
            _release: release,
        }
    }

    /// Answers commands and sends events until either side closes the connection.
    async fn run(mut self) {
        loop {
            let message = tokio::select! {
                Some((subscription, event)) = self.events.next() => match event {
                    Some(event) if self.subscriptions.contains(&subscription) => event,
                    Some(_) => continue,
                    // The server is shutting down.
                    None => break,
                },
                received = self.socket.next() => match received {
                    Some(Ok(message)) if message.is_text() => self.answer(&message).await,
                    Some(Ok(message)) if message.is_close() => return,
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => return,
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
                let message = format!("the message is not a command: {error}");
                return json!({ "type": "error", "id": null, "error": "invalid_argument", "message": message });
            }
        };
        let id = command.id;
        let done = match command.method.as_str() {
            "subscription.subscribe" => self.subscribe(command.params).await,
            "subscription.unsubscribe" => self.unsubscribe(&command.params),
            _ => {
                let answer = execute(&self.manager, self.thread, command).await;
                return answer.unwrap_or_else(|error| failed(id, &error));
            }
        };
        match done {
            Ok(result) => json!({
                "type": "success",
                "id": id,
                "result": result,
                "meta": { "thread_id": self.thread },
            }),
            Err(error) => failed(id, &error),
        }
    }

    async fn subscribe(&mut self, params: Map<String, Value>) -> ApiResult<Value> {
        let filter: Filter = serde_json::from_value(Value::Object(params))
            .map_err(|error| ApiError::invalid(format!("invalid params: {error}")))?;
        filter.check()?;
        if self.subscriptions.len() == MAX_SUBSCRIPTIONS {
            let detail = format!(
                "a connection has at most {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe from one first"
            );
            return Err(ApiError::invalid(detail));
        }
        let subscription = new_id();
        let feed = self.manager.feed(self.thread).await?;
        let events = ProtocolEvents::new(feed, filter, self.manager.database.view().clone());
        let events = stream::unfold(Some(events), move |events| async move {
            let mut events = events?;
            match events.next().await {
                Some(event) => Some(((subscription, Some(event.data)), Some(events))),
                None => Some(((subscription, None), None)),
            }
        });
        self.events.push(Box::pin(events));
        self.subscriptions.push(subscription);
        Ok(json!({ "subscription_id": subscription }))
    }

    fn unsubscribe(&mut self, params: &Map<String, Value>) -> ApiResult<Value> {
        let id = params.get("subscription_id").and_then(Value::as_str);
        let position = self.subscriptions.iter().position(|it| Some(it.to_string().as_str()) == id);
        let Some(position) = position else {
            return Err(ApiError::invalid(
                "`subscription_id` must be the id of a subscription of this connection",
            ));
        };
        self.subscriptions.remove(position);
        Ok(json!({}))
    }
}

fn failed(id: u64, error: &ApiError) -> Value {
    json!({ "type": "error", "id": id, "error": "invalid_argument", "message": error.to_string() })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::accept_key;

    #[test]
    fn the_accept_key_is_the_one_of_rfc_6455() {
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        assert!(accept_key(&headers).is_err());
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
        assert_eq!(accept_key(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

//! The AI SDK's UI message stream, for `useChat` and `DefaultChatTransport`.

use std::sync::Arc;

use axum::{
    Router,
    extract::Path,
    http::{HeaderValue, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::run_response::{CancelOnDrop, create_run},
    conversation::{Conversation, last_id},
};
use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    manager::{LiveRun, Manager},
    request::{
        body::{Body, or_default},
        run::OnDisconnect,
    },
    stream::{
        sse::respond,
        ui::{AiSdk, UiEvents},
    },
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/ai-sdk/{assistant}", post(run))
        .route("/ai-sdk/{assistant}/{chat}/stream", get(reconnect))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatRequest {
    /// Id of the conversation.
    id: String,
    messages: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    trigger: Trigger,
    /// Id of the answer to regenerate, or of the user's message to answer again. By default, the last sent message of
    /// the user is answered again.
    #[serde(default, rename = "messageId")]
    message_id: Option<String>,
    /// Answer to the pending interrupt, or answers by interrupt id.
    resume: Option<Value>,
    /// Context of the run.
    #[serde(default, deserialize_with = "or_default")]
    context: Map<String, Value>,
    /// By default, a run is cancelled if its client disconnects, because this is how the AI SDK stops a run. Clients
    /// that reconnect choose `continue`.
    on_disconnect: Option<OnDisconnect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

/// Runs an assistant on the messages that its thread does not contain yet.
async fn run(
    Access(manager): Access,
    Path(assistant): Path<String>,
    Body(body): Body<ChatRequest>,
) -> ApiResult<Response> {
    let conversation = Conversation::open(&manager, &assistant, &body.id).await?;
    let on_disconnect = body.on_disconnect.unwrap_or(OnDisconnect::Cancel);
    let mut request = json!({
        "assistant_id": conversation.assistant.assistant_id,
        "if_not_exists": "create",
        "context": body.context,
        "stream_resumable": on_disconnect == OnDisconnect::Continue,
    });
    // Answers of the assistant are part of the thread already.
    let sent = body.messages.iter().filter(|it| it["role"] != "assistant");
    match (body.resume, body.trigger) {
        (Some(answer), _) => request["command"] = json!({ "resume": answer }),
        (None, Trigger::RegenerateMessage) => {
            let sent = sent.map(message).collect::<ApiResult<Vec<_>>>()?;
            let question = last_id(&sent, "human").map(str::to_owned);
            if let Some(asked) = body.message_id.or(question) {
                conversation.check_is_last(&asked).await?;
            }
            conversation.new_messages(sent).await?;
            request["checkpoint_id"] = json!(conversation.before_answer().await?);
        }
        (None, Trigger::SubmitMessage) => {
            let messages = sent.map(message).collect::<ApiResult<_>>()?;
            request["input"] = json!({ "messages": conversation.new_messages(messages).await? });
        }
    }
    let request = serde_json::from_value(request).map_err(|error| ApiError::internal(&error))?;
    let (_, live) = create_run(&manager, Some(conversation.thread), &request).await?;
    Ok(stream(&live, CancelOnDrop::new(&manager, &live, on_disconnect)))
}

/// Streams the active run of a conversation from its beginning. Responds with 204 if no run is active.
async fn reconnect(
    Access(manager): Access,
    Path((assistant, chat)): Path<(String, String)>,
) -> ApiResult<Response> {
    let conversation = Conversation::open(&manager, &assistant, &chat).await?;
    let active = manager.active(Some(conversation.thread)).await?.into_iter().next();
    let live = match active {
        Some(active) => manager.live(active.run).await?,
        None => None,
    };
    let Some(live) = live else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    Ok(stream(&live, CancelOnDrop::new(&manager, &live, OnDisconnect::Continue)))
}

fn stream(live: &LiveRun, guard: CancelOnDrop) -> Response {
    let encoder = AiSdk::new(live.facts.run.to_string());
    let events = UiEvents::new(live.buffer.clone(), live.facts.clone(), encoder);
    let mut response = respond(events, guard);
    let version = HeaderValue::from_static("v1");
    response.headers_mut().insert("x-vercel-ai-ui-message-stream", version);
    response
}

/// Converts a message of the user or the system to a message of a graph.
fn message(message: &Value) -> ApiResult<Value> {
    let kind = match message["role"].as_str() {
        Some("user") => "human",
        Some("system") => "system",
        _ => {
            let detail = format!(
                "role {} of a message is not supported; use `user`, `system` or `assistant`",
                message["role"]
            );
            return Err(ApiError::invalid(detail));
        }
    };
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let content = match parts {
        [part] if part["type"] == "text" => part["text"].clone(),
        parts => parts.iter().map(block).collect::<ApiResult<_>>()?,
    };
    Ok(json!({ "type": kind, "id": message["id"], "content": content }))
}

fn block(part: &Value) -> ApiResult<Value> {
    let kind = part["type"].as_str().unwrap_or_default();
    let is_image = part["mediaType"].as_str().is_some_and(|it| it.starts_with("image/"));
    match kind {
        "text" => Ok(json!({ "type": "text", "text": part["text"] })),
        "file" if is_image => {
            Ok(json!({ "type": "image_url", "image_url": { "url": part["url"] } }))
        }
        _ => {
            let detail =
                format!("parts of the type `{kind}` are not supported; send text or images");
            Err(ApiError::invalid(detail))
        }
    }
}

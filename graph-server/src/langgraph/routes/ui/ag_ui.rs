//! AG-UI 1.0: a request carries the messages and the state of the client.

use std::sync::Arc;

use axum::{Router, extract::Path, response::Response, routing::post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::run_response::{CancelOnDrop, check_run},
    conversation::Conversation,
};
use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    manager::Manager,
    request::{
        body::{Body, or_default},
        run::OnDisconnect,
    },
    stream::{
        sse::respond,
        ui::{AgUi, UiEvents, from_ag_ui},
    },
};

/// Configurable value that contains the tools, the context and the properties that a client sends.
const CONFIG_KEY: &str = "ag_ui";

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/ag-ui/{assistant}", post(run))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RunAgentInput {
    thread_id: String,
    run_id: String,
    protocol_version: Option<String>,
    parent_run_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    state: Value,
    messages: Vec<Value>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    context: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    forwarded_props: Value,
    #[serde(default, deserialize_with = "or_default")]
    resume: Vec<ResumeEntry>,
}

/// The answer to an interrupt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ResumeEntry {
    interrupt_id: String,
    status: ResumeStatus,
    #[serde(default)]
    payload: Value,
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "extra information of the client, which has no meaning to a graph"
    )]
    metadata: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResumeStatus {
    Resolved,
    /// The user cancelled the interrupt. The waiting node receives null.
    Cancelled,
}

impl RunAgentInput {
    /// Fails if the client requests something that this server does not support.
    fn check(&self) -> ApiResult<()> {
        let version = self.protocol_version.as_deref().unwrap_or("1.0");
        if version.split('.').next() != Some("1") {
            let detail = format!("version `{version}` of AG-UI is not supported; use version 1");
            return Err(ApiError::invalid(detail));
        }
        if self.parent_run_id.is_some() {
            let detail =
                "`parentRunId` is not supported; fork a thread through its checkpoints instead";
            return Err(ApiError::invalid(detail));
        }
        Ok(())
    }

    /// Returns the part of the request that nodes read from their configuration.
    fn extra(&self) -> Value {
        json!({
            "tools": self.tools,
            "context": self.context,
            "forwarded_props": self.forwarded_props,
        })
    }
}

/// Runs an assistant. The run is cancelled if the client disconnects, because this is how clients stop a run.
async fn run(
    Access(manager): Access,
    Path(assistant): Path<String>,
    Body(body): Body<RunAgentInput>,
) -> ApiResult<Response> {
    body.check()?;
    let conversation = Conversation::open(&manager, &assistant, &body.thread_id).await?;
    let extra = body.extra();
    let mut input = match body.state {
        Value::Object(state) => conversation.changed_fields(state),
        Value::Null => Map::new(),
        _ => return Err(ApiError::invalid("`state` must be an object")),
    };
    let converted = body.messages.iter().filter_map(|it| from_ag_ui(it).transpose());
    let messages = converted.collect::<Result<_, _>>().map_err(ApiError::invalid)?;
    let messages = conversation.new_messages(messages).await?;
    if !messages.is_empty() {
        input.insert("messages".to_owned(), Value::Array(messages));
    }
    let mut request = json!({
        "assistant_id": conversation.assistant.assistant_id,
        "if_not_exists": "create",
    });
    if body.resume.is_empty() {
        request["input"] = Value::Object(input);
    } else {
        let answers = body.resume.into_iter().map(|it| match it.status {
            ResumeStatus::Resolved => (it.interrupt_id, it.payload),
            ResumeStatus::Cancelled => (it.interrupt_id, Value::Null),
        });
        request["command"] = json!({ "resume": answers.collect::<Map<_, _>>() });
        if !input.is_empty() {
            request["command"]["update"] = Value::Object(input);
        }
    }
    let request = serde_json::from_value(request).map_err(|error| ApiError::internal(&error))?;
    let (mut run, thread) = check_run(&manager, Some(conversation.thread), &request).await?;
    run.kwargs.config.configurable.insert(CONFIG_KEY.to_owned(), extra);
    let live = manager.create(&run, thread).await?;
    let guard = CancelOnDrop::new(&manager, &live, OnDisconnect::Cancel);
    let encoder = AgUi::new(body.thread_id, body.run_id);
    Ok(respond(UiEvents::new(live.buffer.clone(), live.facts.clone(), encoder), guard))
}

//! Creates runs from requests, and answers requests with their results or events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::Response,
};
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::langgraph::{
    assistants::{config, find_assistant, settings},
    cancellation::{CancelAction, Cancellation},
    error::{ApiError, ApiResult},
    id::new_id,
    manager::{LiveRun, Manager},
    records::{Run, RunStatus, Thread},
    request::run::{IfNotExists, OnDisconnect, RunCreate},
    stream::{
        encode::Selection,
        sse::{EventId, respond},
    },
    time::now,
};

/// Interval between keep-alive bytes of a response that waits for a run.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Configurable value that contains the owner of a run.
const OWNER_KEY: &str = "langgraph_auth_user_id";

/// Checks a request to create a run, and returns the run and its thread. If `thread` is `None`, the returned thread is
/// a new one.
pub(super) async fn check_run(
    manager: &Manager,
    thread: Option<Uuid>,
    body: &RunCreate,
) -> ApiResult<(Run, Thread)> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &body.assistant_id).await?;
    let graph = manager.graph(&assistant.graph_id)?;
    let mut kwargs =
        body.kwargs(assistant.graph_id.clone(), thread.is_none(), settings(&assistant))?;
    kwargs.config.complete_from(config(&assistant));
    graph.check_context(&kwargs.context).map_err(ApiError::invalid)?;
    if let Some(url) = &kwargs.webhook {
        manager.webhooks.check(url)?;
    }
    let thread = thread_of_run(manager, thread, body).await?;
    let run_id = new_id();
    // As in LangGraph, nodes can read the ids, and a client cannot override them.
    let ids = [
        ("run_id", json!(run_id)),
        ("thread_id", json!(thread.thread_id)),
        ("graph_id", json!(assistant.graph_id)),
        ("assistant_id", json!(assistant.assistant_id)),
    ];
    kwargs.config.configurable.extend(ids.map(|(key, value)| (key.to_owned(), value)));
    if let Some(owner) = manager.database.view().owner() {
        // Nodes read the owner under the name that LangGraph uses. A client cannot override it.
        kwargs.config.configurable.insert(OWNER_KEY.to_owned(), json!(owner));
    }
    kwargs.trace_parent.clone_from(&manager.trace_parent);
    let now = now();
    let mut metadata = assistant.metadata.clone();
    metadata.extend(thread.metadata.clone());
    // Only runs that a cron starts have its id in their metadata. The id in the thread's metadata must not be copied to
    // other runs.
    metadata.remove("cron_id");
    metadata.extend(body.config.metadata.clone());
    metadata.extend(body.metadata.clone());
    metadata.insert("graph_id".to_owned(), json!(assistant.graph_id));
    metadata.insert("assistant_id".to_owned(), json!(assistant.assistant_id));
    manager.database.view().add_required::<Run>(&mut metadata);
    let run = Run {
        run_id,
        thread_id: thread.thread_id,
        assistant_id: assistant.assistant_id,
        metadata,
        status: RunStatus::Pending,
        kwargs,
        multitask_strategy: body.multitask_strategy,
        created_at: now.clone(),
        updated_at: now,
        attempt: 0,
        cancel_reason: None,
    };
    Ok((run, thread))
}

/// Creates a run. If `thread` is `None`, creates a thread for it.
pub(super) async fn create_run(
    manager: &Arc<Manager>,
    thread: Option<Uuid>,
    body: &RunCreate,
) -> ApiResult<(Run, Arc<LiveRun>)> {
    let (run, thread) = check_run(manager, thread, body).await?;
    let live = manager.create(&run, thread).await?;
    Ok((run, live))
}

/// Returns the address of a run.
pub(super) fn address(run: &Run) -> String {
    format!("/threads/{}/runs/{}", run.thread_id, run.run_id)
}

async fn thread_of_run(
    manager: &Manager,
    thread: Option<Uuid>,
    body: &RunCreate,
) -> ApiResult<Thread> {
    let mut metadata = body.metadata.clone();
    manager.database.view().add_required::<Thread>(&mut metadata);
    let Some(id) = thread else { return Ok(Thread::new(new_id(), metadata)) };
    match manager.database.get(&id.to_string()).await? {
        Some(thread) => Ok(thread),
        None if body.if_not_exists == IfNotExists::Create => Ok(Thread::new(id, metadata)),
        None => Err(ApiError::not_found(format!("thread {id} does not exist"))),
    }
}

/// Cancels a run when it is dropped, unless the run has ended or another replica continues it.
pub(super) struct CancelOnDrop {
    manager: Arc<Manager>,
    live: Arc<LiveRun>,
    enabled: bool,
}

impl CancelOnDrop {
    pub(super) fn new(manager: &Arc<Manager>, live: &Arc<LiveRun>, on: OnDisconnect) -> Self {
        let (manager, live) = (manager.clone(), live.clone());
        Self { manager, live, enabled: on == OnDisconnect::Cancel }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // The buffer is also closed if another replica continues the run.
        let is_disconnected = !self.live.buffer.is_closed() && !self.manager.is_shutting_down();
        if self.enabled && is_disconnected {
            let (manager, live) = (self.manager.clone(), self.live.clone());
            tokio::spawn(async move {
                let (thread, run) = (live.facts.thread, live.facts.run);
                // The run may have ended in the meantime.
                let reason = "the client disconnected";
                let cancellation = Cancellation::new(CancelAction::Interrupt, reason);
                let _ = manager.cancel(thread, run, cancellation).await;
            });
        }
    }
}

/// Streams the events of a run.
pub(super) fn stream_run(
    live: &LiveRun,
    selection: Selection,
    seen: Option<EventId>,
    guard: CancelOnDrop,
) -> Response {
    respond(live.events(selection, seen), guard)
}

/// Waits for the end of a run and responds with its output. Sends line breaks while it waits, so that proxies keep the
/// connection open.
pub(super) fn wait_for_run(live: &Arc<LiveRun>, guard: CancelOnDrop) -> Response {
    let live = live.clone();
    let output = async move { live.output().await.unwrap_or_else(|| json!({})) };
    chunked_json(Box::pin(output), guard)
}

fn chunked_json<F: Future<Output = Value> + Send + Unpin + 'static>(
    result: F,
    guard: CancelOnDrop,
) -> Response {
    let state = (FutureExt::fuse(result), guard, false);
    let chunks = stream::unfold(state, |(mut result, guard, done)| async move {
        if done {
            return None;
        }
        let (bytes, done) = match timeout(KEEP_ALIVE_INTERVAL, &mut result).await {
            Ok(value) => (Bytes::from(value.to_string()), true),
            Err(_) => (Bytes::from_static(b"\n"), false),
        };
        Some((Ok::<_, Infallible>(bytes), (result, guard, done)))
    });
    // A layer that compresses the response may poll the stream again after its end.
    let mut response = Response::new(Body::from_stream(chunks.fuse()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Adds the headers `Content-Location`, the address of the run, and `Location`, the address at which a client
/// reconnects after it lost the connection.
pub(super) fn with_location(
    mut response: Response,
    run: &str,
    reconnect: Option<&str>,
) -> Response {
    let mut set = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_LOCATION, run.to_owned());
    if let Some(reconnect) = reconnect {
        set(header::LOCATION, format!("{run}/{reconnect}"));
    }
    response
}

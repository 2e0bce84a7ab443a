//! HTTP routes for compiled graphs.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use graph_core::{RunError, StreamMode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{
    IntoParams, ToSchema,
    openapi::schema::{Array, Object, Schema, SchemaType, Type},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    any_graph::AnyGraph,
    graphs::Graphs,
    run_config::{ResumeArgs, RunConfig},
};
use crate::{
    http::{
        Body, ClientNetwork, LastEventId, Message, Metrics, Params, Path, Problem, ProblemBody,
        StreamLimit, stream_events,
    },
    run::{NewRun, RunInfo, Status, is_valid_id, to_millis},
    service::Service,
};

type ApiResult<T> = Result<T, Problem>;

/// Maximum number of checkpoints or runs in one response.
const MAX_LIMIT: usize = 200;

#[derive(Clone)]
struct AppState {
    graphs: Graphs,
    service: Service,
    streams: StreamLimit,
}

/// Request to start a run.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    /// Initial values of state fields.
    #[serde(default)]
    input: Map<String, Value>,
    /// Thread to run on. If absent, a new thread is created.
    #[schema(max_length = 100, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    thread: Option<String>,
    /// Kinds of events to store. The default is `updates`, `custom` and `messages`.
    #[schema(schema_with = modes, required = false)]
    modes: Option<Vec<StreamMode>>,
}

/// Request to resume a run.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResumeRequest {
    /// Answer to the pending interrupt. Valid only if exactly one interrupt is pending.
    answer: Option<Value>,
    /// Answers to pending interrupts, keyed by interrupt id.
    #[serde(default)]
    answers: Map<String, Value>,
}

/// A run as shown to clients.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct RunView {
    id: String,
    graph: String,
    thread: String,
    status: Status,
    error: Option<String>,
    created_at_ms: i64,
    ended_at_ms: Option<i64>,
    /// Final state of the run. Null until the run is complete.
    output: Value,
}

/// Query parameters of the endpoints that return lists.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LimitQuery {
    /// Maximum number of items.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<usize>,
}

/// Returns the OpenAPI schema of the event modes.
fn modes() -> Schema {
    let name = Object::builder()
        .schema_type(Type::String)
        .enum_values(Some(StreamMode::DEBUG.map(|it| json!(it))));
    let types = SchemaType::from_iter([Type::Array, Type::Null]);
    Array::builder().schema_type(types).items(name).into()
}

impl RunView {
    fn of(run: RunInfo) -> Self {
        let thread = run.input.get("thread").and_then(Value::as_str).unwrap_or_default();
        Self {
            thread: thread.to_owned(),
            id: run.id,
            graph: run.subject,
            status: run.status,
            error: run.error,
            created_at_ms: to_millis(run.created_at),
            ended_at_ms: run.ended_at.map(to_millis),
            output: run.outcome,
        }
    }
}

/// Returns all routes and their OpenAPI document, which lacks the errors of the guard and of the extractors: see
/// [`Guard::add_error_responses`](crate::http::Guard::add_error_responses). At most `streams` event streams may be open
/// at the same time.
pub fn routes(
    graphs: Graphs,
    service: Service,
    streams: usize,
    metrics: Metrics,
) -> (Router, utoipa::openapi::OpenApi) {
    let streams = StreamLimit::new(streams, metrics);
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(describe))
        .routes(routes!(start))
        .routes(routes!(state))
        .routes(routes!(history))
        .routes(routes!(runs))
        .routes(routes!(run))
        .routes(routes!(events))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .with_state(AppState { graphs, service, streams })
        .split_for_parts()
}

/// Lists the names of all graphs.
#[utoipa::path(get, path = "/graphs", responses((status = 200, body = Vec<String>)))]
async fn list(State(app): State<AppState>) -> Json<Vec<String>> {
    Json(app.graphs.names().map(str::to_owned).collect())
}

/// Returns the nodes and edges of a graph.
#[utoipa::path(get, path = "/graphs/{graph}", params(("graph" = String, Path)), responses(
    (status = 200, body = Object),
    (status = 404, description = "The graph does not exist", body = ProblemBody)))]
async fn describe(
    State(app): State<AppState>,
    Path(graph): Path<String>,
) -> ApiResult<Json<Value>> {
    Ok(Json(app.graph(&graph)?.to_json()))
}

/// Starts a run.
#[utoipa::path(post, path = "/graphs/{graph}/runs", params(("graph" = String, Path)),
    request_body = Option<StartRequest>, responses(
    (status = 202, body = RunView),
    (status = 404, description = "The graph does not exist", body = ProblemBody),
    (status = 429, description = "Too many requests, or the queue is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn start(
    State(app): State<AppState>,
    Path(graph): Path<String>,
    Body(request): Body<StartRequest>,
) -> ApiResult<Response> {
    app.graph(&graph)?.check_input(&request.input).map_err(Problem::invalid)?;
    let id = new_run_id()?;
    let thread = request.thread.unwrap_or_else(|| format!("thread-{id}"));
    if !is_valid_id(&thread) {
        return Err(Problem::invalid(
            "`thread` must have 1 to 100 letters, digits, `-`, `_` and `.`, and start with a letter or digit",
        ));
    }
    let modes = request
        .modes
        .unwrap_or_else(|| vec![StreamMode::Updates, StreamMode::Custom, StreamMode::Messages]);
    let config = RunConfig { graph: graph.clone(), thread, input: request.input, modes };
    let run = app.service.start(NewRun { id, subject: graph, input: json!(config) }).await?;
    Ok((StatusCode::ACCEPTED, Json(RunView::of(run))).into_response())
}

/// Returns the state of a thread.
#[utoipa::path(get, path = "/graphs/{graph}/threads/{thread}/state",
    params(("graph" = String, Path), ("thread" = String, Path)), responses(
    (status = 200, body = Object),
    (status = 404, description = "The graph or the thread does not exist", body = ProblemBody)))]
async fn state(
    State(app): State<AppState>,
    Path((graph, thread)): Path<(String, String)>,
) -> ApiResult<Json<Value>> {
    let state = app.graph(&graph)?.state(&thread).await.map_err(internal)?;
    state
        .map(Json)
        .ok_or_else(|| Problem::not_found("the thread has no checkpoints; start a run on it first"))
}

/// Lists the checkpoints of a thread, newest first.
#[utoipa::path(get, path = "/graphs/{graph}/threads/{thread}/history",
    params(("graph" = String, Path), ("thread" = String, Path), LimitQuery), responses(
    (status = 200, body = Vec<Object>),
    (status = 404, description = "The graph does not exist", body = ProblemBody)))]
async fn history(
    State(app): State<AppState>,
    Path((graph, thread)): Path<(String, String)>,
    Params(limit): Params<LimitQuery>,
) -> ApiResult<Json<Vec<Value>>> {
    let history = app.graph(&graph)?.history(&thread, limit.get()?).await.map_err(internal)?;
    Ok(Json(history))
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/runs", params(LimitQuery), responses(
    (status = 200, body = Vec<RunView>)))]
async fn runs(
    State(app): State<AppState>,
    Params(limit): Params<LimitQuery>,
) -> ApiResult<Json<Vec<RunView>>> {
    let runs = app.service.list(None, limit.get()?).await?;
    Ok(Json(runs.into_iter().map(RunView::of).collect()))
}

/// Returns a run.
#[utoipa::path(get, path = "/runs/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = RunView),
    (status = 404, description = "The run does not exist", body = ProblemBody)))]
async fn run(State(app): State<AppState>, Path(id): Path<String>) -> ApiResult<Json<RunView>> {
    Ok(Json(RunView::of(app.service.get(&id).await?)))
}

/// Streams the events of a run. If `Last-Event-ID` or `after` is present, only the events after that sequence
/// number are sent.
#[utoipa::path(get, path = "/runs/{id}/events",
    params(("id" = String, Path), LastEventId), responses(
    (status = 200, body = Message, content_type = "text/event-stream"),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 429, description = "Too many requests, or too many open streams", body = ProblemBody)))]
async fn events(
    State(app): State<AppState>,
    Path(id): Path<String>,
    LastEventId(after): LastEventId,
    client: ClientNetwork,
) -> ApiResult<Response> {
    stream_events(app.service.read_events(&id, after).await?, &app.streams, client)
}

/// Resumes a run that is waiting for answers, has failed or was cancelled.
#[utoipa::path(post, path = "/runs/{id}/resume", params(("id" = String, Path)),
    request_body = Option<ResumeRequest>, responses(
    (status = 202, body = RunView),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run cannot be resumed with these answers", body = ProblemBody),
    (status = 429, description = "Too many requests, or the queue is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn resume(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(request): Body<ResumeRequest>,
) -> ApiResult<Response> {
    let run = app.service.get(&id).await?;
    let thread = run.input.get("thread").and_then(Value::as_str).unwrap_or_default();
    let here = app.graph(&run.subject)?.pending_interrupts(thread).await.map_err(internal)?;
    let questions = match here {
        Some((asking, _)) if asking != id => {
            return Err(Problem::conflict(
                "a later run has used the thread of this run, so this run cannot be resumed; start a new run",
            ));
        }
        here => here.map_or_else(Vec::new, |it| it.1),
    };
    let mut answers = request.answers;
    if let Some(answer) = request.answer {
        // The answer is stored under the id of its interrupt, so it cannot be applied to a later interrupt.
        let [question] = &questions[..] else {
            let message = format!(
                "`answer` requires exactly one pending interrupt, but {} are pending; use `answers` with \
                 interrupt ids",
                questions.len()
            );
            return Err(Problem::conflict(message));
        };
        answers.insert(question.id.clone(), answer);
    }
    if let Some(id) = answers.keys().find(|id| questions.iter().all(|it| it.id != **id)) {
        return Err(Problem::conflict(format!(
            "no interrupt `{id}` is pending; the state of the thread lists the pending interrupts"
        )));
    }
    let run = app.service.resume(&id, json!(ResumeArgs { answers })).await?;
    Ok((StatusCode::ACCEPTED, Json(RunView::of(run))).into_response())
}

/// Cancels a run. The run may be waiting for an answer. A cancelled run can be resumed.
#[utoipa::path(post, path = "/runs/{id}/cancel", params(("id" = String, Path)), responses(
    (status = 202, body = RunView),
    (status = 404, description = "The run does not exist", body = ProblemBody),
    (status = 409, description = "The run is not active", body = ProblemBody)))]
async fn cancel(State(app): State<AppState>, Path(id): Path<String>) -> ApiResult<Response> {
    let run = app.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(RunView::of(run))).into_response())
}

impl AppState {
    fn graph(&self, name: &str) -> ApiResult<&dyn AnyGraph> {
        let missing = || Problem::not_found(format!("graph `{name}` does not exist"));
        self.graphs.get(name).ok_or_else(missing)
    }
}

impl LimitQuery {
    fn get(&self) -> ApiResult<usize> {
        let limit = self.limit.unwrap_or(50);
        let wrong = || Problem::invalid(format!("`limit` must be between 1 and {MAX_LIMIT}"));
        (1..=MAX_LIMIT).contains(&limit).then_some(limit).ok_or_else(wrong)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn internal(error: RunError) -> Problem {
    Problem::internal(&error)
}

/// Returns a random run id.
fn new_run_id() -> ApiResult<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&error))?;
    Ok(hex::encode(bytes))
}
